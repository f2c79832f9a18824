"""Report what happens to pending pods: Events, and patches of their statuses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from podsched.api.conditions import FALSE, POD_SCHEDULED, REASON_SCHEDULER_ERROR, condition_of
from podsched.api.objects import ObjectMeta
from podsched.cache.pod_class import DEFAULT_SCHEDULER_NAME
from podsched.framework.pods import PodInfo
from podsched.lib.printable import shortened
from podsched.term.set_aside import IGNORED
from podsched.term.state import SchedulingState
from podsched.term.writes.event_recorder import EventRecorder
from podsched.term.writes.pod_group_conditions import QueueCondition
from podsched.term.writes.status_writer import StatusWriter
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Longest message of a condition in bytes, as in Kubernetes' metav1.Condition. An extender may have
#: a reason of its own for each of thousands of nodes, and the API refuses calls of more than 4 MiB.
MESSAGE_LIMIT: Final = 32 << 10


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed attempt: REASON_UNSCHEDULABLE or REASON_SCHEDULER_ERROR, and the message for people.

    ``nominated_node_name``: None keeps the pod's nomination, "" clears it.
    """

    reason: str
    message: str
    nominated_node_name: str | None = None


def patch_of(pod: ObjectMeta) -> api_pb2.PodStatusPatch:
    """Return a patch of a pod's status that changes nothing yet."""
    return api_pb2.PodStatusPatch(namespace=pod.namespace, name=pod.name, uid=pod.uid)


def not_scheduled(failure: Failure, pod: ObjectMeta) -> v1.PodCondition:
    """Return the condition of a pod that was not scheduled."""
    return v1.PodCondition(
        type=POD_SCHEDULED,
        status=FALSE,
        reason=failure.reason,
        message=failure.message,
        observed_generation=pod.generation,
    )


def status_patch(
    pod: PodInfo, failure: Failure, *, is_written: bool = True
) -> api_pb2.PodStatusPatch | None:
    """Return the patch that reports a failure; None when the pod's status has it already.

    ``is_written``: whether no other patch of the status is under way.
    """
    failure = replace(failure, message=shortened(failure.message, MESSAGE_LIMIT))
    present = condition_of(pod.pod.status, POD_SCHEDULED)
    told = None if present is None else (present.status, present.reason, present.message)
    same = is_written and told == (FALSE, failure.reason, failure.message)
    # As in kube-scheduler's ``updatePod``: each attempt would write the same status again.
    nominated = failure.nominated_node_name
    if same and (nominated is None or nominated == pod.pod.status.nominated_node_name):
        return None
    patch = patch_of(pod.pod.metadata)
    patch.conditions.append(not_scheduled(failure, pod.pod.metadata))
    if nominated is not None:
        patch.nominated_node_name = nominated
    return patch


class PodReports:
    """Writes Events and status patches about pending pods for one term."""

    def __init__(
        self, state: SchedulingState, recorder: EventRecorder, statuses: StatusWriter
    ) -> None:
        self._state = state
        self._recorder = recorder
        self._statuses = statuses

    def failed(self, pod: PodInfo, failure: Failure) -> None:
        """Report a failed attempt; the status is not written again if it shows the failure."""
        self.record(pod, failure.message)
        known = self._state.cache.cluster.pods.get(pod.key)
        # Compared with the latest version, which may have the condition already.
        latest = pod if known is None or known.uid != pod.uid else known
        patch = status_patch(latest, failure, is_written=not self._statuses.has(pod.key))
        if patch is not None:
            self._statuses.submit(patch)

    def report_set_aside(self) -> None:
        """Report that set-aside pods of this scheduler will not be scheduled."""
        for pod, reason in self._state.set_aside.take_unreported():
            scheduler = pod.spec.scheduler_name or DEFAULT_SCHEDULER_NAME
            if scheduler not in self._state.profiles:
                continue
            message = IGNORED.format(reason)
            # From the message alone: a pod that is set aside has no ``PodInfo``.
            metadata = pod.metadata
            self._recorder.record(
                metadata,
                type_="Warning",
                reason="FailedScheduling",
                action="Scheduling",
                message=message,
                controller=scheduler,
            )
            patch = patch_of(metadata)
            failure = Failure(REASON_SCHEDULER_ERROR, message)
            patch.conditions.append(not_scheduled(failure, metadata))
            self._statuses.submit(patch)

    def record(self, pod: PodInfo, message: str) -> None:
        """Record the FailedScheduling event."""
        self.event(pod, "Warning", "FailedScheduling", "Scheduling", message)

    def event(self, pod: PodInfo, type_: str, reason: str, action: str, message: str) -> None:
        """Record an event about a pod."""
        self._recorder.record(
            pod.pod.metadata,
            type_=type_,
            reason=reason,
            action=action,
            message=message,
            controller=pod.cls.scheduler_name,
        )

    def write_condition(self, pod: PodInfo, condition: QueueCondition) -> None:
        """Write a condition of admission."""
        patch = patch_of(pod.pod.metadata)
        patch.conditions.add(**condition._asdict())
        self._statuses.submit(patch)

    def write_nomination(self, pod: PodInfo, node_name: str) -> None:
        """Write only the pod's nominatedNodeName; "" clears it."""
        patch = patch_of(pod.pod.metadata)
        patch.nominated_node_name = node_name
        self._statuses.submit(patch)

    def withdraw_nomination(self, pod: PodInfo) -> None:
        cluster = self._state.cache.cluster
        if cluster.nominator.node_of(pod.uid) or pod.nominated_node_name:
            self._state.cache.nominator.delete(pod.uid)
            self.write_nomination(pod, "")
