"""NodeAffinity: selectors, required and preferred terms, names, and the profile's own affinity."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Node, Pod
from podsched.api.objects import NodeAffinity as Affinity
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.plugins.node_affinity import (
    REASON,
    REASON_CONFLICT,
    REASON_ENFORCED,
    NodeAffinity,
)
from support.engine_world import node, pod
from support.plugin_world import cluster, hinted, made, pre_filtered, rejections, scored

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def labelled(name: str = "n", **labels: str) -> Node:
    return node(name, labels=labels)


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def requiring(*terms: dict[str, Any]) -> Pod:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod("p", {"affinity": affinity})


def labels_term(*requirements: dict[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": list(requirements)}


def names_term(operator: str, *names: str) -> dict[str, Any]:
    return {"matchFields": [requirement("metadata.name", operator, *names)]}


@pytest.mark.parametrize(
    ("term", "matching"),
    [
        (labels_term(requirement("a", "In", "1", "2")), "12"),
        (labels_term(requirement("a", "NotIn", "1")), "2-x"),
        (labels_term(requirement("a", "Exists")), "12x"),
        (labels_term(requirement("a", "DoesNotExist")), "-"),
        (labels_term(requirement("a", "Gt", "1")), "2"),
        (labels_term(requirement("a", "Lt", "2")), "1"),
        (labels_term(requirement("a", "Gt", "x")), ""),
        (labels_term(requirement("a", "In", "1"), requirement("b", "Exists")), ""),
        (labels_term(), ""),
        (names_term("In", "x"), "x"),
        (names_term("NotIn", "x"), "12-"),
    ],
)
def test_operators_match_as_in_kubernetes(term: dict[str, Any], matching: str) -> None:
    state = cluster(labelled("1", a="1"), labelled("2", a="2"), labelled("-"), labelled("x", a="x"))
    rejected = rejections(made(NodeAffinity), requiring(term), state)
    assert set("12-x") - set(rejected) == set(matching)
    assert set(rejected.values()) <= {(REASON,)}


def test_one_matching_term_is_enough_and_the_node_selector_must_match_too() -> None:
    state = cluster(labelled("a", k="a", s="y"), labelled("b", k="b", s="y"), labelled("c", k="b"))
    wanted = requiring(
        labels_term(requirement("k", "In", "a")), labels_term(requirement("k", "In", "b"))
    )
    assert rejections(made(NodeAffinity), wanted, state) == {}
    wanted.spec.node_selector["s"] = "y"
    assert rejections(made(NodeAffinity), wanted, state) == {"c": (REASON,)}


@pytest.mark.parametrize(
    ("terms", "names", "message"),
    [
        ([names_term("In", "a")], {"a"}, ""),
        ([names_term("In", "a"), names_term("In", "b")], {"a", "b"}, ""),
        ([names_term("In", "a"), labels_term(requirement("k", "Exists"))], None, ""),
        ([names_term("NotIn", "a")], None, ""),
        (
            [{"matchFields": [requirement("metadata.name", "In", n) for n in "ab"]}],
            None,
            REASON_CONFLICT,
        ),
    ],
)
def test_names_narrow_the_nodes_in_pre_filter(
    terms: list[dict[str, Any]], names: set[str] | None, message: str
) -> None:
    result = pre_filtered(made(NodeAffinity), requiring(*terms), cluster())
    assert (result.node_names, result.status.message) == (names, message)


def test_a_pod_without_demands_is_skipped() -> None:
    assert pre_filtered(made(NodeAffinity), pod("p"), cluster()).status.skipped
    assert scored(made(NodeAffinity), pod("p"), cluster(labelled())) is None


def preferring(*weighted: tuple[int, dict[str, Any]]) -> Pod:
    terms = [{"weight": weight, "preference": term} for weight, term in weighted]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod("p", {"affinity": affinity})


def test_preferences_add_up_and_the_best_node_scores_100() -> None:
    state = cluster(labelled("both", a="1", b="1"), labelled("a", a="1"), labelled("none"))
    wanted = preferring(
        (30, labels_term(requirement("a", "Exists"))),
        (60, labels_term(requirement("b", "Exists"))),
        (99, labels_term()),
    )
    assert scored(made(NodeAffinity), wanted, state) == {"both": 100, "a": 33, "none": 0}


def added() -> NodeAffinity:
    affinity = Affinity()
    required = affinity.required_during_scheduling_ignored_during_execution
    required.node_selector_terms.add().match_expressions.add(key="team", operator="Exists")
    preferred = affinity.preferred_during_scheduling_ignored_during_execution.add(weight=10)
    preferred.preference.match_expressions.add(key="fast", operator="Exists")
    return made(NodeAffinity, added_affinity=affinity)


def test_added_affinity_applies_to_every_pod_of_the_profile() -> None:
    state = cluster(labelled("ours", team="x", fast="y"), labelled("theirs"))
    assert rejections(added(), pod("p"), state) == {"theirs": (REASON_ENFORCED,)}
    assert scored(added(), pod("p"), state) == {"ours": 100, "theirs": 0}
    wanted = requiring(labels_term(requirement("nowhere", "Exists")))
    said = rejections(added(), wanted, state)
    assert said == {"ours": (REASON,), "theirs": (REASON_ENFORCED,)}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, labelled(k="a"), QUEUE),
        (None, labelled(k="b"), SKIP),
        (labelled(k="b"), labelled(k="a"), QUEUE),
        (labelled(k="a"), labelled(k="a", other="x"), SKIP),
        (labelled(k="a"), labelled(k="b"), SKIP),
    ],
)
def test_a_node_that_begins_to_match_wakes_the_pod(
    old: Node | None, new: Node, hint: QueueingHint
) -> None:
    wanted = requiring(labels_term(requirement("k", "In", "a")))
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_LABEL
    assert hinted(made(NodeAffinity), wanted, (Resource.NODE, action), old, new) is hint


def test_a_node_that_begins_to_match_the_added_affinity_wakes_a_pod() -> None:
    event = (Resource.NODE, ActionType.UPDATE_NODE_LABEL)
    assert hinted(added(), pod("p"), event, labelled(), labelled(team="x")) is QUEUE


def test_a_node_outside_the_added_affinity_does_not_wake_a_pod() -> None:
    event = (Resource.NODE, ActionType.ADD)
    assert hinted(added(), pod("p"), event, None, labelled(team="x")) is QUEUE
    assert hinted(added(), pod("p"), event, None, labelled()) is SKIP
