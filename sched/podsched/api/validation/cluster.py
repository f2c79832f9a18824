"""Nodes, priority classes, disruption budgets and leases."""

from __future__ import annotations

from podsched.api.codec import write
from podsched.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from podsched.api.objects import Lease, Node, PodDisruptionBudget, PriorityClass
from podsched.api.priorities import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
    SYSTEM_CLASSES,
    SYSTEM_PREFIX,
)
from podsched.api.validation.meta import (
    IMMUTABLE,
    bounded_items,
    not_negative,
    one_of,
    validate_label_name,
    validate_label_selector,
)
from podsched.api.validation.names import label_value, percent
from podsched.api.validation.placement import TAINT_EFFECTS
from podsched.api.validation.resource_lists import validate_quantities

#: Characters. Beyond some thousands of digits, Python refuses to make a number of them.
_MAX_INT_OR_PERCENT = 20
_UNIQUE = "taints must be unique by key and effect pair"


def validate_node(node: Node) -> list[FieldError]:
    """Validate taints and resources."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in bounded_items("metadata.taints", node.spec.taints, errors):
        path = f"metadata.taints[{index}]"  # the path that Kubernetes gives
        errors += validate_label_name(f"{path}.key", taint.key)
        errors += [invalid(f"{path}.value", taint.value, r) for r in label_value(taint.value)]
        if not taint.effect:
            errors.append(required(f"{path}.effect"))
        else:
            errors += one_of(f"{path}.effect", taint.effect, TAINT_EFFECTS)
        if (taint.key, taint.effect) in seen:
            errors.append(duplicate(path, write(taint), _UNIQUE))
        seen.add((taint.key, taint.effect))
    errors += validate_quantities(node.status.capacity, "status.capacity", dotted=True)
    return errors + validate_quantities(node.status.allocatable, "status.allocatable", dotted=True)


def validate_node_update(new: Node, old: Node) -> list[FieldError]:
    """Check that addresses and providers stay once they are set."""
    errors = []
    if old.spec.pod_cidr and new.spec.pod_cidr != old.spec.pod_cidr:
        reason = 'node updates may not change podCIDR except from "" to valid'
        errors.append(forbidden("spec.podCIDRs", reason))
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        reason = 'node updates may not change providerID except from "" to valid'
        errors.append(forbidden("spec.providerID", reason))
    return errors


def validate_priority_class(item: PriorityClass) -> list[FieldError]:
    """Check that names and values reserved for the system are not used."""
    errors: list[FieldError] = []
    name = item.metadata.name
    if name.startswith(SYSTEM_PREFIX):
        if SYSTEM_CLASSES.get(name) != item.value:
            reason = (
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {name} is not a known system priority class"
            )
            errors.append(forbidden("metadata.name", reason))
    elif item.value > HIGHEST_USER_DEFINABLE_PRIORITY:
        reason = (
            f"maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
        )
        errors.append(forbidden("value", reason))
    policies = (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER)
    return errors + one_of("preemptionPolicy", item.preemption_policy, policies)


def validate_priority_class_update(new: PriorityClass, old: PriorityClass) -> list[FieldError]:
    """Check that value and policy stay: pods have copied them."""
    errors = []
    if new.value != old.value:
        errors.append(forbidden("value", "may not be changed in an update."))
    if new.preemption_policy != old.preemption_policy:
        errors.append(invalid("preemptionPolicy", new.preemption_policy, IMMUTABLE))
    return errors


def validate_disruption_budget(item: PodDisruptionBudget) -> list[FieldError]:
    """Check that minAvailable or maxUnavailable is set, not both: a number or a percentage."""
    spec = item.spec
    errors: list[FieldError] = []
    both = spec.HasField("min_available") and spec.HasField("max_unavailable")
    if both:
        shown = f"minAvailable={spec.min_available}, maxUnavailable={spec.max_unavailable}"
        reason = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", shown, reason))
    if spec.HasField("min_available"):
        errors += _int_or_percent("spec.minAvailable", spec.min_available)
    if spec.HasField("max_unavailable"):
        errors += _int_or_percent("spec.maxUnavailable", spec.max_unavailable)
    if spec.HasField("selector"):
        errors += validate_label_selector(spec.selector, "spec.selector")
    policies = ("AlwaysAllow", "IfHealthyBudget")
    path = "spec.unhealthyPodEvictionPolicy"
    return errors + one_of(path, spec.unhealthy_pod_eviction_policy, policies)


def _int_or_percent(path: str, text: str) -> list[FieldError]:
    if len(text) > _MAX_INT_OR_PERCENT:
        return [invalid(path, text, "must be a number or a percentage of a few digits")]
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        number = int(text)
        if number >= 2**31:
            return [invalid(path, number, "must be less than or equal to 2147483647")]
        return not_negative(path, number)
    errors = [invalid(path, text, reason) for reason in percent(text)]
    if not errors and int(text[:-1]) > 100:
        errors.append(invalid(path, text, "must not be greater than 100%"))
    return errors


def validate_lease(item: Lease) -> list[FieldError]:
    """Check that durations are positive, and transitions not negative."""
    spec = item.spec
    errors: list[FieldError] = []
    if spec.HasField("lease_duration_seconds") and spec.lease_duration_seconds <= 0:
        path = "spec.leaseDurationSeconds"
        errors.append(invalid(path, spec.lease_duration_seconds, "must be greater than 0"))
    if spec.HasField("lease_transitions"):
        errors += not_negative("spec.leaseTransitions", spec.lease_transitions)
    return errors
