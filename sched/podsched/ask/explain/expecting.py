"""An estimate of when a waiting pod gets a node, from the pods that a replica knows."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from podsched.api.conditions import is_finished
from podsched.api.quantity import QuantityError
from podsched.api.resources import requests_in_units
from podsched.ask.explain.eta import PROBABILITIES, Past, Shape, Waiting, estimate_among, shape_of
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1
from podsched.v1.scheduling_pb2 import Explanation

_Row = tuple[float, float, float, int]


def add_eta(answer: Explanation, pods: Iterable[v1.Pod], pod: PodInfo, now: float) -> None:
    """Add quantiles to an explanation; nothing if no similar pod has been bound.

    ``pods``: all stored pods, including ended ones and those of other schedulers; ``now``: Unix
    seconds. It takes 0.3 s for 20,000 pods.
    """
    own = shape_of(pod.cls.requests)
    like: list[_Row] = []
    everyone: list[_Row] = []
    for other in pods:
        known = _row(other)
        if known is not None:
            row, shape = known
            everyone.append(row)
            if shape == own:
                like.append(row)
    waiting = Waiting(pod.creation_time, pod.priority, answer.queue.backoff_left_seconds)
    found = estimate_among([_past(like), _past(everyone)], waiting, now)
    if found is None:
        return
    for probability, seconds in zip(PROBABILITIES, found.seconds, strict=True):
        answer.eta.quantiles.add(probability=probability, seconds=round(seconds, 1))
    answer.eta.basis.append(
        f"Pod {found.rank} in line; room came {found.bindings} times in {found.busy:.0f} s."
    )
    if found.waited:
        answer.eta.basis.append(
            f"Of {found.waited} pods that had waited as long, {found.got} got a node."
        )


def _row(pod: v1.Pod) -> tuple[_Row, Shape] | None:
    """Return when a pod began to wait, was bound and ended, its priority and shape."""
    bound = ended = math.nan
    for condition in pod.status.conditions:
        at = condition.last_transition_time.ToMicroseconds() / 1e6
        if condition.type == "PodScheduled" and condition.status == "True":
            bound = at
        elif is_finished(pod):
            ended = at if math.isnan(ended) else max(ended, at)
    if pod.spec.node_name and math.isnan(bound):
        return None
    try:
        shape = shape_of(requests_in_units(pod))
    except QuantityError:
        return None
    began = pod.metadata.creation_timestamp.ToMicroseconds() / 1e6
    return (began, bound, ended, pod.spec.priority), shape


def _past(rows: list[_Row]) -> Past:
    began, bound, ended, priority = np.array(rows or np.empty((0, 4)), dtype=np.float64).T
    return Past(began, bound, ended, priority.astype(np.int64))
