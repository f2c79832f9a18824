"""Compute once per pod class what one of its pods adds to the row of its node.

A ``ClassUsage`` belongs to a class and a value of ``terminating``; counts depend only on these two.
So adding a pod reads nothing of the pod itself. A usage also knows the rows that have such pods, so
that a new counter is built without iterating over all pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from podsched.api.host_ports import HostPort, host_ports
from podsched.cache.pod_counter import PodCounter, TermTotal
from podsched.framework.pods import PodClass, PodInfo, PodShape
from podsched.lib.groups import lists_by_key

#: Classes without pods are searched when there are twice as many classes as after the last search,
#: plus this many. So the cost of a search is spread over as many new classes.
_MIN_SWEEP = 256
#: Max label keys with an index: pods may ask for any key.
MOST_KEYS: Final = 512
#: The key of ``PodShape.compiled``.
_PORTS: Final = "host ports"


class ClassUsage:
    """What a pod of one class adds to a row, and the rows that have such pods.

    ``amounts``: (index of a usage column, amount). ``counters`` and ``terms``: the counters of such
    pods, with the amount that one pod adds. ``rows``: row -> number of such pods. ``exemplar`` is
    or was one of these pods; queries are evaluated on it.
    """

    __slots__ = ("amounts", "counters", "exemplar", "ports", "rows", "terms")

    def __init__(self, exemplar: PodInfo, amounts: tuple[tuple[int, int], ...]) -> None:
        self.exemplar = exemplar
        self.amounts = amounts
        self.ports = _ports(exemplar.cls)
        self.rows: dict[int, int] = {}
        self.counters: list[tuple[PodCounter, int]] = []
        self.terms: list[tuple[TermTotal, int]] = []

    def copy(self) -> ClassUsage:
        """Return the same usage without counters."""
        made = ClassUsage.__new__(ClassUsage)
        made.exemplar, made.amounts, made.ports = self.exemplar, self.amounts, self.ports
        made.rows, made.counters, made.terms = dict(self.rows), [], []
        return made

    def count_in(self, counter: PodCounter, amount: int) -> None:
        """Count such pods, also those that exist, in a counter, by an amount for each."""
        self.counters.append((counter, amount))
        for row, pods in self.rows.items():
            counter.add(row, amount * pods)


def _ports(cls: PodClass) -> tuple[HostPort, ...]:
    """Return the host ports of the class; they depend only on its plain shape."""
    compiled = cls.shape.plain.compiled
    found: tuple[HostPort, ...] | None = compiled.get(_PORTS)
    if found is None:
        found = compiled[_PORTS] = host_ports(cls.spec_parts.bare)
    return found


class ClassUsages:
    """The usage of every class that has, or recently had, pods."""

    def __init__(self) -> None:
        #: By class. Two dictionaries instead of one with pairs as keys, because one is read for
        #: every pod that is added or removed.
        self.running: dict[PodClass, ClassUsage] = {}
        self.terminating: dict[PodClass, ClassUsage] = {}
        #: One usage per shape (and ``terminating``): a class that differs from it only in requests
        #: takes over its counters instead of asking every query again.
        self._of_shape: dict[tuple[PodShape, bool], ClassUsage] = {}
        #: By key and value, for the keys that ``with_label`` was asked for: no query asks for those
        #: that have another value on each pod.
        self._by_label: dict[str, dict[str, list[ClassUsage]]] = {}
        self._sweep_at = _MIN_SWEEP

    def __iter__(self) -> Iterator[ClassUsage]:
        yield from self.running.values()
        yield from self.terminating.values()

    def with_label(self, label: tuple[str, str] | None) -> Iterable[ClassUsage]:
        """Return the usages of classes that have a label; of all classes for None.

        Asking each of 20,000 classes took 40 ms for each new selector.
        """
        if label is None:
            return self
        key, value = label
        by_value = self._by_label.get(key)
        if by_value is None:
            if len(self._by_label) >= MOST_KEYS:
                self._by_label.clear()
            having = ((usage.exemplar.cls.labels.get(key), usage) for usage in self)
            by_value = self._by_label[key] = lists_by_key(
                (found, usage) for found, usage in having if found is not None
            )
        return by_value.get(value, ())

    def copy(self) -> ClassUsages:
        """Return an independent copy without counters."""
        made = ClassUsages()
        for mine, theirs in ((made.running, self.running), (made.terminating, self.terminating)):
            for cls, usage in theirs.items():
                mine[cls] = usage.copy()
        made._sweep_at = self._sweep_at
        return made

    def add(
        self, pod: PodInfo, amounts: tuple[tuple[int, int], ...]
    ) -> tuple[ClassUsage, ClassUsage | None]:
        """Add and return the usage of a new class; ``amounts`` as in ``ClassUsage``.

        Also returns the usage of a class that differs only in requests, None if there is none.
        """
        known = self.terminating if pod.terminating else self.running
        usage = known[pod.cls] = ClassUsage(pod, amounts)
        for key, value in pod.cls.labels.items():
            if key in self._by_label:
                self._by_label[key].setdefault(value, []).append(usage)
        like = self._of_shape.setdefault((pod.cls.shape, pod.terminating), usage)
        return usage, None if like is usage else like

    def sweep(self, after: Callable[[], None]) -> None:
        """Drop classes without pods, if there may be many; then call ``after``."""
        if len(self.running) + len(self.terminating) < self._sweep_at:
            return
        for known in (self.running, self.terminating):
            for cls in [cls for cls, usage in known.items() if not usage.rows]:
                del known[cls]
        left = {*self.running.values(), *self.terminating.values()}
        self._of_shape = {key: usage for key, usage in self._of_shape.items() if usage in left}
        self._by_label.clear()
        after()
        self._sweep_at = 2 * (len(self.running) + len(self.terminating)) + _MIN_SWEEP
