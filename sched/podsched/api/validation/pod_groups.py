"""Workloads and PodGroups (pkg/apis/scheduling/v1alpha2/zz_generated.validations.go)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from google.protobuf.message import Message

from podsched.api import objects as o
from podsched.api.conditions import QUOTA_RESERVED
from podsched.api.names import dns1123_label, dns1123_subdomain, path_segment_name, qualified_name
from podsched.api.priorities import HIGHEST_USER_DEFINABLE_PRIORITY
from podsched.api.validation.place import Place
from podsched.api.validation.queue_labels import validate_queue_labels, validate_queue_labels_update
from podsched.api.validation.topology_requests import validate_topology_request

MOST_TEMPLATES: Final = 8
_MOST_CONSTRAINTS: Final = 1
#: Max conditions of a PodGroup; the same as of a pod.
_MOST_CONDITIONS: Final = 100
_MOST_CLAIMS: Final = 4
_SOURCES_OF_CLAIMS: Final = ("resource_claim_name", "resource_claim_template_name")
DISRUPTION_MODES: Final = ("Pod", "PodGroup")


def validate_workload(at: Place, item: o.Workload) -> None:
    """Validate the reference to its controller, and its templates."""
    spec, at = item.spec, at("spec")
    if spec.HasField("controller_ref"):
        _check_controller(at("controllerRef"), spec.controller_ref)
    templates = at("podGroupTemplates")
    templates.present(spec.pod_group_templates)
    seen: set[str] = set()
    for each, template in templates.each(spec.pod_group_templates, MOST_TEMPLATES):
        each.once(template.name, seen, template)
        each("name").name(template.name, dns1123_label)
        _check_content(each, template)


def validate_workload_update(at: Place, new: o.Workload, old: o.Workload) -> None:
    """Check that its templates stay, and the reference to its controller once there is one."""
    controller = ["controller_ref"] if old.spec.HasField("controller_ref") else []
    _check_unchanged(at("spec"), new.spec, old.spec, ["pod_group_templates", *controller])


def validate_pod_group(at: Place, item: o.PodGroup) -> None:
    """Validate its template's name, how its pods are scheduled and evicted, and its queue."""
    validate_queue_labels(at, item.metadata)
    validate_topology_request(at("metadata"), item.metadata)
    spec, at = item.spec, at("spec")
    _check_content(at, spec)
    if spec.HasField("pod_group_template_ref"):
        _check_template_ref(at("podGroupTemplateRef"), spec.pod_group_template_ref)


def validate_pod_group_update(at: Place, new: o.PodGroup, old: o.PodGroup) -> None:
    """Check that its spec stays as it is, and its queue while quota is reserved."""
    reserved = any(c.type == QUOTA_RESERVED and c.status == "True" for c in old.status.conditions)
    validate_queue_labels_update(at, new.metadata, old.metadata, reserved=reserved)
    _check_unchanged(at("spec"), new.spec, old.spec, o.PodGroupSpec.DESCRIPTOR.fields_by_name)


def validate_pod_group_status(at: Place, item: o.PodGroup) -> None:
    """Validate its conditions, and the statuses of its claims."""
    status, at = item.status, at("status")
    seen: set[str] = set()
    for each, condition in at("conditions").each(status.conditions, _MOST_CONDITIONS):
        each("type").name(condition.type, qualified_name)
        each.once(condition.type, seen, condition)
        each("status").one_of(condition.status, ("False", "True", "Unknown"), required=True)
        each("observedGeneration").least(condition.observed_generation)
    claims = at("resourceClaimStatuses").each(status.resource_claim_statuses, _MOST_CLAIMS)
    names = {claim.name for claim in item.spec.resource_claims}
    seen = set()
    for each, claim in claims:
        each.once(claim.name, seen, claim)
        if claim.name not in names:
            reason = "must match the name of an entry in `spec.resourceClaims`"
            each("name").invalid(claim.name, reason)
        if claim.HasField("resource_claim_name"):
            each("resourceClaimName").rule(claim.resource_claim_name, dns1123_subdomain)


def _check_unchanged(at: Place, new: Message, old: Message, fields: Iterable[str]) -> None:
    """Check that fields are as they were, and set only if they were."""
    before, after = (
        {field.name: value for field, value in message.ListFields()} for message in (old, new)
    )
    for name in fields:
        path = new.DESCRIPTOR.fields_by_name[name].json_name
        at(path).fixed(after.get(name), before.get(name), None)


def _check_content(at: Place, part: o.PodGroupSpec | o.PodGroupTemplate) -> None:
    """Check the fields that a PodGroup and a template share."""
    _check_policy(at("schedulingPolicy"), part.scheduling_policy)
    topology = at("schedulingConstraints.topology")
    for each, constraint in topology.each(part.scheduling_constraints.topology, _MOST_CONSTRAINTS):
        each("key").name(constraint.key, qualified_name)
    seen: set[str] = set()
    for each, claim in at("resourceClaims").each(part.resource_claims, _MOST_CLAIMS):
        each.once(claim.name, seen, claim)
        _check_union(each, claim, _SOURCES_OF_CLAIMS)
        each("name").name(claim.name, dns1123_label)
        for where, name in each.fields(filter(claim.HasField, _SOURCES_OF_CLAIMS), claim):
            where.rule(name, dns1123_subdomain)
    at("disruptionMode").one_of(part.disruption_mode, DISRUPTION_MODES)
    at("priorityClassName").optional_name(part.priority_class_name, dns1123_subdomain)
    if part.priority > HIGHEST_USER_DEFINABLE_PRIORITY:
        reason = f"must be less than or equal to {HIGHEST_USER_DEFINABLE_PRIORITY}"
        at("priority").invalid(part.priority, reason)


def _check_policy(at: Place, policy: o.PodGroupSchedulingPolicy) -> None:
    _check_union(at, policy)
    if policy.HasField("gang"):
        count, where = policy.gang.min_count, at("gang.minCount")
        if where.present(count):
            where.least(count, 1)


def _check_union(at: Place, message: Message, names: Iterable[str] = ()) -> bool:
    """Check that exactly one member of a message is set; return whether.

    ``names``: those of the members; none for all fields.
    """
    fields = [message.DESCRIPTOR.fields_by_name[name] for name in names]
    fields = fields or list(message.DESCRIPTOR.fields)
    members = ", ".join(f"`{field.json_name}`" for field in fields)
    found = [field.json_name for field in fields if message.HasField(field.name)]
    if not found:
        at.invalid("", f"must specify one of: {members}")
    elif len(found) > 1:
        at.invalid(f"{{{', '.join(found)}}}", f"must specify exactly one of: {members}")
    return len(found) == 1


def _check_template_ref(at: Place, reference: o.PodGroupTemplateReference) -> None:
    if _check_union(at, reference):
        workload, at = reference.workload, at("workload")
        at("workloadName").name(workload.workload_name, dns1123_subdomain)
        at("podGroupTemplateName").name(workload.pod_group_template_name, dns1123_label)


def _check_controller(at: Place, reference: o.TypedLocalObjectReference) -> None:
    at("apiGroup").optional_name(reference.api_group, dns1123_subdomain)
    at("kind").name(reference.kind, path_segment_name)
    at("name").name(reference.name, path_segment_name)
