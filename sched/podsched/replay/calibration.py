"""How well estimates of waiting times hold: made for each pod of a run that waits, then compared.

A pod is estimated one second after its creation, from what was known by then. Pods that do not wait
are left out, and so are those of which the run ended before their interval did.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.engine.explain.eta import (
    Estimate,
    Past,
    Shape,
    Waiting,
    estimate_among,
    shape_of,
)
from podsched.replay.history import History, PodHistory

_AFTER: Final = 1.0
#: Pods that are estimated, spread over the run; each looks at all pods of its shape.
MOST_PODS: Final = 500


@dataclass(frozen=True, slots=True)
class Calibration:
    """Pods that were estimated, and how many were bound within, before and after the interval."""

    pods: int
    within: int
    before: int
    after: int
    #: Pods that waited and could not be estimated: no pod like them had been bound.
    unknown: int
    #: Median of the estimated median divided by the real wait.
    ratio: float


def calibrate(history: History) -> Calibration:
    """Estimate every pod of a run that waited, and compare."""
    shapes: dict[Shape, list[PodHistory]] = {}
    for pod in history.decided():
        shapes.setdefault(shape_of(pod.requests), []).append(pod)
    counts = {"within": 0, "before": 0, "after": 0, "unknown": 0}
    ratios: list[float] = []
    waited = sum(_waits(pod, history) for pods in shapes.values() for pod in pods)
    every = max(1, -(-waited // MOST_PODS))
    everyone = _Seen([pod for pods in shapes.values() for pod in pods])
    for pods in shapes.values():
        alike = _Seen(pods)
        for pod in [pod for pod in pods if _waits(pod, history)][::every]:
            now = pod.created + _AFTER
            past = [alike.known(now), everyone.known(now)]
            found = estimate_among(past, Waiting(pod.created, 0), now)
            outcome = _outcome(pod, found, now, history.seconds)
            if outcome in counts:
                counts[outcome] += 1
            if found is not None and pod.bound is not None:
                ratios.append(found.seconds[1] / (pod.bound - now))
    pods_estimated = counts["within"] + counts["before"] + counts["after"]
    ratio = float(np.median(ratios)) if ratios else math.nan
    return Calibration(pods_estimated, **counts, ratio=ratio)


class _Seen:
    """Pods as they could be seen at a time."""

    def __init__(self, pods: Sequence[PodHistory]) -> None:
        self._began = np.array([pod.created for pod in pods])
        self._bound = np.array([math.nan if pod.bound is None else pod.bound for pod in pods])
        self._ended = np.array([math.nan if pod.ended is None else pod.ended for pod in pods])

    def known(self, now: float) -> Past:
        """Return what was known by then."""
        known = self._began <= now
        bound, ended = self._bound[known], self._ended[known]
        return Past(
            self._began[known],
            np.where(bound <= now, bound, math.nan),
            np.where(ended <= now, ended, math.nan),
            np.zeros(int(known.sum()), dtype=np.int64),
        )


def _waits(pod: PodHistory, history: History) -> bool:
    end = history.seconds if pod.bound is None else pod.bound
    return end > pod.created + _AFTER


def _outcome(pod: PodHistory, found: Estimate | None, now: float, end: float) -> str:
    if found is None:
        return "unknown"
    low, _, high = found.seconds
    if pod.bound is None:
        return "after" if end - now > high else ""
    waited = pod.bound - now
    if waited < low:
        return "before"
    return "within" if waited <= high else "after"


def calibration_line(found: Calibration) -> str:
    """Return the figures as a sentence."""
    if not found.pods:
        return "ETA: no pod waited that could be estimated"
    share = found.within / found.pods
    return (
        f"ETA: {share:.0%} of {found.pods:,} waiting pods within the stated 80% interval "
        f"({found.before:,} earlier, {found.after:,} later, {found.unknown:,} not estimated)"
    )
