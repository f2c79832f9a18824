"""Workloads and PodGroups (pkg/apis/scheduling/v1alpha2/zz_generated.validations.go)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from google.protobuf.message import Message

from podsched.api.codec import write
from podsched.api.field_errors import FieldError, duplicate, invalid, required
from podsched.api.objects import (
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodGroupTemplate,
    PodGroupTemplateReference,
    TypedLocalObjectReference,
    Workload,
)
from podsched.api.priorities import HIGHEST_USER_DEFINABLE_PRIORITY
from podsched.api.validation.meta import (
    IMMUTABLE,
    bounded_items,
    not_negative,
    one_of,
    validate_label_name,
)
from podsched.api.validation.names import (
    dns1123_label,
    dns1123_subdomain,
    path_segment_name,
    qualified_name,
)

MOST_TEMPLATES: Final = 8
_MOST_CONSTRAINTS: Final = 1
#: Of a PodGroup, as of a pod.
_MOST_CONDITIONS: Final = 100
_MOST_CLAIMS: Final = 4
DISRUPTION_MODES: Final = ("Pod", "PodGroup")
_TEMPLATES: Final = "spec.podGroupTemplates"


def validate_workload(item: Workload) -> list[FieldError]:
    """Validate what it is for, and its templates."""
    spec = item.spec
    errors: list[FieldError] = []
    if spec.HasField("controller_ref"):
        errors += _controller(spec.controller_ref, "spec.controllerRef")
    if not spec.pod_group_templates:
        errors.append(required(_TEMPLATES))
    seen: set[str] = set()
    templates = bounded_items(_TEMPLATES, spec.pod_group_templates, errors, MOST_TEMPLATES)
    for index, template in templates:
        path = f"{_TEMPLATES}[{index}]"
        if template.name in seen:
            errors.append(duplicate(path, write(template)))
        seen.add(template.name)
        errors += _name(f"{path}.name", template.name, dns1123_label)
        errors += _content(template, path)
    return errors


def validate_workload_update(new: Workload, old: Workload) -> list[FieldError]:
    """Check that its templates stay, and what it is for once that is told."""
    fixed = {"pod_group_templates": _TEMPLATES}
    if old.spec.HasField("controller_ref"):
        fixed["controller_ref"] = "spec.controllerRef"
    return _changed(new.spec, old.spec, fixed)


def validate_pod_group(item: PodGroup) -> list[FieldError]:
    """Validate where it is from, and how its pods are scheduled and evicted."""
    spec = item.spec
    errors = _content(spec, "spec")
    if spec.HasField("pod_group_template_ref"):
        errors += _template_ref(spec.pod_group_template_ref, "spec.podGroupTemplateRef")
    return errors


def validate_pod_group_update(new: PodGroup, old: PodGroup) -> list[FieldError]:
    """Check that its spec stays as it is."""
    fixed = {field.name: f"spec.{field.json_name}" for field in PodGroupSpec.DESCRIPTOR.fields}
    return _changed(new.spec, old.spec, fixed)


def validate_pod_group_status(item: PodGroup) -> list[FieldError]:
    """Validate its conditions. It has no claims whose status could be told."""
    errors: list[FieldError] = []
    conditions, path = item.status.conditions, "status.conditions"
    seen: set[str] = set()
    for index, condition in bounded_items(path, conditions, errors, _MOST_CONDITIONS):
        here = f"{path}[{index}]"
        if not condition.type:
            errors.append(required(f"{here}.type"))
        else:
            found = qualified_name(condition.type)
            errors += [invalid(f"{here}.type", condition.type, reason) for reason in found]
        if condition.type in seen:
            errors.append(duplicate(here, write(condition)))
        seen.add(condition.type)
        if not condition.status:
            errors.append(required(f"{here}.status"))
        errors += one_of(f"{here}.status", condition.status, ("False", "True", "Unknown"))
        errors += not_negative(f"{here}.observedGeneration", condition.observed_generation)
    claims: list[FieldError] = []
    path, statuses = "status.resourceClaimStatuses", item.status.resource_claim_statuses
    for index, claim in bounded_items(path, statuses, claims, _MOST_CLAIMS):
        reason = "must match the name of an entry in `spec.resourceClaims`"
        claims.append(invalid(f"{path}[{index}].name", claim.name, reason))
    return errors + claims


def _changed(new: Message, old: Message, fixed: Mapping[str, str]) -> list[FieldError]:
    """Return the errors of changed fields; ``fixed``: the paths of those that cannot change."""
    before, after = (_fields(message) for message in (old, new))
    return [
        invalid(path, None, IMMUTABLE)
        for name, path in fixed.items()
        if before.get(name) != after.get(name)
    ]


def _fields(message: Message) -> dict[str, object]:
    return {field.name: value for field, value in message.ListFields()}


def _content(part: PodGroupSpec | PodGroupTemplate, path: str) -> list[FieldError]:
    """Return what is wrong with the fields that a PodGroup and a template share."""
    errors = _policy(part.scheduling_policy, f"{path}.schedulingPolicy")
    topology, here = part.scheduling_constraints.topology, f"{path}.schedulingConstraints.topology"
    for index, constraint in bounded_items(here, topology, errors, _MOST_CONSTRAINTS):
        where = f"{here}[{index}].key"
        errors += (
            validate_label_name(where, constraint.key) if constraint.key else [required(where)]
        )
    errors += one_of(f"{path}.disruptionMode", part.disruption_mode, DISRUPTION_MODES)
    if part.priority_class_name:
        where, name = f"{path}.priorityClassName", part.priority_class_name
        errors += [invalid(where, name, reason) for reason in dns1123_subdomain(name)]
    if part.priority > HIGHEST_USER_DEFINABLE_PRIORITY:
        reason = f"must be less than or equal to {HIGHEST_USER_DEFINABLE_PRIORITY}"
        errors.append(invalid(f"{path}.priority", part.priority, reason))
    return errors


def _policy(policy: PodGroupSchedulingPolicy, path: str) -> list[FieldError]:
    errors = _union(policy, path)
    if policy.HasField("gang"):
        count, where = policy.gang.min_count, f"{path}.gang.minCount"
        if not count:
            errors.append(required(where))
        elif count < 1:
            errors.append(invalid(where, count, "must be greater than or equal to 1"))
    return errors


def _union(message: Message, path: str) -> list[FieldError]:
    """Check that exactly one member of a message is set."""
    members = ", ".join(f"`{field.json_name}`" for field in message.DESCRIPTOR.fields)
    found = [field.json_name for field, _ in message.ListFields()]
    if not found:
        return [invalid(path, "", f"must specify one of: {members}")]
    if len(found) > 1:
        shown = f"{{{', '.join(found)}}}"
        return [invalid(path, shown, f"must specify exactly one of: {members}")]
    return []


def _template_ref(reference: PodGroupTemplateReference, path: str) -> list[FieldError]:
    errors = _union(reference, path)
    if errors:
        return errors
    workload, here = reference.workload, f"{path}.workload"
    errors += _name(f"{here}.workloadName", workload.workload_name, dns1123_subdomain)
    template = workload.pod_group_template_name
    return errors + _name(f"{here}.podGroupTemplateName", template, dns1123_label)


def _controller(reference: TypedLocalObjectReference, path: str) -> list[FieldError]:
    group = reference.api_group
    errors = _name(f"{path}.apiGroup", group, dns1123_subdomain) if group else []
    errors += _name(f"{path}.kind", reference.kind, path_segment_name)
    return errors + _name(f"{path}.name", reference.name, path_segment_name)


def _name(path: str, name: str, rule: Callable[[str], list[str]]) -> list[FieldError]:
    return [invalid(path, name, reason) for reason in rule(name)] if name else [required(path)]
