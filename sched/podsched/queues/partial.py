"""Partial admission: the largest number of pods, above the minimum, that can be admitted.

Source: Kueue 0.20, pkg/scheduler/flavorassigner/podset_reducer.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from podsched.queues.objects import PodSet

T = TypeVar("T")

#: Max number of results of ``some_counts``, whose tries take long.
SOME: Final = 8


def search_counts(
    pod_sets: Sequence[PodSet], try_counts: Callable[[list[int]], T | None]
) -> T | None:
    """Return the result of ``try_counts`` for the largest counts that have one; None if none has.

    This is a binary search. All pod sets shrink in proportion to the pods that each can give up.
    ``try_counts`` takes a count for each pod set, and returns None if they do not fit.
    """
    total = _spare(pod_sets)
    if total <= 0:
        return None
    found: dict[int, T | None] = {}

    def fits(step: int) -> bool:
        found[step] = try_counts(_counts(pod_sets, step, total))
        return found[step] is not None

    # Like Kueue's search, this assumes that fewer pods fit wherever more do. The result of each
    # step is kept, so that the best counts are not tried twice.
    best = bisect_left(range(total + 1), True, key=fits)
    return found.get(best)


def some_counts(pod_sets: Sequence[PodSet]) -> Iterator[list[int]]:
    """Yield at most ``SOME`` evenly spread counts below those wanted, descending to the minimum."""
    total = _spare(pod_sets)
    for number in range(1, min(SOME, total) + 1):
        yield _counts(pod_sets, -(-total * number // min(SOME, total)), total)


def _spare(pod_sets: Sequence[PodSet]) -> int:
    """Return how many pods may be left out."""
    return sum(map(_spare_of, pod_sets))


def _spare_of(pods: PodSet) -> int:
    return max(0, pods.count - (pods.count if pods.min_count is None else pods.min_count))


def _counts(pod_sets: Sequence[PodSet], step: int, total: int) -> list[int]:
    """Return the counts if ``step`` of the ``total`` pods that may be left out are left out."""
    return [pods.count - _spare_of(pods) * step // total for pods in pod_sets]
