"""Find the terms that concern a pod class: its own, and those of pods on nodes that match it.

The search is done once per class, and again only if a term appears in the cluster or disappears, or
if a namespace changes. In a cluster without terms, a pod costs one comparison of versions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

from podsched.framework.nodes import ClusterView, NodeColumns, PodQuery
from podsched.framework.pods import PodClass, PodInfo
from podsched.lib.groups import lists_by_key
from podsched.plugins.inter_pod_affinity.terms import (
    ATTRACTING,
    NO_TERMS,
    PREFERRING,
    REPELLING,
    AffinityTerm,
    AllTerms,
    PodTerms,
    SomeTerms,
    TermTarget,
    Weighted,
    namespace_labels,
    resolved,
    terms_of,
)

T = TypeVar("T")

#: Max terms for which a class remembers whether they match.
_MAX_KNOWN: Final = 1 << 14
#: The versions of the three families' terms, and how often nominated pods have added keys.
Seen = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Relations:
    """The queries that concern a pod class, by topology key.

    ``affinity`` counts the pods that all required affinity terms of the class match;
    ``affinity_keys`` are these terms' topology keys. ``anti_affinity`` and ``preferred`` count for
    its other terms. ``repelled`` counts required anti-affinity terms of pods on nodes, ``weighted``
    their affinity terms that score, each with its weight. ``queries``: all of these queries.
    """

    target: TermTarget
    affinity: AllTerms | None = None
    affinity_keys: tuple[str, ...] = ()
    anti_affinity: tuple[tuple[str, SomeTerms], ...] = ()
    repelled: tuple[tuple[str, tuple[PodQuery, ...]], ...] = ()
    preferred: tuple[tuple[str, SomeTerms], ...] = ()
    weighted: tuple[tuple[str, tuple[tuple[int, PodQuery], ...]], ...] = ()
    queries: tuple[PodQuery, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        found: dict[PodQuery, None] = {}
        if self.affinity is not None:
            found[self.affinity] = None
        found |= dict.fromkeys(query for _, query in (*self.anti_affinity, *self.preferred))
        found |= dict.fromkeys(query for _, queries in self.repelled for query in queries)
        found |= dict.fromkeys(query for _, queries in self.weighted for _, query in queries)
        object.__setattr__(self, "queries", tuple(found))

    @property
    def scores(self) -> bool:
        """Whether any term can change a score."""
        return bool(self.preferred or self.weighted)


@dataclass(eq=False, slots=True, weakref_slot=True)
class _Entry:
    """The relations of all classes that have these terms and the parts ``matches.target``.

    ``serial`` changes whenever the relations do, ``id`` never. No two entries share one.
    """

    id: int
    terms: PodTerms
    matches: _MatchMemo
    relations: Relations
    version: Hashable = None
    serial: int = 0


class RelationsIndex:
    """Finds and keeps the relations of each class.

    ``hard_weight`` and ``ignore_preferred`` are the plugin's arguments hardPodAffinityWeight and
    ignorePreferredTermsOfExistingPods.
    """

    def __init__(self, hard_weight: int, *, ignore_preferred: bool) -> None:
        self._hard_weight = hard_weight
        self._ignore_preferred = ignore_preferred
        #: The entry of each class, with the versions of terms, namespaces and label keys for which
        #: it was determined.
        self._classes: WeakKeyDictionary[PodClass, tuple[Hashable, _Entry]] = WeakKeyDictionary()
        self._entries: WeakValueDictionary[Hashable, _Entry] = WeakValueDictionary()
        self._keys = LabelKeys()
        self._serial = 0
        unseen = TermTarget("", frozenset(), frozenset())
        #: The entry of pods without terms while no other pod has terms.
        self._nothing = _Entry(0, NO_TERMS, _MatchMemo(unseen), Relations(unseen))

    def of(self, pod: PodInfo, cluster: ClusterView) -> tuple[Relations, int]:
        """Return the relations of the pod's class, and a number that changes whenever they do."""
        entry = self._entry(pod, cluster)
        return entry.relations, entry.serial

    def projection(self, pod: PodInfo, cluster: ClusterView) -> int:
        """Return a number that is equal for pods with equal terms and equal selected labels."""
        return self._entry(pod, cluster).id

    def _entry(self, pod: PodInfo, cluster: ClusterView) -> _Entry:
        """Return the entry of the pod's class, valid for the current terms and namespaces."""
        keys, seen = self._keys.of(cluster)
        version = (seen, cluster.version("Namespace"))
        known = self._classes.get(pod.cls)
        if known is not None and known[0] == version:
            entry = known[1]
        else:
            entry = self._projected(pod, cluster, keys)
            self._classes[pod.cls] = (version, entry)
        # Also for a known entry: another class may have asked in a trial that was rolled back.
        if entry is not self._nothing and entry.version != version:
            relations = self._find(entry, cluster)
            # Most terms that come and go do not concern the class: with the old serial, evaluations
            # stay valid.
            if not entry.serial or relations != entry.relations:
                self._serial += 1
                entry.relations, entry.serial = relations, self._serial
            entry.version = version
        return entry

    def _projected(self, pod: PodInfo, cluster: ClusterView, keys: Set[str] | None) -> _Entry:
        """Return the entry of a pod; its labels count only if terms select by their keys.

        ``keys`` are those of other pods' terms; None: no other pod has terms.
        """
        terms = terms_of(pod.cls)
        if terms == NO_TERMS and keys is None:
            return self._nothing
        seen = terms.label_keys | (keys or set())
        labels = frozenset(item for item in pod.cls.labels.items() if item[0] in seen)
        of_namespace = frozenset(namespace_labels(pod.namespace, cluster).items())
        target = TermTarget(pod.namespace, labels, of_namespace)
        entry = self._entries.get((terms, target))
        if entry is None:
            self._serial += 1
            entry = _Entry(self._serial, terms, _MatchMemo(target), Relations(target))
            self._entries[terms, target] = entry
        return entry

    def _find(self, entry: _Entry, cluster: ClusterView) -> Relations:
        """Determine the relations of an entry from the terms of the pod and of placed pods."""
        terms, matches = entry.terms, entry.matches
        near = tuple(resolved(term, cluster) for term in terms.required_affinity)
        far = [(1, resolved(term, cluster)) for term in terms.required_anti_affinity]
        preferred = [(weight, resolved(term, cluster)) for weight, term in terms.preferred]
        repelling: Any = cluster.nodes.terms_in_cluster(REPELLING)
        # As in kube-scheduler, ignorePreferredTermsOfExistingPods has no effect for a pod that has
        # preferred terms itself.
        scores = bool(preferred) or not self._ignore_preferred
        return Relations(
            matches.target,
            AllTerms(near) if near else None,
            tuple(dict.fromkeys(term.topology_key for term in near)),
            _queries(far),
            _by_key((term, query) for term, query in repelling.items() if matches.by(term)),
            _queries(preferred),
            _by_key(self._weighted(matches, cluster.nodes)) if scores else (),
        )

    def _weighted(
        self, matches: _MatchMemo, nodes: NodeColumns
    ) -> Iterator[tuple[AffinityTerm, tuple[int, PodQuery]]]:
        """Yield the terms of placed pods that score the pod, with weight and query."""
        required: Any = nodes.terms_in_cluster(ATTRACTING) if self._hard_weight else {}
        for term, query in required.items():
            if matches.by(term):
                yield term, (self._hard_weight, query)
        preferred: Any = nodes.terms_in_cluster(PREFERRING)
        for (weight, term), query in preferred.items():
            if matches.by(term):
                yield term, (weight, query)


