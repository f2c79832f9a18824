"""Make the certificate of a scheduler's endpoints if none is configured.

As in kube-scheduler, it is self-signed, for localhost and the address that the scheduler listens
on. It is kept in a directory for the next start, or without one for as long as the process runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from podsched.lib.certificate_error import CertificateError

#: kube-scheduler's names of the files.
CERTIFICATE, KEY = "kube-scheduler.crt", "kube-scheduler.key"


def serving_certificate(directory: Path, address: str) -> tuple[Path, Path]:
    """Return the files of certificate and key in a directory; make them if both are missing.

    The certificate's file also contains its authority, with which clients verify it. Raises
    CertificateError if only one of the two is missing, OSError if they cannot be written.
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
    """Return the hosts of the certificate, without addresses that stand for all addresses."""
    hosts = ("localhost", "127.0.0.1", "::1", address)
    return list(dict.fromkeys(host for host in hosts if host not in ("0.0.0.0", "::")))
