"""Measure how well estimates of waiting times hold, for each pod of a run that waits.

An estimate is made one second after a pod's creation, and again after a minute if it still waits,
from the facts known by then. Pods that do not wait are left out, and so are pods whose interval
ends after the run. An open interval is right if the pod waits beyond its beginning until the end of
the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.ask.explain.eta import (
    FOREVER,
    Estimate,
    Past,
    Waiting,
    estimate_among,
    shape_of,
)
from podsched.lab.replay.history import History, PodHistory
from podsched.lib.groups import lists_by_key

#: Seconds after its creation at which a pod is estimated.
_AGES: Final = (1.0, 60.0)
#: Max estimates, spread over the run, because each looks at all pods.
MOST_ESTIMATES: Final = 500


@dataclass(frozen=True, slots=True)
class Calibration:
    """The number of estimates, and of pods bound within, before and after their interval."""

    estimates: int
    within: int
    before: int
    after: int
    #: Pods that waited and could not be estimated: no pod like them had been bound.
    unknown: int
    #: Intervals without an end.
    open: int
    #: Median of the estimated median divided by the real wait.
    ratio: float


def calibrate(history: History) -> Calibration:
    """Estimate every pod of a run that waited, and compare."""
    shapes = lists_by_key((shape_of(pod.requests), pod) for pod in history.decided())
    everyone = _Seen([pod for pods in shapes.values() for pod in pods])
    waiting = [(age, pod) for age in _AGES for pod in everyone.pods if _waits(pod, history, age)]
    by_shape = {shape: _Seen(pods) for shape, pods in shapes.items()}
    counts = dict.fromkeys(("within", "before", "after", "unknown", "open"), 0)
    ratios: list[float] = []
    for age, pod in waiting[:: max(1, -(-len(waiting) // MOST_ESTIMATES))]:
        now = pod.created + age
        past = [by_shape[shape_of(pod.requests)].known(now), everyone.known(now)]
        found = estimate_among(past, Waiting(pod.created, pod.priority), now)
        outcome = _outcome(pod, found, now, history.seconds)
        if outcome:
            counts[outcome] += 1
        if found is not None:
            counts["open"] += found.seconds[-1] >= FOREVER
            if pod.bound is not None:
                ratios.append(found.seconds[1] / (pod.bound - now))
    estimates = counts["within"] + counts["before"] + counts["after"]
    ratio = float(np.median(ratios)) if ratios else math.nan
    return Calibration(estimates, **counts, ratio=ratio)


class _Seen:
    """The facts about pods that were known at a time."""

    def __init__(self, pods: Sequence[PodHistory]) -> None:
        self.pods = pods
        self._began = np.array([pod.created for pod in pods])
        self._bound = np.array([math.nan if pod.bound is None else pod.bound for pod in pods])
        self._ended = np.array([math.nan if pod.ended is None else pod.ended for pod in pods])
        self._priority = np.array([pod.priority for pod in pods], dtype=np.int64)

    def known(self, now: float) -> Past:
        """Return the pods known by then."""
        known = self._began <= now
        bound, ended = self._bound[known], self._ended[known]
        return Past(
            self._began[known],
            np.where(bound <= now, bound, math.nan),
            np.where(ended <= now, ended, math.nan),
            self._priority[known],
        )


def _waits(pod: PodHistory, history: History, age: float) -> bool:
    end = history.seconds if pod.bound is None else pod.bound
    return end > pod.created + age


def _outcome(pod: PodHistory, found: Estimate | None, now: float, end: float) -> str:
    if found is None:
        return "unknown"
    low, _, high = found.seconds
    if pod.bound is None:
        if high >= FOREVER:
            return "within" if end - now >= low else ""
        return "after" if end - now > high else ""
    waited = pod.bound - now
    if waited < low:
        return "before"
    return "within" if waited <= high else "after"


def calibration_line(found: Calibration) -> str:
    """Return the figures as a sentence."""
    if not found.estimates:
        return "ETA: no pod waited that could be estimated"
    share = found.within / found.estimates
    return (
        f"ETA: {share:.0%} of {found.estimates:,} estimates held, with a stated interval of 80% "
        f"({found.before:,} pods came earlier, {found.after:,} later; "
        f"{found.open:,} intervals had no end, {found.unknown:,} pods could not be estimated)"
    )
