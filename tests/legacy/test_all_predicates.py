"""GeneralPredicates and AlwaysCheckAllPredicates: all reasons of a node."""

from __future__ import annotations

from typing import Any

from podsched.api.objects import Pod
from podsched.config.legacy.args import CHECKED_PREDICATES, AlwaysCheckAllPredicatesArgs
from podsched.config.plugins import IN_TREE_PLUGINS
from podsched.framework.events import ActionType, Resource
from podsched.framework.status import Code
from podsched.legacy.all_predicates import (
    FILTERS,
    AlwaysCheckAllPredicates,
    GeneralPredicates,
)
from podsched.registry import BUILT_IN
from support.engine_world import container, node, pod
from support.plugin_world import cluster, filtered, hinted, made

BIG = pod("p", {"containers": [container({"cpu": "3"})], "nodeSelector": {"disk": "ssd"}})
INSUFFICIENT, AFFINITY = "Insufficient cpu", "node(s) didn't match Pod's node affinity/selector"


def full(name: str) -> Pod:
    spec = {"nodeName": name, "containers": [container({"cpu": "2"})]}
    return pod(f"on-{name}", spec)


def checking(*predicates: dict[str, Any]) -> AlwaysCheckAllPredicates:
    return made(AlwaysCheckAllPredicates, predicates=predicates)


def test_general_predicates_have_the_reasons_of_all_four() -> None:
    there = [full(name) for name in ("n", "ssd")]
    state = cluster(node("n"), node("ssd", labels={"disk": "ssd"}), pods=there)
    found = filtered(made(GeneralPredicates, state), BIG, state)
    assert set(found["n"].reasons) == {INSUFFICIENT, AFFINITY}
    assert found["n"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "preemption changes no labels"
    assert found["ssd"].reasons == (INSUFFICIENT,)
    assert found["ssd"].code is Code.UNSCHEDULABLE


def test_general_predicates_leave_ignored_resources_to_extenders() -> None:
    state = cluster(node("n"))
    pending = pod("p", {"containers": [container({"example.com/gpu": "1"})]})
    assert not filtered(made(GeneralPredicates, state), pending, state)["n"].ok
    plugin = made(GeneralPredicates, state, ignored_resources=("example.com/gpu",))
    assert filtered(plugin, pending, state)["n"].ok


def test_all_predicates_are_asked_about_a_node_that_the_first_rejects() -> None:
    tainted = [{"key": "k", "effect": "NoSchedule"}]
    state = cluster(node("n", unschedulable=True, taints=tainted), pods=[full("n")])
    plugin = checking(
        {"name": "NodeUnschedulable"}, {"name": "GeneralPredicates"}, {"name": "TaintToleration"}
    )
    assert set(filtered(plugin, BIG, state)["n"].reasons) == {
        "node(s) were unschedulable",
        INSUFFICIENT,
        AFFINITY,
        "node(s) had untolerated taint(s)",
    }


def test_a_predicate_may_be_checked_twice_with_other_arguments() -> None:
    both = [
        {"name": "CheckNodeLabelPresence", "args": {"labels": [label], "presence": presence}}
        for label, presence in (("ssd", True), ("retiring", False))
    ]
    state = cluster(
        node("good", labels={"ssd": ""}),
        node("bad"),
        node("old", labels={"ssd": "", "retiring": ""}),
    )
    found = filtered(checking(*both), pod("p"), state)
    assert {name for name, status in found.items() if status.ok} == {"good"}


def test_filters_that_the_pod_does_not_concern_are_skipped() -> None:
    plugin = checking({"name": "NoDiskConflict"}, {"name": "VolumeBinding"})
    assert filtered(plugin, pod("p"), cluster(node("n"))) == {}


def test_it_hears_of_the_events_of_all_its_filters() -> None:
    plugin = checking({"name": "NodeUnschedulable"}, {"name": "CheckNodeLabelPresence",
                                                      "args": {"labels": ["ssd"]}})  # fmt: skip
    event = (Resource.NODE, ActionType.UPDATE_NODE_LABEL)
    assert hinted(plugin, pod("p"), event, node("n"), node("n")) is not None


def test_the_configuration_knows_its_filters_and_their_arguments() -> None:
    assert FILTERS.keys() == CHECKED_PREDICATES.keys()
    for name, model in CHECKED_PREDICATES.items():
        assert (BUILT_IN[name], IN_TREE_PLUGINS[name].args) == (FILTERS[name], model)


def test_unknown_filters_and_wrong_arguments_are_errors_with_their_paths() -> None:
    args = AlwaysCheckAllPredicatesArgs.model_validate(
        {
            "predicates": (
                {"name": "Nothing"},
                {"name": "CheckNodeLabelPresence", "args": {"labels": "ssd"}},
            )
        }
    )
    found = list(args.errors("args"))
    paths = {error.path for error in found}
    assert {"args.predicates[0].name", "args.predicates[1].args.labels"} <= paths
