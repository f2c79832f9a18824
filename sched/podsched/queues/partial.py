"""Partial admission: the largest number of pods, above the minimum, that can be admitted.

Source: Kueue 0.20, pkg/scheduler/flavorassigner/podset_reducer.go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

from podsched.queues.objects import PodSet

T = TypeVar("T")


def search_counts(
    pod_sets: Sequence[PodSet], try_counts: Callable[[list[int]], T | None]
) -> T | None:
    """Return the result of ``try_counts`` for the largest counts that have one; None if none has.

    This is a binary search. All pod sets shrink in proportion to the pods that each can give up.
    ``try_counts`` takes a count for each pod set, and returns None if they do not fit.
    """
    give = [
        max(0, pods.count - (pods.count if pods.min_count is None else pods.min_count))
        for pods in pod_sets
    ]
    total = sum(give)
    if total <= 0:
        return None
    found: dict[int, T | None] = {}

    def fits(step: int) -> bool:
        found[step] = try_counts(
            [pods.count - part * step // total for pods, part in zip(pod_sets, give, strict=True)]
        )
        return found[step] is not None

    # Like Kueue's search, this assumes that fewer pods fit wherever more do. The result of each
    # step is kept, so that the best counts are not tried twice.
    best = bisect_left(range(total + 1), True, key=fits)
    return found.get(best)
