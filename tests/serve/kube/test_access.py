"""Kubeconfig files, tokens, and the service account of a pod."""

from __future__ import annotations

import base64
import json
import os
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from podsched.config.errors import ConfigError
from podsched.serve.client.errors import Unauthorized
from podsched.serve.kube.access import ClusterAccess, from_kubeconfig, in_cluster, plain
from support.certificates import make_certificates


class Kubeconfig:
    """A kubeconfig file in the making."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "config"
        self.cluster: dict[str, Any] = {"server": "https://10.0.0.1:6443/"}
        self.user: dict[str, Any] = {"token": "secret"}
        self.context: dict[str, Any] = {"cluster": "c", "user": "u", "namespace": "team"}
        self.current = "here"

    def read(self, **options: str) -> ClusterAccess:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.current,
            "contexts": [{"name": "here", "context": self.context}],
            "clusters": [{"name": "c", "cluster": self.cluster}],
            "users": [{"name": "u", "user": self.user}],
        }
        self.path.write_text(json.dumps(document))
        return from_kubeconfig(self.path, **options)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Kubeconfig:
    return Kubeconfig(tmp_path)


async def test_the_current_context_names_server_namespace_and_token(kubeconfig: Kubeconfig) -> None:
    access = kubeconfig.read()
    assert (access.server, access.namespace) == ("https://10.0.0.1:6443", "team")
    assert await access.token.token() == "secret"
    assert "secret" not in repr(access)


def test_master_takes_the_place_of_the_server(kubeconfig: Kubeconfig) -> None:
    assert kubeconfig.read(master="http://127.0.0.1:8080").server == "http://127.0.0.1:8080"


async def test_no_credential_is_sent_to_a_server_without_tls(kubeconfig: Kubeconfig) -> None:
    kubeconfig.cluster = {"server": "http://10.0.0.1:8080"}
    assert await kubeconfig.read().token.token() == ""


def test_certificates_in_a_kubeconfig_may_have_several_lines(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    data = base64.encodebytes(make_certificates(tmp_path).ca.read_bytes()).decode()
    kubeconfig.cluster["certificate-authority-data"] = data
    access = kubeconfig.read()
    assert access.tls is not None
    assert access.tls.latest().get_ca_certs()


def test_another_context_can_be_chosen(kubeconfig: Kubeconfig) -> None:
    kubeconfig.current = "elsewhere"
    assert kubeconfig.read(context="here").namespace == "team"


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("cluster", {}, "cluster.server: Invalid value"),
        ("cluster", {"server": "https://[::1"}, 'cluster.server: Invalid value: "https://[::1"'),
        ("cluster", {"server": "https://a:none"}, "must be a URL such as https://10.0.0.1:6443"),
        ("cluster", {"server": "https://a", "proxy-url": "http://p"}, "cluster.proxy-url"),
        ("cluster", {"server": "https://api..a"}, "must be a URL such as https://10.0.0.1:6443"),
        (
            "cluster",
            {"server": "https://a", "insecure-skip-tls-verify": "false"},
            'cluster.insecure-skip-tls-verify: Invalid value: "false"',
        ),
        ("cluster", {"server": "https://a", "certificate-authority": "no"}, "No such file"),
        ("cluster", {"server": "https://a", "certificate-authority-data": "%"}, "is not base64"),
        ("cluster", {"server": "https://a", "certificate-authority-data": "ä"}, "is not base64"),
        ("cluster", {"server": "https://a", "certificate-authority-data": "eA=="}, "certificates"),
        ("user", {"auth-provider": {"name": "gcp"}}, "user.auth-provider: auth providers were"),
        ("user", {"username": "me", "password": "x"}, "user.username: Kubernetes has no passwords"),
        ("user", {"tokenFile": "no"}, "user.tokenFile: "),
        ("user", {"exec": {"command": "x"}}, "user.exec.apiVersion"),
        ("user", {"exec": "x"}, "user.exec: Invalid value"),
        ("user", {"exec": {**EXEC, "env": [{}]}}, "user.exec.env: Invalid value"),
        ("user", {"exec": {**EXEC, "env": 5}}, "user.exec.env: Invalid value"),
        ("user", {"exec": {**EXEC, "args": 5}}, "user.exec.args: Invalid value"),
        ("user", {"token": "two\nlines"}, "user.token: contains a line break"),
        ("context", {"cluster": "other"}, 'clusters: Invalid value: "other"'),
    ],
)
def test_what_cannot_be_used_is_named(
    kubeconfig: Kubeconfig, part: str, content: dict[str, Any], message: str
) -> None:
    setattr(kubeconfig, part, content)
    with pytest.raises(ConfigError) as raised:
        kubeconfig.read()
    assert str(raised.value).startswith(f"{kubeconfig.path}: ")
    assert message in str(raised.value)


def test_a_mistake_in_what_may_be_secret_is_named_without_its_values(
    kubeconfig: Kubeconfig,
) -> None:
    for part in ({"env": [{"name": "KEY", "valeu": "hidden"}]}, {"args": "--secret=hidden"}):
        kubeconfig.user = {"exec": {**EXEC, **part}}
        with pytest.raises(ConfigError) as raised:
            kubeconfig.read()
        assert "hidden" not in str(raised.value)


def test_a_ca_file_may_have_comments_in_any_language(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    content = make_certificates(tmp_path).ca.read_bytes()
    (tmp_path / "commented").write_bytes("# AC RAÍZ\n".encode() + content)
    kubeconfig.cluster["certificate-authority"] = "commented"
    assert kubeconfig.read().tls is not None


def test_a_cluster_whose_ca_file_is_empty_is_not_checked_with_the_machines(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    (tmp_path / "ca").touch()
    kubeconfig.cluster["certificate-authority"] = "ca"
    with pytest.raises(ConfigError, match="certificates: cannot be used"):
        kubeconfig.read()


@pytest.mark.parametrize(
    "text", ["[]", "{", "\x00", "{current-context: a, contexts: 5}", "a: 2026-13-01"]
)
def test_what_is_no_kubeconfig_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError):
        from_kubeconfig(path)


async def test_files_are_found_from_the_folder_of_the_kubeconfig(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("in-a-file\n")
    kubeconfig.user = {"tokenFile": "token"}
    assert await kubeconfig.read().token.token() == "in-a-file"


def plugin(folder: Path, status: dict[str, Any], code: int = 0) -> dict[str, Any]:
    """Return ``user.exec`` of a program that prints a token, and counts how often it is asked."""
    script = folder / "plugin"
    calls = folder / "calls"
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    script.write_text(
        f"#!{sys.executable}\n"
        f"open({str(calls)!r}, 'a').write('x')\n"
        "import os\n"
        f"open({str(folder / 'info')!r}, 'w').write(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"print({json.dumps({**answer, 'status': status})!r})\n"
        f"raise SystemExit({code})\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script)}


@pytest.mark.integration
async def test_a_plugin_is_asked_until_it_has_a_token_and_when_it_is_refused(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    kubeconfig.user = {"exec": plugin(tmp_path, {"token": "from-plugin"})}
    token = kubeconfig.read().token
    assert [await token.token(), await token.token()] == ["from-plugin"] * 2
    assert (tmp_path / "calls").read_text() == "x"
    await token.token(renew=True)
    assert (tmp_path / "calls").read_text() == "xx"


@pytest.mark.integration
async def test_a_plugin_beside_the_kubeconfig_of_the_current_directory_is_found(
    kubeconfig: Kubeconfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kubeconfig.path = Path("config")
    kubeconfig.user = {"exec": {**plugin(tmp_path, {"token": "t"}), "command": "./plugin"}}
    assert await kubeconfig.read().token.token() == "t"


@pytest.mark.integration
async def test_a_plugin_that_asks_for_it_is_told_about_the_cluster(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    authority = make_certificates(tmp_path).ca
    kubeconfig.cluster |= {
        "certificate-authority": str(authority),
        "extensions": [
            {"name": "other", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "a"}},
        ],
    }
    told = []
    for asks in (False, True):
        run = plugin(tmp_path, {"token": "t"})
        kubeconfig.user = {"exec": {**run, "provideClusterInfo": asks}}
        await kubeconfig.read().token.token()
        told.append(json.loads((tmp_path / "info").read_text())["spec"])
    cluster = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority-data": base64.b64encode(authority.read_bytes()).decode(),
        "config": {"audience": "a"},
    }
    assert told == [{"interactive": False}, {"interactive": False, "cluster": cluster}]


@pytest.mark.integration
def test_extensions_that_are_no_list_are_none(kubeconfig: Kubeconfig) -> None:
    kubeconfig.cluster["extensions"] = 5
    kubeconfig.user = {"exec": {**EXEC, "provideClusterInfo": True}}
    assert kubeconfig.read().server == "https://10.0.0.1:6443"


async def test_a_token_that_ends_soon_is_asked_for_again(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 5))
    kubeconfig.user = {"exec": plugin(tmp_path, {"token": "t", "expirationTimestamp": ends})}
    token = kubeconfig.read().token
    await token.token()
    await token.token()
    assert (tmp_path / "calls").read_text() == "xx"


@pytest.mark.integration
async def test_a_plugin_that_fails_is_named(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    kubeconfig.user = {"exec": plugin(tmp_path, {}, code=3)}
    with pytest.raises(Unauthorized, match="plugin: ended with exit code 3"):
        await kubeconfig.read().token.token()
    kubeconfig.user = {"exec": plugin(tmp_path, {"token": "a", "more": "x" * (2 << 20)})}
    with pytest.raises(Unauthorized, match="printed more than 1 MiB"):
        await kubeconfig.read().token.token()
    for status in ({}, {"token": "a", "expirationTimestamp": "soon"}, {"token": "two\nlines"}):
        kubeconfig.user = {"exec": plugin(tmp_path, status)}
        with pytest.raises(Unauthorized, match="printed no ExecCredential"):
            await kubeconfig.read().token.token()


@pytest.mark.integration
async def test_a_plugin_that_fails_is_not_waited_for_though_a_child_keeps_its_output_open(
    kubeconfig: Kubeconfig, tmp_path: Path
) -> None:
    kubeconfig.user = {"exec": plugin(tmp_path, {"token": "a", "more": "x" * (2 << 20)})}
    script = tmp_path / "plugin"
    first, _, rest = script.read_text().partition("\n")
    child = "subprocess.Popen(['sleep', '600']).pid"
    note = f"import subprocess\nopen('{tmp_path}/pid', 'w').write(str({child}))"
    script.write_text(f"{first}\n{note}\n{rest}")
    with pytest.raises(Unauthorized, match="printed more than 1 MiB"):
        await kubeconfig.read().token.token()
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def test_outside_of_a_cluster_there_is_no_service_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="this process runs in no pod"):
        in_cluster()


def test_a_master_alone_is_a_server_without_credentials() -> None:
    assert plain("127.0.0.1:8080").server == "https://127.0.0.1:8080"
