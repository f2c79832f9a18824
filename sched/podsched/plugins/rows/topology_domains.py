"""Topology domains as columns: the domain of each row, and sums of counts over domains.

A domain is a value that some node has for the label of a topology key, such as a zone. Domains are
numbered 0, 1, ... until the topology changes. So adding counts up per domain and giving each row
the sum of its domain are two NumPy steps. The numbers of different ``Domains`` cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsched.framework.nodes import ABSENT, Bools, Int64s, NodeColumns


@dataclass(frozen=True)
class Domains:
    """The domains of one key. Arrays over rows have shape ``(size,)``.

    ``ids``: the row's domain, 0 to ``count`` - 1; ``count`` if the node lacks the label or the row
    has no node. ``present``: whether the row has a domain. ``empty``: the domain of the value "",
    ``count`` if no node has it. ``single``: no domain has two nodes, as for kubernetes.io/hostname;
    then sums are the counts themselves.
    """

    ids: NDArray[np.intp]
    present: Bools
    count: int
    empty: int
    single: bool

    def sums(self, counts: Int64s) -> Int64s:
        """Return the sum of counts per domain, shape ``(count + 1,)``.

        The last cell is for rows without a domain.
        """
        if self.single:
            result = np.zeros(self.count + 1, dtype=np.int64)
            result[self.ids[self.present]] = counts[self.present]
            return result
        # Through float64, exact below 2**53: several times as fast as np.add.at.
        return np.bincount(self.ids, counts, self.count + 1).astype(np.int64)

    def spread(self, counts: Int64s) -> Int64s:
        """Return for each row the sum of counts over its domain, shape ``(size,)``.

        It is 0 for rows without a domain.
        """
        if self.single:
            return np.where(self.present, counts, 0)
        sums = self.sums(counts)
        sums[self.count] = 0
        return sums[self.ids]

    def covers(self, alive: Bools) -> bool:
        """Return whether all nodes are in one domain."""
        return self.count == 1 and bool(np.array_equal(self.present, alive))

    def absent_as_empty(self) -> Domains:
        """Return domains in which rows without the label belong to the domain of the value ""."""
        if self.empty == self.count:
            return self
        ids = np.where(self.present, self.ids, self.empty)
        return Domains(ids, self.present, self.count, self.empty, single=False)

    def having(self, rows: Bools) -> Bools:
        """Return for each domain whether it has one of the rows, shape ``(count + 1,)``."""
        result = np.zeros(self.count + 1, dtype=np.bool_)
        result[self.ids[rows]] = True
        result[self.count] = False
        return result


class TopologyDomains:
    """The domains of topology keys, kept as long as ``topology_version`` stays."""

    def __init__(self) -> None:
        self._nodes: NodeColumns | None = None
        self._version: tuple[int, int] | None = None
        self._domains: dict[str, Domains] = {}

    def of(self, nodes: NodeColumns, key: str) -> Domains:
        """Return the domains of a key among the nodes (a fork's are its base's)."""
        nodes = nodes.base
        version = (nodes.topology_version, nodes.size)
        if self._nodes is not nodes or self._version != version:
            self._nodes, self._version = nodes, version
            self._domains.clear()
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = _domains(nodes, key)
        return found


def _domains(nodes: NodeColumns, key: str) -> Domains:
    labels = nodes.label(key)
    present = nodes.alive & (labels != ABSENT)
    values = labels[present]
    seen = np.zeros(int(values.max(initial=-1)) + 1, dtype=np.bool_)
    seen[values] = True
    count = int(np.count_nonzero(seen))
    ids = np.full(len(labels), count, dtype=np.intp)
    numbers = np.cumsum(seen) - 1
    ids[present] = numbers[values]
    value = nodes.value_id("")
    empty = int(numbers[value]) if 0 <= value < len(seen) and seen[value] else count
    return Domains(ids, present, count, empty, single=count == len(values))
