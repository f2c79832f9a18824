"""The counter of one query: how many pods of each row match it; and counters of affinity terms."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from podsched.api.quantity import as_int64
from podsched.cache.column import Column
from podsched.cache.versions import Versions
from podsched.framework.nodes import Int64s, PodQuery, TermFamily
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows

#: Max groupings of rows for which a counter keeps sums.
MAX_SUMS = 4


class PodCounter:
    """The sum of a query's counts over the pods of each row.

    ``version`` changes with every change of a count (``versions``); ``last_use`` is the
    latest version when the counter was last used.
    """

    __slots__ = ("_sums", "column", "last_use", "query", "reads_requests", "version")

    def __init__(self, query: PodQuery, size: int, version: int) -> None:
        self.query = query
        self.reads_requests = reads_requests(query)
        self.column = Column(np.int64, size)
        self.version = version
        self.last_use = version
        #: Groups of rows and the sums over them; a query has few, one per topology key.
        self._sums: list[tuple[Rows, Int64s]] = []

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        # These groupings have the old number of rows, so no caller passes them again.
        self._sums.clear()
        self.column.grow(size)

    def sums(self, groups: Rows, number: int) -> Int64s:
        """Return the sums of the counts over groups of rows, shape ``(number,)``.

        See ``JournaledColumns.counter_sums``. The last ``MAX_SUMS`` groupings are kept current by
        ``add``, so that topology spreading needs no pass over all rows per pod. Groupings are
        compared by identity, because comparing their content would be such a pass.
        """
        for known, sums in self._sums:
            # A copy, because ``add`` changes the kept sums.
            if known is groups:
                return sums.copy()
        # ``bincount`` sums in float64 (exact below 2**53), several times as fast as np.add.at.
        sums = np.bincount(groups, self.column.array, number).astype(np.int64)
        self._sums = [(groups, sums), *self._sums[: MAX_SUMS - 1]]
        return sums.copy()

    def add(self, row: int, change: int) -> None:
        """Add to the count of a row."""
        cells = self.column.cells
        try:
            cells[row] += change
        except ValueError:
            cells[row] = as_int64(cells[row] + change)
        for groups, sums in self._sums:
            sums[groups.item(row)] += change

    def add_to_each(self, rows: Rows, change: int) -> None:
        """Add to the counts of several distinct rows."""
        self.column.array[rows] += change
        for groups, sums in self._sums:
            sums += change * np.bincount(groups[rows], minlength=len(sums))


class CounterTable:
    """The counters by query, each with a count for every row."""

    __slots__ = ("of", "size", "versions")

    def __init__(self, size: int, versions: Versions) -> None:
        self.of: dict[PodQuery, PodCounter] = {}
        self.size = size
        self.versions = versions

    def create(self, query: PodQuery) -> PodCounter:
        """Add the counter of a query, with a new version; it is 0 on all rows."""
        counter = self.of[query] = PodCounter(query, self.size, self.versions.new())
        return counter

    def grow(self, size: int) -> None:
        """Make room for more rows."""
        self.size = size
        for counter in self.of.values():
            counter.grow(size)


class TermQuery:
    """The query "how often does the pod have this term of the family?"."""

    __slots__ = ("_hash", "family", "reads_requests", "term")

    def __init__(self, family: TermFamily, term: Hashable) -> None:
        self.family = family
        self.term = term
        self.reads_requests = reads_requests(family)
        self._hash = hash((family.name, term))

    def counts(self, pod: PodInfo) -> int:
        return list(self.family.terms(pod)).count(self.term)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TermQuery)
            and self.family.name == other.family.name
            and self.term == other.term
        )


@dataclass(eq=False, slots=True)
class TermTotal:
    """How many times pods on nodes have a term; the term is in the cluster unless this is 0."""

    family: Family
    query: TermQuery
    total: int = 0


@dataclass(eq=False, slots=True)
class Family:
    """A family of terms in use: all terms known so far, and those that some pod has."""

    family: TermFamily
    version: int
    known: dict[Hashable, TermTotal] = field(default_factory=dict)
    present: dict[Hashable, PodQuery] = field(default_factory=dict)


def reads_requests(asking: object) -> bool:
    """Return whether the result of a query or a family of terms may depend on requests."""
    return bool(getattr(asking, "reads_requests", True))
