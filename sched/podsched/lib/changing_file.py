"""Reads a small file that may be replaced while it is in use, such as one with a token."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from podsched.lib.files import file_version, read_file

#: Min seconds between two checks of the file.
_CHECK_SECONDS = 1.0
MAX_BYTES = 4 << 20


class ChangingFile:
    """The contents of a file, which is checked for changes at most once a second.

    Raises OSError if it cannot be read at first.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._checked_at = clock()
        self._version = file_version(Path(path))
        self.content = read_file(Path(path), MAX_BYTES)

    def changed(self) -> bool:
        """Reload the file if it has changed; return whether ``content`` is new.

        A file that has become unreadable or too large keeps its previous contents.
        """
        now = self._clock()
        if now - self._checked_at < _CHECK_SECONDS:
            return False
        self._checked_at = now
        try:
            version = file_version(Path(self.path))
            if version == self._version:
                return False
            content = read_file(Path(self.path), MAX_BYTES)
        except OSError:
            return False
        self._version, self.content = version, content
        return True
