"""Nodes, runtime classes, priority classes, disruption budgets and leases."""

from __future__ import annotations

from podsched.api import objects as o
from podsched.api.names import dns1123_label, label_value, percent, qualified_name
from podsched.api.priorities import (
    HIGHEST_USER_DEFINABLE_PRIORITY,
    PREEMPT_LOWER_PRIORITY,
    PREEMPT_NEVER,
    SYSTEM_CLASSES,
    SYSTEM_PREFIX,
)
from podsched.api.validation.meta import validate_label_selector, validate_labels
from podsched.api.validation.place import Place
from podsched.api.validation.placement import TAINT_EFFECTS, validate_tolerations
from podsched.api.validation.resource_lists import validate_quantities, validate_requirements

#: Max characters. Python refuses to convert some thousands of digits.
_MAX_INT_OR_PERCENT = 20


def validate_node(at: Place, node: o.Node) -> None:
    """Validate taints and resources."""
    seen: set[tuple[str, str]] = set()
    for item, taint in at("metadata.taints").each(node.spec.taints):  # the path of Kubernetes
        item("key").rule(taint.key, qualified_name)
        item("value").rule(taint.value, label_value)
        item("effect").one_of(taint.effect, TAINT_EFFECTS, required=True)
        reason = "taints must be unique by key and effect pair"
        item.once((taint.key, taint.effect), seen, taint, reason)
    validate_quantities(at("status.capacity"), node.status.capacity, dotted=True)
    validate_quantities(at("status.allocatable"), node.status.allocatable, dotted=True)


validate_node_status = validate_node


def validate_node_update(at: Place, new: o.Node, old: o.Node) -> None:
    """Check that addresses and providers stay once they are set."""
    first = old.spec.pod_cidr
    if (first and new.spec.pod_cidr != first) or _pod_cidrs(old) not in ([], _pod_cidrs(new)):
        reason = 'node updates may not change podCIDR except from "" to valid'
        at("spec.podCIDRs").forbidden(reason)
    if old.spec.provider_id and new.spec.provider_id != old.spec.provider_id:
        reason = 'node updates may not change providerID except from "" to valid'
        at("spec.providerID").forbidden(reason)


def _pod_cidrs(node: o.Node) -> list[str]:
    """Return the networks of a node's pods, which may be set by their first one alone."""
    return [*node.spec.pod_cidrs] or [node.spec.pod_cidr] * bool(node.spec.pod_cidr)


def validate_runtime_class(at: Place, item: o.RuntimeClass) -> None:
    """Validate handler, overhead and scheduling (pkg/apis/node/validation)."""
    at("handler").rule(item.handler, dns1123_label)
    limits = o.ResourceRequirements(limits=item.overhead.pod_fixed)
    validate_requirements(at("overhead"), limits)
    validate_labels(at("scheduling.nodeSelector"), item.scheduling.node_selector)
    validate_tolerations(at("scheduling.tolerations"), item.scheduling.tolerations)


def validate_priority_class(at: Place, item: o.PriorityClass) -> None:
    """Check that names and values reserved for the system are not used."""
    name = item.metadata.name
    if name.startswith(SYSTEM_PREFIX):
        if SYSTEM_CLASSES.get(name) != item.value:
            at("metadata.name").forbidden(
                f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use "
                f"only. error: {name} is not a known system priority class"
            )
    elif item.value > HIGHEST_USER_DEFINABLE_PRIORITY:
        at("value").forbidden(
            f"maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}"
        )
    policies = (PREEMPT_LOWER_PRIORITY, PREEMPT_NEVER)
    at("preemptionPolicy").one_of(item.preemption_policy, policies)


def validate_priority_class_update(at: Place, new: o.PriorityClass, old: o.PriorityClass) -> None:
    """Check that value and policy stay: pods have copied them."""
    if new.value != old.value:
        at("value").forbidden("may not be changed in an update.")
    policy = new.preemption_policy
    at("preemptionPolicy").fixed(policy, old.preemption_policy, policy)


def validate_pod_disruption_budget(at: Place, item: o.PodDisruptionBudget) -> None:
    """Check that minAvailable or maxUnavailable is set, not both: a number or a percentage."""
    spec, at = item.spec, at("spec")
    if spec.HasField("min_available") and spec.HasField("max_unavailable"):
        shown = f"minAvailable={spec.min_available}, maxUnavailable={spec.max_unavailable}"
        at.invalid(shown, "minAvailable and maxUnavailable cannot be both set")
    if spec.HasField("min_available"):
        _int_or_percent(at("minAvailable"), spec.min_available)
    if spec.HasField("max_unavailable"):
        _int_or_percent(at("maxUnavailable"), spec.max_unavailable)
    validate_label_selector(at("selector"), spec.selector)
    policies = ("AlwaysAllow", "IfHealthyBudget")
    at("unhealthyPodEvictionPolicy").one_of(spec.unhealthy_pod_eviction_policy, policies)


def _int_or_percent(at: Place, text: str) -> None:
    digits = text.removeprefix("-")
    if len(text) > _MAX_INT_OR_PERCENT:
        at.invalid(text, "must be a number or a percentage of a few digits")
    elif digits.isascii() and digits.isdigit():
        number = int(text)
        at.least(number)
        if number >= 2**31:
            at.invalid(number, "must be less than or equal to 2147483647")
    elif at.rule(text, percent) and int(text[:-1]) > 100:
        at.invalid(text, "must not be greater than 100%")


def validate_lease(at: Place, item: o.Lease) -> None:
    """Check that durations are positive, and transitions not negative."""
    duration = item.spec.lease_duration_seconds
    if item.spec.HasField("lease_duration_seconds") and duration <= 0:
        at("spec.leaseDurationSeconds").invalid(duration, "must be greater than 0")
    at("spec.leaseTransitions").least(item.spec.lease_transitions)
