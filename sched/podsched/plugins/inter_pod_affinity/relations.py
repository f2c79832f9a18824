"""What stands between a pod class and the pods there are: its own terms, and theirs that mean it.

Found once per class and looked up again only when terms appear or disappear or namespaces change,
so that a cluster without such terms costs a comparison of versions per pod.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from podsched.framework.nodes import ClusterView, NodeColumns, PodQuery
from podsched.framework.pods import PodClass, PodInfo
from podsched.plugins.inter_pod_affinity.terms import (
    ATTRACTING,
    PREFERRING,
    REPELLING,
    AffinityTerm,
    AllTerms,
    Meant,
    SomeTerms,
    Weighted,
    namespace_labels,
    resolved,
    terms_of,
)

#: Terms that a class remembers at most.
_MAX_KNOWN: Final = 1 << 14


@dataclass(frozen=True, slots=True)
class Relations:
    """Queries by topology key.

    Filter reads ``affinity`` (of pods that all required terms mean, with the terms' keys),
    ``anti_affinity`` and ``repelled``; Score reads ``preferred`` and, with its weight for each pod
    counted, ``weighted``.
    """

    meant: Meant
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
        """Whether anything can make nodes differ in score."""
        return bool(self.preferred or self.weighted)


@dataclass(slots=True)
class _Known:
    relations: Relations
    means: _Judge
    version: Hashable
    #: Unlike any other that a class had.
    serial: int


class RelationsIndex:
    """The relations of each class, kept current. ``hard_weight``: hardPodAffinityWeight."""

    def __init__(self, hard_weight: int, *, ignore_preferred: bool) -> None:
        self._hard_weight = hard_weight
        self._ignore_preferred = ignore_preferred
        self._classes: WeakKeyDictionary[PodClass, _Known] = WeakKeyDictionary()
        self._serial = 0

    def of(self, pod: PodInfo, cluster: ClusterView) -> tuple[Relations, int]:
        """Return the relations of the pod's class, and a number that changes whenever they do."""
        nodes = cluster.nodes
        version = (
            nodes.terms_version(REPELLING),
            nodes.terms_version(ATTRACTING),
            nodes.terms_version(PREFERRING),
            cluster.version("Namespace"),
        )
        known = self._classes.get(pod.cls)
        if known is not None and known.version == version:
            return known.relations, known.serial
        labels = namespace_labels(pod.namespace, cluster)
        meant = Meant(pod.namespace, frozenset(pod.cls.labels.items()), frozenset(labels.items()))
        means = known.means if known is not None and known.means.meant == meant else _Judge(meant)
        relations = self._find(pod, cluster, means)
        if known is not None and known.relations == relations:
            known.version = version
            return known.relations, known.serial
        self._serial += 1
        self._classes[pod.cls] = _Known(relations, means, version, self._serial)
        return relations, self._serial

    def _find(self, pod: PodInfo, cluster: ClusterView, means: _Judge) -> Relations:
        terms = terms_of(pod.cls)
        near = tuple(resolved(term, cluster) for term in terms.required_affinity)
        far = [(1, resolved(term, cluster)) for term in terms.required_anti_affinity]
        preferred = [(weight, resolved(term, cluster)) for weight, term in terms.preferred]
        weighted: dict[str, list[tuple[int, PodQuery]]] = {}
        if preferred or not self._ignore_preferred:
            weighted = self._weighted(means, cluster.nodes)
        return Relations(
            means.meant,
            AllTerms(near) if near else None,
            tuple(dict.fromkeys(term.topology_key for term in near)),
            _by_key(far),
            _repelled(means, cluster.nodes),
            _by_key(preferred),
            tuple((key, tuple(queries)) for key, queries in weighted.items()),
        )

    def _weighted(self, means: _Judge, nodes: NodeColumns) -> dict[str, list[tuple[int, PodQuery]]]:
        found: dict[str, list[tuple[int, PodQuery]]] = {}
        required: Any = nodes.terms_in_cluster(ATTRACTING) if self._hard_weight else {}
        for term, query in required.items():
            if means.by(term):
                found.setdefault(term.topology_key, []).append((self._hard_weight, query))
        preferred: Any = nodes.terms_in_cluster(PREFERRING)
        for (weight, term), query in preferred.items():
            if means.by(term):
                found.setdefault(term.topology_key, []).append((weight, query))
        return found


class _Judge:
    """Remembers which terms mean a class, so that a new term costs little where there are many."""

    __slots__ = ("_known", "meant")

    def __init__(self, meant: Meant) -> None:
        self.meant = meant
        self._known: dict[AffinityTerm, bool] = {}

    def by(self, term: AffinityTerm) -> bool:
        """Whether the term means the class."""
        found = self._known.get(term)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[term] = self.meant.by(term)
        return found


def _repelled(means: _Judge, nodes: NodeColumns) -> tuple[tuple[str, tuple[PodQuery, ...]], ...]:
    found: dict[str, list[PodQuery]] = {}
    terms: Any = nodes.terms_in_cluster(REPELLING)
    for term, query in terms.items():
        if means.by(term):
            found.setdefault(term.topology_key, []).append(query)
    return tuple((key, tuple(queries)) for key, queries in found.items())


def _by_key(terms: list[Weighted]) -> tuple[tuple[str, SomeTerms], ...]:
    by_key: dict[str, list[Weighted]] = {}
    for weighted in terms:
        by_key.setdefault(weighted[1].topology_key, []).append(weighted)
    return tuple((key, SomeTerms(tuple(of_key))) for key, of_key in by_key.items())
