"""A small file that others replace while it is in use, such as one with a token."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

_LOOK_AGAIN_SECONDS = 1.0
_MOST_BYTES = 4 << 20


class ChangingFile:
    """The contents of a file, looked at once a second at most.

    Raises OSError when it cannot be read at first.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._looked = clock()
        self._version = self._stat()
        self.content = self._read()

    def changed(self) -> bool:
        """Return whether ``content`` is new since the last call; a file that is gone is not."""
        now = self._clock()
        if now - self._looked < _LOOK_AGAIN_SECONDS:
            return False
        self._looked = now
        try:
            version = self._stat()
            if version == self._version:
                return False
            # Taken before reading: a file that changes meanwhile is read again.
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
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise OSError(f"{self.path}: larger than {_MOST_BYTES} bytes")
        return content
