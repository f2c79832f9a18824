"""Where a pod wants to be: affinity, tolerations, topology spread constraints, gates."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from podsched.api.objects import (
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    PodSpec,
    Toleration,
    TopologySpreadConstraint,
)
from podsched.api.validation.meta import (
    MAX_ITEMS,
    MAX_VALUES,
    bounded_items,
    one_of,
    validate_label_name,
    validate_label_selector,
)
from podsched.api.validation.names import dns1123_label, dns1123_subdomain, label_value

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"


def validate_affinity(spec: PodSpec, path: str) -> list[FieldError]:
    """Validate node affinity, pod affinity and pod anti-affinity."""
    errors: list[FieldError] = []
    affinity = spec.affinity
    if affinity.HasField("node_affinity"):
        errors += _node_affinity(affinity.node_affinity, f"{path}.nodeAffinity")
    if affinity.HasField("pod_affinity"):
        errors += _pod_affinity(affinity.pod_affinity, f"{path}.podAffinity")
    if affinity.HasField("pod_anti_affinity"):
        errors += _pod_affinity(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")
    return errors


def _node_affinity(affinity: NodeAffinity, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if affinity.HasField("required_during_scheduling_ignored_during_execution"):
        errors += validate_node_selector(
            affinity.required_during_scheduling_ignored_during_execution, f"{path}.{_REQUIRED}"
        )
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for index, term in bounded_items(f"{path}.{_PREFERRED}", preferred, errors):
        here = f"{path}.{_PREFERRED}[{index}]"
        if not 1 <= term.weight <= 100:
            errors.append(invalid(f"{here}.weight", term.weight, _WEIGHT))
        errors += _node_term(term.preference, f"{here}.preference")
    return errors


def validate_node_selector(selector: NodeSelector, path: str) -> list[FieldError]:
    """Check that there is at least one term, each of valid requirements."""
    here = f"{path}.nodeSelectorTerms"
    if not selector.node_selector_terms:
        return [required(here, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in bounded_items(here, selector.node_selector_terms, errors):
        errors += _node_term(term, f"{here}[{index}]")
    return errors


def _node_term(term: NodeSelectorTerm, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, requirement in bounded_items(
        f"{path}.matchExpressions", term.match_expressions, errors
    ):
        errors += _node_expression(requirement, f"{path}.matchExpressions[{index}]")
    for index, requirement in bounded_items(f"{path}.matchFields", term.match_fields, errors):
        errors += _node_field(requirement, f"{path}.matchFields[{index}]")
    return errors


def _node_expression(requirement: NodeSelectorRequirement, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, count = requirement.operator, len(requirement.values)
    if operator in ("In", "NotIn"):
        if not count:
            reason = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", reason))
    elif operator in ("Exists", "DoesNotExist"):
        if count:
            reason = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(f"{path}.values", reason))
    elif operator in ("Gt", "Lt"):
        if count != 1:
            reason = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{path}.values", reason))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    errors += validate_label_name(f"{path}.key", requirement.key)
    for index, value in bounded_items(f"{path}.values", requirement.values, errors, MAX_VALUES):
        here = f"{path}.values[{index}]"
        errors += [invalid(here, value, reason) for reason in label_value(value)]
    return errors


def _node_field(requirement: NodeSelectorRequirement, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if requirement.operator not in ("In", "NotIn"):
        reason = "not a valid selector operator"
        errors.append(invalid(f"{path}.operator", requirement.operator, reason))
    elif len(requirement.values) != 1:
        reason = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(f"{path}.values", reason))
    if requirement.key != "metadata.name":
        reason = "not a valid field selector key"
        errors.append(invalid(f"{path}.key", requirement.key, reason))
        return errors
    for index, value in bounded_items(f"{path}.values", requirement.values, errors, MAX_VALUES):
        here = f"{path}.values[{index}]"
        errors += [invalid(here, value, reason) for reason in dns1123_subdomain(value)]
    return errors


def _pod_affinity(affinity: PodAffinity | PodAntiAffinity, path: str) -> list[FieldError]:
    wanted = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    errors: list[FieldError] = []
    for index, term in bounded_items(f"{path}.{_REQUIRED}", wanted, errors):
        errors += _pod_term(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in bounded_items(f"{path}.{_PREFERRED}", preferred, errors):
        here = f"{path}.{_PREFERRED}[{index}]"
        if not 1 <= weighted.weight <= 100:
            errors.append(invalid(f"{here}.weight", weighted.weight, _WEIGHT))
        errors += _pod_term(weighted.pod_affinity_term, f"{here}.podAffinityTerm")
    return errors


def _pod_term(term: PodAffinityTerm, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if term.HasField("label_selector"):
        errors += validate_label_selector(term.label_selector, f"{path}.labelSelector")
    if term.HasField("namespace_selector"):
        errors += validate_label_selector(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in bounded_items(f"{path}.namespaces", term.namespaces, errors):
        here = f"{path}.namespaces[{index}]"
        errors += [invalid(here, namespace, reason) for reason in dns1123_label(namespace)]
    errors += _label_keys(term.match_label_keys, term, path, "matchLabelKeys")
    errors += _label_keys(term.mismatch_label_keys, term, path, "mismatchLabelKeys")
    mismatched = set(term.mismatch_label_keys)
    for index, key in enumerate(term.match_label_keys[:MAX_ITEMS]):
        if key in mismatched:
            reason = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, reason))
    if not term.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + validate_label_name(f"{path}.topologyKey", term.topology_key)


def _label_keys(
    keys: Sequence[str],
    owner: PodAffinityTerm | TopologySpreadConstraint,
    path: str,
    name: str,
) -> list[FieldError]:
    if not keys:
        return []
    if not owner.HasField("label_selector"):
        reason = "must not be specified when labelSelector is not set"
        return [forbidden(f"{path}.{name}", reason)]
    errors: list[FieldError] = []
    for index, key in bounded_items(f"{path}.{name}", keys, errors):
        errors += validate_label_name(f"{path}.{name}[{index}]", key)
    return errors


def validate_tolerations(tolerations: Sequence[Toleration], path: str) -> list[FieldError]:
    """Validate keys, operators, values and effects."""
    errors: list[FieldError] = []
    for index, toleration in bounded_items(path, tolerations, errors):
        errors += _toleration(toleration, f"{path}[{index}]")
    return errors


def _toleration(toleration: Toleration, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if toleration.key:
        errors += validate_label_name(f"{path}.key", toleration.key)
    elif toleration.operator != "Exists":
        reason = (
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"'
        )
        errors.append(invalid(f"{path}.operator", toleration.operator, reason))
    if toleration.HasField("toleration_seconds") and toleration.effect != "NoExecute":
        reason = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", toleration.effect, reason))
    if toleration.operator in ("", "Equal"):
        reasons = label_value(toleration.value)
        errors += [invalid(f"{path}.operator", toleration.value, reason) for reason in reasons]
    elif toleration.operator == "Exists":
        if toleration.value:
            reason = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(f"{path}.operator", toleration.value, reason))
    else:
        errors.append(not_supported(f"{path}.operator", toleration.operator, ("Equal", "Exists")))
    return errors + one_of(f"{path}.effect", toleration.effect, TAINT_EFFECTS)


def validate_spread(constraints: Sequence[TopologySpreadConstraint], path: str) -> list[FieldError]:
    """Validate topology spread constraints; each pair of key and mode occurs once."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, constraint in bounded_items(path, constraints, errors):
        here = f"{path}[{index}]"
        errors += _constraint(constraint, here)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            errors.append(
                duplicate(f"{here}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")
            )
        seen.add(pair)
    return errors


