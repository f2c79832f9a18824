"""NodeUnschedulable: cordoned nodes, and what wakes the pods they turned down."""

from __future__ import annotations

import pytest

from podsched.api.objects import Node, Pod
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.status import Code
from podsched.plugins import node_unschedulable
from podsched.plugins.node_unschedulable import NodeUnschedulable
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, hinted, rejections

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


def test_cordoned_nodes_take_only_pods_that_tolerate_it() -> None:
    state = cluster(node("open"), node("cordoned", unschedulable=True))
    said = filtered(NodeUnschedulable(), pod("p"), state)
    assert said["open"].ok
    assert said["cordoned"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert said["cordoned"].reasons == (node_unschedulable.REASON,)
    assert rejections(NodeUnschedulable(), pod("p", {"tolerations": CORDON}), state) == {}


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, node("n"), QUEUE),
        (None, node("n", unschedulable=True), SKIP),
        (node("n", unschedulable=True), node("n"), QUEUE),
        (node("n"), node("n"), SKIP),
        (node("n"), node("n", unschedulable=True), SKIP),
    ],
)
def test_a_node_that_opens_wakes_the_pod(old: Node | None, new: Node, hint: QueueingHint) -> None:
    action = ActionType.ADD if old is None else ActionType.UPDATE_NODE_TAINT
    event = (Resource.NODE, action)
    assert hinted(NodeUnschedulable(), pod("p"), event, old, new) is hint


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        (pod("p", {"tolerations": CORDON}), QUEUE),
        (pod("p", {"tolerations": [{"key": "other", "operator": "Exists"}]}), SKIP),
        (pod("stranger", {"tolerations": CORDON}), SKIP),
    ],
)
def test_its_own_toleration_of_cordons_wakes_the_pod(changed: Pod, hint: QueueingHint) -> None:
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_TOLERATION)
    assert hinted(NodeUnschedulable(), pod("p"), event, pod("p"), changed) is hint