class _MatchMemo:
    """Remembers which terms match a class, so that after a new term only this one is checked."""

    __slots__ = ("_known", "target")

    def __init__(self, target: TermTarget) -> None:
        self.target = target
        self._known: dict[AffinityTerm, bool] = {}

    def by(self, term: AffinityTerm) -> bool:
        """Return whether the term matches the class."""
        found = self._known.get(term)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[term] = self.target.matched_by(term)
        return found


def _by_key(found: Iterable[tuple[AffinityTerm, T]]) -> tuple[tuple[str, tuple[T, ...]], ...]:
    """Return what belongs to terms, by the terms' topology keys."""
    by_key = lists_by_key((term.topology_key, item) for term, item in found)
    return tuple((key, tuple(items)) for key, items in by_key.items())


def _queries(terms: Iterable[Weighted]) -> tuple[tuple[str, SomeTerms], ...]:
    by_key = _by_key((weighted[1], weighted) for weighted in terms)
    return tuple((key, SomeTerms(of_key)) for key, of_key in by_key)


class LabelKeys:
    """The label keys by which affinity terms of other pods select, kept current.

    A pod's other labels do not affect where it fits, so pods that differ only in these share
    evaluations. The terms are those of pods on nodes, which the cache counts, and of nominated
    pods, which the filters add on forks.

    When the terms of pods on nodes change, all keys are collected again. When only nominations
    change, keys are added and none is removed: preemption nominates one pod after another, and most
    of them have no terms.
    """

    def __init__(self) -> None:
        self._placed: tuple[int, int, int] | None = None
        self._nominations: int | None = None
        self._keys: set[str] | None = None
        self._brought = 0

    def of(self, cluster: ClusterView) -> tuple[Set[str] | None, Seen]:
        """Return the keys, and versions that change whenever terms or keys do.

        None: no pod has terms. An empty set: there are terms, but their selectors are empty and
        match all pods of their namespaces.
        """
        nodes = cluster.nodes
        placed = (
            nodes.terms_version(REPELLING),
            nodes.terms_version(ATTRACTING),
            nodes.terms_version(PREFERRING),
        )
        if placed != self._placed:
            self._placed, self._nominations = placed, None
            self._keys = _keys_of_placed(cluster)
        if cluster.nominator.version != self._nominations:
            self._add_nominated(cluster)
        return self._keys, (*placed, self._brought)

    def _add_nominated(self, cluster: ClusterView) -> None:
        since, self._nominations = self._nominations, cluster.nominator.version
        names = None if since is None else cluster.nominator.changed_since(since)
        for name in cluster.nominator.nodes() if names is None else names:
            for pod in cluster.nominator.pods(name):
                terms = terms_of(pod.cls)
                if terms != NO_TERMS:
                    self._add(terms.label_keys)

    def _add(self, keys: set[str]) -> None:
        if self._keys is None or not keys <= self._keys:
            self._keys = (self._keys or set()) | keys
            self._brought += 1


def _keys_of_placed(cluster: ClusterView) -> set[str] | None:
    nodes = cluster.nodes
    required: list[Any] = [*nodes.terms_in_cluster(REPELLING), *nodes.terms_in_cluster(ATTRACTING)]
    preferred: list[Any] = [*nodes.terms_in_cluster(PREFERRING)]
    terms = [*required, *(term for _, term in preferred)]
    return {key for term in terms for key in term.label_keys} if terms else None
