"""The changes that an existing pod allows: updates, ephemeral containers, in-place resize.

Source: ValidatePodUpdate, ValidatePodEphemeralContainersUpdate and ValidatePodResize, v1.36. In an
update, the new spec with its mutable fields put back to the old ones must equal the old spec; the
mutable fields each have their own rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api import objects as o
from podsched.api.quantity_fields import are_same, by_amount
from podsched.api.resources import CPU, MEMORY, is_sidecar, qos_class
from podsched.api.service_accounts import MIRROR_POD, is_mirror_pod
from podsched.api.validation.place import MOST_ERRORS, Place
from podsched.api.validation.queue_labels import validate_queue_labels_update

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)
_ONLY_RESIZABLE = "only cpu and memory resources are mutable"


def validate_pod_update(at: Place, new: o.Pod, old: o.Pod) -> None:
    """Check that neither the spec nor the queue has a change that is not allowed."""
    validate_queue_labels_update(at, new.metadata, old.metadata, reserved=bool(old.spec.node_name))
    _check_mirror(at("metadata.annotations")[MIRROR_POD], new, old)
    if new.spec == old.spec:
        return
    at = at("spec")
    for place, now, was in at.fields(("containers", "init_containers"), new.spec, old.spec):
        if len(now) != len(was):
            place.forbidden("pod updates may not add or remove containers")
            return
    _check_active_deadline(at("activeDeadlineSeconds"), new.spec, old.spec)
    _check_tolerations(at("tolerations"), new.spec, old.spec)
    _check_gates(at("schedulingGates"), new.spec, old.spec)
    comparable = o.copy_of(new.spec)
    _put_back(comparable, old.spec)
    if old.spec.scheduling_gates:
        # A gated pod may be restricted further: to fewer of the nodes that it could use before.
        _check_gated_node_selector(at("nodeSelector"), new.spec, old.spec)
        _check_gated_node_affinity(at("affinity.nodeAffinity"), new.spec, old.spec)
        put_back_placement(comparable, old.spec)
    if not are_same(comparable, old.spec):
        at.forbidden(_FROZEN + _changed(by_amount(comparable), by_amount(old.spec)))


def _check_mirror(at: Place, new: o.Pod, old: o.Pod) -> None:
    """Check that a pod neither becomes nor stops being the image of a static one."""
    now, before = (pod.metadata.annotations.get(MIRROR_POD) for pod in (new, old))
    if now != before:
        what = "add" if before is None else "remove or update"
        at.forbidden(f"may not {what} mirror pod annotation")


def _changed(comparable: o.PodSpec, old: o.PodSpec) -> str:
    names = [
        field.json_name
        for field in o.PodSpec.DESCRIPTOR.fields
        if getattr(comparable, field.name) != getattr(old, field.name)
    ]
    return f"; changed: {', '.join(names)}" if names else ""


def _put_back(spec: o.PodSpec, old: o.PodSpec) -> None:
    for containers, before in (
        (spec.containers, old.containers),
        (spec.init_containers, old.init_containers),
    ):
        for container, original in zip(containers, before, strict=True):
            container.image = original.image
    for name in ("active_deadline_seconds", "tolerations", "scheduling_gates"):
        o.copy_field(spec, old, name)
    if old.termination_grace_period_seconds < 0 and spec.termination_grace_period_seconds == 1:
        spec.termination_grace_period_seconds = old.termination_grace_period_seconds


def put_back_placement(spec: o.PodSpec, old: o.PodSpec) -> None:
    """Set what chooses nodes, selector and affinity, to the old values."""
    o.copy_field(spec, old, "node_selector")
    o.copy_field(spec.affinity, old.affinity, "node_affinity")
    if not old.HasField("affinity") and not spec.affinity.ListFields():
        spec.ClearField("affinity")


def _check_active_deadline(at: Place, new: o.PodSpec, old: o.PodSpec) -> None:
    if not old.HasField("active_deadline_seconds"):
        return
    if not new.HasField("active_deadline_seconds"):
        at.invalid(None, "must not update from a positive integer to nil value")
    elif new.active_deadline_seconds > old.active_deadline_seconds:
        at.invalid(new.active_deadline_seconds, "must be less than or equal to previous value")


def _check_tolerations(at: Place, new: o.PodSpec, old: o.PodSpec) -> None:
    """Check that old tolerations stay, but for their seconds; new ones may come."""
    kept = {_without_seconds(toleration) for toleration in new.tolerations}
    if not all(_without_seconds(toleration) in kept for toleration in old.tolerations):
        at.forbidden("existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: o.Toleration) -> tuple[str, str, str, str]:
    return (toleration.key, toleration.operator, toleration.value, toleration.effect)


def _check_gates(at: Place, new: o.PodSpec, old: o.PodSpec) -> None:
    known = {gate.name for gate in old.scheduling_gates}
    names = [(index, gate.name) for index, gate in enumerate(new.scheduling_gates)]
    for index, name in [each for each in names if each[1] not in known][:MOST_ERRORS]:
        reason = f"only deletion is allowed, but found new scheduling gate '{name}'"
        at[index]("name").forbidden(reason)


def _check_gated_node_selector(at: Place, new: o.PodSpec, old: o.PodSpec) -> None:
    if not all(new.node_selector.get(key) == value for key, value in old.node_selector.items()):
        reason = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        at.invalid(dict(new.node_selector), reason)


def _check_gated_node_affinity(at: Place, new: o.PodSpec, old: o.PodSpec) -> None:
    before, after = (
        spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        for spec in (old, new)
    )
    at = at("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if not before.node_selector_terms:
        return
    # Terms are alternatives: a further one would add nodes.
    if len(before.node_selector_terms) != len(after.node_selector_terms):
        reason = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        at.invalid(len(after.node_selector_terms), reason)
        return
    pairs = zip(before.node_selector_terms, after.node_selector_terms, strict=True)
    for index, (was, now) in enumerate(pairs):
        if not _only_added(was, now):
            at[index].invalid("", "only additions are allowed (no mutations or deletions)")


def _only_added(was: o.NodeSelectorTerm, now: o.NodeSelectorTerm) -> bool:
    if not was.match_expressions and not was.match_fields:
        # An empty term matches nothing; additions would make it match something.
        return was == now
    return _encoded(was.match_expressions) <= _encoded(now.match_expressions) and _encoded(
        was.match_fields
    ) <= _encoded(now.match_fields)


def _encoded(requirements: Iterable[o.NodeSelectorRequirement]) -> set[bytes]:
    """Return requirements as what can be looked up: compared one by one, they cost their square."""
    return {each.SerializeToString(deterministic=True) for each in requirements}


# ------------------------------------------------------------------ subresources


def validate_pod_status_update(at: Place, new: o.Pod, old: o.Pod) -> None:
    """Check that a bound pod does not get a nominated node."""
    name = new.status.nominated_node_name
    if old.spec.node_name and name not in ("", old.status.nominated_node_name):
        reason = "may not be set on pods that are already bound to a node"
        at("status.nominatedNodeName").forbidden(reason)


def validate_pod_ephemeralcontainers(at: Place, new: o.Pod, old: o.Pod) -> None:
    """Check that ephemeral containers were only added."""
    if is_mirror_pod(old):
        at.forbidden("static pods do not support ephemeral containers")
        return
    at, now = at("spec.ephemeralContainers"), {c.name: c for c in new.spec.ephemeral_containers}
    for container in old.spec.ephemeral_containers:
        name = container.name
        if name not in now:
            at.forbidden(f'existing ephemeral containers "{name}" may not be removed')
        elif now[name] != container:
            at.forbidden(f'existing ephemeral containers "{name}" may not be changed')


def validate_pod_resize(at: Place, new: o.Pod, old: o.Pod) -> None:
    """Check that nothing but CPU and memory changed, and that none of it was removed."""
    if is_mirror_pod(old):
        at.forbidden("static pods cannot be resized")
        return
    if at.errors:
        return  # of quantities that cannot be read, for example
    at, before, after = at("spec"), old.spec, o.copy_of(new.spec)
    if qos_class(new.spec) != (old.status.qos_class or qos_class(old.spec)):
        reason = "Pod QOS Class may not change as a result of resizing"
        at.invalid(old.status.qos_class, reason)
    if not _can_be_resized(old):
        at.forbidden("Pod running on node without support for resize")
    _check_whole(at, after, before)
    known = len(at.errors)
    _check_order(at("initContainers"), after.init_containers, before.init_containers)
    _check_order(at("containers"), after.containers, before.containers)
    if len(at.errors) > known:
        return
    _check_containers(at, after, before)
    if not at.errors and not are_same(after, before):
        at.forbidden(_ONLY_RESIZABLE)


def _check_containers(at: Place, after: o.PodSpec, before: o.PodSpec) -> None:
    """Check the resources of containers, and set those that may differ to the old ones."""
    inits = zip(after.init_containers, before.init_containers, strict=True)
    for index, (now, was) in enumerate(inits):
        place = at("initContainers")[index]
        restarts = any(policy.restart_policy == "RestartContainer" for policy in now.resize_policy)
        if restarts and not is_sidecar(now) and not are_same(now, was):
            reason = "non-sidecar init containers with a resize policy of RestartContainer"
            place.forbidden(f"{reason} cannot be resized")
        _check_removed(place("resources"), now.resources, was.resources, "resource")
        if not are_same(_without_resizing(now, was), was):
            reason = "only cpu and memory resources for init or sidecar containers are mutable"
            place.forbidden(reason)
    for index, (now, was) in enumerate(zip(after.containers, before.containers, strict=True)):
        place = at("containers")[index]("resources")
        _check_removed(place, now.resources, was.resources, "resource")
        if not are_same(_without_resizing(now, was), was):
            at.forbidden(_ONLY_RESIZABLE)


def _can_be_resized(pod: o.Pod) -> bool:
    """Return whether the pod's node resizes pods, as far as running containers tell."""
    for status in pod.status.container_statuses:
        if status.state.HasField("running"):
            return status.HasField("resources")
    return True


