"""Counters: how many pods of each row match a query, built on first use and then kept current.

Affinity and topology spreading count pods that match a selector. A query returns a number for each
pod (1 if it matches); its counter has the sums per row. Every ``ClassUsage`` lists the counters
that its pods add to, so a pod costs one addition per counter that concerns its class, and nothing
for other counters. Building a counter evaluates each class once and adds up ``ClassUsage.rows``:
O(classes + rows with such pods), not O(pods).

Terms are queries, too (``terms``).

If there are too many counters, the least recently used are dropped. A dropped counter is built
again on its next use, with a new version.
"""

from __future__ import annotations

from collections.abc import Iterable

from podsched.cache.class_usage import ClassUsage, ClassUsages
from podsched.cache.pod_counter import CounterTable, PodCounter, TermQuery
from podsched.cache.terms import Terms
from podsched.cache.versions import Versions
from podsched.framework.nodes import PodQuery
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows

#: Max memory of all counters, in bytes, before idle ones are dropped.
MAX_BYTES = 256 * 1024 * 1024
MIN_COUNTERS = 256


class Counters:
    """All counters of one set of columns; ``usages`` has the usage of every class."""

    def __init__(self, size: int, usages: ClassUsages, versions: Versions) -> None:
        self._usages = usages
        self._versions = versions
        self.table = CounterTable(size, versions)
        #: The dictionary of ``table`` itself, which is read several times for each decision.
        self._counters = self.table.of
        self.terms = Terms(self.table, usages)
        #: Counters of queries, not of terms, by the label that a pod must have to be counted (None:
        #: no such label). So for a new class only the queries of its labels are called.
        self._by_label: dict[tuple[str, str] | None, list[PodCounter]] = {}
        #: Whether any query in use reads requests.
        self._reading_requests = False

    def get(self, query: PodQuery) -> PodCounter:
        """Return the query's counter; build it if there is none."""
        counter = self._counters.get(query)
        if counter is None and isinstance(query, TermQuery):
            # Not by ``_create``: usages add to the counter of a term when the term is attached, so
            # as a query it would be counted twice.
            counter = self.terms.counter(query)
        if counter is None:
            self._drop_idle()
            counter = self._create(query)
        # The latest version serves as a clock: it only grows, and reading it costs nothing.
        counter.last_use = self._versions.latest
        return counter

    def _create(self, query: PodQuery) -> PodCounter:
        """Create the counter of a query, and count all existing pods, by class."""
        counter = self.table.create(query)
        self._reading_requests |= counter.reads_requests
        label = _required_label(query)
        self._by_label.setdefault(label, []).append(counter)
        for usage in self._usages.with_label(label):
            amount = query.counts(usage.exemplar)
            if amount:
                usage.count_in(counter, amount)
        return counter

    def attach(self, usage: ClassUsage, like: ClassUsage | None = None) -> None:
        """Find the counters that the pods of a new usage add to.

        ``like``: the usage of a class that differs only in requests, whose counters are taken over.
        If every pod has its own requests, calling hundreds of queries for each is slow: with a
        hundred spreading templates it took a seventh of a decision.
        """
        if like is not None:
            usage.counters += [one for one in like.counters if not one[0].reads_requests]
            usage.terms += [one for one in like.terms if not one[0].query.reads_requests]
            if not self._reading_requests and not self.terms.reading_requests:
                return
        for counter in self._concerned(usage.exemplar):
            if like is None or counter.reads_requests:
                amount = counter.query.counts(usage.exemplar)
                if amount:
                    usage.counters.append((counter, amount))
        self.terms.attach(usage, new=like is None)

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
            # Noted before it is set: a trial restores the version of before.
            if saved is not None:
                saved.note(counter)
            counter.version = version
        for total, amount in usage.terms:
            self.terms.change(total, amount * pods)

    def add_one_each(self, usage: ClassUsage, rows: Rows) -> None:
        """Count one more pod of the usage on each of several distinct rows."""
        for counter, amount in usage.counters:
            counter.add_to_each(rows, amount)
            self._versions.change(counter)
        for total, amount in usage.terms:
            self.terms.change(total, amount * len(rows))

    def _drop_idle(self) -> None:
        """Drop the least recently used half, if there is no room for another counter.

        Terms stay: they are counted while pods have them, and ``sweep`` drops them.
        """
        limit = max(MIN_COUNTERS, MAX_BYTES // (8 * self.table.size))
        if len(self._counters) < limit:
            return
        idle = [c for c in self._counters.values() if not isinstance(c.query, TermQuery)]
        idle.sort(key=lambda counter: counter.last_use)
        self._drop({counter.query for counter in idle[: max(1, len(idle) // 2)]})

    def sweep(self) -> None:
        """Drop the counters of terms that no pod has any more."""
        gone = self.terms.forget_unused()
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
