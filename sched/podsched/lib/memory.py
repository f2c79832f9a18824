"""Keeps full garbage collections from blocking the event loop of a process with many objects.

The caches of a leader with 60,000 pods that all differ consist of 1,500,000 objects. A full
collection took 1.2 s (3 s on a busy machine), which blocks the event loop for long enough to lose
the lock. So objects that have survived a few collections are frozen (``gc.freeze``): the collector
ignores them. Nearly all objects are freed by reference counting anyway. Frozen garbage in reference
cycles stays until ``collect_everything``, which a leader does not call. In a leader there is hardly
any during a term, in an API server little (gRPC's part of some calls in progress).
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

#: Bytes: blocks up to the first size are allocated from memory that the process keeps, and up to
#: the second size of free memory is kept. That is enough for some columns of 100,000 rows, which
#: take 1.6 MB each with two resources.
_LARGEST, _KEPT = 4 * 1024**2, 16 * 1024**2

#: Number of new objects, minus freed ones, after which the young generation is collected. Every
#: second collection takes in the generation before, too, and every third one all objects that are
#: not frozen. With Python's default of 700, a process with many objects would do little else.
_NEW: Final = 3_000
#: Objects that one collection adds to the oldest generation are frozen if they are more than this:
#: a cache has grown then. Fewer may belong to calls in progress, and some of those become garbage
#: in cycles, which the next full collection finds. Freezing growth only after a full collection
#: took 1.3 % of a leader's CPU more. Freezing it after the first one took 1.5 % less, but 0.6 kB of
#: garbage stayed for each pod.
_FEW: Final = 4_000
#: If a sample has more objects of garbage than this, further growth is not frozen unexamined; and
#: the number of collections that are left out otherwise. Examining everything took a tenth of a
#: leader's CPU and found nothing. In an API server each gRPC call leaves five objects of garbage.
_HARDLY_ANY: Final = 6
_UNEXAMINED: Final = 12
#: The generation that a full collection collects.
_OLDEST: Final = 2


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed arrays, so that the next operation reuses it.

    By default glibc returns blocks of 128 KiB and more to the kernel and gets them again page by
    page: operations on columns of 20,000 rows took twice as long, on 100,000 three times. Without
    glibc this does nothing.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, _LARGEST)
        libc.mallopt(_TRIM_THRESHOLD, _KEPT)


def freeze_imports() -> None:
    """Freeze all present objects, such as imported modules; only the first time in a process."""
    if not gc.get_freeze_count():
        gc.freeze()


def freeze_survivors() -> None:
    """Freeze all present objects, and from now on those that survive two collections in numbers."""
    gc.freeze()  # what was imported
    gc.set_threshold(_NEW, 0, 0)
    gc.callbacks.append(_freezer)


def expect_no_garbage() -> None:
    """Freeze growth before the collector looks at it, as long as samples have hardly any garbage.

    For a process that calls ``collect_everything`` from time to time: garbage that the samples miss
    stays until then. In an API server, clients could make such garbage on purpose.
    """
    _freezer.expects_garbage = False


class _Freezer:
    """A callback of the collector that freezes growth.

    Growth is examined until two collections in a row have survived, then frozen. If no garbage is
    expected and that has found none, the growth of the next ``_UNEXAMINED`` collections is frozen
    before the collector looks at it.
    """

    def __init__(self) -> None:
        self.expects_garbage = True
        #: Size of the oldest generation after the last collection that added to it.
        self._before = 0
        #: Objects of garbage found since the last freeze.
        self._garbage = 0
        #: Number of collections to come before which everything is frozen.
        self._unexamined = 0

    def __call__(self, phase: str, info: Mapping[str, Any]) -> None:
        if phase == "start":
            if self._unexamined:
                gc.freeze()  # So the collection that begins has nothing to look at.
            return
        if self._unexamined:
            self._unexamined -= 1
            return
        self._garbage += info["collected"]
        if not info["generation"]:
            return
        oldest = len(gc.get_objects(_OLDEST))
        added = oldest if info["generation"] == _OLDEST else oldest - self._before
        if added > _FEW:
            gc.freeze()
            oldest = 0
            trusted = not self.expects_garbage and self._garbage <= _HARDLY_ANY
            self._unexamined = _UNEXAMINED if trusted else 0
            self._garbage = 0
        self._before = oldest

    def examine(self) -> None:
        """Let the next collection look at everything."""
        self._unexamined = 0


_freezer: Final = _Freezer()


def collect_everything() -> None:
    """Free all garbage in reference cycles; takes about 0.7 us for each object of the process.

    Objects that were imported count, too: 0.05 to 0.2 s, in one piece.
    """
    _freezer.examine()
    gc.unfreeze()
    gc.collect()
