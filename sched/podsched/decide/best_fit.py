"""Which domains of a Topology the members of a group fill, if all members are alike.

One domain of the level that is asked for takes all of them: the smallest that is large enough. If
none is, and the level is only preferred, the levels above are tried, and at the top the largest
domains are taken until there is room for all. Then down level by level: of the children of the
chosen domains the largest are taken, and as the last one the smallest that is large enough. Without
a level it is the other way round: the smallest domains come first.

Source: Kueue 0.20, pkg/cache/scheduler/tas_flavor_snapshot.go; equals ``queues.domains.place`` of
one pod set without slices (property test), in passes over arrays: a cluster has 10,000 hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from podsched.framework.nodes import ABSENT, Bools, Int64s, NodeColumns
from podsched.framework.verdicts import Rows

#: Max sets of nodes' names of which the rows are kept.
_MOST_KEPT: Final = 16


class Part(NamedTuple):
    """Nodes, and how many members they take together."""

    node_names: frozenset[str]
    members: int


class Filled(NamedTuple):
    """What takes the members, nothing if there is too little room; and how many have room."""

    parts: Sequence[Part]
    fitting: int


class Domains:
    """The domains of nodes by the labels of levels, the widest first.

    Nodes without one of the labels are in no domain.
    """

    def __init__(self, nodes: NodeColumns, levels: Sequence[str]) -> None:
        columns = np.stack([nodes.label(label) for label in levels])
        self._nodes = nodes
        self._names = nodes.names
        #: By names of nodes, kept because a flavor may have 10,000 nodes.
        self._among: dict[frozenset[str], Bools] = {}
        self._rows = np.flatnonzero(nodes.alive & (columns != ABSENT).all(axis=0))
        #: By level, the domain of each of the rows, and the domain above each domain. Domains are
        #: numbered in the order of their values.
        self._of_rows: list[Rows] = []
        self._parents: list[Rows] = []
        above = np.zeros(len(self._rows), dtype=np.intp)
        for column in columns:
            ids, which = np.unique(column[self._rows], return_inverse=True)
            order = sorted(range(len(ids)), key=[nodes.value(i) for i in ids.tolist()].__getitem__)
            places = np.empty(len(ids), dtype=np.intp)
            places[order] = np.arange(len(ids))
            known, above = np.unique(above * len(ids) + places[which], return_inverse=True)
            self._of_rows.append(above)
            self._parents.append(known // max(1, len(ids)))

    def fill(
        self, room: Int64s, needed: int, most: int, level: int | None, *, required: bool
    ) -> Filled:
        """Return what takes as many members as possible; nothing if fewer than ``needed`` fit.

        ``room``: how many members fit on each row, shape ``(nodes.size,)``. ``level``: the one that
        is asked for, None for none; ``required``: none above will do.
        """
        sizes = [
            np.bincount(of_rows, weights=room[self._rows], minlength=len(parents)).astype(np.int64)
            for of_rows, parents in zip(self._of_rows, self._parents, strict=True)
        ]
        last = len(sizes) - 1
        at = last if level is None else level
        fitting = int(sizes[at].max(initial=0) if required else sizes[at].sum())
        count = min(most, fitting)
        if count < max(1, needed):
            return Filled((), fitting)
        while level is not None and not required and at and sizes[at].max() < count:
            at -= 1
        chosen = _take(sizes[at], np.arange(len(sizes[at])), count, ascending=level is None)
        while at < last:
            at += 1
            below = np.flatnonzero(np.isin(self._parents[at], chosen))
            chosen = _take(sizes[at], below, count, ascending=level is None)
        return Filled(self._parts(sizes[last], chosen, count), fitting)

    def are_among(self, names: frozenset[str]) -> Bools:
        """Return which rows have one of these names, shape ``(nodes.size,)``."""
        found = self._among.get(names)
        if found is None:
            found = np.zeros(self._nodes.size, dtype=np.bool_)
            rows = map(self._nodes.row_of, names)
            found[[row for row in rows if row is not None]] = True
            if len(self._among) >= _MOST_KEPT:
                self._among.clear()
            self._among[names] = found
        return found

    def _parts(self, sizes: Int64s, chosen: Sequence[int], count: int) -> list[Part]:
        """Return the nodes of the lowest domains: all of them are filled, perhaps but the last."""
        full, left = list(chosen[:-1]), count - int(sizes[list(chosen[:-1])].sum())
        if left == sizes[chosen[-1]]:
            return [Part(self._nodes_of(chosen), count)]
        parts = [Part(self._nodes_of(full), count - left)] if full else []
        return [*parts, Part(self._nodes_of(chosen[-1:]), left)]

    def _nodes_of(self, domains: Sequence[int]) -> frozenset[str]:
        rows = self._rows[np.isin(self._of_rows[-1], domains)]
        return frozenset(self._names[row] for row in rows.tolist())


def _take(sizes: Int64s, among: Rows, count: int, *, ascending: bool) -> list[int]:
    """Return the domains to fill, in order, until there is room for all; the last is a best fit."""
    among = among[sizes[among] > 0]
    order = among[np.lexsort((among, sizes[among] if ascending else -sizes[among]))]
    one = order[sizes[order] >= count]
    if ascending and len(one):
        return [int(one[0])]
    chosen: list[int] = []
    for place, domain in enumerate(order.tolist()):
        if not ascending and sizes[domain] >= count:
            fitting = order[place:][sizes[order[place:]] >= count]
            return [*chosen, int(fitting[np.argmin(sizes[fitting])])]
        chosen.append(domain)
        count -= int(sizes[domain])
        if count <= 0:
            break
    return chosen
