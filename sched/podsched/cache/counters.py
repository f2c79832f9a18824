"""Counters: how many pods of each row match a query, built on first use and then kept current.

Affinity and topology spreading count pods that match a selector. A query returns a number for each
pod (1 if it matches); its counter has the sums per row. Every ``ClassUsage`` lists the counters
that its pods add to, so a pod costs one addition per counter that concerns its class, and nothing
for other counters. Building a counter evaluates each class once and adds up ``ClassUsage.rows``:
O(classes + rows with such pods), not O(pods).

Terms are queries, too: each term of a pod, such as one of required anti-affinity, has a counter of
the pods with this term (``TermQuery``), from the first such pod to the last (``TermTotal``). A
family of terms is tracked from its first use by a plugin.

If there are too many counters, the least recently used are dropped. A dropped counter is built
again on its next use, with a new version.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from types import MappingProxyType

from podsched.cache.class_usage import ClassUsage
from podsched.cache.pod_counter import Family, PodCounter, TermQuery, TermTotal, reads_requests
from podsched.cache.versions import Version, Versions
from podsched.framework.nodes import PodQuery, TermFamily
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows

#: Max memory of all counters, in bytes, before idle ones are dropped.
MAX_BYTES = 256 * 1024 * 1024
MIN_COUNTERS = 256


class Counters:
    """All counters of one set of columns; ``usages`` has the usage of every class."""

    def __init__(self, size: int, usages: Iterable[ClassUsage], versions: Versions) -> None:
        self._size = size
        self._usages = usages
        self._versions = versions
        self._counters: dict[PodQuery, PodCounter] = {}
        #: Counters of queries, not of terms, by the label that a pod must have to be counted (None:
        #: no such label). So for a new class only the queries of its labels are called.
        self._by_label: dict[tuple[str, str] | None, list[PodCounter]] = {}
        self._families: dict[str, Family] = {}
        #: Whether any query or family in use reads requests.
        self._reading_requests = False
        #: Changes with the terms, of any family, of pods on nodes.
        self.all_terms = Version()

    def __len__(self) -> int:
        return len(self._counters)

    @property
    def queries(self) -> list[PodQuery]:
        """The queries that have a counter."""
        return list(self._counters)

    @property
    def families(self) -> list[TermFamily]:
        return [known.family for known in self._families.values()]

    def grow(self, size: int) -> None:
        self._size = size
        for counter in self._counters.values():
            counter.grow(size)

    def get(self, query: PodQuery) -> PodCounter:
        """Return the query's counter; build it if there is none."""
        counter = self._counters.get(query)
        if counter is None and isinstance(query, TermQuery):
            # Not by ``_create``: usages add to the counter of a term when the term is attached, so
            # as a query it would be counted twice.
            counter = self._counters[self._term(self._family(query.family), query.term).query]
        if counter is None:
            self._drop_idle()
            counter = self._create(query)
        # The latest version serves as a clock: it only grows, and reading it costs nothing.
        counter.last_use = self._versions.latest
        return counter

    def _create(self, query: PodQuery) -> PodCounter:
        """Create the counter of a query, and count all existing pods, by class."""
        counter = self._create_empty(query)
        self._reading_requests |= counter.reads_requests
        self._by_label.setdefault(_required_label(query), []).append(counter)
        for usage in self._usages:
            amount = query.counts(usage.exemplar)
            if amount:
                usage.counters.append((counter, amount))
                _count_rows(counter, usage, amount)
        return counter

    def terms_in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        """Return the family's terms that some pod has, each with the query that counts them."""
        return MappingProxyType(self._family(family).present)

    def terms_version(self, family: TermFamily) -> int:
        """Return a number that changes whenever ``terms_in_cluster`` does."""
        return self._family(family).version

    def _family(self, family: TermFamily) -> Family:
        found = self._families.get(family.name)
        if found is None:
            found = self._families[family.name] = Family(family)
            self._reading_requests |= reads_requests(family)
            for usage in self._usages:
                self._attach_terms(found, usage)
        return found

    def _attach_terms(self, family: Family, usage: ClassUsage) -> None:
        """Count the usage, with its existing pods, for each term of its pods."""
        terms = list(family.family.terms(usage.exemplar))
        for term in dict.fromkeys(terms):
            known = self._term(family, term)
            amount = terms.count(term)
            counter = self._counters[known.query]
            usage.counters.append((counter, amount))
            usage.terms.append((known, amount))
            _count_rows(counter, usage, amount)
            self._change_total(known, amount * sum(usage.rows.values()))

    def _term(self, family: Family, term: Hashable) -> TermTotal:
        """Return a term of a family; a new one has a counter that is 0 on all rows."""
        known = family.known.get(term)
        if known is None:
            query = TermQuery(family.family, term)
            known = family.known[term] = TermTotal(family, query)
            self._create_empty(query)
        return known

    def _create_empty(self, query: PodQuery) -> PodCounter:
        self._versions.latest += 1
        counter = PodCounter(query, self._size, self._versions.latest)
        self._counters[query] = counter
        return counter

    def attach(self, usage: ClassUsage, like: ClassUsage | None = None) -> None:
        """Find the counters that the pods of a new usage add to.

        ``like``: the usage of a class that differs only in requests, whose counters are taken over.
        If every pod has its own requests, calling hundreds of queries for each is slow: with a
        hundred spreading templates it took a seventh of a decision.
        """
        counters: Iterable[PodCounter] = self._concerned(usage.exemplar)
        families: Iterable[Family] = self._families.values()
        if like is not None:
            usage.counters += [one for one in like.counters if not one[0].reads_requests]
            usage.terms += [one for one in like.terms if not one[0].query.reads_requests]
            if not self._reading_requests:
                return
            counters = [one for one in counters if one.reads_requests]
            families = [one for one in families if reads_requests(one.family)]
        for counter in counters:
            amount = counter.query.counts(usage.exemplar)
            if amount:
                usage.counters.append((counter, amount))
        for family in families:
            self._attach_terms(family, usage)

    def _concerned(self, pod: PodInfo) -> Iterable[PodCounter]:
        """Yield the counters of queries that may count a pod, judging by its labels."""
        by_label = self._by_label
        yield from by_label.get(None, ())
        for label in pod.cls.labels.items():
            yield from by_label.get(label, ())

    def add(self, usage: ClassUsage, row: int, pods: int) -> None:
        """Count ``pods`` more (or fewer, when negative) pods of the usage on the row."""
        versions = self._versions
        # ``Versions.change`` inlined, with one number for all counters of the pod: it is called for
        # each pod with counters, and a version is only compared with earlier ones of the same
        # counter.
        versions.latest = version = versions.latest + 1
        saved = versions.saved
        for counter, amount in usage.counters:
            counter.add(row, amount * pods)
            if saved is not None:
                saved.note(counter)
            counter.version = version
        for total, amount in usage.terms:
            self._change_total(total, amount * pods)

    def add_one_each(self, usage: ClassUsage, rows: Rows) -> None:
        """Count one more pod of the usage on each of several distinct rows."""
        for counter, amount in usage.counters:
            counter.add_to_each(rows, amount)
            self._versions.change(counter)
        for total, amount in usage.terms:
            self._change_total(total, amount * len(rows))

    def _change_total(self, term: TermTotal, change: int) -> None:
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
        self._versions.change(family)
        self._versions.change(self.all_terms)

    def _drop_idle(self) -> None:
        """Drop the least recently used half, if there is no room for another counter.

        Terms stay: they are counted while pods have them, and ``sweep`` drops them.
        """
        limit = max(MIN_COUNTERS, MAX_BYTES // (8 * self._size))
        if len(self._counters) < limit:
            return
        idle = [c for c in self._counters.values() if not isinstance(c.query, TermQuery)]
        idle.sort(key=lambda counter: counter.last_use)
        self._drop({counter.query for counter in idle[: max(1, len(idle) // 2)]})

    def sweep(self) -> None:
        """Drop the counters of terms that no pod has any more."""
        gone: set[PodQuery] = set()
        for family in self._families.values():
            for term, known in list(family.known.items()):
                if not known.total:
                    gone.add(known.query)
                    del family.known[term]
        if gone:
            self._drop(gone)

    def _drop(self, queries: set[PodQuery]) -> None:
        """Drop the counters of these queries, and their places in usages and indexes."""
        for query in queries:
            counter = self._counters.pop(query)
            if isinstance(query, TermQuery):
                continue
            label = _required_label(query)
            of_label = self._by_label[label]
            of_label.remove(counter)
            if not of_label:
                del self._by_label[label]
        # O(classes), so counters are dropped by halves and not one by one.
        for usage in self._usages:
            usage.counters = [c for c in usage.counters if c[0].query not in queries]
            usage.terms = [c for c in usage.terms if c[0].query not in queries]


def _required_label(query: PodQuery) -> tuple[str, str] | None:
    """Return a label without which a pod does not count, if the query names one."""
    label: tuple[str, str] | None = getattr(query, "required_label", None)
    return label


def _count_rows(counter: PodCounter, usage: ClassUsage, amount: int) -> None:
    for row, pods in usage.rows.items():
        counter.add(row, amount * pods)
