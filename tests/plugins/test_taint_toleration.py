"""TaintToleration: which taints keep a pod away, and what soft ones cost."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Node, Pod
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.status import Code
from podsched.plugins.taint_toleration import REASON, TaintToleration
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, hinted, scored

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def tainted(*taints: str, name: str = "n") -> Node:
    """Taints are written ``key=value:Effect``."""
    parsed = []
    for taint in taints:
        pair, effect = taint.split(":")
        key, value = pair.split("=")
        parsed.append({"key": key, "value": value, "effect": effect})
    return node(name, taints=parsed)


def tolerating(*tolerations: dict[str, Any]) -> Pod:
    return pod("p", {"tolerations": list(tolerations)})


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ("k=v:NoSchedule", {}, False),
        ("k=v:NoExecute", {}, False),
        ("k=v:PreferNoSchedule", {}, True),
        ("k=v:NoSchedule", {"key": "k", "value": "v"}, True),
        ("k=v:NoSchedule", {"key": "k", "value": "w"}, False),
        ("k=v:NoSchedule", {"key": "k", "operator": "Exists"}, True),
        ("k=v:NoSchedule", {"operator": "Exists"}, True),
        ("k=v:NoSchedule", {"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
        ("k=v:NoSchedule", {"key": "k", "operator": "Exists", "effect": "NoSchedule"}, True),
        ("k=5:NoSchedule", {"key": "k", "operator": "Gt", "value": "3"}, False),
    ],
)
def test_a_hard_taint_needs_a_toleration(
    taint: str, toleration: dict[str, Any], fits: bool
) -> None:
    wanted = tolerating(toleration) if toleration else tolerating()
    status = filtered(TaintToleration(), wanted, cluster(tainted(taint)))["n"]
    if fits:
        assert status.ok
    else:
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == (REASON,)


def test_every_soft_taint_that_is_not_tolerated_costs_score() -> None:
    state = cluster(
        tainted(name="none"),
        tainted("a=1:PreferNoSchedule", name="one"),
        tainted("a=1:PreferNoSchedule", "b=1:PreferNoSchedule", "c=1:NoSchedule", name="two"),
    )
    plugin = TaintToleration()
    assert scored(plugin, tolerating(), state) == {"none": 100, "one": 50, "two": 0}
    a = {"key": "a", "operator": "Exists"}
    assert scored(plugin, tolerating(a), state) == {"none": 100, "one": 100, "two": 0}
    hard = {"key": "a", "operator": "Exists", "effect": "NoSchedule"}
    assert scored(plugin, tolerating(hard), state) == {"none": 100, "one": 50, "two": 0}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, tainted(), QUEUE),
        (None, tainted("k=v:NoSchedule"), SKIP),
        (tainted("k=v:NoSchedule"), tainted(), QUEUE),
        (tainted("k=v:PreferNoSchedule"), tainted(), SKIP),
        (tainted("k=v:NoSchedule"), tainted("j=v:NoExecute"), SKIP),
    ],
)
def test_a_node_whose_taints_stop_mattering_wakes_the_pod(
    old: Node | None, new: Node, hint: QueueingHint
) -> None:
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_TAINT
    assert hinted(TaintToleration(), tolerating(), (Resource.NODE, action), old, new) is hint


def test_its_own_new_toleration_wakes_the_pod() -> None:
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)
    plugin = TaintToleration()
    assert hinted(plugin, pod("p"), event, pod("p"), tolerating({"key": "k"})) is QUEUE
    assert hinted(plugin, pod("p"), event, pod("p"), pod("stranger")) is SKIP
