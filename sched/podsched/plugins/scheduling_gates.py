"""SchedulingGates: a pod with scheduling gates does not enter activeQ (kube-scheduler v1.36)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.plugins.pods import after_own_update
from podsched.plugins.without_args import WithoutArgs


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
        return [ClusterEventWithHint.on(Resource.POD, gone, after_own_update)]
