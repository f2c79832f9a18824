"""Files of certificates, which may be replaced while a process uses them.

Apart from ``certificates``, because only those who look into certificates should load the library
for it (70 ms).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class CertificateError(Exception):
    """Certificates that cannot be made or used; the text names the file or value."""


#: Time of change, size and inode of each file; None for one that is not there.
Versions = tuple[tuple[int, int, int] | None, ...]


def versions(paths: Iterable[str]) -> Versions:
    """Return what differs as soon as one of the files is written or replaced."""
    return tuple(_version(Path(path)) for path in paths)


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
