"""CheckNodeCondition and the pressure predicates: what a node's conditions say.

Rules: kube-scheduler v1.14 ``predicates.CheckNodeConditionPredicate``,
``CheckNodeMemoryPressurePredicate``, ``CheckNodeDiskPressurePredicate`` and
``CheckNodePIDPressurePredicate``. Taints say the same to all pods; no default enables these.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from podsched.api.resources import qos_class
from podsched.framework.classify import condition_statuses
from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts, all_pass
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON_NOT_READY = "node(s) were not ready"
REASON_NETWORK = "node(s) had unavailable network"
REASON_UNSCHEDULABLE = "node(s) were unschedulable"

_UNRESOLVABLE = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
_TRAITS = Traits(reads_only_nodes=True, reads_pods=False, projects_class=True)


class CheckNodeCondition(WithoutArgs):
    """Filter: the node is ready, has its network and is not cordoned."""

    name: ClassVar[str] = "CheckNodeCondition"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: all pods are alike to it."""
        return ()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject, unresolvably; a condition that the node does not report is none against it."""
        verdicts = Verdicter(len(rows))
        ready = _statuses(nodes, rows, "Ready", "True")
        network = _statuses(nodes, rows, "NetworkUnavailable", "False")
        verdicts.flag(ready != "True", _UNRESOLVABLE, REASON_NOT_READY)
        verdicts.flag(network != "False", _UNRESOLVABLE, REASON_NETWORK)
        verdicts.flag(nodes.unschedulable[rows], _UNRESOLVABLE, REASON_UNSCHEDULABLE)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes added, uncordoned or with other conditions."""
        return _node_events(ActionType.UPDATE_NODE_CONDITION | ActionType.UPDATE_NODE_TAINT)


class _CheckPressure(WithoutArgs):
    """Filter: the node does not report a pressure."""

    traits: ClassVar[Traits] = _TRAITS
    condition: ClassVar[str]
    reason: ClassVar[str]

    def concerns(self, pod: PodInfo) -> bool:
        """Return whether the pod must not go where there is pressure."""
        return True

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return whether the pressure concerns the pod."""
        return self.concerns(pod)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject, unresolvably, nodes whose condition is True."""
        if not self.concerns(pod):
            return all_pass(len(rows))
        verdicts = Verdicter(len(rows))
        under = _statuses(nodes, rows, self.condition, "") == "True"
        verdicts.flag(under, _UNRESOLVABLE, self.reason)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes added or with other conditions."""
        return _node_events(ActionType.UPDATE_NODE_CONDITION)


class CheckNodeMemoryPressure(_CheckPressure):
    """Filter BestEffort pods on MemoryPressure."""

    name: ClassVar[str] = "CheckNodeMemoryPressure"
    condition: ClassVar[str] = "MemoryPressure"
    reason: ClassVar[str] = "node(s) had memory pressure"

    def concerns(self, pod: PodInfo) -> bool:
        """Return whether the pod is BestEffort."""
        return qos_class(v1.Pod(spec=pod.cls.spec)) == "BestEffort"


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


def _statuses(nodes: NodeColumns, rows: Rows, condition: str, absent: str) -> NDArray[np.str_]:
    found = (condition_statuses(nodes.node(row)).get(condition, absent) for row in rows.tolist())
    return np.array([*found], dtype=np.str_)


def _node_events(actions: ActionType) -> Sequence[ClusterEventWithHint]:
    return [ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD | actions))]
