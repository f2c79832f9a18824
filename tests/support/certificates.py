"""Throw-away certificates for tests of TLS."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podsched.lib.certificates import CLIENT, SERVER, Request, certify, new_authority
from podsched.serve.server.access.identity import MASTERS


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority, and a certificate of 127.0.0.1 signed by it, for servers and for masters."""

    ca: Path
    cert: Path
    key: Path


def make_certificates(directory: Path, *more_hosts: str) -> Certificates:
    """Files in ``directory``, which must exist; those of an earlier call are replaced.

    more_hosts: what the certificate names beside 127.0.0.1.
    """
    authority = new_authority("test ca", days=1)
    hosts = ("127.0.0.1", "localhost", *more_hosts)
    pair = certify(authority, Request("localhost", (MASTERS,), hosts, (SERVER, CLIENT)), days=1)
    made = Certificates(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
    made.ca.write_bytes(authority.certificate_pem)
    made.ca.with_suffix(".key").write_bytes(authority.key_pem)
    made.cert.write_bytes(pair.certificate_pem)
    made.key.write_bytes(pair.key_pem)
    return made
