"""SchedulingGates: a pod with scheduling gates does not enter activeQ (kube-scheduler v1.36)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1


class SchedulingGates(WithoutArgs):
    """PreEnqueue: rejects pods that still have gates."""

    name: ClassVar[str] = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status:
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = " ".join(gate.name for gate in gates)  # as Go prints a slice
        return unresolvable(f"waiting for scheduling gates: [{names}]")

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        gone = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [ClusterEventWithHint.on(Resource.POD, gone, _after_gates_eliminated)]


def _after_gates_eliminated(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    return QueueingHint.of(new is not None and new.metadata.uid == pod.uid)
