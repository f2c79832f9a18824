"""EqualPriority: the same score for every node (kube-scheduler v1.16 ``core.EqualPriorityMap``)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import as_scores
from podsched.plugins.without_args import WithoutArgs


class EqualPriority(WithoutArgs):
    """Score: 1 point."""

    name: ClassVar[str] = "EqualPriority"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: all pods are alike to it."""
        return ()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 10."""
        return as_scores(np.ones(len(rows), dtype=np.int64))