def _check_whole(at: Place, after: o.PodSpec, before: o.PodSpec) -> None:
    """Check the resources of the pod as a whole, and set those that may differ to the old ones."""
    if not (_is_set(before) or _is_set(after)):
        return
    place = at("resources")
    if before.HasField("resources") and not after.HasField("resources"):
        place.forbidden("pod-level resources cannot be removed")
        return
    _check_removed(place, after.resources, before.resources, "pod-level resource")
    _put_back_resources(after.resources, before.resources)
    if not are_same(after.resources, before.resources):
        at.forbidden(f"{_ONLY_RESIZABLE} at pod-level")
    if not before.HasField("resources"):
        after.ClearField("resources")


def _is_set(spec: o.PodSpec) -> bool:
    return bool(spec.resources.requests or spec.resources.limits)


def _check_order(at: Place, new: Sequence[o.Container], old: Sequence[o.Container]) -> None:
    name = at.path.rpartition(".")[2]
    if len(new) != len(old):
        at.forbidden(f"{name} may not be added or removed on resize")
        return
    for index, (now, was) in enumerate(zip(new, old, strict=True)):
        if now.name != was.name:
            at[index]("name").forbidden(f"{name} may not be renamed or reordered on resize")


def _check_removed(
    at: Place, new: o.ResourceRequirements, old: o.ResourceRequirements, what: str
) -> None:
    for name in ("requests", "limits"):
        if set(getattr(old, name)) - set(getattr(new, name)):
            at(name).forbidden(f"{what} {name} cannot be removed")


def _without_resizing(now: o.Container, was: o.Container) -> o.Container:
    """Return a container with the old CPU and memory, changed in place.

    Its claims are dropped, as Kubernetes does: a container that has some cannot be resized.
    """
    now.resources.ClearField("claims")
    _put_back_resources(now.resources, was.resources)
    if not was.HasField("resources") and not now.resources.ListFields():
        now.ClearField("resources")
    return now


def _put_back_resources(new: o.ResourceRequirements, old: o.ResourceRequirements) -> None:
    for quantities, before in ((new.requests, old.requests), (new.limits, old.limits)):
        for name in (CPU, MEMORY):
            quantities.pop(name, None)
            if name in before:
                quantities[name] = before[name]
