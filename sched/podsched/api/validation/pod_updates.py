"""The changes that an existing pod allows.

Source: ValidatePodUpdate, v1.36. The new spec with its mutable fields put back to the old ones must
equal the old spec; the mutable fields each have their own rule.
"""

from __future__ import annotations

from collections.abc import Iterable

from podsched.api.field_errors import FieldError, forbidden, invalid
from podsched.api.objects import NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Toleration
from podsched.api.validation.meta import MOST_ERRORS

_FROZEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
    "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
    "(allow it to be set to 1 if it was previously negative)"
)


def validate_pod_update(new: Pod, old: Pod) -> list[FieldError]:
    """Return every change of the spec that is not allowed."""
    if new.spec == old.spec:
        return []
    errors = _active_deadline(new.spec, old.spec)
    errors += _tolerations(new.spec, old.spec)
    errors += _gates(new.spec, old.spec)
    comparable = PodSpec()
    comparable.CopyFrom(new.spec)
    _put_back(comparable, old.spec)
    if old.spec.scheduling_gates:
        errors += _gated_node_selector(new.spec, old.spec)
        errors += _gated_node_affinity(new.spec, old.spec)
        _put_back_placement(comparable, old.spec)
    if comparable != old.spec:
        errors.append(forbidden("spec", _FROZEN + _changed(comparable, old.spec)))
    return errors


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


def _active_deadline(new: PodSpec, old: PodSpec) -> list[FieldError]:
    path = "spec.activeDeadlineSeconds"
    if not old.HasField("active_deadline_seconds"):
        return []
    if not new.HasField("active_deadline_seconds"):
        reason = "must not update from a positive integer to nil value"
        return [invalid(path, None, reason)]
    if new.active_deadline_seconds > old.active_deadline_seconds:
        reason = "must be less than or equal to previous value"
        return [invalid(path, new.active_deadline_seconds, reason)]
    return []


def _tolerations(new: PodSpec, old: PodSpec) -> list[FieldError]:
    """Check that old tolerations stay, but for their seconds; new ones may come."""
    kept = {_without_seconds(toleration) for toleration in new.tolerations}
    if all(_without_seconds(toleration) in kept for toleration in old.tolerations):
        return []
    reason = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden("spec.tolerations", reason)]


def _without_seconds(toleration: Toleration) -> tuple[str, str, str, str]:
    return (toleration.key, toleration.operator, toleration.value, toleration.effect)


def _gates(new: PodSpec, old: PodSpec) -> list[FieldError]:
    known = {gate.name for gate in old.scheduling_gates}
    added = [
        (index, gate.name)
        for index, gate in enumerate(new.scheduling_gates)
        if gate.name not in known
    ]
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{name}'",
        )
        for index, name in added[:MOST_ERRORS]
    ]


def _gated_node_selector(new: PodSpec, old: PodSpec) -> list[FieldError]:
    if all(new.node_selector.get(key) == value for key, value in old.node_selector.items()):
        return []
    reason = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [invalid("spec.nodeSelector", dict(new.node_selector), reason)]


def _gated_node_affinity(new: PodSpec, old: PodSpec) -> list[FieldError]:
    before = old.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    after = new.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    path = (
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms"
    )
    if not before.node_selector_terms:
        return []
    if len(before.node_selector_terms) != len(after.node_selector_terms):
        reason = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(path, len(after.node_selector_terms), reason)]
    pairs = zip(before.node_selector_terms, after.node_selector_terms, strict=True)
    return [
        invalid(f"{path}[{index}]", "", "only additions are allowed (no mutations or deletions)")
        for index, (was, now) in enumerate(pairs)
        if not _only_added(was, now)
    ]


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
