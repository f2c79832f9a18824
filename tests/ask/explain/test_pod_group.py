"""How far a pod group is, as its objects tell."""

from __future__ import annotations

from podsched.api.objects import Pod, PodGroup
from podsched.ask.explain.pod_group import pod_group_standing
from podsched.cache.objects import ClusterState
from support.engine_world import pod
from support.plugin_world import info


def member(name: str, message: str = "", node_name: str = "") -> Pod:
    made = pod(name, {"schedulingGroup": {"podGroupName": "g"}, "nodeName": node_name})
    if message:
        made.status.conditions.add(type="PodScheduled", status="False", message=message)
    return made


def gang(min_count: int, message: str = "") -> PodGroup:
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = "g", "default"
    made.spec.scheduling_policy.gang.min_count = min_count
    made.status.conditions.add(type="PodGroupScheduled", status="False", message=message)
    return made


def cluster(*pods: Pod, group: PodGroup | None = None) -> ClusterState:
    state = ClusterState()
    for one in pods:
        state.known_pods.put(info(one))
    if group is not None:
        state.put("PodGroup", group)
    return state


def test_a_gang_tells_its_members_and_those_that_fit_nowhere() -> None:
    placed = member("a", node_name="n1")
    waiting = member("b", "pod group is unschedulable, waiting for minCount pods")
    stuck = member("c", "0/3 nodes are available: 3 Insufficient cpu.")
    state = cluster(placed, waiting, stuck, group=gang(3, "no placement exists"))
    found = pod_group_standing(state, info(waiting).group)
    assert (found.min_count, found.members, found.with_node) == (3, 3, 1)
    assert found.message == "no placement exists"
    assert [(one.name, one.message) for one in found.stuck] == [
        ("c", "0/3 nodes are available: 3 Insufficient cpu.")
    ]


def test_a_group_that_does_not_exist_is_told_so() -> None:
    waiting = member("b")
    assert not pod_group_standing(cluster(waiting), info(waiting).group).exists


def test_a_group_of_labels_exists_without_an_object() -> None:
    labels = {
        "kueue.x-k8s.io/pod-group-name": "g",
        "kueue.x-k8s.io/pod-group-total-count": "2",
    }
    waiting = pod("b", {}, labels=labels)
    found = pod_group_standing(cluster(waiting), info(waiting).group)
    assert (found.exists, found.min_count, found.members) == (True, 2, 1)
