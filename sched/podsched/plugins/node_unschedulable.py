"""NodeUnschedulable: a cordoned node fits only pods that tolerate it (kube-scheduler v1.36)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from podsched.api.tolerations import NO_SCHEDULE, TAINT_UNSCHEDULABLE, tolerates
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Remedy, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicts, all_pass, rejecting
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) were unschedulable"

_TAINT = v1.Taint(key=TAINT_UNSCHEDULABLE, effect=NO_SCHEDULE)


class NodeUnschedulable(WithoutArgs):
    """Filter: the node is not cordoned, or the pod tolerates the taint that cordoned nodes get."""

    name: ClassVar[str] = "NodeUnschedulable"
    traits: ClassVar[Traits] = Traits.of_spec(
        reads_only_nodes=True, remedies=frozenset({Remedy.TAINTS})
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return _tolerates_cordon(pod.cls.spec)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        cordoned = nodes.unschedulable[rows]
        if not cordoned.any() or _tolerates_cordon(pod.cls.spec):
            return all_pass(len(rows))
        return rejecting(cordoned, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for added and uncordoned nodes, and for new tolerations of the pod itself.

        Cordoning a node sets ``spec.unschedulable``, which counts as a change of its taints.
        """
        node = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        pod = ActionType.UPDATE_POD_TOLERATION
        return [
            ClusterEventWithHint.on(Resource.NODE, node, _after_node_change, index=_index_of_nodes),
            ClusterEventWithHint.on(Resource.POD, pod, _after_toleration_change),
        ]


def _tolerates_cordon(spec: v1.PodSpec) -> bool:
    return any(tolerates(toleration, _TAINT) for toleration in spec.tolerations)


def _after_node_change(pod: PodInfo, old: v1.Node | None, new: v1.Node | None) -> QueueingHint:
    return QueueingHint.of(_uncordoned(old, new))


def _uncordoned(old: v1.Node | None, new: v1.Node | None) -> bool:
    was_schedulable = old is not None and not old.spec.unschedulable
    return new is not None and not new.spec.unschedulable and not was_schedulable


def _index_of_nodes() -> KeyedIndex:
    """Return an index that finds all pods when a node is uncordoned, and none otherwise."""
    return KeyedIndex(lambda pod: (), lambda old, new: None if _uncordoned(old, new) else ())


def _after_toleration_change(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    own = new is not None and new.metadata.uid == pod.uid
    return QueueingHint.of(own and new is not None and _tolerates_cordon(new.spec))
