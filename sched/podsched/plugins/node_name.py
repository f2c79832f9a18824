"""NodeName: a pod that names its node fits only on that node (kube-scheduler v1.36)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicts, all_pass, rejecting
from podsched.plugins.rows.matching import named
from podsched.plugins.without_args import WithoutArgs

REASON = "node(s) didn't match the requested node name"


class NodeName(WithoutArgs):
    """Filter: ``spec.nodeName``, if set, is the node's name."""

    name: ClassVar[str] = "NodeName"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        reads_requests=False,
        reads_labels=False,
        projects_placed_pods=False,
        reads_volumes=False,
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return pod.pod.spec.node_name

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the name: it is not part of the class, so pods of one class may differ in it."""
        return pod.pod.spec.node_name

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        wanted = pod.pod.spec.node_name
        if not wanted:
            return all_pass(len(rows))
        others = ~named(nodes, rows, [wanted])
        return rejecting(others, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [ClusterEventWithHint.on(Resource.NODE, ActionType.ADD)]
