"""NodeLabelPriority: nodes that have a label, or do not have it.

Rule: kube-scheduler v1.16 ``priorities/node_label.go``: 10 points where the label is there as
``presence`` says, whatever its value, else none. A Policy enables it under names of its own
(``labelPreference``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.config.legacy_args import NodeLabelPriorityArgs
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores


class NodeLabelPriority:
    """Score: 10 points for nodes with the label, or for those without."""

    name: ClassVar[str] = "NodeLabelPriority"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
    )

    def __init__(self, args: NodeLabelPriorityArgs, handle: Handle) -> None:
        self._label = args.label
        self._presence = args.presence

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: all pods are alike to it."""
        return ()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 100 or 0."""
        there = nodes.label(self._label)[rows] != ABSENT
        return np.where(there == self._presence, MAX_NODE_SCORE, 0).astype(np.int64)
