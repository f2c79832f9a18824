"""Roles and their bindings (pkg/apis/rbac/validation)."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.field_errors import FieldError, invalid, not_supported, required
from podsched.api.objects import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    Subject,
)
from podsched.api.validation.meta import bounded, bounded_items, validate_label_selector
from podsched.api.validation.names import dns1123_subdomain, path_segment_name

RBAC_GROUP = "rbac.authorization.k8s.io"
USER, GROUP, SERVICE_ACCOUNT = "User", "Group", "ServiceAccount"


def validate_role(item: Role) -> list[FieldError]:
    """Validate the rules of a namespace's role."""
    return _rules(item.rules, namespaced=True)


def validate_cluster_role(item: ClusterRole) -> list[FieldError]:
    """Validate rules, and the selectors of an aggregated role."""
    errors = _rules(item.rules, namespaced=False)
    if item.HasField("aggregation_rule"):
        path = "aggregationRule.clusterRoleSelectors"
        selectors = item.aggregation_rule.cluster_role_selectors
        if not selectors:
            errors.append(required(path, "at least one clusterRoleSelector required"))
        for index, selector in bounded_items(path, selectors, errors):
            errors += validate_label_selector(selector, f"{path}[{index}]")
    return errors


def validate_role_binding(item: RoleBinding) -> list[FieldError]:
    """Validate the role that is bound, and whom it is bound to."""
    return _binding(item, ("Role", "ClusterRole"))


def validate_cluster_role_binding(item: ClusterRoleBinding) -> list[FieldError]:
    """Validate the role that is bound, and whom it is bound to."""
    return _binding(item, ("ClusterRole",))


def validate_role_ref_update(
    new: RoleBinding | ClusterRoleBinding, old: RoleBinding | ClusterRoleBinding
) -> list[FieldError]:
    """Check that the role stays: who is bound may change, what he is bound to may not."""
    if new.role_ref == old.role_ref:
        return []
    return [invalid("roleRef", new.role_ref.name, "cannot change roleRef")]


def _rules(rules: Sequence[PolicyRule], *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in bounded_items("rules", rules, errors):
        errors += _rule(rule, f"rules[{index}]", namespaced=namespaced)
    return errors


def _rule(rule: PolicyRule, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = []
    for name, values in (
        ("verbs", rule.verbs),
        ("apiGroups", rule.api_groups),
        ("resources", rule.resources),
        ("resourceNames", rule.resource_names),
        ("nonResourceURLs", rule.non_resource_urls),
    ):
        errors += bounded(f"{path}.{name}", values)
    if not rule.verbs:
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if rule.non_resource_urls:
        urls, shown = f"{path}.nonResourceURLs", ", ".join(rule.non_resource_urls)
        if namespaced:
            reason = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(urls, shown, reason))
        if rule.api_groups or rule.resources or rule.resource_names:
            reason = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(urls, shown, reason))
        return errors
    if not rule.api_groups:
        reason = "resource rules must supply at least one api group"
        errors.append(required(f"{path}.apiGroups", reason))
    if not rule.resources:
        reason = "resource rules must supply at least one resource"
        errors.append(required(f"{path}.resources", reason))
    return errors


def _binding(item: RoleBinding | ClusterRoleBinding, kinds: tuple[str, ...]) -> list[FieldError]:
    ref = item.role_ref
    errors: list[FieldError] = []
    if ref.api_group != RBAC_GROUP:
        errors.append(not_supported("roleRef.apiGroup", ref.api_group, (RBAC_GROUP,)))
    if ref.kind not in kinds:
        errors.append(not_supported("roleRef.kind", ref.kind, kinds))
    if not ref.name:
        errors.append(required("roleRef.name"))
    errors += [invalid("roleRef.name", ref.name, reason) for reason in path_segment_name(ref.name)]
    namespaced = isinstance(item, RoleBinding)
    for index, subject in bounded_items("subjects", item.subjects, errors):
        errors += _subject(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def _subject(subject: Subject, path: str, *, namespaced: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if not subject.name:
        errors.append(required(f"{path}.name"))
    if subject.kind == SERVICE_ACCOUNT:
        errors += [
            invalid(f"{path}.name", subject.name, reason)
            for reason in (dns1123_subdomain(subject.name) if subject.name else [])
        ]
        if subject.api_group:
            errors.append(not_supported(f"{path}.apiGroup", subject.api_group, ("",)))
        if not subject.namespace and not namespaced:
            errors.append(required(f"{path}.namespace"))
    elif subject.kind in (USER, GROUP):
        if subject.api_group != RBAC_GROUP:
            errors.append(not_supported(f"{path}.apiGroup", subject.api_group, (RBAC_GROUP,)))
    else:
        kinds = (SERVICE_ACCOUNT, USER, GROUP)
        errors.append(not_supported(f"{path}.kind", subject.kind, kinds))
    return errors
