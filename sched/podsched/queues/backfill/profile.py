"""What is free of quota and nodes over time, as far as it is known when units end.

Time is cut into slots wherever a unit begins or ends; the last slot lasts for ever::

    times  now ------- 60 ------- 300 ------> for ever
    free    2           6          8            of each node, shape (slots, nodes, resources)
    usage   6           2          0            of each ClusterQueue, flavor and resource

The arithmetic of quota is that of ``quota.Node``, on whole columns of slots.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from podsched.queues.quota import NO_QUOTA, Amounts, FlavorResource, Forest, Node

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Demand:
    """Pods of one shape that need nodes."""

    count: int
    amounts: Int64s
    """Of one pod, shape (resources,)."""
    rows: Bools
    """The nodes that the pods may use, shape (nodes,)."""


@dataclass(frozen=True, eq=False, slots=True)
class Occupation:
    """What a unit takes of its queue's quota, and of nodes."""

    queue: str
    usage: Amounts
    rows: Int64s
    """The nodes' indexes, each once, shape (n,)."""
    amounts: Int64s
    """What is taken of each of them, shape (n, resources)."""


class Start(NamedTuple):
    """A time at which a unit can start, and what it takes then."""

    at: float
    occupation: Occupation


class Profile:
    """See the module."""

    def __init__(
        self, now: float, free: Int64s, forest: Forest, splits: Iterable[float] = ()
    ) -> None:
        """``free``: of each node when no unit runs, shape (nodes, resources).

        ``splits``: times at which units are known to begin or end; others may be added later.
        """
        later = np.array(sorted({at for at in splits if now < at < np.inf}), dtype=np.float64)
        self.times: Float64s = np.concatenate((np.array([now], dtype=np.float64), later))
        """Where slots begin, ascending; the first is now."""
        self._free: Int64s = np.repeat(free[np.newaxis], len(self.times), axis=0)
        self._forest = forest
        self._usage: dict[tuple[str, FlavorResource], Int64s] = {}
        #: Usage of cohorts, counted once it is needed.
        self._of_cohorts: dict[tuple[str, FlavorResource], Int64s] = {}

    @property
    def now(self) -> float:
        return float(self.times[0])

    # ------------------------------------------------------------------ what is taken

    def occupy(self, taken: Occupation, start: float, end: float) -> None:
        """Count what a unit takes from ``start`` until ``end``."""
        self._count(taken, start, end, 1)

    def release(self, taken: Occupation, start: float, end: float) -> None:
        """Count no longer what was counted from ``start`` until ``end``."""
        self._count(taken, start, end, -1)

    def _count(self, taken: Occupation, start: float, end: float, sign: int) -> None:
        first, last = self._split(start), self._split(end)
        if len(taken.rows):
            self._free[first:last, taken.rows] -= sign * taken.amounts
        for key, amount in taken.usage.items():
            if not amount:
                continue
            column = self._usage.get((taken.queue, key))
            if column is None:
                column = np.zeros(len(self.times), dtype=np.int64)
                self._usage[taken.queue, key] = column
            column[first:last] += sign * amount
            node = self._forest.queues.get(taken.queue)
            for above in () if node is None else node.ancestors:
                self._of_cohorts.pop((above.name, key), None)

    def _split(self, at: float) -> int:
        """Return the slot that begins at a time, which is cut for it."""
        if at <= self.now:
            return 0
        if at == np.inf:
            return len(self.times)
        place = int(np.searchsorted(self.times, at))
        if place == len(self.times) or self.times[place] != at:
            self.times = np.insert(self.times, place, at)
            self._free = np.insert(self._free, place, self._free[place - 1], axis=0)
            for columns in (self._usage, self._of_cohorts):
                for key, column in columns.items():
                    columns[key] = np.insert(column, place, column[place - 1])
        return place

    # ------------------------------------------------------------------ what is free

    def available(self, queue: str, key: FlavorResource) -> Int64s:
        """Return what a ClusterQueue may use in addition, shape (slots,)."""
        line = [self._forest.queues[queue], *self._forest.queues[queue].ancestors]
        top = line[-1]
        free: Int64s = top.quota.get(key, 0) - self._usage_of(top, key)
        for node in line[-2::-1]:
            local, usage = node.local(key), self._usage_of(node, key)
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                lent = node.quota.get(key, 0) - local
                free = np.minimum(free, lent - np.maximum(0, usage - local) + limit)
            free = free + np.maximum(0, local - usage)
        return np.maximum(0, free)

    def _usage_of(self, node: Node, key: FlavorResource) -> Int64s:
        none = np.zeros(len(self.times), dtype=np.int64)
        if not node.is_cohort:
            return self._usage.get((node.name, key), none)
        found = self._of_cohorts.get((node.name, key))
        if found is None:
            found = none
            for child in node.children:
                found = found + np.maximum(0, self._usage_of(child, key) - child.local(key))
            self._of_cohorts[node.name, key] = found
        return found

    def fits(self, taken: Occupation, start: float, end: float) -> bool:
        """Whether a unit can take that from ``start`` until ``end``."""
        first = max(0, int(np.searchsorted(self.times, start, "right")) - 1)
        last = max(first + 1, int(np.searchsorted(self.times, end)))
        if taken.queue not in self._forest.queues:
            return False
        for key, amount in taken.usage.items():
            if amount and self.available(taken.queue, key)[first:last].min() < amount:
                return False
        if not len(taken.rows):
            return True
        free = self._free[first:last, taken.rows]
        return bool(((free >= taken.amounts) | (taken.amounts == 0)).all())

    # ------------------------------------------------------------------ when a unit can start

    def earliest(
        self,
        queue: str,
        usage: Amounts,
        demands: Sequence[Demand],
        limit: float,
        *,
        after: float = -np.inf,
        until: float = np.inf,
    ) -> Start | None:
        """Return the first time from ``after`` to ``until`` at which a unit can start.

        It can if quota and nodes have room for it without a break for ``limit`` seconds, all on the
        same nodes. None: not in that time.
        """
        room = np.ones(len(self.times), dtype=np.bool_)
        for key, amount in usage.items():
            if amount:
                room &= self.available(queue, key) >= amount
        for demand in demands:
            if room[0 if until <= self.now else slice(None)].any():
                room &= _counts(self._free, demand).sum(axis=1) >= demand.count
        if not room[0 if until <= self.now else slice(None)].any():
            return None
        ends = np.searchsorted(self.times, self.times + limit)
        ends = np.maximum(ends, np.arange(len(self.times)) + 1)
        lacking = np.concatenate(([0], np.cumsum(~room)))
        begins = (lacking[ends] == lacking[:-1]) & (self.times >= after) & (self.times <= until)
        for slot in np.flatnonzero(begins).tolist():
            placed = self._place(demands, slot, int(ends[slot]))
            if placed is not None:
                return Start(float(self.times[slot]), Occupation(queue, usage, *placed))
        return None

    def _place(
        self, demands: Sequence[Demand], first: int, last: int
    ) -> tuple[Int64s, Int64s] | None:
        """Return nodes for all pods in some slots, and what is taken of each; None: no room."""
        free = self._free[first:last].min(axis=0)
        taken = np.zeros_like(free)
        for demand in demands:
            most = _counts(free - taken, demand)
            if int(most.sum()) < demand.count:
                return None
            before = np.cumsum(most) - most
            here = np.clip(demand.count - before, 0, most)
            taken += here[:, np.newaxis] * demand.amounts
        used = np.flatnonzero(taken.any(axis=1))
        return used, taken[used]


def _counts(free: Int64s, demand: Demand) -> Int64s:
    """Return how many pods of a demand have room on each node, shape (..., nodes)."""
    found = np.full(free.shape[:-1], demand.count, dtype=np.int64)
    for place in np.flatnonzero(demand.amounts).tolist():
        found = np.minimum(found, free[..., place] // demand.amounts[place])
    return np.where(demand.rows, np.maximum(found, 0), 0)
