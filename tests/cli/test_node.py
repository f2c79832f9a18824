"""``sched node``: what a machine needs to join, and which nodes are hollow."""

from __future__ import annotations

import base64
import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from podsched.cli import node as module
from podsched.cli.node import _Flags, kubelet_configuration, node_files, script
from support.commands import Commands

URL, TOKEN = "https://10.0.0.1:6443", "abcdef.0123456789abcdef"


def files(**given: object) -> dict[str, str]:
    return node_files(_Flags(**given), URL, b"PEM", TOKEN)  # type: ignore[arg-type]


def test_the_kubeconfig_has_the_token_the_address_and_the_authority() -> None:
    found = yaml.safe_load(files()["bootstrap-kubeconfig"])
    cluster = found["clusters"][0]["cluster"]
    assert cluster["server"] == URL
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"PEM"
    assert found["users"][0]["user"] == {"token": TOKEN}


def test_an_authority_may_be_described_in_another_encoding() -> None:
    found = node_files(_Flags(), URL, "# Autorité\nPEM".encode("latin-1"), TOKEN)
    assert found["ca.crt"].endswith("\nPEM")


def test_the_kubelet_asks_the_api_server_about_its_callers_and_for_its_certificates() -> None:
    found = kubelet_configuration(_Flags(directory="/d"))
    assert found["authentication"]["anonymous"] == {"enabled": False}
    assert found["authentication"]["x509"] == {"clientCAFile": "/d/ca.crt"}
    assert found["authorization"] == {"mode": "Webhook"}
    assert found["serverTLSBootstrap"] and found["rotateCertificates"]
    assert found["contentType"] == "application/json"


def test_the_kubelet_looks_for_static_pods_where_one_of_kubeadm_does() -> None:
    assert kubelet_configuration(_Flags())["staticPodPath"] == "/etc/kubernetes/manifests"


def test_the_script_writes_the_files_for_their_owner_and_starts_the_kubelet() -> None:
    given = _Flags(directory="/d", node_ip="10.0.0.7")
    lines = script(given, "n1", files()).splitlines()
    assert lines.index("umask 077") < lines.index("mkdir -p /d /etc/kubernetes/manifests")
    assert lines[-1] == (
        "exec kubelet --config=/d/kubelet.yaml --bootstrap-kubeconfig=/d/bootstrap-kubeconfig "
        "--kubeconfig=/d/kubeconfig --cert-dir=/d/pki --hostname-override=n1 --node-ip=10.0.0.7"
    )


@pytest.mark.parametrize(("driver", "systemd"), [("cgroupfs", "false"), ("systemd", "true")])
def test_containerd_and_kubelet_agree_on_cgroups(driver: str, systemd: str) -> None:
    found = files(containerd=True, cgroup_driver=driver)
    assert f"SystemdCgroup = {systemd}" in found["containerd.toml"]
    assert yaml.safe_load(found["kubelet.yaml"])["cgroupDriver"] == driver
    assert "containerd.toml" not in files()


def test_a_network_for_its_pods_is_one_that_containerd_reads() -> None:
    given = {"containerd": True, "directory": "/d", "pod_cidr": "10.244.1.0/24"}
    found = files(**given)
    assert 'conf_dir = "/d/cni"' in found["containerd.toml"]
    network = json.loads(found["cni/10-podsched.conflist"])
    assert network["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.1.0/24"}]]
    lines = script(_Flags(**given), "n1", found).splitlines()  # type: ignore[arg-type]
    assert lines.index("mkdir -p cni") < lines.index(
        "cat > cni/10-podsched.conflist <<'END_OF_FILE'"
    )
    assert "conf_dir" not in files(containerd=True)["containerd.toml"]


def test_in_a_container_cgroups_and_scores_are_left_alone() -> None:
    found = files(containerd=True, in_container=True)
    kubelet = yaml.safe_load(found["kubelet.yaml"])
    assert (kubelet["cgroupsPerQOS"], kubelet["failCgroupV1"]) == (False, False)
    assert "restrict_oom_score_adj = true" in found["containerd.toml"]
    assert "cgroupsPerQOS" not in yaml.safe_load(files()["kubelet.yaml"])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["N1"], "is not a node name"),
        (["n" * 53], "a name may have 52 characters"),
        (["n1", "--kube=http://10.0.0.1:6443"], "is not https://HOST:PORT"),
        (["n1", "--kube=10.0.0.1:6443"], "is not https://HOST:PORT"),
        (["n1", "--kube=https://[::1"], "is not https://HOST:PORT"),
        (["n1", "--kube=https://10.0.0.1:none"], "is not https://HOST:PORT"),
        (["n1"], "--kube https://HOST:PORT"),
        (["n1", f"--kube={URL}"], "set SCHED_TLS_CA to the API server's CA"),
        (["n1", "--node-ip=127.0.0.1"], "API servers cannot reach such an address"),
        (["n1", "--node-ip=here"], "not an IP address"),
        (["n1", "--pod-cidr=10.0.0.0/24"], "--pod-cidr needs --containerd"),
        (["n1", "--pod-cidr=10.0.0.1/24", "--containerd"], "has host bits set"),
        (["n1", "--pod-cidr=10.0.0.0/31", "--containerd"], "has fewer than 4 addresses"),
        (["n1", "--directory=/a b"], "must be an absolute path"),
        (["n1", "--cgroup-driver=mine"], "must be cgroupfs or systemd"),
    ],
)
def test_a_mistake_is_told_before_a_token_is_made(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    for variable in ("KUBECONFIG", "SCHED_TLS_CA"):
        monkeypatch.delenv(variable, raising=False)
    done = Commands()("node", "bootstrap", *arguments)
    assert done.code != 0
    assert says in done.err


@pytest.fixture
def kubeconfig(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Returns a function that makes the kubeconfig of KUBECONFIG, with the URL of a server."""

    def make(url: str) -> None:
        path = tmp_path / "config"
        clusters = [{"name": "c", "cluster": {"server": url}}]
        contexts = [{"name": "x", "context": {"cluster": "c"}}]
        content = {"clusters": clusters, "contexts": contexts, "current-context": "x"}
        path.write_text(yaml.safe_dump(content))
        monkeypatch.setenv("KUBECONFIG", str(path))

    return make


def test_a_kubeconfig_without_tls_is_named_with_what_kubelets_need(
    kubeconfig: Callable[[str], None],
) -> None:
    kubeconfig("http://127.0.0.1:6443")
    done = Commands()("node", "bootstrap", "n1")
    assert done.err == (
        'error: KUBECONFIG: "http://127.0.0.1:6443" is not https://HOST:PORT: kubelets need TLS, '
        "as sched up --tls has it\n"
    )


def test_the_address_comes_from_the_kubeconfig(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kubeconfig: Callable[[str], None]
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    kubeconfig(URL)
    monkeypatch.setenv("SCHED_TLS_CA", str(authority))
    monkeypatch.setattr(module, "_make_token", lambda *_: TOKEN)
    written = tmp_path / "n"
    said = Commands().ok("node", "bootstrap", "n1", f"--write={written}")
    assert said.startswith("kubelet --config=/var/lib/podsched-node/kubelet.yaml")
    assert URL in (written / "bootstrap-kubeconfig").read_text()
    assert {stat.S_IMODE(path.stat().st_mode) for path in written.iterdir()} == {0o600}
    assert TOKEN in Commands().ok("node", "bootstrap", "n1")
