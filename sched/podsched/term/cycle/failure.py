"""Patches of a pod's status that report a failed attempt."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.api.conditions import FALSE, POD_SCHEDULED, pod_condition
from podsched.api.objects import ObjectMeta
from podsched.framework.pods import PodInfo
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1


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


def not_scheduled(failure: Failure) -> v1.PodCondition:
    """Return the condition of a pod that was not scheduled."""
    return v1.PodCondition(
        type=POD_SCHEDULED, status=FALSE, reason=failure.reason, message=failure.message
    )


def status_patch(pod: PodInfo, failure: Failure) -> api_pb2.PodStatusPatch | None:
    """Return the patch that reports a failure; None when the pod's status has it already."""
    present = pod_condition(pod.pod.status, POD_SCHEDULED)
    same = (
        present is not None
        and present.status == FALSE
        and present.reason == failure.reason
        and present.message == failure.message
    )
    nominated = failure.nominated_node_name
    if same and (nominated is None or nominated == pod.pod.status.nominated_node_name):
        return None
    patch = patch_of(pod.pod.metadata)
    patch.conditions.append(not_scheduled(failure))
    if nominated is not None:
        patch.nominated_node_name = nominated
    return patch
