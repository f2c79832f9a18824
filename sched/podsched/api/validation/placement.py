"""Where a pod wants to be: affinity, tolerations, topology spread constraints, gates."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api import objects as o
from podsched.api.names import (
    NameRule,
    dns1123_label,
    dns1123_subdomain,
    label_value,
    qualified_name,
)
from podsched.api.validation.meta import check_values, validate_label_selector, validate_values
from podsched.api.validation.place import MAX_ITEMS, Place

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MODES = ("DoNotSchedule", "ScheduleAnyway")


def validate_affinity(at: Place, affinity: o.Affinity) -> None:
    """Validate node affinity, pod affinity and pod anti-affinity."""
    _node_affinity(at("nodeAffinity"), affinity.node_affinity)
    _pod_affinity(at("podAffinity"), affinity.pod_affinity)
    _pod_affinity(at("podAntiAffinity"), affinity.pod_anti_affinity)


def _node_affinity(at: Place, affinity: o.NodeAffinity) -> None:
    if affinity.HasField("required_during_scheduling_ignored_during_execution"):
        required = affinity.required_during_scheduling_ignored_during_execution
        validate_node_selector(at(_REQUIRED), required)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for item, term in at(_PREFERRED).each(preferred):
        _weight(item("weight"), term.weight)
        # As in Kubernetes, values that no label can have are no mistake in a preference.
        _node_term(item("preference"), term.preference, rule=lambda _: ())


def _weight(at: Place, weight: int) -> None:
    if not 1 <= weight <= 100:
        at.invalid(weight, "must be in the range 1-100")


def validate_node_selector(at: Place, selector: o.NodeSelector) -> None:
    """Check that there is at least one term, each of valid requirements."""
    terms = at("nodeSelectorTerms")
    terms.present(selector.node_selector_terms, "must have at least one node selector term")
    for item, term in terms.each(selector.node_selector_terms):
        _node_term(item, term)


def _node_term(at: Place, term: o.NodeSelectorTerm, rule: NameRule = label_value) -> None:
    for item, requirement in at("matchExpressions").each(term.match_expressions):
        _node_expression(item, requirement)
        validate_values(item("values"), requirement.values, rule)
    for item, requirement in at("matchFields").each(term.match_fields):
        _node_field(item, requirement)


def _node_expression(at: Place, requirement: o.NodeSelectorRequirement) -> None:
    operator, values = requirement.operator, requirement.values
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            reason = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            at("values").required(reason)
    elif not check_values(at, operator, values):
        at("operator").invalid(operator, "not a valid selector operator")
    at("key").rule(requirement.key, qualified_name)


def _node_field(at: Place, requirement: o.NodeSelectorRequirement) -> None:
    if requirement.operator not in ("In", "NotIn"):
        at("operator").invalid(requirement.operator, "not a valid selector operator")
    elif len(requirement.values) != 1:
        at("values").required(
            "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if requirement.key != "metadata.name":
        at("key").invalid(requirement.key, "not a valid field selector key")
    else:
        validate_values(at("values"), requirement.values, dns1123_subdomain)


def _pod_affinity(at: Place, affinity: o.PodAffinity | o.PodAntiAffinity) -> None:
    required = affinity.required_during_scheduling_ignored_during_execution
    for item, term in at(_REQUIRED).each(required):
        _pod_term(item, term)
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    for item, weighted in at(_PREFERRED).each(preferred):
        _weight(item("weight"), weighted.weight)
        _pod_term(item("podAffinityTerm"), weighted.pod_affinity_term)


def _pod_term(at: Place, term: o.PodAffinityTerm) -> None:
    validate_label_selector(at("labelSelector"), term.label_selector)
    validate_label_selector(at("namespaceSelector"), term.namespace_selector)
    for item, namespace in at("namespaces").each(term.namespaces):
        item.rule(namespace, dns1123_label)
    _label_keys(at("matchLabelKeys"), term.match_label_keys, term)
    _label_keys(at("mismatchLabelKeys"), term.mismatch_label_keys, term)
    mismatched = set(term.mismatch_label_keys)
    for index, key in enumerate(term.match_label_keys[:MAX_ITEMS]):
        if key in mismatched:
            reason = "exists in both matchLabelKeys and mismatchLabelKeys"
            at("matchLabelKeys")[index].invalid(key, reason)
    at("topologyKey").present(term.topology_key, "can not be empty")
    at("topologyKey").rule(term.topology_key, qualified_name)


def _label_keys(
    at: Place, keys: Sequence[str], owner: o.PodAffinityTerm | o.TopologySpreadConstraint
) -> None:
    if keys and not owner.HasField("label_selector"):
        at.forbidden("must not be specified when labelSelector is not set")
        return
    for item, key in at.each(keys):
        item.rule(key, qualified_name)


def validate_tolerations(at: Place, tolerations: Sequence[o.Toleration]) -> None:
    """Validate keys, operators, values and effects."""
    for item, toleration in at.each(tolerations):
        _toleration(item, toleration)


def _toleration(at: Place, toleration: o.Toleration) -> None:
    operator, value = toleration.operator, toleration.value
    if toleration.key:
        at("key").rule(toleration.key, qualified_name)
    elif operator != "Exists":
        at("operator").invalid(
            operator,
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"',
        )
    if toleration.HasField("toleration_seconds") and toleration.effect != "NoExecute":
        reason = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        at("effect").invalid(toleration.effect, reason)
    # As in Kubernetes, a wrong value is told at "operator".
    if operator in ("", "Equal"):
        at("operator").rule(value, label_value)
    elif operator == "Exists":
        if value:
            at("operator").invalid(value, "value must be empty when `operator` is 'Exists'")
    else:
        at("operator").not_supported(operator, ("Equal", "Exists"))
    at("effect").one_of(toleration.effect, TAINT_EFFECTS)


def validate_spread(at: Place, constraints: Sequence[o.TopologySpreadConstraint]) -> None:
    """Validate topology spread constraints; each pair of key and mode occurs once."""
    seen: set[tuple[str, str]] = set()
    for item, constraint in at.each(constraints):
        _constraint(item, constraint)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        item("{topologyKey, whenUnsatisfiable}").once(pair, seen, f"{{{pair[0]}, {pair[1]}}}")


def _constraint(at: Place, constraint: o.TopologySpreadConstraint) -> None:
    mode = constraint.when_unsatisfiable
    if constraint.max_skew <= 0:
        at("maxSkew").invalid(constraint.max_skew, "must be greater than zero")
    if at("topologyKey").present(constraint.topology_key, "can not be empty"):
        at("topologyKey").rule(constraint.topology_key, qualified_name)
    if mode not in _MODES:
        at("whenUnsatisfiable").not_supported(mode, _MODES)
    if constraint.HasField("min_domains"):
        _min_domains(at("minDomains"), constraint.min_domains, mode)
    at("nodeAffinityPolicy").one_of(constraint.node_affinity_policy, ("Honor", "Ignore"))
    at("nodeTaintsPolicy").one_of(constraint.node_taints_policy, ("Honor", "Ignore"))
    _label_keys(at("matchLabelKeys"), constraint.match_label_keys, constraint)
    validate_label_selector(at("labelSelector"), constraint.label_selector)


def _min_domains(at: Place, value: int, mode: str) -> None:
    if value <= 0:
        at.invalid(value, "must be greater than zero")
    if mode != "DoNotSchedule":
        reason = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {mode}"
        at.invalid(value, reason)


def validate_gates(at: Place, gates: Sequence[o.PodSchedulingGate]) -> None:
    """Validate scheduling gates: qualified names, each once."""
    seen: set[str] = set()
    for item, gate in at.each(gates):
        if item("name").present(gate.name):
            item.rule(gate.name, qualified_name)
        item.once(gate.name, seen)
