"""MostRequestedPriority: prefers nodes of which the most is requested.

Formula: kube-scheduler v1.16 ``priorities/most_requested.go``: the mean over cpu and memory of
``requested * 10 / capacity``, every division cut to whole points.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import as_scores
from podsched.legacy.requested_amounts import amounts
from podsched.plugins.without_args import WithoutArgs


class MostRequestedPriority(WithoutArgs):
    """Score: 10 points for a node that the pod fills, none where it does not fit."""

    name: ClassVar[str] = "MostRequestedPriority"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False, depends_on_feasible=False, projects_class=True
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return what scores count of the requests."""
        return pod.cls.nonzero

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        cpu = amounts(nodes, rows, pod, CPU).most_requested()
        memory = amounts(nodes, rows, pod, MEMORY).most_requested()
        return as_scores((cpu + memory) // 2)
