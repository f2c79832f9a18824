"""Stores for frames: in memory, or in a directory as a ring of segments.

DIR/lock                                   held by the process that writes
DIR/decisions-1763834567123.jsonl.zst      the oldest segment; deleted when the ring is full
DIR/decisions-1763834571456.jsonl.zst      the newest; every process begins one of its own
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from podsched.ask.decisions.frames import Frame, frames_in
from podsched.lib.files import read_file

#: Min segments of a full ring. When it is full, the oldest is deleted, a sixteenth of the log.
SEGMENTS = 16
#: Max bytes of a segment that is written. A reader, which may be the leader, has a whole one in
#: memory, so a larger log has more segments.
LARGEST = 16 << 20
#: Max bytes of a segment that is read.
MAX_SEGMENT = 1 << 30
PATTERN = "decisions-*.jsonl.zst"


class DecisionLogError(OSError):
    """The log cannot be kept in the given directory: a mistake of the user, or a disk error."""


class Store(Protocol):
    """Keeps the latest frames, within a bound."""

    def append(self, frame: bytes) -> None:
        """Add a frame. Raises OSError."""

    def segments(self) -> Iterator[list[Frame]]:
        """Yield the frames of each segment in their order, the newest segment first."""

    def close(self) -> None: ...


class MemoryStore:
    """Keeps frames in memory, up to a number of bytes."""

    def __init__(self, most: int, first: bytes) -> None:
        """``first``: the frame with the facts about the process."""
        self._first = first
        self._frames: deque[bytes] = deque()
        self._most = most
        self._bytes = 0

    def append(self, frame: bytes) -> None:
        """See ``Store``."""
        self._frames.append(frame)
        self._bytes += len(frame)
        while self._bytes > self._most and len(self._frames) > 1:
            self._bytes -= len(self._frames.popleft())

    def segments(self) -> Iterator[list[Frame]]:
        """See ``Store``."""
        yield [found for frame in (self._first, *self._frames) for found in frames_in(frame)]

    def close(self) -> None:
        """See ``Store``."""


class DirectoryStore:
    """Keeps frames in files, up to a number of bytes. One process at a time may write."""

    def __init__(self, directory: Path, most: int, first: bytes) -> None:
        """``first``: the frame with which each segment begins.

        Raises DecisionLogError.
        """
        self._directory = directory
        self._most = most
        self._segment = min(most // SEGMENTS, LARGEST)
        self._first = first
        self._file: int | None = None
        self._written = 0
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise DecisionLogError(f"--decision-log: {directory}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise DecisionLogError(
                f"--decision-log: {directory}: another process keeps its log there"
            ) from error

    def append(self, frame: bytes) -> None:
        """See ``Store``."""
        if self._file is None or self._written + len(frame) > self._segment:
            self._begin()
        assert self._file is not None
        self._write(self._file, frame)

    def _begin(self) -> None:
        """Begin a segment, after making room for it."""
        self._end()
        paths = segment_paths(self._directory)
        total = sum(_size(path) for path in paths) + self._segment
        for path in paths:
            if total <= self._most:
                break
            total -= _size(path)
            path.unlink(missing_ok=True)
        stamp = int(time.time() * 1000)
        if paths:
            # A clock that was set back must not put the newest segment first.
            stamp = max(stamp, _stamp(paths[-1]) + 1)
        path = self._directory / PATTERN.replace("*", f"{stamp:013d}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o600)
        self._written = 0
        try:
            self._write(self._file, self._first)
        except OSError:
            # Without its facts, nobody could tell whose decisions would follow.
            self._end()
            path.unlink(missing_ok=True)
            raise

    def _write(self, file: int, frame: bytes) -> None:
        written = os.write(file, frame)
        self._written += written
        if written < len(frame):
            # Readers stop at an incomplete frame, so the next frame must go into a new segment.
            self._end()
            raise OSError(f"wrote {written} of {len(frame)} bytes")

    def _end(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def segments(self) -> Iterator[list[Frame]]:
        """See ``Store``."""
        return read_segments(self._directory)

    def close(self) -> None:
        """See ``Store``."""
        self._end()
        os.close(self._lock)


def segment_paths(directory: Path) -> list[Path]:
    """Return the segments of a directory, the oldest first."""
    return sorted(directory.glob(PATTERN), key=_stamp)


def read_segments(
    directory: Path, garbled: Callable[[str], object] = lambda why: None
) -> Iterator[list[Frame]]:
    """Yield the frames of each segment of a directory, the newest segment first.

    garbled: called for each segment that has more than what can be read.

    Raises OSError: FileTooLarge for a segment of more than MAX_SEGMENT bytes.
    """
    for path in reversed(segment_paths(directory)):
        # The writer may have deleted it by now.
        with contextlib.suppress(FileNotFoundError):
            data = read_file(path, MAX_SEGMENT)
            frames = list(frames_in(data))
            if left := len(data) - sum(frame.size for frame in frames):
                garbled(f"{path.name}: {left:,} of its bytes cannot be read")
            yield frames


def _stamp(path: Path) -> int:
    digits = path.name.partition("-")[2].partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
