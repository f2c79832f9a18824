"""``sched certs`` as users see it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from podsched.lib.certificates import check_may_serve, check_pair, new_authority
from support.commands import Commands

ROLES = {
    *("server", "scheduler", "agent", "admin", "kubelet-client"),
    *("etcd", "etcd-client", "ray", "monitoring"),
}


def test_certificates_of_every_role_are_made_and_shown(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    Commands().ok("certs", "init", str(folder), "--host=api-0", "--host=10.0.0.7", "--node=n1")
    assert {path.name for path in folder.iterdir()} == {
        *(f"{role}.{kind}" for role in {"ca", *ROLES} for kind in ("crt", "key")),
        *("sa.key", "sa.pub", "kubelet-ca.crt", "kubelet-ca.key"),
    }
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.key")} == {0o600}
    shown = Commands().ok("certs", "show", str(folder))
    for part in (
        "subject:  CN=kube-apiserver\n",
        "subject:  CN=system:kube-scheduler\n",
        "subject:  CN=system:node:n1,"
        "O=system:hollow-devices,O=system:volume-controllers,O=system:nodes\n",
        "subject:  CN=admin,O=system:masters\n",
        "hosts:    localhost, 127.0.0.1, ::1, api-0, 10.0.0.7\n",
    ):
        assert part in shown
    assert shown.count("issuer:   CN=podsched CA\n") == len(ROLES) + 1


def test_the_agent_plays_the_nodes_of_the_default_prefix(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path))
    shown = Commands().ok("certs", "show", str(tmp_path / "agent.crt"))
    assert "CN=system:node:node-*," in shown


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_only_what_is_missing_is_made_under_the_authority_that_is_there(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path))
    before = contents(tmp_path)
    assert "agent.crt: " in Commands().ok("certs", "init", str(tmp_path))
    assert contents(tmp_path) == before
    for kind in ("crt", "key"):
        (tmp_path / f"agent.{kind}").unlink()
    assert Commands().ok("certs", "init", str(tmp_path)).count("(kept)") == len(ROLES) - 1
    after = contents(tmp_path)
    assert {name for name in after if after[name] != before[name]} == {"agent.crt", "agent.key"}
    check_signed(tmp_path / "agent.crt", tmp_path / "ca.crt")


def test_a_role_can_have_a_directory_of_its_own(tmp_path: Path) -> None:
    """With what its machines need, and without the authority's key."""
    Commands().ok("certs", "init", str(tmp_path), "--per-role")
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")}
    wanted = {f"{role}/{role}.{kind}" for role in {"ca", *ROLES} for kind in ("crt", "key")}
    shared = {f"{role}/ca.crt" for role in ROLES}
    own = {f"server/{name}" for name in ("sa.key", "sa.pub", "kubelet-ca.crt", "kubelet-ca.key")}
    assert found == wanted | shared | own
    Commands().ok("certs", "renew", str(tmp_path))
    check_signed(tmp_path / "ray" / "ray.crt", tmp_path / "ray" / "ca.crt")


def test_a_missing_certificate_of_a_role_is_made_beside_the_authority_that_is_there(
    tmp_path: Path,
) -> None:
    Commands().ok("certs", "init", str(tmp_path), "--per-role")
    for kind in ("crt", "key"):
        (tmp_path / "agent" / f"agent.{kind}").unlink()
    authority = (tmp_path / "agent" / "ca.crt").read_bytes()
    Commands().ok("certs", "init", str(tmp_path), "--per-role")
    assert (tmp_path / "agent" / "ca.crt").read_bytes() == authority
    check_signed(tmp_path / "agent" / "agent.crt", tmp_path / "agent" / "ca.crt")


def check_signed(certificate: Path, authority: Path) -> None:
    one, other = (load_pem_x509_certificate(path.read_bytes()) for path in (certificate, authority))
    one.verify_directly_issued_by(other)


def test_renewed_certificates_say_the_same_for_longer_with_a_new_key(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path), "--days=7", "--host=api-0")
    before = contents(tmp_path)
    Commands().ok("certs", "renew", str(tmp_path), "--days=90")
    after = contents(tmp_path)
    kept = {name for name in after if after[name] == before[name]}
    assert kept == {"ca.crt", "ca.key", "sa.key", "sa.pub", "kubelet-ca.crt", "kubelet-ca.key"}
    shown = Commands()("certs", "show", str(tmp_path / "scheduler.crt"))
    assert "CN=system:kube-scheduler\n" in shown.out
    assert "localhost, 127.0.0.1, ::1, api-0\n" in shown.out
    assert not shown.errors, "it expires in 90 days"
    check_signed(tmp_path / "scheduler.crt", tmp_path / "ca.crt")
    pems = (after["scheduler.crt"], after["scheduler.key"])
    check_pair(*pems, ("scheduler.crt", "scheduler.key"))
    check_may_serve(after["scheduler.crt"], "scheduler.crt")


def test_a_certificate_that_is_renewed_for_one_day_is_valid_for_one_day(tmp_path: Path) -> None:
    Commands().ok("certs", "init", str(tmp_path))
    [line, *_] = Commands().ok("certs", "renew", str(tmp_path), "--days=1").splitlines()
    assert line.endswith(": valid for 1 day")


def with_authority(folder: Path, days: int) -> None:
    folder.mkdir()
    pair = new_authority("podsched CA", days)
    (folder / "ca.crt").write_bytes(pair.certificate_pem)
    (folder / "ca.key").write_bytes(pair.key_pem)


@pytest.mark.parametrize("verb", ["init", "renew"])
def test_certificates_end_with_their_authority_and_a_warning_says_so(
    tmp_path: Path, verb: str
) -> None:
    folder = tmp_path / "certs"
    with_authority(folder, days=40)
    Commands().ok("certs", "init", str(folder), "--days=7")
    if verb == "init":
        (folder / "ray.crt").unlink()
        (folder / "ray.key").unlink()
    done = Commands()("certs", verb, str(folder))
    assert done.errors == [
        "warning: the authority expires in 40 days, and its certificates with it"
    ]
    ends = [
        load_pem_x509_certificate((folder / name).read_bytes()).not_valid_after_utc
        for name in ("ray.crt", "ca.crt")
    ]
    assert ends[0] == ends[1]


def test_an_authority_that_has_expired_signs_nothing(tmp_path: Path) -> None:
    with_authority(tmp_path / "certs", days=0)
    done = Commands()("certs", "init", str(tmp_path / "certs"))
    assert (done.code, done.errors) == (2, ["error: the authority that signs has expired"])


def test_certificates_of_another_authority_are_left(tmp_path: Path) -> None:
    for name in ("own", "other"):
        Commands().ok("certs", "init", str(tmp_path / name))
    for kind in ("crt", "key"):
        (tmp_path / "other" / f"ray.{kind}").replace(tmp_path / "own" / f"ray.{kind}")
    done = Commands()("certs", "renew", str(tmp_path / "own"))
    [line] = done.errors
    assert "ray.crt: not of the authority in" in line


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
        (("init", "new", f"--node={'n' * 60}"), 2, "names have 1 to 64 bytes"),
        (("init", "new", "--days=0"), 2, "--days"),
        (("init", "file"), 1, "file: "),
        (("renew", "empty"), 2, "empty: no ca.crt here"),
        (("show", "nowhere"), 2, "nowhere: No such file or directory"),
        (("show", "empty"), 2, "no *.crt in this directory"),
        (("show", "file"), 2, "file: no certificate in PEM format"),
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
