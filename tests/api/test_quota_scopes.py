"""Which pods a quota with scopes is about."""

from __future__ import annotations

import math

import pytest

from podsched.api.objects import ConfigMap, Pod, ResourceQuotaSpec
from podsched.api.quota_scopes import expressions_of, is_in_scope, scopes_of
from support.api_objects import pod


def best_effort() -> Pod:
    item = pod()
    item.spec.containers[0].ClearField("resources")
    return item


def terminating(seconds: int = 30) -> Pod:
    item = pod()
    item.spec.active_deadline_seconds = seconds
    return item


def of_class(name: str) -> Pod:
    item = pod()
    item.spec.priority_class_name = name
    return item


def near_others(**where: object) -> Pod:
    item = pod()
    preferred = item.spec.affinity.pod_anti_affinity
    term = preferred.preferred_during_scheduling_ignored_during_execution.add(weight=1)
    term.pod_affinity_term.topology_key = "zone"
    if "namespaces" in where:
        term.pod_affinity_term.namespaces.append("other")
    if "selector" in where:
        term.pod_affinity_term.namespace_selector.SetInParent()
    return item


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ("BestEffort", best_effort(), pod()),
        ("NotBestEffort", pod(), best_effort()),
        ("Terminating", terminating(), pod()),
        ("Terminating", terminating(0), terminating(-1)),
        ("NotTerminating", pod(), terminating()),
        ("PriorityClass", of_class("high"), pod()),
        ("CrossNamespacePodAffinity", near_others(namespaces=1), near_others()),
        ("CrossNamespacePodAffinity", near_others(selector=1), pod()),
    ],
)
def test_a_scope_takes_pods_as_in_kubernetes(scope: str, inside: Pod, outside: Pod) -> None:
    expressions = expressions_of(ResourceQuotaSpec(scopes=[scope]))
    assert is_in_scope(expressions, scopes_of(inside))
    assert not is_in_scope(expressions, scopes_of(outside))


@pytest.mark.parametrize(
    ("operator", "values", "high", "low", "without"),
    [
        ("In", ["high", "mid"], True, False, False),
        ("NotIn", ["high"], False, True, True),
        ("Exists", None, True, True, False),
        ("DoesNotExist", None, False, False, True),
    ],
)
def test_a_selector_takes_priority_classes(
    operator: str, values: list[str] | None, high: bool, low: bool, without: bool
) -> None:
    spec = ResourceQuotaSpec()
    expression = {"scopeName": "PriorityClass", "operator": operator}
    spec.scope_selector.update(
        {"matchExpressions": [expression | ({"values": values} if values else {})]}
    )
    expressions = expressions_of(spec)
    found = [
        is_in_scope(expressions, scopes_of(item))
        for item in (of_class("high"), of_class("low"), pod())
    ]
    assert found == [high, low, without]


def test_all_scopes_have_to_match() -> None:
    expressions = expressions_of(ResourceQuotaSpec(scopes=["Terminating", "PriorityClass"]))
    both = of_class("high")
    both.spec.active_deadline_seconds = 1
    assert is_in_scope(expressions, scopes_of(both))
    assert not is_in_scope(expressions, scopes_of(terminating()))


def test_other_objects_count_for_quotas_without_scopes_only() -> None:
    assert scopes_of(ConfigMap()) is None
    assert is_in_scope([], None)
    assert not is_in_scope(expressions_of(ResourceQuotaSpec(scopes=["NotTerminating"])), None)


def test_a_selector_that_json_cannot_say_takes_nothing_out() -> None:
    spec = ResourceQuotaSpec()
    spec.scope_selector["matchExpressions"] = math.nan
    assert expressions_of(spec) == []