def _constraint(constraint: TopologySpreadConstraint, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    mode = constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        reason = "must be greater than zero"
        errors.append(invalid(f"{path}.maxSkew", constraint.max_skew, reason))
    if not constraint.topology_key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    else:
        errors += validate_label_name(f"{path}.topologyKey", constraint.topology_key)
    if mode not in ("DoNotSchedule", "ScheduleAnyway"):
        supported = ("DoNotSchedule", "ScheduleAnyway")
        errors.append(not_supported(f"{path}.whenUnsatisfiable", mode, supported))
    errors += _min_domains(constraint, path)
    for name, value in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        errors += one_of(f"{path}.{name}", value, ("Honor", "Ignore"))
    errors += _label_keys(constraint.match_label_keys, constraint, path, "matchLabelKeys")
    if constraint.HasField("label_selector"):
        errors += validate_label_selector(constraint.label_selector, f"{path}.labelSelector")
    return errors


def _min_domains(constraint: TopologySpreadConstraint, path: str) -> list[FieldError]:
    if not constraint.HasField("min_domains"):
        return []
    errors = []
    here, value = f"{path}.minDomains", constraint.min_domains
    if value <= 0:
        errors.append(invalid(here, value, "must be greater than zero"))
    if constraint.when_unsatisfiable != "DoNotSchedule":
        reason = (
            "can only use minDomains if whenUnsatisfiable=DoNotSchedule, "
            f"not {constraint.when_unsatisfiable}"
        )
        errors.append(invalid(here, value, reason))
    return errors


def validate_gates(spec: PodSpec, path: str) -> list[FieldError]:
    """Validate scheduling gates: qualified names, each once."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in bounded_items(f"{path}.schedulingGates", spec.scheduling_gates, errors):
        here = f"{path}.schedulingGates[{index}]"
        if not gate.name:
            errors.append(required(f"{here}.name"))
        else:
            errors += validate_label_name(here, gate.name)
        if gate.name in seen:
            errors.append(duplicate(here, gate.name))
        seen.add(gate.name)
    return errors
