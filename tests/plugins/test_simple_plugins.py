"""The plugins that need a line or two each, from NodeName to NodeDeclaredFeatures."""

from __future__ import annotations

import pytest

from podsched.api.objects import Node, Pod
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.plugin import CycleState
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code
from podsched.plugins import node_declared_features, node_name, node_unschedulable
from podsched.plugins.default_binder import DefaultBinder
from podsched.plugins.node_declared_features import NodeDeclaredFeatures
from podsched.plugins.node_name import NodeName
from podsched.plugins.node_unschedulable import NodeUnschedulable
from podsched.plugins.priority_sort import PrioritySort
from podsched.plugins.scheduling_gates import SchedulingGates
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, hinted, info, rejections

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
CORDON = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]


def test_a_pod_that_names_its_node_fits_no_other() -> None:
    state = cluster(node("a"), node("b"))
    assert rejections(NodeName(), pod("p", {"nodeName": "b"}), state) == {"a": (node_name.REASON,)}
    assert rejections(NodeName(), pod("p"), state) == {}
    assert len(rejections(NodeName(), pod("p", {"nodeName": "c"}), state)) == 2


def test_pods_of_one_class_may_name_different_nodes() -> None:
    one, other = info(pod("p", {"nodeName": "a"})), info(pod("q", {"nodeName": "b"}))
    assert one.cls is other.cls
    state = cluster()
    assert NodeName().inputs(one, state) != NodeName().inputs(other, state)


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


def test_a_pod_with_gates_stays_out_of_the_queue() -> None:
    gated = pod("p", {"schedulingGates": [{"name": "a"}, {"name": "b"}]})
    status = SchedulingGates().pre_enqueue(info(gated))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message == "waiting for scheduling gates: [a b]"
    assert SchedulingGates().pre_enqueue(info(pod("p"))).ok
    event = (Resource.UNSCHEDULABLE_POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    assert hinted(SchedulingGates(), gated, event, gated, pod("p")) is QUEUE
    assert hinted(SchedulingGates(), gated, event, gated, pod("stranger")) is SKIP


def test_higher_priority_goes_first_and_older_among_equals() -> None:
    def queued(name: str, priority: int, timestamp: float) -> QueuedPodInfo:
        return QueuedPodInfo(info(pod(name, {"priority": priority})), timestamp)

    pods = [queued("young", 5, 2.0), queued("low", 1, 0.0), queued("old", 5, 1.0)]
    ordered = sorted(pods, key=PrioritySort().sort_key)
    assert [queued.info.name for queued in ordered] == ["old", "young", "low"]


def test_every_pod_is_bound_through_the_api() -> None:
    assert DefaultBinder().bind(CycleState(), info(pod("p")), "n").ok


def test_a_pod_that_restarts_all_containers_needs_a_node_that_can() -> None:
    rules = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}]
    spec = {"containers": [{"name": "c", "image": "i", "restartPolicyRules": rules}]}
    able, unable = node("able"), node("unable")
    able.status.declared_features.append(node_declared_features.RESTART_ALL_CONTAINERS)
    state = cluster(able, unable)
    plugin = NodeDeclaredFeatures()
    assert rejections(plugin, pod("p", spec), state) == {"unable": (node_declared_features.REASON,)}
    assert filtered(plugin, pod("p"), state) == {}
    event = (Resource.NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE)
    assert hinted(plugin, pod("p", spec), event, unable, able) is QUEUE
    assert hinted(plugin, pod("p", spec), event, able, able) is SKIP
