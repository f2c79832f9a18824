"""What is used and free of a few resources, over all rows, kept current from the journal.

Scores of all rows are computed in float64, several resources in one array, where that is exact: a
division of int64 takes ten times as long, and picking rows out of a column as long as five passes
over it. floor(a / b) of integers is that of their float64 quotient q while a < 2**53, b < 2**45 and
q < 128: q is off by at most 2**-46, and a quotient that is no integer is 1/b from the next one.

Passes over a column per pod, with two resources (an array of both counts twice):

    NodeResourcesFit Filter                 3, int64, and 4 of booleans
    NodeResourcesFit, LeastAllocated        12
    NodeResourcesBalancedAllocation         13
    the total, its best row                 3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.quantity import MAX_INT64
from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import Int64s, JournaledColumns, NodeColumns
from podsched.framework.verdicts import Rows

Floats = NDArray[np.float64]

#: From here on divisions are not exact any more.
MAX_ALLOCATABLE: Final = 2**45
#: Rows up to which one cell after another is faster than NumPy, which takes 1 us per call.
FEW_ROWS: Final = 4


@dataclass(slots=True)
class Amounts:
    """Arrays of shape ``(resources, size)``; ``allocatable`` is 1 where there is no node.

    ``exact``: every node has each of the resources, and no amount is too large for float64.
    """

    allocatable: Floats
    used: Floats
    exact: bool

    def at(self, rows: Rows) -> Amounts:
        """Return the amounts of these rows."""
        # ``take`` needs a fifth of the time that ``[:, rows]`` does.
        return Amounts(self.allocatable.take(rows, 1), self.used.take(rows, 1), self.exact)


class ResourceAmounts:
    """The amounts of the same resources for one plugin; ``nonzero`` as for ``resource_columns``."""

    def __init__(self, resources: Sequence[str], nonzero: Sequence[str] = ()) -> None:
        self._resources = tuple(resources)
        self._nonzero = frozenset(nonzero)
        self._nodes: JournaledColumns | None = None
        self._nodes_version = 0
        self._position = 0
        self._amounts = Amounts(np.ones((0, 0)), np.ones((0, 0)), exact=False)

    def refresh(self, nodes: JournaledColumns) -> tuple[Amounts, Rows | None]:
        """Return the amounts as they are now, and the rows that changed; None for all."""
        changed = None
        if self._nodes is nodes and self._amounts.used.shape[1] == nodes.size:
            changed = nodes.changed_since(self._position)
        if changed is not None and nodes.nodes_version == self._nodes_version:
            if len(changed):
                self._take(nodes, changed)
        else:
            changed = None
            self._read(nodes)
        self._nodes, self._position = nodes, nodes.position
        self._nodes_version = nodes.nodes_version
        return self._amounts, changed

    def knows(self, nodes: NodeColumns) -> JournaledColumns | None:
        """Return the columns if they are those of the last ``refresh``, and no fork of them."""
        return self._nodes if nodes is self._nodes else None

    def _take(self, nodes: JournaledColumns, changed: Rows) -> None:
        amounts = self._amounts
        for used, name in zip(amounts.used, self._resources, strict=True):
            column = self._used(nodes, name)
            if len(changed) > FEW_ROWS:
                used[changed] = column[changed]
                self._check(used[changed])
                continue
            for row in changed.tolist():
                used[row] = amount = column.item(row)
                if not 0 <= amount < MAX_ALLOCATABLE:
                    amounts.exact = False

    def _used(self, nodes: JournaledColumns, name: str) -> NDArray[np.int64]:
        return nodes.nonzero_requested(name) if name in self._nonzero else nodes.requested(name)

    def _read(self, nodes: JournaledColumns) -> None:
        allocatable = np.stack([nodes.allocatable(name) for name in self._resources])
        used = np.stack([self._used(nodes, name) for name in self._resources])
        there = allocatable[:, nodes.alive]
        exact = bool((there > 0).all() and (there < MAX_ALLOCATABLE).all())
        floats = np.where(nodes.alive, allocatable, 1).astype(np.float64)
        self._amounts = Amounts(floats, used.astype(np.float64), exact)
        self._check(self._amounts.used)

    def _check(self, used: Floats) -> None:
        """Overdrawn nodes and sums that wrapped around are left to integers."""
        if used.size and not (used.min() >= 0 and used.max() < MAX_ALLOCATABLE):
            self._amounts.exact = False


class FreeRoom:
    """What nodes have left of cpu, memory and pods, kept current from the journal."""

    def __init__(self) -> None:
        self._nodes: JournaledColumns | None = None
        self._version: tuple[int, int] = (0, 0)
        self._position = 0
        self._room: Int64s = np.zeros((3, 0), dtype=np.int64)
        #: No node has less: the least of each, or what was the least before room was given back.
        self._least = [MAX_INT64] * 3
        self._given_back = False

    def least(self) -> list[int]:
        """Return, as of ``refresh``, amounts of cpu, memory and pods that every node has left.

        So most pods are known to fit the rows that changed without a look at these. The smallest
        amounts are looked for again only after room was given back.
        """
        return self._least

    def least_again(self) -> list[int]:
        """Do the same in a pass over all rows, if room was given back since the last."""
        if self._given_back:
            self._least = _least(self._room)
            self._given_back = False
        return self._least

    def refresh(self, nodes: JournaledColumns) -> Int64s:
        """Return it as it is now, of shape ``(3, size)``; MAX_INT64 where there is no node."""
        version = (nodes.nodes_version, nodes.size)
        changed = None
        if self._nodes is nodes and self._version == version:
            changed = nodes.changed_since(self._position)
        if changed is None:
            self._room = _room(nodes, slice(None))
            self._least, self._given_back = _least(self._room), False
        elif len(changed) > FEW_ROWS or not self._take(nodes, changed):
            self._room[:, changed] = now = _room(nodes, changed)
            self._least = [min(pair) for pair in zip(self._least, _least(now), strict=True)]
            self._given_back = True
        self._nodes, self._version, self._position = nodes, version, nodes.position
        return self._room

    def knows(self, nodes: NodeColumns) -> JournaledColumns | None:
        """Return the columns if they are those of the last ``refresh``, and no fork of them."""
        return self._nodes if nodes is self._nodes else None

    def _take(self, nodes: JournaledColumns, changed: Rows) -> bool:
        """Read a few rows; False if that cannot be done without a sum that wraps around."""
        amounts, alive, least = _amounts_of(nodes), nodes.alive, self._least
        try:
            for row in changed.tolist():
                is_node = alive.item(row)
                for at, (there, taken) in enumerate(amounts):
                    free = there.item(row) - taken.item(row) if is_node else MAX_INT64
                    if free > self._room.item(at, row):
                        self._given_back = True
                    self._room[at, row] = free
                    if free < least[at]:
                        least[at] = free
        except OverflowError:
            return False
        return True


def _amounts_of(nodes: JournaledColumns) -> Sequence[tuple[Int64s, Int64s]]:
    """Return what there is and what is taken of cpu, memory and pods."""
    return (
        (nodes.allocatable(CPU), nodes.requested(CPU)),
        (nodes.allocatable(MEMORY), nodes.requested(MEMORY)),
        (nodes.allowed_pod_number, nodes.pod_count),
    )


def _least(room: Int64s) -> list[int]:
    least: list[int] = room.min(axis=1, initial=MAX_INT64).tolist()
    return least


def _room(nodes: JournaledColumns, rows: Rows | slice) -> Int64s:
    room = np.stack([there[rows] - taken[rows] for there, taken in _amounts_of(nodes)])
    room[:, ~nodes.alive[rows]] = MAX_INT64
    return room
