"""``sched certs`` as users see it."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from support.commands import Commands


def test_certificates_of_every_role_are_made_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    Commands().ok("certs", "init", str(folder), "--host=api-0", "--host=10.0.0.7", "--node=n1")
    roles = {"ca", "server", "scheduler", "agent", "admin"}
    assert {path.name for path in folder.iterdir()} == {
        f"{role}.{kind}" for role in roles for kind in ("crt", "key")
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}
    shown = Commands().ok("certs", "show", str(folder))
    for part in (
        "subject:  CN=kube-apiserver\n",
        "subject:  CN=system:kube-scheduler\n",
        "subject:  CN=system:node:n1,O=system:nodes\n",
        "subject:  CN=admin,O=system:masters\n",
        "hosts:    localhost, 127.0.0.1, ::1, api-0, 10.0.0.7\n",
    ):
        assert part in shown
    assert shown.count("issuer:   CN=podsched CA\n") == 5


def test_the_agents_node_is_this_host_by_default(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path))
    shown = Commands().ok("certs", "show", str(tmp_path / "agent.crt"))
    assert f"CN=system:node:{socket.gethostname()}," in shown


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path))
    before = (tmp_path / "ca.key").read_bytes()
    done = Commands()("certs", "init", str(tmp_path))
    assert done.code == 2
    [line] = done.errors
    assert "would overwrite" in line
    assert (tmp_path / "ca.key").read_bytes() == before


def test_a_certificate_that_expires_soon_is_a_warning(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path), "--days=7")
    done = Commands()("certs", "show", str(tmp_path / "server.crt"))
    assert (done.code, len(done.errors)) == (0, 1)
    assert "warning:" in done.err
    assert "server.crt: expires in 6 days" in done.err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("init", "new", "--host=a b"), 2, '"a b" is neither a host name nor an IP address'),
        (("init", "new", f"--node={'n' * 60}"), 2, "names have 1 to 64 characters"),
        (("init", "new", "--days=0"), 2, "--days"),
        (("init", "file"), 1, "file: "),
        (("show", "nowhere"), 2, "nowhere: No such file or directory"),
        (("show", "empty"), 2, "no *.crt in this directory"),
        (("show", "file"), 1, "file: no certificate in PEM format"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no certificate")
    (tmp_path / "empty").mkdir()
    done = Commands()("certs", *arguments)
    assert done.code == code
    [line] = done.errors
    assert says in line
    assert not (tmp_path / "new").exists()
