"""Which rules hold for whom."""

from __future__ import annotations

from podsched.api.objects import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from podsched.serve.server.access.policy import Policy
from podsched.serve.server.access.rules import Rule
from support.access_world import binding_of, rule


def cluster_role(name: str, *rules: str, **labels: str) -> ClusterRole:
    role = ClusterRole()
    role.metadata.name = name
    role.metadata.labels.update(labels)
    role.rules.extend(rule("get", resources) for resources in rules)
    return role


def cluster_binding(role: str, user: str) -> ClusterRoleBinding:
    found = binding_of(role, user)
    assert isinstance(found, ClusterRoleBinding)
    return found


def binding(role: str, user: str, namespace: str) -> RoleBinding:
    found = binding_of(role, user, namespace)
    assert isinstance(found, RoleBinding)
    return found


def held(policy: Policy, user: str, *groups: str, namespace: str = "") -> list[str]:
    rules = policy.grants(user, groups).rules_in(namespace)
    return sorted(resource for found in rules for resource in found.resources)


def test_a_cluster_binding_holds_everywhere_and_a_binding_in_its_namespace() -> None:
    policy = Policy(
        cluster_roles=[cluster_role("a", "pods"), cluster_role("b", "nodes")],
        role_bindings=[binding("b", "bob", "team")],
        cluster_role_bindings=[cluster_binding("a", "bob")],
    )
    assert held(policy, "bob") == ["pods"]
    assert held(policy, "bob", namespace="team") == ["nodes", "pods"]
    assert held(policy, "bob", namespace="other") == ["pods"]
    assert held(policy, "eve", namespace="team") == []


def test_a_group_is_no_user_of_its_name() -> None:
    bound = cluster_binding("a", "staff")
    bound.subjects[0].kind = "Group"
    policy = Policy(cluster_roles=[cluster_role("a", "pods")], cluster_role_bindings=[bound])
    assert held(policy, "bob", "staff") == ["pods"]
    assert held(policy, "staff") == []


def test_a_service_account_is_the_user_that_its_tokens_name() -> None:
    bound = binding("a", "builder", "ci")
    bound.subjects[0].kind, bound.subjects[0].namespace = "ServiceAccount", "ci"
    policy = Policy(cluster_roles=[cluster_role("a", "pods")], role_bindings=[bound])
    assert held(policy, "system:serviceaccount:ci:builder", namespace="ci") == ["pods"]
    assert held(policy, "builder", namespace="ci") == []


def test_a_role_is_that_of_the_bindings_own_namespace() -> None:
    role = Role()
    role.metadata.name, role.metadata.namespace = "local", "team"
    role.rules.append(rule("get", "pods"))
    here, there = binding("local", "bob", "team"), binding("local", "bob", "other")
    for bound in (here, there):
        bound.role_ref.kind = "Role"
    policy = Policy(roles=[role], role_bindings=[here, there])
    assert held(policy, "bob", namespace="team") == ["pods"]
    assert held(policy, "bob", namespace="other") == []


def test_an_aggregated_role_has_the_rules_of_those_it_selects() -> None:
    every = cluster_role("every")
    every.aggregation_rule.cluster_role_selectors.add().match_labels["to"] = "every"
    policy = Policy(
        cluster_roles=[every, cluster_role("a", "pods", to="every"), cluster_role("b", "nodes")],
        cluster_role_bindings=[cluster_binding("every", "bob")],
    )
    assert held(policy, "bob") == ["pods"]


def test_an_aggregated_role_has_the_rules_of_those_selected_by_those_it_selects() -> None:
    outer, inner = cluster_role("outer", to="inner"), cluster_role("inner", to="outer")
    for role in (outer, inner):
        role.aggregation_rule.cluster_role_selectors.add().match_labels["to"] = role.metadata.name
    policy = Policy(
        cluster_roles=[outer, inner, cluster_role("a", "pods", to="inner")],
        cluster_role_bindings=[cluster_binding("outer", "bob")],
    )
    assert held(policy, "bob") == ["pods"]


def test_a_binding_of_a_role_that_is_gone_grants_nothing() -> None:
    policy = Policy(cluster_role_bindings=[cluster_binding("gone", "bob")])
    assert policy.grants("bob", ()).rules_in("") == ()


def test_roles_that_two_bindings_share_are_counted_once() -> None:
    policy = Policy(
        cluster_roles=[cluster_role("a", "pods")],
        cluster_role_bindings=[cluster_binding("a", "bob"), cluster_binding("a", "bob")],
    )
    assert policy.grants("bob", ()).everywhere == (Rule.of(rule("get", "pods")),)
