"""CheckServiceAffinity: labels shared with the node of the service's first pod."""

from __future__ import annotations

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.framework.plugin import CycleState
from podsched.legacy.service_affinity import REASON, CheckServiceAffinity
from podsched.v1 import objects_pb2 as v1
from support.engine_world import node, pod
from support.plugin_world import cluster, info, made, rejections

WEB = {"app": "web"}
NODES = [
    node("a", labels={"region": "1", "zone": "x"}),
    node("b", labels={"region": "1", "zone": "y"}),
    node("c", labels={"region": "2", "zone": "y"}),
]


def world(*placed: str) -> ClusterState:
    pods = [pod(f"on-{name}", {"nodeName": name}, labels=WEB) for name in placed]
    state = cluster(*NODES, pods=pods)
    service = v1.Service()
    service.metadata.name, service.metadata.namespace = "web", "default"
    service.spec.selector.update(WEB)
    state.put("Service", service)
    return state


def out(state: ClusterState, *labels: str, **node_selector: str) -> set[str]:
    plugin = made(CheckServiceAffinity, state, labels=labels)
    pending = pod("p", {"nodeSelector": node_selector}, labels=WEB)
    found = rejections(plugin, pending, state)
    assert all(reasons == (REASON,) for reasons in found.values())
    return {*found}


def test_nodes_agree_with_the_node_of_the_first_pod() -> None:
    assert out(world("b"), "region") == {"c"}
    assert out(world("b"), "region", "zone") == {"a", "c"}


def test_the_node_selector_takes_precedence() -> None:
    assert out(world("b"), "region", region="2") == {"a", "b"}
    assert out(world("b"), "region", "zone", region="2") == {"a", "b"}, "the zone is that of b"


def test_without_other_pods_every_node_passes() -> None:
    assert out(world(), "region") == set()
    assert out(world(), "region", region="2") == {"a", "b"}


def test_a_pod_without_a_service_passes() -> None:
    state = world("b")
    plugin = made(CheckServiceAffinity, state, labels=("region",))
    assert rejections(plugin, pod("p", labels={"app": "db"}), state) == {}


def test_in_a_dry_run_pods_taken_off_the_first_node_count_no_more() -> None:
    state = world("a", "c")
    plugin, cycle = made(CheckServiceAffinity, state, labels=("region",)), CycleState()
    pending = info(pod("p", labels=WEB))
    plugin.pre_filter(cycle, pending, state)
    fork = state.columns.fork(np.array([0, 0, 2], dtype=np.intp))
    assert plugin.filter(cycle, pending, fork, np.arange(3)).passed.tolist() == [True, True, False]
    (only,) = fork.pods(1).values()
    fork.remove_pod(1, only)
    assert plugin.filter(cycle, pending, fork, np.arange(3)).passed.tolist() == [True, False, False]


def test_inputs_change_only_with_the_first_nodes() -> None:
    state = world("a", "b")
    plugin, pending = (
        made(CheckServiceAffinity, state, labels=("region",)),
        info(pod("p", labels=WEB)),
    )
    before = plugin.inputs(pending, state)
    state.columns.pod_table.add(2, info(pod("more", {"nodeName": "c"}, labels=WEB)))
    assert plugin.inputs(pending, state) == before
