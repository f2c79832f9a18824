"""NodeResourcesFit's hints: a pod is woken by events that leave room for it, and by no others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from podsched.api.objects import LocalQueue, Node, ObjectMeta, Pod
from podsched.api.queue_labels import QUEUE_NAME
from podsched.cache.objects import ClusterState
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.pods import PodInfo
from podsched.plugins.node_resources.fit import NodeResourcesFit
from support.engine_world import container, node, pod
from support.plugin_world import cluster, hinted, info, made

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
DELETE = (Resource.ASSIGNED_POD, ActionType.DELETE)
SCALE_DOWN = (Resource.ASSIGNED_POD, ActionType.UPDATE_POD_SCALE_DOWN)


def asking(cpu: str, name: str = "pending", node_name: str = "", **spec: Any) -> Pod:
    containers = [container({"cpu": cpu})]
    return pod(name, {"containers": containers, "nodeName": node_name, **spec})


def giving(cpu: str, name: str = "n", pods: str = "10") -> Node:
    return node(name, allocatable={"cpu": cpu, "memory": "1Gi", "pods": pods})


def queued(cpu: str, name: str = "pending", node_name: str = "", **spec: Any) -> Pod:
    made = asking(cpu, name, node_name, **spec)
    made.metadata.labels[QUEUE_NAME] = "team"
    return made


def gone(priority: int = 0, node_name: str = "n") -> Pod:
    return asking("1", "gone", node_name, priority=priority)


def after_deletion(state: ClusterState, waiting: Pod, left: Pod | None = None) -> QueueingHint:
    """What the hint says once a pod has left the cluster as it is now."""
    answer = hinted(made(NodeResourcesFit, state), waiting, DELETE, left or gone(), None)
    assert answer is not None
    return answer


def test_a_pod_that_leaves_enough_room_wakes_a_pod() -> None:
    state = cluster(giving("2"), pods=[asking("1", "there", "n")])
    assert after_deletion(state, asking("1")) is QUEUE
    assert after_deletion(state, asking("1001m")) is SKIP


def test_a_place_among_the_pods_is_room_too() -> None:
    there = [asking("0", "a", "n"), asking("0", "b", "n")]
    assert after_deletion(cluster(giving("2", pods="2"), pods=there), asking("1")) is SKIP
    assert after_deletion(cluster(giving("2", pods="3"), pods=there), asking("1")) is QUEUE


def test_room_kept_for_a_nominated_pod_wakes_only_pods_above_it() -> None:
    state = cluster(giving("2"))
    state.nominator.add(info(asking("2", "nominated", priority=5)), "n")
    assert after_deletion(state, asking("1", priority=5)) is SKIP
    assert after_deletion(state, asking("1", priority=6)) is QUEUE


def test_a_pod_that_could_not_be_preempted_leaves_room_for_preemption() -> None:
    state = cluster(giving("2"), pods=[asking("2", "low", "n", priority=1)])
    waiting = asking("2", priority=5)
    assert after_deletion(state, waiting, gone(5)) is QUEUE
    # Whom it could have preempted, it had taken into account.
    assert after_deletion(state, waiting, gone(1)) is SKIP
    never = asking("2", priority=5, preemptionPolicy="Never")
    assert after_deletion(state, never, gone(5)) is SKIP


def test_a_pod_of_a_queue_is_woken_if_it_fits_without_the_pods_of_queues() -> None:
    there = [queued("2", "there", "n"), asking("1", "alone", "n")]
    state = cluster(giving("4"), pods=there)
    state.put("LocalQueue", LocalQueue(metadata=ObjectMeta(name="team", namespace="default")))
    waiting = queued("3", priority=5)
    assert after_deletion(state, waiting, gone(1)) is QUEUE
    assert after_deletion(state, queued("4"), gone(1)) is SKIP
    assert after_deletion(state, asking("3", priority=5), gone(1)) is SKIP


def test_a_pod_that_leaves_a_node_that_is_not_there_wakes_no_pod() -> None:
    state = cluster(giving("2"))
    assert after_deletion(state, asking("1"), gone(node_name="elsewhere")) is SKIP
    assert after_deletion(state, asking("1"), asking("1", "gone")) is SKIP


def test_a_nominated_pod_that_is_deleted_leaves_the_room_it_was_to_get() -> None:
    left = asking("1", "gone")
    left.status.nominated_node_name = "n"
    assert after_deletion(cluster(giving("2")), asking("2"), left) is QUEUE


def test_a_pod_scaled_down_wakes_those_that_fit_now() -> None:
    state = cluster(giving("2"), pods=[asking("1", "there", "n")])
    before, after = asking("2", "there", "n"), asking("1", "there", "n")
    plugin = made(NodeResourcesFit, state)
    assert hinted(plugin, asking("1"), SCALE_DOWN, before, after) is QUEUE
    assert hinted(plugin, asking("2"), SCALE_DOWN, before, after) is SKIP


def test_the_pod_nominated_to_a_node_hears_of_every_pod_that_leaves_it() -> None:
    state = cluster(giving("1"), pods=[asking("1", "there", "n")])
    nominated, other = info(asking("1", "nominated")), info(asking("1", "other"))
    state.nominator.add(nominated, "n")
    registered = made(NodeResourcesFit, state).events_to_register()[1]
    assert registered.hint is not None and registered.pods is not None and registered.per_pod
    assert list(registered.pods(gone(), None)) == [nominated.uid]
    assert registered.hint(nominated, gone(), None) is QUEUE
    assert registered.hint(other, gone(), None) is SKIP
    assert registered.hint(nominated, gone(node_name="m"), None) is SKIP


def random_pod(random: Random, name: str, node_name: str = "") -> Pod:
    policy = random.choice(["Never", "PreemptLowerPriority"])
    cpu = f"{random.randrange(0, 2200, 100)}m"
    make = random.choice([asking, queued])
    return make(cpu, name, node_name, priority=random.randrange(4), preemptionPolicy=policy)


@pytest.mark.parametrize("seed", range(40))
def test_the_index_names_every_pod_that_the_hint_wakes(seed: int) -> None:
    random = Random(seed)
    there = [random_pod(random, f"there-{n}", "n") for n in range(random.randrange(4))]
    state = cluster(giving("4", pods=str(random.randrange(1, 6))), pods=there)
    if random.random() < 0.5:
        state.put("LocalQueue", LocalQueue(metadata=ObjectMeta(name="team", namespace="default")))
    if random.random() < 0.3:
        state.nominator.add(info(random_pod(random, "nominated")), "n")
    registered = made(NodeResourcesFit, state).events_to_register()[0]
    assert registered.index is not None and registered.hint is not None
    waiting: list[PodInfo] = [info(random_pod(random, f"w-{n}")) for n in range(30)]
    index = registered.index()
    for one in waiting:
        index.add(one.uid, one)
    left = random_pod(random, "gone", "n")
    woken = {one.uid for one in waiting if registered.hint(one, left, None) is QUEUE}
    candidates = index.candidates(left, None)
    assert candidates is not None and woken <= set(candidates)
