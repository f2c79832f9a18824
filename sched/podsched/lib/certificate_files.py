"""Reads the certificate files of a server or client, and reloads them when they change.

Certificate and key are replaced one after the other, so they may not belong together for a moment.
Unusable contents are reported as an error once, and the previous contents stay in use.

This is a module of its own so that programs without TLS do not load the cryptography library, which
takes 70 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from podsched.lib.certificate_error import CertificateError
from podsched.lib.files import file_version, read_file

#: Max size of a file.
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Pems:
    """Contents of the files in PEM; None for a file that is not configured."""

    authorities: bytes | None
    certificate: bytes | None
    key: bytes | None


class CertificateFiles:
    """The paths of CA certificates, a certificate chain and its key; "" or None for none.

    Raises CertificateError if the files cannot be used.
    """

    def __init__(
        self, authorities: str | Path | None, certificate: str | Path | None, key: str | Path | None
    ) -> None:
        self._names = [str(name or "") for name in (authorities, certificate, key)]
        self._seen = self._versions()
        self.pems = self._read()

    def changed(self, warn: Callable[[str], None]) -> bool:
        """Reload the files if they have changed; return whether ``pems`` is new.

        ``warn`` is called if the changed files cannot be used, once for each change.
        """
        now = self._versions()
        if now == self._seen:
            return False
        self._seen = now
        try:
            self.pems = self._read()
        except CertificateError as error:
            warn(str(error))
            return False
        return True

    def _read(self) -> Pems:
        if not any(self._names):
            return Pems(None, None, None)
        from podsched.lib.certificates import check_pair, describe

        authorities, certificate, key = self._names
        pems = Pems(*(_content(name) for name in self._names))
        if pems.authorities is not None:
            describe(pems.authorities, authorities)
        if pems.certificate is not None and pems.key is not None:
            check_pair(pems.certificate, pems.key, (certificate, key))
        return pems

    def _versions(self) -> list[object]:
        return [_version(name) if name else None for name in self._names]


def _content(name: str) -> bytes | None:
    try:
        return read_file(Path(name), _MAX_BYTES) if name else None
    except OSError as error:
        raise CertificateError(f"{name}: {error.strerror}") from error


def _version(name: str) -> tuple[int, int, int] | None:
    try:
        return file_version(Path(name))
    except OSError:
        return None
