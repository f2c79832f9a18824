"""EvenPodsSpreadPriority: few matching pods in the node's domains, by ScheduleAnyway constraints.

Formula: kube-scheduler v1.16 ``priorities/even_pods_spread.go``: a node's ``count`` is the number
of matching pods in its domains, added up over the constraints; ``total`` is the sum of the counts
of the feasible nodes that have all topology keys. The points are
``10 * (total - count) / (total - lowest count)``; 10 where that divides by 0, and 0 for nodes that
lack a key. (Written there with extremes of ``total - count``, of which the lower one begins at 0.)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.framework.nodes import ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.plugins.pod_topology_spread.constraints import Constraints, own_constraints
from podsched.plugins.pod_topology_spread.counts import Participation
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.rows.topology_domains import TopologyDomains
from podsched.plugins.without_args import WithoutArgs


class EvenPodsSpreadPriority(WithoutArgs):
    """Score on the pod's own ScheduleAnyway constraints."""

    name: ClassVar[str] = "EvenPodsSpreadPriority"
    traits: ClassVar[Traits] = Traits(reads_pods=False, projects_class=True)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the class, for pods with constraints."""
        return pod.cls.id if pod.cls.spec.topology_spread_constraints else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of the nodes' labels and of the counts."""
        if not pod.cls.spec.topology_spread_constraints:
            return ()
        nodes = cluster.nodes
        counts = (nodes.counter_version(q) for q in own_constraints(pod).soft_queries)
        return (nodes.topology_version, nodes.size, *counts)

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Compute the scores of all feasible rows; skip pods without such constraints."""
        if not pod.cls.spec.topology_spread_constraints:
            return SKIP
        own = own_constraints(pod)
        if not own.soft:
            return SKIP
        nodes = cluster.nodes
        participation = Participation(
            Constraints(own.namespace, soft=own.soft), pod, nodes, TopologyDomains()
        )
        counts = np.zeros(nodes.size, dtype=np.int64)
        parts = zip(own.soft_queries, participation.soft_domains, strict=True)
        for index, (query, domains) in enumerate(parts):
            counts += domains.spread(participation.soft_counts(index, nodes.counter(query)))
        complete = feasible[participation.soft_complete[feasible]]
        scores = np.zeros(nodes.size, dtype=np.int64)
        scores[complete] = even_scores(counts[complete])
        state.data[self.name] = scores
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        scores: Int64s = state.data[self.name]
        return scores[rows_of_base(nodes, rows)]


def even_scores(counts: Int64s) -> Scores:
    """Return the scores of nodes that have all keys, from their counts."""
    rest = counts.sum() - counts
    highest = int(rest.max(initial=0))
    if highest == 0:
        return as_scores(np.full(len(counts), MAX_PRIORITY))
    return as_scores(float(MAX_PRIORITY) * (rest.astype(np.float64) / float(highest)))
