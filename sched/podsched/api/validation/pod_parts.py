"""Updates of one part of a pod: its ephemeral containers, or its resources (in-place resize).

Source: ValidatePodEphemeralContainersUpdate and ValidatePodResize, v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api import objects as o
from podsched.api.resources import CPU, MEMORY, is_sidecar, qos_class
from podsched.api.service_accounts import is_mirror_pod
from podsched.api.validation.place import Place

_ONLY_RESIZABLE = "only cpu and memory resources are mutable"


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
    at, before, after = at("spec"), old.spec, o.PodSpec()
    after.CopyFrom(new.spec)
    if qos_class(new) != (old.status.qos_class or qos_class(old)):
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
    if not at.errors and after != before:
        at.forbidden(_ONLY_RESIZABLE)


def _check_containers(at: Place, after: o.PodSpec, before: o.PodSpec) -> None:
    """Check the resources of containers, and set those that may differ to the old ones."""
    inits = zip(after.init_containers, before.init_containers, strict=True)
    for index, (now, was) in enumerate(inits):
        place = at("initContainers")[index]
        restarts = any(policy.restart_policy == "RestartContainer" for policy in now.resize_policy)
        if now != was and not is_sidecar(now) and restarts:
            reason = "non-sidecar init containers with a resize policy of RestartContainer"
            place.forbidden(f"{reason} cannot be resized")
        _check_removed(place("resources"), now.resources, was.resources, "resource")
        if _without_resizing(now, was) != was:
            reason = "only cpu and memory resources for init or sidecar containers are mutable"
            place.forbidden(reason)
    for index, (now, was) in enumerate(zip(after.containers, before.containers, strict=True)):
        place = at("containers")[index]("resources")
        _check_removed(place, now.resources, was.resources, "resource")
        if _without_resizing(now, was) != was:
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
    _put_back(after.resources, before.resources)
    if after.resources != before.resources:
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
    _put_back(now.resources, was.resources)
    if not was.HasField("resources") and not now.resources.ListFields():
        now.ClearField("resources")
    return now


def _put_back(new: o.ResourceRequirements, old: o.ResourceRequirements) -> None:
    for quantities, before in ((new.requests, old.requests), (new.limits, old.limits)):
        for name in (CPU, MEMORY):
            quantities.pop(name, None)
            if name in before:
                quantities[name] = before[name]
