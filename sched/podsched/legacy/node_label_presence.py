"""CheckNodeLabelPresence: nodes that have all of some labels, or none of them.

Rule: kube-scheduler v1.16 ``predicates.NodeLabelChecker``; the labels' values do not matter. A
Policy enables it under names of its own (``labelsPresence``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np

from podsched.config.legacy_args import CheckNodeLabelPresenceArgs
from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts

REASON = "node(s) didn't have the requested labels"


class CheckNodeLabelPresence:
    """Filter: each label is there (``presence``), or none is."""

    name: ClassVar[str] = "CheckNodeLabelPresence"
    traits: ClassVar[Traits] = Traits(reads_only_nodes=True, reads_pods=False, projects_class=True)

    def __init__(self, args: CheckNodeLabelPresenceArgs, handle: Handle) -> None:
        self._labels = args.labels
        self._presence = args.presence

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: all pods are alike to it."""
        return ()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject, unresolvably, nodes where one label is not as ``presence`` says."""
        violated = np.zeros(len(rows), dtype=np.bool_)
        for label in self._labels:
            violated |= (nodes.label(label)[rows] != ABSENT) != self._presence
        verdicts = Verdicter(len(rows))
        verdicts.flag(violated, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes added or with other labels."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [ClusterEventWithHint(ClusterEvent(Resource.NODE, node))]
