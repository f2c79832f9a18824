"""Used and free quota over time, as far as the ends of units are known.

A slot begins wherever a unit begins or ends, and the last slot has no end::

    times  now ------- 60 ------- 300 ------> for ever
    usage   6           2          0            of each ClusterQueue, flavor and resource

The arithmetic is that of ``quota.Node``, on arrays with one element for each slot. Quotas beyond
``MOST`` count as this many: a quota may be 2^63 - 1 ("no limit"), and a cohort has the sum of its
queues' quotas, which int64 cannot hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from podsched.queues.quota import NO_QUOTA, Amounts, FlavorResource, Forest, Node

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]

MOST: Final = 2**60


class Profile:
    """The usage of all ClusterQueues in each slot. Times are seconds."""

    def __init__(self, now: float, forest: Forest, splits: Iterable[float] = ()) -> None:
        """Begin without usage.

        ``splits``: times at which units are known to begin or end. Others are added when needed,
        but each then copies all arrays.
        """
        later = np.array(sorted({at for at in splits if now < at < np.inf}), dtype=np.float64)
        self.times: Float64s = np.concatenate((np.array([now], dtype=np.float64), later))
        """The beginnings of the slots, shape (slots,), ascending; the first is now."""
        self._forest = forest
        self._usage: dict[tuple[str, FlavorResource], Int64s] = {}
        #: Usage of cohorts, computed when needed.
        self._of_cohorts: dict[tuple[str, FlavorResource], Int64s] = {}

    @property
    def now(self) -> float:
        return float(self.times[0])

    # ------------------------------------------------------------------ what is taken

    def occupy(self, queue: str, usage: Amounts, start: float, end: float) -> None:
        """Add the usage of a unit from ``start`` until ``end``."""
        self._count(queue, usage, start, end, 1)

    def release(self, queue: str, usage: Amounts, start: float, end: float) -> None:
        """Subtract the usage of a unit from ``start`` until ``end``."""
        self._count(queue, usage, start, end, -1)

    def _count(self, queue: str, usage: Amounts, start: float, end: float, sign: int) -> None:
        first, last = self._split(start), self._split(end)
        for key, amount in usage.items():
            if not amount:
                continue
            column = self._usage.get((queue, key))
            if column is None:
                column = np.zeros(len(self.times), dtype=np.int64)
                self._usage[queue, key] = column
            column[first:last] += sign * amount
            node = self._forest.queues.get(queue)
            for above in () if node is None else node.ancestors:
                self._of_cohorts.pop((above.name, key), None)

    def _split(self, at: float) -> int:
        """Return the index of the slot that begins at a time; split a slot if there is none."""
        if at <= self.now:
            return 0
        if at == np.inf:
            return len(self.times)
        place = int(np.searchsorted(self.times, at))
        if place == len(self.times) or self.times[place] != at:
            self.times = np.insert(self.times, place, at)
            for columns in (self._usage, self._of_cohorts):
                for key, column in columns.items():
                    columns[key] = np.insert(column, place, column[place - 1])
        return place

    # ------------------------------------------------------------------ what is free

    def available(self, queue: str, key: FlavorResource) -> Int64s:
        """Return the amounts that a ClusterQueue may use in addition, shape (slots,)."""
        line = [self._forest.queues[queue], *self._forest.queues[queue].ancestors]
        top = line[-1]
        free: Int64s = min(top.quota.get(key, 0), MOST) - self._usage_of(top, key)
        for node in line[-2::-1]:
            local, usage = min(node.local(key), MOST), self._usage_of(node, key)
            limit = node.quotas.get(key, NO_QUOTA).borrowing_limit
            if limit is not None:
                may_borrow = min(node.quota.get(key, 0) - local + limit, MOST)
                free = np.minimum(free, may_borrow - np.maximum(0, usage - local))
            free = np.minimum(free + np.maximum(0, local - usage), MOST)
        return np.maximum(0, free)

    def _usage_of(self, node: Node, key: FlavorResource) -> Int64s:
        """Return the usage of a ClusterQueue or a cohort, shape (slots,)."""
        none = np.zeros(len(self.times), dtype=np.int64)
        # Without recursion, since trees may have any depth: this list grows while it is read.
        unknown = self._unknown([node], key)
        for cohort in unknown:
            unknown += self._unknown(cohort.children, key)
        for cohort in reversed(unknown):
            found = none
            for child in cohort.children:
                usage = self._columns(child).get((child.name, key), none)
                found = found + np.maximum(0, usage - min(child.local(key), MOST))
            self._of_cohorts[cohort.name, key] = found
        return self._columns(node).get((node.name, key), none)

    def _unknown(self, nodes: Iterable[Node], key: FlavorResource) -> list[Node]:
        """Return the cohorts whose usage has not been computed since it changed."""
        return [n for n in nodes if n.is_cohort and (n.name, key) not in self._of_cohorts]

    def _columns(self, node: Node) -> dict[tuple[str, FlavorResource], Int64s]:
        return self._of_cohorts if node.is_cohort else self._usage

    def shortage(
        self, queue: str, usage: Amounts, until: float
    ) -> tuple[float, FlavorResource] | None:
        """Return when, and of what, quota is short first from now ``until`` a time.

        None if quota has room for the usage all the time.
        """
        last = int(np.searchsorted(self.times, until))
        found = []
        for key, amount in usage.items():
            short = np.flatnonzero(self.available(queue, key)[:last] < amount)
            if amount and len(short):
                found.append((float(self.times[short[0]]), key))
        return min(found, default=None)

    def starts(self, queue: str, usage: Amounts, seconds: float) -> list[float]:
        """Return the slot beginnings from which on quota has room for ``seconds`` without a break.

        Times within a slot need not be tried: they have no more room than its beginning.
        """
        room = np.full(len(self.times), queue in self._forest.queues, dtype=np.bool_)
        for key, amount in usage.items():
            if amount and room.any():
                room &= self.available(queue, key) >= amount
        ends = np.searchsorted(self.times, self.times + seconds)
        ends = np.maximum(ends, np.arange(len(self.times)) + 1)
        # ``lacking[i]`` counts the slots before i without room: there is none from i to ``ends[i]``
        # if both counts are equal.
        lacking = np.concatenate(([0], np.cumsum(~room)))
        found: list[float] = self.times[lacking[ends] == lacking[:-1]].tolist()
        return found
