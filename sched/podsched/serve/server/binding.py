"""Applies a binding to a pod by the rules of Kubernetes' binding subresource.

Pure: takes a version of the pod and the time, returns a step or raises a refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from podsched.api.conditions import POD_SCHEDULED, TRUE, is_terminating, set_pod_condition
from podsched.api.kinds import KINDS
from podsched.api.objects import Pod, PodCondition, Timestamp
from podsched.api.queue_labels import ADMISSION_ANNOTATIONS
from podsched.api.reasons import StatusReason
from podsched.api.validation.place import Place
from podsched.api.validation.storable import validate_storable
from podsched.serve.server import errors
from podsched.serve.server.deletion import check_preconditions
from podsched.serve.server.entries import Entry
from podsched.serve.server.mutations import Step
from podsched.v1.api_pb2 import Binding, PodStatusPatch, Preconditions

POD = KINDS["Pod"]
#: Max conditions of one patch. Each is searched for among the pod's conditions.
_MAX_CONDITIONS: Final = 100
_SCHEDULED = PodCondition(type=POD_SCHEDULED, status=TRUE)


PodChange = Callable[[Pod], None]
"""A change of a pod in place, made by the same write as its binding."""


def bind_step(
    entry: Entry,
    binding: Binding,
    now: Timestamp,
    *,
    fenced: bool,
    add_metadata: PodChange | None = None,
) -> Step | None:
    """Return the step that sets a pod's node. Raises ApiError if the pod cannot be bound.

    None if the pod is already bound to this node and the request counts as a retry: a leader that
    names the pod's uid has lost the answer to its first attempt, which succeeded.
    """
    pod = entry.decode()
    assert isinstance(pod, Pod)
    name, spec = binding.name, pod.spec
    if binding.uid and pod.metadata.uid != binding.uid:
        raise errors.precondition(POD, name, "UID", binding.uid, pod.metadata.uid)
    if spec.node_name:
        if fenced and binding.uid and spec.node_name == binding.node_name:
            return None
        raise errors.already_bound(POD, name, spec.node_name)
    if is_terminating(pod):
        why = "is being deleted, cannot be assigned to a host"
        raise errors.not_bindable(POD, name, StatusReason.POD_DELETING, why)
    if spec.scheduling_gates:
        why = "has non-empty .spec.schedulingGates"
        raise errors.not_bindable(POD, name, StatusReason.SCHEDULING_GATED, why)
    spec.node_name = binding.node_name
    # Binding clears the nomination since Kubernetes 1.35.
    pod.status.nominated_node_name = ""
    set_pod_condition(pod.status, _SCHEDULED, now)
    # Its author may have written some of them, by which it would count where it was not admitted.
    for name in ADMISSION_ANNOTATIONS:
        if name in pod.metadata.annotations:
            del pod.metadata.annotations[name]
    if binding.annotations:
        pod.metadata.annotations.update(binding.annotations)
    if add_metadata is not None:
        add_metadata(pod)
    return Step(pod.SerializeToString())


def check_conditions(name: str, conditions: Sequence[PodCondition]) -> None:
    """Raise ApiError for invalid conditions or too many of them."""
    at = Place("status.conditions")
    if at.bounded(conditions, _MAX_CONDITIONS):
        for condition in conditions:
            at.errors += validate_storable(condition, at[condition.type].path)
    if at.errors:
        raise errors.invalid_fields(POD, name, at.errors)


def status_step(entry: Entry, patch: PodStatusPatch, now: Timestamp) -> Step | None:
    """Return the step that sets conditions and nomination; None if the pod already has them.

    If the pod has a node, it was bound while the patch waited; then what the patch says of an
    earlier attempt is left out.
    """
    check_preconditions(entry, Preconditions(uid=patch.uid))
    pod = entry.decode()
    assert isinstance(pod, Pod)
    check_conditions(patch.name, patch.conditions)
    changed = False
    has_node = bool(pod.spec.node_name)
    for condition in patch.conditions:
        if has_node and condition.type == POD_SCHEDULED and condition.status != TRUE:
            continue
        changed |= set_pod_condition(pod.status, condition, now)
    at = Place("status.conditions")
    if not at.bounded(pod.status.conditions):
        raise errors.invalid_fields(POD, patch.name, at.errors)
    if patch.HasField("nominated_node_name") and not (has_node and patch.nominated_node_name):
        changed |= pod.status.nominated_node_name != patch.nominated_node_name
        pod.status.nominated_node_name = patch.nominated_node_name
    return Step(pod.SerializeToString()) if changed else None
