"""The label keys by which affinity terms of other pods select.

A pod's other labels do not affect where it fits, so pods that differ only in these share
evaluations. The terms are those of pods on nodes, which the cache counts, and of nominated pods,
which the filters add on forks.

When the terms of pods on nodes change, all keys are collected again. When only nominations change,
keys are added and none is removed: preemption nominates one pod after another, and most of them
have no terms.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from podsched.framework.nodes import ClusterView
from podsched.plugins.inter_pod_affinity.terms import (
    ATTRACTING,
    NO_TERMS,
    PREFERRING,
    REPELLING,
    terms_of,
)

#: The versions of the three families' terms, and how often nominated pods have added keys.
Seen = tuple[int, int, int, int]


class LabelKeys:
    """The label keys of one cluster's terms, kept current."""

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
        if cluster.nominations_version != self._nominations:
            self._add_nominated(cluster)
        return self._keys, (*placed, self._brought)

    def _add_nominated(self, cluster: ClusterView) -> None:
        since, self._nominations = self._nominations, cluster.nominations_version
        names = None if since is None else cluster.nominations_since(since)
        for name in cluster.nominated_nodes() if names is None else names:
            for pod in cluster.nominated_pods(name):
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
