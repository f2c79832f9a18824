"""Choose the domains of a Topology for those members of a group that are alike.

* **The requested level.** The smallest domain of this level that has room for all members is
  chosen. If none has, and the level is only preferred, the levels above are tried. At the top level
  the largest domains are chosen until all members have room.
* **The levels below**, one after another. Of the children of the chosen domains, the largest are
  chosen until all members have room. The last one is the smallest child that takes the rest.
* **Without a requested level** the smallest domains are chosen first instead, from the lowest level
  on; with slices, from the top level on.
* **With slices**, room is counted in whole slices, down to the level of the slices: one domain of
  this level takes each slice. Below it, each domain divides its members among its own children.

Source: Kueue 0.20, pkg/cache/scheduler/tas_flavor_snapshot.go. A property test compares this module
with ``queues.domains.place`` for one pod set. This module computes with arrays, because a cluster
may have 10,000 hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from podsched.framework.nodes import ABSENT, Bools, Int64s, NodeColumns
from podsched.framework.verdicts import Rows

#: Max sets of node names whose rows are kept.
_MOST_KEPT: Final = 16


class Part(NamedTuple):
    """Nodes, and how many members they take together."""

    node_names: frozenset[str]
    members: int


class Filled(NamedTuple):
    """The parts that take the members, empty if there is too little room.

    ``fitting``: how many slices have room, or how many members if there are no slices.
    """

    parts: Sequence[Part]
    fitting: int


class Slices(NamedTuple):
    """Members divided into slices. One domain of a level takes each slice.

    ``layers``: levels and sizes, the widest level first; slices of the next layer divide those of
    the one before. The last slice may have fewer members. ``held``: how many members already run on
    each row, shape ``(nodes.size,)``. New members first complete the slices that these have begun.
    """

    layers: Sequence[tuple[int, int]]
    held: Int64s

    def inner(self) -> dict[int, int]:
        """Return the size of slices by level, below the level of the widest ones."""
        found, above = dict[int, int](), self.layers[0][0]
        for level, size in self.layers[1:]:
            found |= dict.fromkeys(range(above + 1, level + 1), size)
            above = level
        return found


#: A domain of some level, and how many members or slices it takes.
_Taken = tuple[int, int]


class Domains:
    """The domains of nodes by the labels of levels, the widest first.

    Nodes without one of the labels are in no domain.
    """

    def __init__(self, nodes: NodeColumns, levels: Sequence[str]) -> None:
        columns = np.stack([nodes.label(label) for label in levels])
        self._nodes = nodes
        #: A copy: ``holding`` may go on after other nodes have got the rows of removed ones.
        self._names = list(nodes.names)
        #: Results of ``are_among``, kept because a flavor may have 10,000 nodes.
        self._among: dict[frozenset[str], Bools] = {}
        self._rows = np.flatnonzero(nodes.alive & (columns != ABSENT).all(axis=0))
        #: By level, the domain of each of the rows, and the domain above each domain. Domains are
        #: numbered in the order of their values, by which Kueue breaks ties.
        self._of_rows: list[Rows] = []
        self._parents: list[Rows] = []
        above = np.zeros(len(self._rows), dtype=np.intp)
        for column in columns:
            ids, which = np.unique(column[self._rows], return_inverse=True)
            order = sorted(range(len(ids)), key=[nodes.value(i) for i in ids.tolist()].__getitem__)
            places = np.empty(len(ids), dtype=np.intp)
            places[order] = np.arange(len(ids))
            # A domain is a pair, the domain above and its own value, encoded as one number: its
            # quotient is the domain above.
            known, above = np.unique(above * len(ids) + places[which], return_inverse=True)
            self._of_rows.append(above)
            self._parents.append(known // max(1, len(ids)))

    def fill(
        self,
        room: Int64s,
        needed: int,
        most: int,
        level: int | None,
        *,
        required: bool,
        slices: Slices | None = None,
    ) -> Filled:
        """Return parts for as many members as possible; none if fewer than ``needed`` fit.

        ``room``: how many members fit on each row, shape ``(nodes.size,)``. ``most``: the number of
        members. ``level``: the requested level, or None. ``required``: the levels above it are not
        allowed.
        """
        last, ascending = len(self._parents) - 1, level is None
        outer, size = (last, 1) if slices is None else slices.layers[0]
        inner = {} if slices is None else slices.inner()
        sizes = self._sums(self._by_domain(room, last), last, inner)
        late, gaps = ([], 0) if slices is None else self._complete(slices, sizes, most, inner)
        done = sum(members for _, members in late)
        # Domains down to the slices' level are compared by whole slices: one with much room may be
        # unable to take a slice, because the domains below it are too small.
        whole = sizes if slices is None else self._sums(sizes[outer] // size, outer)
        at = level if level is not None else 0 if slices else last
        # A required level means that one domain takes all members.
        fitting = int(whole[at].max(initial=0) if required else whole[at].sum())
        # Members that complete a slice cannot go elsewhere, even if their domain has no room now.
        count = min(max(0, most - gaps), fitting * size)
        if done + count < max(1, needed):
            return Filled((), (done + count) // size)
        # Whole slices, rounded up: the last one may have fewer members, and takes the room of one.
        need = -(-count // size)
        while level is not None and not required and at and whole[at].max() < need:
            at -= 1
        order = _sorted(whole[at], sizes[at], np.arange(len(whole[at])), ascending=ascending)
        fits = order[whole[at][order] >= need]
        if ascending and len(fits):
            # One domain for all members is better than several smaller ones.
            order = fits[:1]
        chosen = _take(whole[at], order, need, best_fit=not ascending)
        while at < outer:
            at += 1
            below = np.flatnonzero(np.isin(self._parents[at], [domain for domain, _ in chosen]))
            order = _sorted(whole[at], sizes[at], below, ascending=ascending)
            chosen = _take(whole[at], order, need, best_fit=not ascending)
        new = _members(chosen, size, count)
        new = self._down(sizes, outer, new, inner, best_fit=not ascending)
        completing = [Part(self._nodes_of([domain]), members) for domain, members in late]
        parts = [*completing, *self._parts(sizes[last], new)]
        return Filled(parts, (done + count) // size)

    def holding(
        self, rooms: Sequence[Int64s], counts: Sequence[int], level: int, needed: int
    ) -> Iterator[frozenset[str]]:
        """Yield the nodes of each domain with room for ``needed`` members of several shapes.

        ``rooms``: by shape, how many fit on each row; ``counts``: how many there are. The domain
        with room for most members comes first; of equal ones that with the least room for the most
        numerous shape.
        """
        sums = [self._by_domain(room, level) for room in rooms]
        most = [np.minimum(have, count) for have, count in zip(sums, counts, strict=True)]
        fitting: Int64s = np.add.reduce(most)
        found = np.flatnonzero(fitting >= needed)
        largest = sums[int(np.argmax(counts))]
        for domain in found[np.lexsort((largest[found], -fitting[found]))].tolist():
            yield self._nodes_of([domain], level)

    def _complete(
        self, slices: Slices, sizes: list[Int64s], most: int, inner: Mapping[int, int]
    ) -> tuple[list[_Taken], int]:
        """Return the lowest domains that complete slices, and how many members slices lack.

        Their members are subtracted from ``sizes``. The slices of the narrowest level come first.
        """
        late: list[_Taken] = []
        lacking, last = 0, len(sizes) - 1
        lower, gaps = last, np.zeros_like(sizes[last])
        for level, size in reversed(slices.layers):
            # Once narrower slices are complete, they count as parts of the wider ones.
            gaps = self._sums(gaps, lower)[level]
            lack = -(self._by_domain(slices.held, level) + gaps) % size
            gaps, lower, lacking = gaps + lack, level, lacking + int(lack.sum())
            taken: list[_Taken] = []
            for domain in np.flatnonzero(lack).tolist():
                members = min(int(lack[domain]), most, int(sizes[level][domain]))
                if members:
                    taken += self._down(sizes, level, [(domain, members)], inner, best_fit=True)
                    most -= members
            for domain, members in taken:
                sizes[last][domain] -= members
            if taken:  # New slices get the room that is left.
                sizes[:] = self._sums(sizes[last], last, inner)
            late += taken
        return late, lacking

    def _down(
        self,
        sizes: Sequence[Int64s],
        outer: int,
        taken: list[_Taken],
        inner: Mapping[int, int],
        *,
        best_fit: bool,
    ) -> list[_Taken]:
        """Divide the members of domains of the slices' level among their lowest domains."""
        for level in range(outer + 1, len(sizes)):
            room, parents, size = sizes[level], self._parents[level], inner.get(level, 1)
            above, taken = taken, []
            for domain, members in above:
                # Domains are sorted by the domain above them.
                children = np.arange(*np.searchsorted(parents, [domain, domain + 1]))
                # As in Kueue, the smallest child comes first here.
                order = _sorted(room, room, children, ascending=True)
                need = -(-members // size)
                found = _take(room // size, order, need, best_fit=best_fit)
                taken += _members(found, size, members)
        return taken

    def _by_domain(self, numbers: Int64s, level: int) -> Int64s:
        """Return the sum of the rows' numbers for each domain of a level."""
        found = np.bincount(
            self._of_rows[level], numbers[self._rows], minlength=len(self._parents[level])
        )
        return found.astype(np.int64)

    def _sums(
        self, numbers: Int64s, level: int, inner: Mapping[int, int] | None = None
    ) -> list[Int64s]:
        """Return the sums of a level's numbers for each domain of this level and those above.

        ``inner``: the size of slices by level; there, only whole slices count for the level above.
        """
        found = [numbers]
        for above in range(level, 0, -1):
            length, size = len(self._parents[above - 1]), (inner or {}).get(above, 1)
            sums = np.bincount(self._parents[above], found[0] // size * size, minlength=length)
            found.insert(0, sums.astype(np.int64))
        return found

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

    def _parts(self, sizes: Int64s, taken: Sequence[_Taken]) -> list[Part]:
        """Return one part for all full domains of the lowest level, and one for each other."""
        full = [domain for domain, members in taken if members == sizes[domain]]
        parts = [Part(self._nodes_of(full), int(sizes[full].sum()))] if full else []
        rest = [one for one in taken if one[1] < sizes[one[0]]]
        return [*parts, *(Part(self._nodes_of([domain]), members) for domain, members in rest)]

    def _nodes_of(self, domains: Sequence[int], level: int = -1) -> frozenset[str]:
        rows = self._rows[np.isin(self._of_rows[level], domains)]
        return frozenset(self._names[row] for row in rows.tolist())


def _members(taken: Sequence[_Taken], size: int, count: int) -> list[_Taken]:
    """Return ``count`` members in place of slices of ``size``; the last slice may have fewer."""
    found = [(domain, number * size) for domain, number in taken]
    if found:
        domain, number = found[-1]
        found[-1] = domain, number - max(0, sum(of for _, of in found) - count)
    return found


def _sorted(room: Int64s, sizes: Int64s, among: Rows, *, ascending: bool) -> Rows:
    """Return domains with room, the most first (``ascending``: the least); of equals by size."""
    among = among[room[among] > 0]
    order: Rows = among[np.lexsort((among, sizes[among], room[among] * (1 if ascending else -1)))]
    return order


def _take(room: Int64s, order: Rows, count: int, *, best_fit: bool) -> list[_Taken]:
    """Return the first domains, in order, that together have room for ``count``.

    ``best_fit``: the last one is not the next in order, but the smallest with room for the rest.
    """
    taken: list[_Taken] = []
    for place, domain in enumerate(order.tolist()):
        if count <= 0:
            break
        if best_fit and room[domain] >= count:
            fitting = order[place:][room[order[place:]] >= count]
            domain = int(fitting[np.argmin(room[fitting])])
        members = min(count, int(room[domain]))
        taken.append((domain, members))
        count -= members
    return taken
