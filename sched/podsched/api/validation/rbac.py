"""Roles and their bindings (pkg/apis/rbac/validation)."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api import objects as o
from podsched.api.names import dns1123_subdomain, path_segment_name
from podsched.api.validation.meta import validate_label_selector
from podsched.api.validation.place import Place

RBAC_GROUP = "rbac.authorization.k8s.io"
USER, GROUP, SERVICE_ACCOUNT = "User", "Group", "ServiceAccount"


def validate_role(at: Place, item: o.Role) -> None:
    """Validate the rules of a namespace's role."""
    _rules(at("rules"), item.rules, namespaced=True)


def validate_cluster_role(at: Place, item: o.ClusterRole) -> None:
    """Validate rules, and the selectors of an aggregated role."""
    _rules(at("rules"), item.rules, namespaced=False)
    if item.HasField("aggregation_rule"):
        place = at("aggregationRule.clusterRoleSelectors")
        selectors = item.aggregation_rule.cluster_role_selectors
        place.present(selectors, "at least one clusterRoleSelector required")
        for each, selector in place.each(selectors):
            validate_label_selector(each, selector)


def validate_role_binding(at: Place, item: o.RoleBinding) -> None:
    """Validate the bound role and its subjects."""
    _binding(at, item, ("Role", "ClusterRole"))


def validate_cluster_role_binding(at: Place, item: o.ClusterRoleBinding) -> None:
    """Validate the bound role and its subjects."""
    _binding(at, item, ("ClusterRole",))


def validate_role_binding_update(
    at: Place, new: o.RoleBinding | o.ClusterRoleBinding, old: o.RoleBinding | o.ClusterRoleBinding
) -> None:
    """Check that the role stays: subjects may change, the role that they are bound to may not."""
    if new.role_ref != old.role_ref:
        at("roleRef").invalid(new.role_ref.name, "cannot change roleRef")


validate_cluster_role_binding_update = validate_role_binding_update


def _rules(at: Place, rules: Sequence[o.PolicyRule], *, namespaced: bool) -> None:
    for each, rule in at.each(rules):
        _rule(each, rule, namespaced=namespaced)


def _rule(at: Place, rule: o.PolicyRule, *, namespaced: bool) -> None:
    for each, values in at.fields(o.PolicyRule.DESCRIPTOR.fields_by_name, rule):
        each.bounded(values)
    at("verbs").present(rule.verbs, "verbs must contain at least one value")
    if rule.non_resource_urls:
        urls, shown = at("nonResourceURLs"), ", ".join(rule.non_resource_urls)
        if namespaced:
            urls.invalid(shown, "namespaced rules cannot apply to non-resource URLs")
        if rule.api_groups or rule.resources or rule.resource_names:
            reason = "rules cannot apply to both regular resources and non-resource URLs"
            urls.invalid(shown, reason)
        return
    at("apiGroups").present(rule.api_groups, "resource rules must supply at least one api group")
    at("resources").present(rule.resources, "resource rules must supply at least one resource")


def _binding(at: Place, item: o.RoleBinding | o.ClusterRoleBinding, kinds: tuple[str, ...]) -> None:
    ref, place = item.role_ref, at("roleRef")
    if ref.api_group != RBAC_GROUP:
        place("apiGroup").not_supported(ref.api_group, (RBAC_GROUP,))
    if ref.kind not in kinds:
        place("kind").not_supported(ref.kind, kinds)
    place("name").present(ref.name)
    place("name").rule(ref.name, path_segment_name)
    namespaced = isinstance(item, o.RoleBinding)
    for each, subject in at("subjects").each(item.subjects):
        _subject(each, subject, namespaced=namespaced)


def _subject(at: Place, subject: o.Subject, *, namespaced: bool) -> None:
    at("name").present(subject.name)
    if subject.kind == SERVICE_ACCOUNT:
        at("name").optional_name(subject.name, dns1123_subdomain)
        if subject.api_group:
            at("apiGroup").not_supported(subject.api_group, ("",))
        if not subject.namespace and not namespaced:
            at("namespace").required()
    elif subject.kind in (USER, GROUP):
        if subject.api_group != RBAC_GROUP:
            at("apiGroup").not_supported(subject.api_group, (RBAC_GROUP,))
    else:
        at("kind").not_supported(subject.kind, (SERVICE_ACCOUNT, USER, GROUP))
