"""SelectorSpreadPriority: pods that belong together on different nodes and in different zones.

Formula: kube-scheduler v1.16 ``priorities/selector_spreading.go``: with the counts of pods that the
pod's services and controllers all select, over the feasible nodes::

    node = 10 * (max - count) / max, or 10 where max is 0
    zone = 10 * (max - count) / max over the zones, likewise
    points = node * (1 - 2/3) + zone * 2/3 where the node has a zone, else node
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.selectors import Selector
from podsched.framework.nodes import ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Traits
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
from podsched.legacy.zones import NO_ZONE, zone_ids
from podsched.plugins.without_args import WithoutArgs

ZONE_WEIGHTING: Final = 2.0 / 3.0


class SelectorSpreadPriority(WithoutArgs):
    """Score: few pods of the same services and controllers on the node and in its zone."""

    name: ClassVar[str] = "SelectorSpreadPriority"
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    kinds: ClassVar[Sequence[str]] = (SERVICE, *CONTROLLERS)

    def selectors(self, pod: PodInfo, cluster: ClusterView) -> list[Selector]:
        """Return what selects the pods that the pod is spread with."""
        return [*service_selectors(pod, cluster), *controller_selectors(pod, cluster)]

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the pods that the pod is spread with, if there are any such."""
        query = self._query(pod, cluster)
        return query if query.selectors else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of services and controllers, of the topology and of the counts."""
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
        """Return 0, 10, ... 100."""
        scores: Int64s = state.data[self.name]
        return scores[rows if nodes.base is nodes else nodes.base_rows[rows]]


class ServiceSpreadingPriority(SelectorSpreadPriority):
    """The same, by services alone."""

    name: ClassVar[str] = "ServiceSpreadingPriority"

    kinds: ClassVar[Sequence[str]] = (SERVICE,)

    def selectors(self, pod: PodInfo, cluster: ClusterView) -> list[Selector]:
        """Return the selectors of the pod's services."""
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
