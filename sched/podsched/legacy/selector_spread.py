"""Priorities that spread the pods of services and controllers over nodes, zones or labels.

Formulas: kube-scheduler v1.16 ``priorities/selector_spreading.go``, over the feasible nodes. For
SelectorSpreadPriority, with the counts of pods that the pod's services and controllers all select::

    node = 10 * (max - count) / max, or 10 where max is 0
    zone = 10 * (max - count) / max over the zones, likewise
    points = node * (1 - 2/3) + zone * 2/3 where the node has a zone, else node

For ServiceAntiAffinity ``10 * (total - count) / total``, where ``count`` is the number of pods of
the pod's first service on nodes with the same value of a label; 10 without such pods, 0 for nodes
without the label.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.node_labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from podsched.api.selectors import Selector
from podsched.config.legacy.args import ServiceAntiAffinityArgs
from podsched.framework.nodes import ABSENT, ClusterView, Int32s, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.legacy.spreading import (
    CONTROLLERS,
    SERVICE,
    SelectedPods,
    controller_selectors,
    service_selectors,
    versions,
)
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.without_args import WithoutArgs

ZONE_WEIGHTING: Final = 2.0 / 3.0
NO_ZONE: Final = -1


class SelectorSpreadPriority(WithoutArgs):
    """Score nodes with few pods of the same services and controllers, there and in their zone."""

    name: ClassVar[str] = "SelectorSpreadPriority"
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    kinds: ClassVar[Sequence[str]] = (SERVICE, *CONTROLLERS)

    def selectors(self, pod: PodInfo, cluster: ClusterView) -> list[Selector]:
        """Return the selectors of the pods that the pod is spread with."""
        return [*service_selectors(pod, cluster), *controller_selectors(pod, cluster)]

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        query = self._query(pod, cluster)
        return query if query.selectors else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        nodes, query = cluster.nodes, self._query(pod, cluster)
        of_kinds = versions(cluster, self.kinds)
        if not query.selectors:
            return (of_kinds, nodes.size)
        return (of_kinds, nodes.topology_version, nodes.size, nodes.counter_version(query))

    def _query(self, pod: PodInfo, cluster: ClusterView) -> SelectedPods:
        return SelectedPods(pod.namespace, tuple(self.selectors(pod, cluster)))

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Compute the scores of all feasible rows, which depend on each other."""
        nodes, query = cluster.nodes, self._query(pod, cluster)
        scores = np.full(nodes.size, as_scores(np.array([MAX_PRIORITY]))[0], dtype=np.int64)
        if query.selectors:
            scores[feasible] = spread_scores(
                nodes.counter(query)[feasible], zone_ids(nodes, feasible)
            )
        state.data[self.name] = scores
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        scores: Int64s = state.data[self.name]
        return scores[rows_of_base(nodes, rows)]


class ServiceSpreadingPriority(SelectorSpreadPriority):
    """The same, by services alone."""

    name: ClassVar[str] = "ServiceSpreadingPriority"

    kinds: ClassVar[Sequence[str]] = (SERVICE,)

    def selectors(self, pod: PodInfo, cluster: ClusterView) -> list[Selector]:
        return service_selectors(pod, cluster)


def spread_scores(counts: Int64s, zones: NDArray[np.intp]) -> Scores:
    """Return the scores of nodes with these counts in these zones (NO_ZONE: in none)."""
    points = _few(counts)
    zoned = zones != NO_ZONE
    if zoned.any():
        ids = zones[zoned]
        in_zone = np.zeros(int(ids.max()) + 1, dtype=np.int64)
        np.add.at(in_zone, ids, counts[zoned])
        by_zone = _few(in_zone)[ids]
        points[zoned] = points[zoned] * (1.0 - ZONE_WEIGHTING) + ZONE_WEIGHTING * by_zone
    return as_scores(points)


def _few(counts: Int64s) -> NDArray[np.float64]:
    highest = int(counts.max(initial=0))
    if highest == 0:
        return np.full(len(counts), float(MAX_PRIORITY))
    share: NDArray[np.float64] = (highest - counts).astype(np.float64) / float(highest)
    return float(MAX_PRIORITY) * share


def zone_ids(nodes: NodeColumns, rows: Rows) -> NDArray[np.intp]:
    """Return for each row the number of its zone, 0 and up; NO_ZONE without region and zone.

    GetZoneKey of v1.16's ``pkg/util/node``; today's labels count, too.
    """
    region = _value(nodes, rows, BETA_REGION, REGION)
    zone = _value(nodes, rows, BETA_ZONE, ZONE)
    none = nodes.value_id("")
    # Added, because the id of a value that no node has is negative: "|" would set all bits.
    pairs = (region << np.int64(32)) + zone
    _, ids = np.unique(pairs, return_inverse=True)
    return np.where((region == none) & (zone == none), NO_ZONE, ids.reshape(-1))


def _value(nodes: NodeColumns, rows: Rows, *keys: str) -> Int64s:
    """Return the ids of the first label's values, else of the second's, else of ""."""
    first, second = (nodes.label(key)[rows].astype(np.int64) for key in keys)
    found = np.where(first != ABSENT, first, second)
    return np.where(found != ABSENT, found, nodes.value_id(""))


class ServiceAntiAffinity:
    """Score nodes with few pods of the same service on nodes with the same value of the label.

    A Policy enables it under a name of its own (``serviceAntiAffinity``).
    """

    name: ClassVar[str] = "ServiceAntiAffinity"
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    def __init__(self, args: ServiceAntiAffinityArgs, handle: Handle) -> None:
        self._label = args.label
        #: Several may be enabled, for different labels.
        self._key = f"{self.name}/{args.label}"

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        query = _first_service(pod, cluster)
        return query if query.selectors else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        nodes = cluster.nodes
        count = nodes.counter_version(_first_service(pod, cluster))
        return (versions(cluster, (SERVICE,)), nodes.topology_version, nodes.size, count)

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Compute the scores of all feasible rows, which depend on each other."""
        nodes = cluster.nodes
        counts = nodes.counter(_first_service(pod, cluster))[feasible]
        scores = np.zeros(nodes.size, dtype=np.int64)
        scores[feasible] = anti_affinity_scores(counts, nodes.label(self._label)[feasible])
        state.data[self._key] = scores
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        scores: Int64s = state.data[self._key]
        return scores[rows_of_base(nodes, rows)]


def _first_service(pod: PodInfo, cluster: ClusterView) -> SelectedPods:
    return SelectedPods(pod.namespace, tuple(service_selectors(pod, cluster)[:1]))


def anti_affinity_scores(counts: Int64s, values: Int32s) -> Scores:
    """Return the scores of nodes with these counts and values of the label (ABSENT: none)."""
    labelled, total = values != ABSENT, int(counts.sum())
    points = np.where(labelled, float(MAX_PRIORITY), 0.0)
    if total:
        ids = values[labelled]
        by_value = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(by_value, ids, counts[labelled])
        share = (total - by_value[ids]).astype(np.float64) / float(total)
        points[labelled] = float(MAX_PRIORITY) * share
    return as_scores(points)
