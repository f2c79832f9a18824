"""What the C library does with memory that was freed."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

# Options of glibc's mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

#: Blocks of up to so many bytes are taken out of memory that the process has, and so much of what
#: is free is kept: some columns of 100,000 rows, of 1.6 MB each where there are two resources.
_LARGEST, _KEPT = 4 * 1024**2, 16 * 1024**2


def keep_freed_memory() -> None:
    """Have the arrays of one operation take the memory of those of the last one.

    By default glibc gives blocks of 128 KiB and more back to the kernel, and gets them again page
    by page: operations on columns of 20,000 rows took twice as long, on 100,000 three times.
    Does nothing where there is no glibc.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)
