"""Reads a small file that may be replaced while it is in use, such as one with a token."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

#: Min seconds between two checks of the file.
_CHECK_SECONDS = 1.0
_MAX_BYTES = 4 << 20


class ChangingFile:
    """The contents of a file, which is checked for changes at most once a second.

    A change is a new modification time, size or inode. Raises OSError if it cannot be read at
    first.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._checked_at = clock()
        self._version = self._stat()
        self.content = self._read()

    def changed(self) -> bool:
        """Reload the file if it has changed; return whether ``content`` is new.

        A file that has become unreadable or too large keeps its previous contents.
        """
        now = self._clock()
        if now - self._checked_at < _CHECK_SECONDS:
            return False
        self._checked_at = now
        try:
            version = self._stat()
            if version == self._version:
                return False
            # ``version`` was taken before reading, so a file that changes during it is read again.
            content = self._read()
        except OSError:
            return False
        self._version, self.content = version, content
        return True

    def _stat(self) -> tuple[int, int, int]:
        status = Path(self.path).stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> bytes:
        with open(self.path, "rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OSError(f"{self.path}: larger than {_MAX_BYTES} bytes")
        return content
