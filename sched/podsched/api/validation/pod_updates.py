"""The changes that an existing pod allows.

Source: ValidatePodUpdate, v1.36. The new spec with its mutable fields put back to the old ones must
equal the old spec; the mutable fields each have their own rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.objects import NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration
from podsched.api.validation.place import MOST_ERRORS, Place
from podsched.api.validation.queue_labels import validate_queue_labels_update

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(at: Place, new: Pod, old: Pod) -> None:
    """Check that neither the spec nor the queue has a change that is not allowed."""
    validate_queue_labels_update(at, new.metadata, old.metadata, reserved=bool(old.spec.node_name))
    if new.spec == old.spec:
        return
    at = at("spec")
    _check_active_deadline(at("activeDeadlineSeconds"), new.spec, old.spec)
    _check_tolerations(at("tolerations"), new.spec, old.spec)
    _check_gates(at("schedulingGates"), new.spec, old.spec)
    comparable = PodSpec()
    comparable.CopyFrom(new.spec)
    _put_back(comparable, old.spec)
    if old.spec.scheduling_gates:
        _check_gated_node_selector(at("nodeSelector"), new.spec, old.spec)
        _check_gated_node_affinity(at("affinity.nodeAffinity"), new.spec, old.spec)
        _put_back_placement(comparable, old.spec)
    if comparable != old.spec:
        at.forbidden(_FROZEN + _changed(comparable, old.spec))


def _changed(comparable: PodSpec, old: PodSpec) -> str:
    names = [
        field.json_name
        for field in PodSpec.DESCRIPTOR.fields
        if getattr(comparable, field.name) != getattr(old, field.name)
    ]
    return f"; changed: {', '.join(names)}" if names else ""


def _put_back(spec: PodSpec, old: PodSpec) -> None:
    for containers, before in (
        (spec.containers, old.containers),
        (spec.init_containers, old.init_containers),
    ):
        if len(containers) == len(before):
            for container, original in zip(containers, before, strict=True):
                container.image = original.image
                container.image_pull_policy = original.image_pull_policy
    spec.ClearField("active_deadline_seconds")
    if old.HasField("active_deadline_seconds"):
        spec.active_deadline_seconds = old.active_deadline_seconds
    for name in ("tolerations", "scheduling_gates"):
        target = getattr(spec, name)
        del target[:]
        target.extend(getattr(old, name))


def _put_back_placement(spec: PodSpec, old: PodSpec) -> None:
    spec.ClearField("node_selector")
    spec.node_selector.update(old.node_selector)
    if old.affinity.HasField("node_affinity"):
        spec.affinity.node_affinity.CopyFrom(old.affinity.node_affinity)
    else:
        spec.affinity.ClearField("node_affinity")
    if not old.HasField("affinity") and not spec.affinity.ListFields():
        spec.ClearField("affinity")


def _check_active_deadline(at: Place, new: PodSpec, old: PodSpec) -> None:
    if not old.HasField("active_deadline_seconds"):
        return
    if not new.HasField("active_deadline_seconds"):
        at.invalid(None, "must not update from a positive integer to nil value")
    elif new.active_deadline_seconds > old.active_deadline_seconds:
        at.invalid(new.active_deadline_seconds, "must be less than or equal to previous value")


def _check_tolerations(at: Place, new: PodSpec, old: PodSpec) -> None:
    """Check that old tolerations stay, but for their seconds; new ones may come."""
    kept = {_without_seconds(toleration) for toleration in new.tolerations}
    if not all(_without_seconds(toleration) in kept for toleration in old.tolerations):
        at.forbidden("existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: Toleration) -> tuple[str, str, str, str]:
    return (toleration.key, toleration.operator, toleration.value, toleration.effect)


def _check_gates(at: Place, new: PodSpec, old: PodSpec) -> None:
    known = {gate.name for gate in old.scheduling_gates}
    names = [(index, gate.name) for index, gate in enumerate(new.scheduling_gates)]
    for index, name in [each for each in names if each[1] not in known][:MOST_ERRORS]:
        reason = f"only deletion is allowed, but found new scheduling gate '{name}'"
        at[index]("name").forbidden(reason)


def _check_gated_node_selector(at: Place, new: PodSpec, old: PodSpec) -> None:
    if not all(new.node_selector.get(key) == value for key, value in old.node_selector.items()):
        reason = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        at.invalid(dict(new.node_selector), reason)


def _check_gated_node_affinity(at: Place, new: PodSpec, old: PodSpec) -> None:
    before, after = (
        spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        for spec in (old, new)
    )
    at = at("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms")
    if not before.node_selector_terms:
        return
    if len(before.node_selector_terms) != len(after.node_selector_terms):
        reason = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        at.invalid(len(after.node_selector_terms), reason)
        return
    pairs = zip(before.node_selector_terms, after.node_selector_terms, strict=True)
    for index, (was, now) in enumerate(pairs):
        if not _only_added(was, now):
            at[index].invalid("", "only additions are allowed (no mutations or deletions)")


def _only_added(was: NodeSelectorTerm, now: NodeSelectorTerm) -> bool:
    if not was.match_expressions and not was.match_fields:
        # An empty term matches nothing; additions would make it match something.
        return was == now
    return _encoded(was.match_expressions) <= _encoded(now.match_expressions) and _encoded(
        was.match_fields
    ) <= _encoded(now.match_fields)


def _encoded(requirements: Iterable[NodeSelectorRequirement]) -> set[bytes]:
    """Return requirements as what can be looked up: compared one by one, they cost their square."""
    return {each.SerializeToString(deterministic=True) for each in requirements}
