"""kube-scheduler's options for HTTPS."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from podsched.cli.kube_options import ServingFlags
from support.certificates import make_certificates
from support.commands import Commands


def test_without_one_of_them_nothing_changes() -> None:
    assert not ServingFlags().https
    assert not ServingFlags(authorization_always_allow_paths=["/metrics"]).https
    assert not ServingFlags(bind_address="0.0.0.0", secure_port=0).https


@pytest.mark.parametrize(
    ("flags", "address"),
    [
        (ServingFlags(secure_port=10260), "0.0.0.0:10260"),
        (ServingFlags(bind_address="127.0.0.1"), "127.0.0.1:10259"),
        (ServingFlags(bind_address="::1", secure_port=1), "[::1]:1"),
        (ServingFlags(cert_dir=Path("x")), "0.0.0.0:10259"),
    ],
)
def test_one_is_enough_and_the_rest_is_as_in_kube_scheduler(
    flags: ServingFlags, address: str
) -> None:
    assert flags.https
    assert flags.address == address


def test_paths_that_are_always_allowed_need_no_leading_slash() -> None:
    flags = ServingFlags(authorization_always_allow_paths=["metrics, /flag*", "*"])
    assert flags.open_paths == ("/metrics", "/flag*", "/*")


def test_a_certificate_is_made_once_for_a_directory(tmp_path: Path) -> None:
    flags = ServingFlags(cert_dir=tmp_path / "certs", tls_min_version="VersionTLS13")
    made = flags.tls("ca.crt")
    assert (made.authorities, made.oldest) == ("ca.crt", ssl.TLSVersion.TLSv1_3)
    content = Path(made.certificate).read_bytes()
    assert Path(made.key).stat().st_mode & 0o077 == 0
    flags.tls("")
    assert Path(made.certificate).read_bytes() == content


def test_the_authorities_of_clients_can_be_named(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    flags = ServingFlags(
        tls_cert_file=files.cert, tls_private_key_file=files.key, client_ca_file=files.ca
    )
    found = flags.tls("other.crt")
    assert (found.authorities, found.certificate) == (str(files.ca), str(files.cert))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tls-cert-file=x"], "--tls-cert-file and --tls-private-key-file must be used together"),
        (["--client-ca-file=/none"], "--client-ca-file: /none: no such file"),
        (["--tls-min-version=VersionTLS10"], "must be one of VersionTLS12, VersionTLS13"),
        (["--secure-port=65536"], "--secure-port"),
        (["--authorization-always-allow-paths=/a*b"], "/a*b: * may only be at the end"),
    ],
)
def test_what_does_not_fit_is_a_usage_error(
    sched: Commands, arguments: list[str], said: str
) -> None:
    done = sched("scheduler", *arguments)
    assert done.code == 2
    assert said in done.err


def test_half_a_pair_in_the_directory_is_named(sched: Commands, tmp_path: Path) -> None:
    (tmp_path / "kube-scheduler.crt").write_text("x")
    done = sched("scheduler", f"--cert-dir={tmp_path}")
    assert done.code == 1
    assert "kube-scheduler.key must be beside it" in done.err
