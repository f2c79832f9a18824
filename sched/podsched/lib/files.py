"""Reads files that a user names, with bounded time and memory whatever the file is.

Such a path may be a named pipe without a writer, or an endless device.
"""

from __future__ import annotations

import errno
import os
import select
import stat
from pathlib import Path
from typing import BinaryIO

#: Seconds to wait for a writer of a named pipe.
PIPE_TIMEOUT = 10.0
#: Bytes that are read at once of a file whose size is not known.
_PART = 1 << 20


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read. Raises OSError."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        # The file may have existed, with another mode; and it may be a terminal.
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            os.fchmod(file.fileno(), 0o600)
            # Not before: a file whose mode cannot be changed keeps its content.
            file.truncate(0)
        file.write(text)


class FileTooLarge(OSError):
    """The file is larger than allowed, or endless."""


def open_file(path: Path) -> BinaryIO:
    """Open a file to read.

    Raises:
        OSError: it cannot be opened, or is a named pipe without a writer.
    """
    # Without O_NONBLOCK, opening a named pipe blocks until there is a writer, possibly for ever.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            # What ``open`` raises would have the descriptor in place of the path.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if stat.S_ISFIFO(mode):
            _wait_for_writer(handle, path)
        os.set_blocking(handle, True)
        return open(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _wait_for_writer(handle: int, path: Path) -> None:
    waiting = select.poll()
    waiting.register(handle, select.POLLIN)
    if not waiting.poll(PIPE_TIMEOUT * 1000):
        reason = f"no writer opened this pipe within {PIPE_TIMEOUT:g} s"
        raise OSError(errno.ETIMEDOUT, reason, path)


def file_version(path: Path) -> tuple[int, int, int]:
    """Return modification time, size and inode, which show whether a file has changed.

    Take it before reading, so that a file that changes meanwhile is read again. Raises OSError.
    """
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file of at most ``most`` bytes.

    Raises:
        FileTooLarge: it is larger.
        OSError: it cannot be read.
    """
    with open_file(path) as stream:
        # ``read`` reserves as much memory as it is asked for.
        parts = [stream.read(min(most, os.fstat(stream.fileno()).st_size) + 1)]
        left = most + 1 - len(parts[0])
        # A pipe has no size, and a file may grow.
        while left and (part := stream.read(min(_PART, left))):
            parts.append(part)
            left -= len(part)
    if not left:
        raise FileTooLarge(errno.EFBIG, f"more than {most >> 20} MiB", path)
    return b"".join(parts)
