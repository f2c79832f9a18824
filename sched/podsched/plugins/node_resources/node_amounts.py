"""Arrays of allocatable, used and free cpu and memory of all rows, kept current from the journal.

Both plugins of this package share them, so a placed pod is applied only once.

**Why float64.** A division of int64 takes ten times as long as one of float64. The results are
equal within limits: for integers a < 2**53 and b < 2**45 with a quotient below 128, floor(a / b)
equals the floor of the float64 quotient. Rounding changes the quotient by at most 128 * 2**-53 =
2**-46, and a quotient that is not an integer is at least 1/b > 2**-45 below the next integer.

**Why all rows, both resources in one array.** To pick rows out of a column takes as long as five
passes over it.

Passes over a column per pod (an array of both resources counts twice):

    NodeResourcesFit Filter                 3, int64, and 4 of booleans
    NodeResourcesFit, LeastAllocated        12
    NodeResourcesBalancedAllocation         13
    the total, its best row                 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from podsched.api.quantity import MAX_INT64
from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import Int64s, JournaledColumns
from podsched.framework.plugin import MAX_NODE_SCORE
from podsched.framework.verdicts import FEW_ROWS, Rows

Floats = NDArray[np.float64]

#: From this amount on, divisions may be inexact.
MAX_ALLOCATABLE: Final = 2**45


class NodeAmounts:
    """Arrays over all rows, as of the last ``refresh``; the resources are cpu and memory.

    ``allocatable``, ``used`` (the pods' requests) and ``nonzero`` (with defaults for containers
    without requests) have shape ``(2, size)``; ``allocatable`` is 1 where there is no node.
    ``balance`` is ``balance_of`` without a further pod, of shape ``(size,)``. These four are
    valid only while ``exact`` is True: every node has both resources, and no amount is too large
    for float64.

    ``room`` is the free cpu, memory and number of pods, of shape ``(3, size)``, always valid;
    MAX_INT64 where there is no node.
    """

    def __init__(self) -> None:
        self._version: tuple[int, int] | None = None
        self._position = 0
        self.exact = False
        self.allocatable: Floats = np.ones((2, 0))
        self.used: Floats = np.ones((2, 0))
        self.nonzero: Floats = np.ones((2, 0))
        self.balance: Int64s = np.zeros(0, dtype=np.int64)
        self.room: Int64s = np.zeros((3, 0), dtype=np.int64)
        #: Lower bounds of ``room``: its minimums, or the minimums before room was freed.
        self._least = [MAX_INT64] * 3
        self._given_back = False

    def least(self) -> list[int]:
        """Return amounts of cpu, memory and pods that are free on every node.

        They may be lower than the true minimums. A pod that requests no more fits on all nodes, and
        most pods do: they need no pass over the rows.
        """
        return self._least

    def least_again(self) -> list[int]:
        """Return the true minimums, computed again if room was freed since the last call."""
        if self._given_back:
            self._least = _least(self.room)
            self._given_back = False
        return self._least

    def refresh(self, nodes: JournaledColumns) -> None:
        """Update all arrays; ``nodes`` must be the same object in each call."""
        position = nodes.position
        if position == self._position and self._version is not None:
            return  # The journal has changes of nodes, too.
        version = (nodes.nodes_version, nodes.size)
        changed = nodes.changed_since(self._position) if version == self._version else None
        if changed is None:
            self._read(nodes)
        elif len(changed) > FEW_ROWS or not self._take_few(nodes, changed.tolist()):
            self._take(nodes, changed)
        self._version, self._position = version, position

    def _read(self, nodes: JournaledColumns) -> None:
        """Compute all arrays from scratch."""
        allocatable = np.stack([nodes.allocatable(CPU), nodes.allocatable(MEMORY)])
        there = allocatable[:, nodes.alive]
        self.exact = bool((there > 0).all() and (there < MAX_ALLOCATABLE).all())
        self.allocatable = np.where(nodes.alive, allocatable, 1).astype(np.float64)
        self.used, self.nonzero = _used(nodes, slice(None))
        self._check(self.used, self.nonzero)
        self.room = _room(nodes, slice(None))
        self._least, self._given_back = _least(self.room), False
        self.balance = np.zeros(nodes.size, dtype=np.int64)
        if self.exact:
            self.balance = balance_of(self.allocatable, self.used)

    def _take(self, nodes: JournaledColumns, changed: Rows) -> None:
        """Update the changed rows of all arrays."""
        used, nonzero = _used(nodes, changed)
        self.used[:, changed], self.nonzero[:, changed] = used, nonzero
        self._check(used, nonzero)
        self.room[:, changed] = now = _room(nodes, changed)
        self._least = [min(pair) for pair in zip(self._least, _least(now), strict=True)]
        self._given_back = True
        if self.exact:
            self.balance[changed] = balance_of(self.allocatable.take(changed, 1), used)

    def _check(self, *amounts: Floats) -> None:
        """Set ``exact`` to False if an amount is too large, or negative after an overflow."""
        # Only ``_read`` sets it to True again: to do so here would take a pass over all rows.
        for some in amounts:
            if some.size and not (some.min() >= 0 and some.max() < MAX_ALLOCATABLE):
                self.exact = False

    def _take_few(self, nodes: JournaledColumns, rows: Sequence[int]) -> bool:
        """Update a few rows cell by cell; return False if a difference overflows int64.

        Then ``_take`` must update them: NumPy's differences wrap around. This method is called
        after every placed pod, and NumPy's calls would take several times as long.
        """
        alive, there = nodes.alive, (nodes.allocatable(CPU), nodes.allocatable(MEMORY))
        requested = (nodes.requested(CPU), nodes.requested(MEMORY))
        counted = (nodes.nonzero_requested(CPU), nodes.nonzero_requested(MEMORY))
        try:
            for row in rows:
                is_node = alive.item(row)
                for at in (0, 1):
                    self.used[at, row] = used = requested[at].item(row)
                    self.nonzero[at, row] = nonzero = counted[at].item(row)
                    if not (0 <= used < MAX_ALLOCATABLE and 0 <= nonzero < MAX_ALLOCATABLE):
                        self.exact = False
                    self._put_room(at, row, there[at].item(row) - used if is_node else MAX_INT64)
                pods = nodes.allowed_pod_number.item(row) - nodes.pod_count.item(row)
                self._put_room(2, row, pods if is_node else MAX_INT64)
                if self.exact:
                    self.balance[row] = self._balance_of_row(row)
        except OverflowError:
            return False
        return True

    def _put_room(self, at: int, row: int, free: int) -> None:
        """Set one cell of ``room``, and keep ``_least`` a lower bound."""
        room = self.room
        if free > room.item(at, row):
            self._given_back = True
        room[at, row] = free
        if free < self._least[at]:
            self._least[at] = free

    def _balance_of_row(self, row: int) -> int:
        first = min(self.used.item(0, row) / self.allocatable.item(0, row), 1.0)
        second = min(self.used.item(1, row) / self.allocatable.item(1, row), 1.0)
        return int((1.0 - abs((first - second) / 2)) * MAX_NODE_SCORE)


def balance_of(allocatable: Floats, used: Floats) -> Int64s:
    """Return (1 - standard deviation of the used shares) * 100 of two resources, in 11 passes.

    Arguments have shape ``(2, rows)``, the result ``(rows,)``.
    """
    shares = used / allocatable
    np.minimum(shares, 1.0, out=shares)
    deviation = shares[0]
    deviation -= shares[1]
    deviation /= 2
    np.abs(deviation, out=deviation)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    balance: Int64s = deviation.astype(np.int64)
    return balance


_by_nodes: WeakKeyDictionary[JournaledColumns, NodeAmounts] = WeakKeyDictionary()


class SharedAmounts:
    """A plugin's access to the ``NodeAmounts`` of a cluster's columns; plugins share the arrays."""

    def __init__(self) -> None:
        self._nodes: JournaledColumns | None = None
        self._amounts = NodeAmounts()

    def of(self, nodes: JournaledColumns) -> NodeAmounts:
        """Return the amounts of these columns, up to date."""
        if nodes is not self._nodes:
            self._nodes = nodes
            self._amounts = _by_nodes.setdefault(nodes, NodeAmounts())
        self._amounts.refresh(nodes)
        return self._amounts

    def known(self, nodes: object) -> NodeAmounts | None:
        """Return the amounts if ``of`` was last called with these columns; None for a fork."""
        return self.of(self._nodes) if self._nodes is not None and nodes is self._nodes else None


def exact_amounts(requests: Mapping[str, int]) -> Sequence[int] | None:
    """Return a pod's requests of cpu and memory; None if scores with them would not be exact."""
    wanted = requests.get(CPU, 0), requests.get(MEMORY, 0)
    return wanted if 0 <= min(wanted) <= max(wanted) < MAX_ALLOCATABLE else None


def _used(nodes: JournaledColumns, rows: Rows | slice) -> tuple[Floats, Floats]:
    """Return the requested and the non-zero requested amounts, each of shape ``(2, rows)``."""
    requested = [nodes.requested(name)[rows] for name in (CPU, MEMORY)]
    counted = [nodes.nonzero_requested(name)[rows] for name in (CPU, MEMORY)]
    return np.stack(requested, dtype=np.float64), np.stack(counted, dtype=np.float64)


def _least(room: Int64s) -> list[int]:
    least: list[int] = room.min(axis=1, initial=MAX_INT64).tolist()
    return least


def _room(nodes: JournaledColumns, rows: Rows | slice) -> Int64s:
    """Return the free cpu, memory and number of pods of the rows, shape ``(3, rows)``."""
    room = np.stack(
        [
            nodes.allocatable(CPU)[rows] - nodes.requested(CPU)[rows],
            nodes.allocatable(MEMORY)[rows] - nodes.requested(MEMORY)[rows],
            nodes.allowed_pod_number[rows] - nodes.pod_count[rows],
        ]
    )
    room[:, ~nodes.alive[rows]] = MAX_INT64
    return room
