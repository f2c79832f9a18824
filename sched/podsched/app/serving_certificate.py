"""The certificate that a scheduler serves its endpoints with when it is given none.

As kube-scheduler makes it: self-signed, for localhost and the address that it listens on, kept in a
directory for the next start or, without one, as long as the process runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from podsched.lib.certificate_error import CertificateError

#: kube-scheduler's names of the files.
CERTIFICATE, KEY = "kube-scheduler.crt", "kube-scheduler.key"


def serving_certificate(directory: Path, address: str) -> tuple[Path, Path]:
    """Return the certificate and key in a directory, made if neither is there.

    The certificate's file holds its authority as well, for clients to verify it with. Raises
    ``CertificateError`` if one of the two is missing, OSError if they cannot be written.
    """
    from podsched.lib.certificates import self_signed, write_new

    certificate, key = directory / CERTIFICATE, directory / KEY
    there = [path for path in (certificate, key) if path.exists()]
    if len(there) == 1:
        other = KEY if there[0] == certificate else CERTIFICATE
        raise CertificateError(f"{there[0]}: {other} must be beside it; remove it to make both")
    if not there:
        pair, authority = self_signed(f"localhost@{int(time.time())}", _hosts(address))
        write_new(
            directory,
            {CERTIFICATE: pair.certificate_pem + authority.certificate_pem, KEY: pair.key_pem},
        )
    return certificate, key


def _hosts(address: str) -> Sequence[str]:
    """Return the hosts in a certificate; an address that stands for all of them is none."""
    hosts = ("localhost", "127.0.0.1", "::1", address)
    return list(dict.fromkeys(host for host in hosts if host not in ("0.0.0.0", "::")))
