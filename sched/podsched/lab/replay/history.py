"""The history of a recorded or simulated run: its pods and nodes over time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

#: What utilisation is measured of; cpu in millicores, memory in bytes.
MEASURED: Final = ("cpu", "memory")
#: Points in time at which a run is measured.
SAMPLES: Final = 200
#: The quantile of all pods' requests that a large pod has: where it fits, most pods do.
_LARGE: Final = 0.9


@dataclass(slots=True)
class PodHistory:
    """A pod; times are seconds since the start of the run, None if it did not happen."""

    uid: str
    key: str
    requests: Mapping[str, int]
    created: float
    #: Whether a scheduler of the run chose its node; not so for pods that were bound to begin with.
    decided: bool = True
    bound: float | None = None
    node: str = ""
    ended: float | None = None
    preempted: bool = False
    #: Whether it was found to fit on no node at least once.
    unschedulable: bool = False
    priority: int = 0
    #: Whether it waited already when the run began: since when is not known.
    waited_before: bool = False

    @property
    def waited(self) -> float | None:
        """Seconds from its creation, or the run's start, until it was bound, if it was."""
        return None if self.bound is None else self.bound - self.created


@dataclass(frozen=True, slots=True)
class NodeSpan:
    """A node's allocatable resources, for as long as they did not change."""

    name: str
    begins: float
    ends: float
    allocatable: Mapping[str, int]


@dataclass(slots=True)
class History:
    """A run: its pods by uid, the nodes, and how long it lasted in seconds."""

    seconds: float
    pods: dict[str, PodHistory] = field(default_factory=dict)
    nodes: list[NodeSpan] = field(default_factory=list)

    def decided(self) -> list[PodHistory]:
        """Return the pods that a scheduler placed, or would have placed."""
        return [pod for pod in self.pods.values() if pod.decided]


class Sample(NamedTuple):
    """The cluster at a time: shares are from 0 to 1."""

    at: float
    utilisation: Mapping[str, float]
    #: Share of the free cpu that is on nodes without room for a large pod.
    fragmentation: float
    waiting: int


def large_pod(pods: Iterable[PodHistory]) -> tuple[int, int]:
    """Return the 90th percentiles of the millicores and of the bytes that pods request."""
    requests = [[pod.requests.get(name, 0) for name in MEASURED] for pod in pods]
    if not requests:
        return 0, 0
    cpu, memory = np.quantile(np.array(requests), _LARGE, axis=0, method="higher").tolist()
    return int(cpu), int(memory)


class _Event(NamedTuple):
    at: float
    #: Ends come before beginnings.
    order: int
    row: int
    capacity: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]


def samples(history: History, large: tuple[int, int], count: int = SAMPLES) -> list[Sample]:
    """Measure a run at ``count`` evenly spaced times."""
    rows: dict[str, int] = {}
    events = sorted(_events(history, rows), key=lambda event: event[:2])
    capacity = np.zeros((len(rows), len(MEASURED)), dtype=np.int64)
    used = np.zeros_like(capacity)
    times = np.linspace(0.0, history.seconds, count).tolist()
    created, left = _waiting(history)
    found: list[Sample] = []
    place = 0
    for at in times:
        while place < len(events) and events[place].at <= at:
            event = events[place]
            capacity[event.row] += event.capacity
            used[event.row] += event.used
            place += 1
        waiting = np.searchsorted(created, at, "right") - np.searchsorted(left, at, "right")
        found.append(_sample(at, capacity, used, large, int(waiting)))
    return found


def _sample(
    at: float,
    capacity: npt.NDArray[np.int64],
    used: npt.NDArray[np.int64],
    large: tuple[int, int],
    waiting: int,
) -> Sample:
    there = capacity.any(axis=1)
    total, taken = capacity[there].sum(axis=0), used[there].sum(axis=0)
    shares = np.where(total > 0, taken / np.maximum(total, 1), 0.0).tolist()
    free = np.maximum(capacity[there] - used[there], 0)
    too_small = (free < np.array(large)).any(axis=1)
    free_cpu = int(free[:, 0].sum())
    fragmentation = int(free[too_small, 0].sum()) / free_cpu if free_cpu else 0.0
    return Sample(at, dict(zip(MEASURED, shares, strict=True)), fragmentation, waiting)


def _events(history: History, rows: dict[str, int]) -> Iterable[_Event]:
    none = np.zeros(len(MEASURED), dtype=np.int64)
    for span in history.nodes:
        row = rows.setdefault(span.name, len(rows))
        amounts = np.array([span.allocatable.get(n, 0) for n in MEASURED], dtype=np.int64)
        yield _Event(span.begins, 1, row, amounts, none)
        if span.ends < history.seconds:
            yield _Event(span.ends, 0, row, -amounts, none)
    for pod in history.pods.values():
        if pod.bound is None or pod.node not in rows:
            continue
        amounts = np.array([pod.requests.get(n, 0) for n in MEASURED], dtype=np.int64)
        yield _Event(pod.bound, 1, rows[pod.node], none, amounts)
        if pod.ended is not None:
            yield _Event(pod.ended, 0, rows[pod.node], none, -amounts)


def _waiting(history: History) -> tuple[list[float], list[float]]:
    """Return the times at which pods began and ended to wait, each ascending."""
    created, left = [], []
    for pod in history.decided():
        created.append(pod.created)
        stopped = pod.bound if pod.bound is not None else pod.ended
        left.append(math.inf if stopped is None else stopped)
    return sorted(created), sorted(left)


def quantiles(values: Sequence[float], shares: Sequence[float]) -> list[float]:
    """Return quantiles; 0.0 if there are no values."""
    if not values:
        return [0.0 for _ in shares]
    found: list[float] = np.quantile(np.array(values), shares).tolist()
    return found
