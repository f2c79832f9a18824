"""What updates of nodes and pods are called."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.classify import node_update_actions, pod_update_actions, single_actions
from podsched.framework.events import ActionType
from podsched.v1 import objects_pb2 as v1
from support.cache_world import make_node, make_pod


def _set_label(node: v1.Node) -> None:
    node.metadata.labels["a"] = "b"


def _taint(node: v1.Node) -> None:
    node.spec.taints.add(key="a", effect="NoSchedule")


def _grow(node: v1.Node) -> None:
    node.status.allocatable["cpu"] = "8"


def _become_ready(node: v1.Node) -> None:
    node.status.conditions.add(type="Ready", status="True")


def _annotate(node: v1.Node) -> None:
    node.metadata.annotations["a"] = "b"


def _declare(node: v1.Node) -> None:
    node.status.declared_features.append("f")


@pytest.mark.parametrize(
    ("change", "action"),
    [
        (_set_label, ActionType.UPDATE_NODE_LABEL),
        (_taint, ActionType.UPDATE_NODE_TAINT),
        (_grow, ActionType.UPDATE_NODE_ALLOCATABLE),
        (_become_ready, ActionType.UPDATE_NODE_CONDITION),
        (_annotate, ActionType.UPDATE_NODE_ANNOTATION),
        (_declare, ActionType.UPDATE_NODE_DECLARED_FEATURE),
    ],
)
def test_each_change_of_a_node_is_its_own_action(
    change: Callable[[v1.Node], None], action: ActionType
) -> None:
    old, new = make_node("n"), make_node("n")
    change(new)
    assert node_update_actions(old, new) == action


def test_the_end_of_a_cordon_is_an_action_and_its_beginning_is_none() -> None:
    cordoned = make_node("n")
    cordoned.spec.unschedulable = True
    assert node_update_actions(cordoned, make_node("n")) == ActionType.UPDATE_NODE_TAINT
    assert not node_update_actions(make_node("n"), cordoned)


def test_a_heartbeat_is_no_action() -> None:
    old, new = make_node("n"), make_node("n")
    for node, seconds in ((old, 1), (new, 2)):
        ready = node.status.conditions.add(type="Ready", status="True", message=str(seconds))
        ready.last_heartbeat_time.seconds = seconds
    assert not node_update_actions(old, new)


def _actions(old: v1.Pod, new: v1.Pod) -> ActionType:
    classes = PodClasses()
    return pod_update_actions(make_pod_info(old, classes), make_pod_info(new, classes))


def test_pods_that_change_labels_requests_tolerations_or_gates_say_so() -> None:
    gated, tolerant = make_pod("p"), make_pod("p")
    gated.spec.scheduling_gates.add(name="g")
    tolerant.spec.tolerations.add(key="k", operator="Exists")
    big, small = make_pod("p", requests={"cpu": "2"}), make_pod("p", requests={"cpu": "1"})
    plain = make_pod("p")
    assert _actions(plain, make_pod("p", labels={"a": "b"})) == ActionType.UPDATE_POD_LABEL
    assert _actions(big, small) == ActionType.UPDATE_POD_SCALE_DOWN
    assert _actions(small, big) == ActionType.UPDATE_OTHER
    assert _actions(plain, tolerant) == ActionType.UPDATE_POD_TOLERATION
    assert _actions(gated, plain) == ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    assert _actions(plain, gated) == ActionType.UPDATE_OTHER
    going = make_pod("p", terminating=True)
    assert _actions(plain, going) == ActionType.UPDATE_POD_TERMINATING
    assert _actions(going, going) == ActionType.UPDATE_OTHER


def test_several_actions_are_taken_one_by_one() -> None:
    both = ActionType.UPDATE_NODE_TAINT | ActionType.UPDATE_NODE_LABEL
    assert single_actions(both) == (ActionType.UPDATE_NODE_LABEL, ActionType.UPDATE_NODE_TAINT)
