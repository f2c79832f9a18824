"""Keep full garbage collections from blocking the event loop of a process with many objects.

The caches of a leader with 60,000 pods that all differ are 1,500,000 objects. A full collection
took 1.2 s (3 s on a busy machine), which blocks the event loop for long enough to lose the lock. So
objects that have survived a few collections are frozen: the collector ignores them. Nearly all
objects are freed by reference counting anyway. Frozen garbage in cycles stays until
``collect_everything``. In a leader there is none during a term, in an API server hardly any (gRPC's
part of some calls in progress).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Mapping
from typing import Any, Final

# Options of glibc's mallopt(3).
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

#: Blocks of up to so many bytes are taken out of memory that the process has, and so much of what
#: is free is kept: some columns of 100,000 rows, of 1.6 MB each where there are two resources.
_LARGEST, _KEPT = 4 * 1024**2, 16 * 1024**2

#: New objects, less those freed, after which the collector looks at them; every third time, at all
#: that have not been set aside. That is no more than three times as many and ``_FEW``: 20,000 take
#: 13 ms. With the default of 700 it would do little else.
_NEW: Final = 5_000
#: So many that survive a look at all are not set aside yet: of what calls under way hold, while
#: nothing else is added, some may become garbage in cycles.
_FEW: Final = 4_000
_OLDEST: Final = 2


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


def set_survivors_aside() -> None:
    """Have the collector look at young objects alone, for good."""
    gc.freeze()  # what was imported
    gc.set_threshold(_NEW, 0, 0)
    if _set_aside not in gc.callbacks:
        gc.callbacks.append(_set_aside)


def _set_aside(phase: str, info: Mapping[str, Any]) -> None:
    whole = phase == "stop" and info["generation"] == _OLDEST
    if whole and len(gc.get_objects(_OLDEST)) > _FEW:
        gc.freeze()


def collect_everything() -> None:
    """Free garbage in cycles, however old; takes some 0.7 us for each object that there is."""
    gc.unfreeze()
    gc.collect()
