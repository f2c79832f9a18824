"""TeamNodes: nodes that belong to a team take only its pods; teams like to stay together.

A plugin written per node: slower than columns (one call of Python per node) and easier to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Handle
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.plugins.per_node import NodeView, PerNodeFilter, PerNodeScore

#: The label of nodes and of pods.
TEAM = "example.com/team"
REASON = "node(s) belonged to another team"


class TeamNodes(PerNodeFilter, PerNodeScore):
    """Filter: the node has no team or the pod's. Score: how many of its pods are the team's."""

    name: ClassVar[str] = "TeamNodes"

    def __init__(self, args: Mapping[str, Any] | None, handle: Handle) -> None:
        if args:
            raise ValueError("TeamNodes takes no arguments")

    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status:
        """Reject other teams' nodes; evicting pods would not help, hence unresolvable."""
        owner = node.node.metadata.labels.get(TEAM, "")
        return SUCCESS if owner in ("", pod.cls.labels.get(TEAM, "")) else unresolvable(REASON)

    def score_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the share of the node's pods that are of the pod's team, from 0 to 100."""
        team = pod.cls.labels.get(TEAM, "")
        if not team or not node.pods:
            return 0
        mates = sum(other.cls.labels.get(TEAM) == team for other in node.pods.values())
        return MAX_NODE_SCORE * mates // len(node.pods)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Try a rejected pod again when nodes appear or get other labels."""
        node = ClusterEvent(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL)
        return [ClusterEventWithHint(node)]
