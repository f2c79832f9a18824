"""What rules permit, and which of them include others."""

from __future__ import annotations

import pytest

from podsched.api.objects import PolicyRule
from podsched.serve.server.access.rules import MAX_RIGHTS, Rule, names_permitted, not_covered
from support.access_world import rule


def paths(*urls: str) -> PolicyRule:
    return PolicyRule(verbs=["get"], non_resource_urls=urls)


def permits(item: PolicyRule, verb: str, resource: str, group: str = "", name: str = "x") -> bool:
    names = names_permitted([Rule.of(item)], verb, group, resource)
    return names is None or name in names


@pytest.mark.parametrize(
    ("item", "verb", "resource", "permitted"),
    [
        (rule("get", "pods"), "get", "pods", True),
        (rule("get", "pods"), "list", "pods", False),
        (rule("get", "pods"), "get", "nodes", False),
        (rule("*", "pods"), "bindunfenced", "pods", True),
        (rule("get", "*"), "get", "pods/status", True),
        (rule("get", "pods"), "get", "pods/status", False),
        (rule("patch", "*/status"), "patch", "pods/status", True),
        (rule("patch", "*/status"), "patch", "pods", False),
        (rule("patch", "pods/*"), "patch", "pods/status", False),
        (rule("get", "pods", groups=("apps",)), "get", "pods", False),
        (rule("get", "pods", groups=("*",)), "get", "pods", True),
        (rule("get", "pods", "x"), "get", "pods", True),
        (rule("get", "pods", "y"), "get", "pods", False),
    ],
)
def test_a_rule_permits_what_kubernetes_says(
    item: PolicyRule, verb: str, resource: str, permitted: bool
) -> None:
    assert permits(item, verb, resource) is permitted


def test_rules_with_names_permit_nothing_about_all_objects() -> None:
    assert names_permitted([Rule.of(rule("list", "pods", "a"))], "list", "", "pods") == {"a"}


@pytest.mark.parametrize(
    ("owned", "asked", "missing"),
    [
        ([rule("get list", "pods")], [rule("get", "pods")], 0),
        ([rule("get", "pods")], [rule("get list", "pods nodes")], 3),
        ([rule("get", "pods"), rule("get", "nodes")], [rule("get", "pods nodes")], 0),
        ([rule("*", "*", groups=("*",))], [rule("*", "*", groups=("*",))], 0),
        ([rule("get list watch create", "*", groups=("*",))], [rule("*", "pods")], 1),
        ([rule("get", "pods", "a")], [rule("get", "pods")], 1),
        ([rule("get", "pods")], [rule("get", "pods", "a")], 0),
        ([rule("get", "pods", "a", "b")], [rule("get", "pods", "a")], 0),
        ([paths("/metrics/*")], [paths("/metrics/slis", "/metrics/a/*")], 0),
        ([paths("/metrics/*")], [paths("/metrics", "/metrics*", "*")], 3),
        ([paths("*")], [paths("/metrics", "*")], 0),
    ],
)
def test_what_is_not_held_is_found_right_by_right(
    owned: list[PolicyRule], asked: list[PolicyRule], missing: int
) -> None:
    found = not_covered([Rule.of(r) for r in owned], [Rule.of(r) for r in asked])
    assert found is not None
    assert len(found) == missing


def test_a_role_of_too_many_rights_is_not_taken_apart() -> None:
    names = [str(n) for n in range(200)]
    large = rule(" ".join(names), " ".join(names))
    assert MAX_RIGHTS < 200 * 200
    assert not_covered([], [Rule.of(large)]) is None
