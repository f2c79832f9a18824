"""Predicates that read nothing but the Node object: conditions, labels, NoExecute taints.

Rules: the functions of these names in kube-scheduler's ``algorithm/predicates``: v1.14 for the
conditions (taints say the same today, and no default enables them), v1.16 for the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.resources import qos_class
from podsched.api.tolerations import NO_EXECUTE, find_untolerated
from podsched.config.legacy.args import CheckNodeLabelPresenceArgs
from podsched.framework.classify import condition_statuses
from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts, all_pass, rejecting
from podsched.plugins.rows.matching import per_taint_set
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON_NOT_READY = "node(s) were not ready"
REASON_NETWORK = "node(s) had unavailable network"
REASON_UNSCHEDULABLE = "node(s) were unschedulable"
REASON_LABELS = "node(s) didn't have the requested labels"
REASON_TAINTS = "node(s) had taints that the pod didn't tolerate"

_UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
_TRAITS: Final = Traits(reads_only_nodes=True, reads_pods=False, projects_class=True)


class CheckNodeCondition(WithoutArgs):
    """Filter: the node is ready, has its network and is not cordoned."""

    name: ClassVar[str] = "CheckNodeCondition"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return ()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject, unresolvably; a condition that the node does not report counts as good."""
        verdicts = Verdicter(len(rows))
        ready = _statuses(nodes, rows, "Ready", "True")
        network = _statuses(nodes, rows, "NetworkUnavailable", "False")
        verdicts.flag(ready != "True", _UNRESOLVABLE, REASON_NOT_READY)
        verdicts.flag(network != "False", _UNRESOLVABLE, REASON_NETWORK)
        verdicts.flag(nodes.unschedulable[rows], _UNRESOLVABLE, REASON_UNSCHEDULABLE)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return _node_events(ActionType.UPDATE_NODE_CONDITION | ActionType.UPDATE_NODE_TAINT)


class _CheckPressure(WithoutArgs):
    """Filter: the node does not report a pressure."""

    traits: ClassVar[Traits] = _TRAITS
    condition: ClassVar[str]
    reason: ClassVar[str]

    def concerns(self, pod: PodInfo) -> bool:
        """Return whether the pod must not run where there is pressure."""
        return True

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return self.concerns(pod)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        if not self.concerns(pod):
            return all_pass(len(rows))
        under_pressure = _statuses(nodes, rows, self.condition, "") == "True"
        return rejecting(under_pressure, _UNRESOLVABLE, self.reason)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return _node_events(ActionType.UPDATE_NODE_CONDITION)


class CheckNodeMemoryPressure(_CheckPressure):
    """Filter BestEffort pods on MemoryPressure."""

    name: ClassVar[str] = "CheckNodeMemoryPressure"
    condition: ClassVar[str] = "MemoryPressure"
    reason: ClassVar[str] = "node(s) had memory pressure"

    def concerns(self, pod: PodInfo) -> bool:
        return qos_class(pod.cls.spec) == "BestEffort"


class CheckNodeDiskPressure(_CheckPressure):
    """Filter on DiskPressure."""

    name: ClassVar[str] = "CheckNodeDiskPressure"
    condition: ClassVar[str] = "DiskPressure"
    reason: ClassVar[str] = "node(s) had disk pressure"


class CheckNodePIDPressure(_CheckPressure):
    """Filter on PIDPressure."""

    name: ClassVar[str] = "CheckNodePIDPressure"
    condition: ClassVar[str] = "PIDPressure"
    reason: ClassVar[str] = "node(s) had pid pressure"


class CheckNodeLabelPresence:
    """Filter: the node has all of the labels (``presence``), or none of them.

    A Policy enables it under a name of its own (``labelsPresence``).
    """

    name: ClassVar[str] = "CheckNodeLabelPresence"
    traits: ClassVar[Traits] = _TRAITS

    def __init__(self, args: CheckNodeLabelPresenceArgs, handle: Handle) -> None:
        self._labels = args.labels
        self._presence = args.presence

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return ()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        violated = np.zeros(len(rows), dtype=np.bool_)
        for label in self._labels:
            violated |= (nodes.label(label)[rows] != ABSENT) != self._presence
        return rejecting(violated, _UNRESOLVABLE, REASON_LABELS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return _node_events(ActionType.UPDATE_NODE_LABEL)


class PodToleratesNodeNoExecuteTaints(WithoutArgs):
    """Filter: the pod tolerates the node's NoExecute taints."""

    name: ClassVar[str] = "PodToleratesNodeNoExecuteTaints"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return tuple(t.SerializeToString() for t in pod.cls.spec.tolerations)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        tolerations = pod.cls.spec.tolerations

        def untolerated(taints: tuple[v1.Taint, ...]) -> int:
            hard = [taint for taint in taints if taint.effect == NO_EXECUTE]
            return int(find_untolerated(hard, tolerations) is not None)

        return rejecting(per_taint_set(nodes, rows, untolerated) != 0, _UNRESOLVABLE, REASON_TAINTS)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            *_node_events(ActionType.UPDATE_NODE_TAINT),
            ClusterEventWithHint.on(Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION),
        ]


def _statuses(nodes: NodeColumns, rows: Rows, condition: str, absent: str) -> NDArray[np.str_]:
    found = (condition_statuses(nodes.node(row)).get(condition, absent) for row in rows.tolist())
    return np.array([*found], dtype=np.str_)


def _node_events(actions: ActionType) -> Sequence[ClusterEventWithHint]:
    return [ClusterEventWithHint.on(Resource.NODE, ActionType.ADD | actions)]
