"""Throw-away certificates for tests of TLS, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority, and a certificate of 127.0.0.1 signed by it, for servers and clients."""

    ca: Path
    cert: Path
    key: Path


def make_certificates(directory: Path) -> Certificates:
    """Files in ``directory``, which must exist."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test ca")
    openssl("req", "-new", *new, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=localhost")
    (directory / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1")
    openssl("x509", "-req", "-in", "tls.csr", *signed, "-extfile", "san", "-out", "tls.crt")
    return Certificates(directory / "ca.crt", directory / "tls.crt", directory / "tls.key")
