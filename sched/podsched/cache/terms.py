"""Terms of pods that are counted, such as those of required anti-affinity, by family.

Each term has a counter of the pods with this term (``TermQuery``), from the first such pod to the
last (``TermTotal``). A family of terms is tracked from its first use by a plugin.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType

from podsched.cache.class_usage import ClassUsage
from podsched.cache.pod_counter import (
    CounterTable,
    Family,
    PodCounter,
    TermQuery,
    TermTotal,
    reads_requests,
)
from podsched.cache.versions import Version
from podsched.framework.nodes import PodQuery, TermFamily


class Terms:
    """The families of terms in use, whose counters are in ``table``."""

    def __init__(self, table: CounterTable, usages: Iterable[ClassUsage]) -> None:
        self._table = table
        self._usages = usages
        self._families: dict[str, Family] = {}
        #: Whether any family in use reads requests.
        self.reading_requests = False
        #: Changes with the terms, of any family, of pods on nodes.
        self.all_terms = Version()

    @property
    def families(self) -> list[TermFamily]:
        return [known.family for known in self._families.values()]

    def in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        """Return the family's terms that some pod has, each with the query that counts them."""
        return MappingProxyType(self._family(family).present)

    def version(self, family: TermFamily) -> int:
        """Return a number that changes whenever ``in_cluster`` does."""
        return self._family(family).version

    def counter(self, query: TermQuery) -> PodCounter:
        """Return the counter of a term, which is 0 on all rows if no pod has the term."""
        return self._table.of[self._term(self._family(query.family), query.term).query]

    def _family(self, family: TermFamily) -> Family:
        found = self._families.get(family.name)
        if found is None:
            # A number of its own, as for a counter, so that no trial restores it: a trial that is
            # open now may have other terms than those after it.
            found = self._families[family.name] = Family(family, self._table.versions.new())
            self.reading_requests |= reads_requests(family)
            for usage in self._usages:
                self._attach(found, usage)
        return found

    def attach(self, usage: ClassUsage, *, new: bool) -> None:
        """Find the terms of the pods of a usage.

        Unless it is ``new``, only in families that read requests; the others are known.
        """
        for family in self._families.values():
            if new or reads_requests(family.family):
                self._attach(family, usage)

    def _attach(self, family: Family, usage: ClassUsage) -> None:
        """Count the usage, with its existing pods, for each term of its pods."""
        terms = list(family.family.terms(usage.exemplar))
        for term in dict.fromkeys(terms):
            known = self._term(family, term)
            amount = terms.count(term)
            # Each pod changes both: the term's total here, and its counter by row.
            usage.terms.append((known, amount))
            usage.count_in(self._table.of[known.query], amount)
            self.change(known, amount * sum(usage.rows.values()))

    def _term(self, family: Family, term: Hashable) -> TermTotal:
        """Return a term of a family; a new one has a counter that is 0 on all rows."""
        known = family.known.get(term)
        if known is None:
            query = TermQuery(family.family, term)
            known = family.known[term] = TermTotal(family, query)
            self._table.create(query)
        return known

    def change(self, term: TermTotal, change: int) -> None:
        """Change how often pods have a term; note it if the term appeared or disappeared."""
        was_present = bool(term.total)
        term.total += change
        if was_present == bool(term.total):
            return
        family = term.family
        if term.total:
            family.present[term.query.term] = term.query
        else:
            del family.present[term.query.term]
        self._table.versions.change(family)
        self._table.versions.change(self.all_terms)

    def forget_unused(self) -> set[PodQuery]:
        """Forget the terms that no pod has any more, and return their queries."""
        gone: set[PodQuery] = set()
        for family in self._families.values():
            for term, known in list(family.known.items()):
                if not known.total:
                    gone.add(known.query)
                    del family.known[term]
        return gone
