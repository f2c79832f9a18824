"""The certificate files of a server or client, read anew when they change.

Files are replaced one after the other: contents that cannot be used, such as a key that does not
belong to the certificate, are an error once, and those read before stay in use.

Apart from ``certificates``, so that only those who use TLS load the library for it (70 ms).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podsched.lib.certificate_error import CertificateError
from podsched.lib.files import read_file

#: Time of change, size and inode of each file; None for one that is not there.
_MAX_BYTES = 1 << 20
_Versions = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Pems:
    """Contents of the files; None for those that are not used."""

    authorities: bytes | None
    certificate: bytes | None
    key: bytes | None


class CertificateFiles:
    """Files of authorities, a certificate chain and its key, in PEM; "" for none."""

    def __init__(self, authorities: str, certificate: str, key: str) -> None:
        self._names = (authorities, certificate, key)
        # Taken before reading: files that change meanwhile are read again.
        self._seen = self._versions()
        self.pems = self._read()

    def changed(self) -> bool:
        """Return whether there are new contents in ``pems``.

        Raises CertificateError, once for a change, if the files cannot be used.
        """
        now = self._versions()
        if now == self._seen:
            return False
        self._seen = now
        self.pems = self._read()
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

    def _versions(self) -> _Versions:
        return tuple(_version(name) for name in self._names)


def _content(name: str) -> bytes | None:
    try:
        return read_file(Path(name), _MAX_BYTES) if name else None
    except OSError as error:
        raise CertificateError(f"{name}: {error.strerror}") from error


def _version(name: str) -> tuple[int, int, int] | None:
    try:
        status = Path(name).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
