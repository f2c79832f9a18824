"""TLS between every client and the API server, with client certificates demanded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from podsched.app.supervisor import ManagedProcess, ProcessSpec
from podsched.cli.client import client_options
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from podsched.lib.tls_contexts import TlsFiles
from podsched.serve.client.channels import ClientOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from support.certificates import Certificates
from support.commands import Commands

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of every role."""
    folder = tmp_path_factory.mktemp("certificates")
    Commands().ok("certs", "init", str(folder))
    return folder


@pytest.fixture(scope="module")
def certificates(folder: Path) -> Certificates:
    """Those of the administrator."""
    return Certificates(folder / "ca.crt", folder / "admin.crt", folder / "admin.key")


@pytest.fixture
async def server(tmp_path: Path, folder: Path) -> AsyncIterator[str]:
    """The address of an API server with TLS; a scheduler and an agent use it, too."""
    async with EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "etcd", fsync=False)) as etcd:
        address = f"127.0.0.1:{free_port()}"
        members = f"--etcd-endpoints={etcd.endpoint}"
        clients = (f"--tls-ca={folder / 'ca.crt'}", f"--server={address}")
        commands = {
            "apiserver": (f"--listen={address}", f"--tls-client-ca={folder / 'ca.crt'}", members),
            "scheduler": (*clients, members, "--evaluator=local"),
            "agent": (*clients, "--nodes=1"),
        }
        roles = {"apiserver": "server"}
        processes = []
        try:
            for name, arguments in commands.items():
                health = free_port()
                own = folder / roles.get(name, name)
                common = (
                    f"--tls-cert={own}.crt",
                    f"--tls-key={own}.key",
                    f"--health-listen=127.0.0.1:{health}",
                )
                tls = TlsFiles(str(folder / "ca.crt"), "", "")
                command = (name, *arguments, *common)
                spec = ProcessSpec(name, command, health, restart=False, tls=tls)
                processes.append(ManagedProcess(spec, tmp_path, TaskSet("test")))
                await processes[-1].start()
                await processes[-1].wait_ready()
            yield address
        finally:
            for process in reversed(processes):
                await process.stop()


@pytest.mark.integration
def test_all_clients_speak_tls_and_show_their_certificates(
    sched: Commands,
    server: str,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("ca", "cert", "key"):
        monkeypatch.setenv(f"SCHED_TLS_{name.upper()}", str(getattr(certificates, name)))
    commands = Commands(server)
    commands.ok("create", "-f", "-", stdin=POD)
    commands.until("Running", "get", "pod", "web")
    assert "system:masters" in commands.ok("auth", "whoami")
    commands.ok("auth", "can-i", "*", "*")
    denied = commands("auth", "can-i", "create", "pods/binding", "--as", "eve")
    assert (denied.code, denied.out.strip()) == (1, "no")
    role = ("--as", "system:kube-scheduler")
    commands.ok("auth", "can-i", "create", "pods/binding", *role)
    assert "pods/binding" in commands.ok("auth", "can-i", "--list", *role)
    monkeypatch.delenv("SCHED_TLS_CERT")
    monkeypatch.delenv("SCHED_TLS_KEY")
    without = commands("get", "pods")
    assert (without.code, len(without.errors)) == (3, 1), "no certificate was shown"
    assert "if it requires client certificates, set SCHED_TLS_CERT" in without.err
    Commands().ok("certs", "init", str(tmp_path))
    monkeypatch.setenv("SCHED_TLS_CA", str(tmp_path / "ca.crt"))
    other = commands("get", "pods")
    assert (other.code, len(other.errors)) == (3, 1), "another authority is trusted"
    assert "is SCHED_TLS_CA the CA certificate of this cluster?" in other.err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"SCHED_TLS_CA": "nowhere.pem"}, "SCHED_TLS_CA: nowhere.pem: no such file"),
        (
            {"SCHED_TLS_CA": "ca", "SCHED_TLS_CERT": "cert"},
            "--tls-cert and --tls-key must be used together",
        ),
        ({"SCHED_TLS_CERT": "cert", "SCHED_TLS_KEY": "key"}, "--tls-cert needs --tls-ca"),
    ],
)
def test_files_that_are_missing_are_named(
    sched: Commands,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    given: dict[str, str],
    says: str,
) -> None:
    for variable, file in given.items():
        monkeypatch.setenv(variable, str(getattr(certificates, file, file)))
    done = sched("get", "pods")
    assert done.code == 2
    [line] = done.errors
    assert says in line


def test_options_win_over_the_environment(
    sched: Commands, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCHED_TLS_CA", "nowhere.pem")
    assert client_options(ClientOptions(tls_ca=str(certificates.ca))).tls_ca == str(certificates.ca)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--tls-cert", "x"], "--tls-cert and --tls-key must be used together"),
        (["--tls-client-ca", "x"], "--tls-client-ca needs --tls-cert"),
        (["--tls-cert", "x", "--tls-key", "y"], "--tls-cert: x: no such file"),
        (["--etcd-cert", "x", "--etcd-key", "y"], "--etcd-cert: x: no such file"),
    ],
)
def test_a_server_says_which_file_it_lacks(
    sched: Commands, arguments: list[str], says: str
) -> None:
    done = sched("apiserver", *arguments)
    assert done.code == 2
    [line] = done.errors
    assert says in line
