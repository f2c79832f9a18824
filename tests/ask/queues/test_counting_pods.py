"""The pods of a ClusterQueue from which the start of a unit is estimated."""

from __future__ import annotations

import pytest

from podsched.ask.queues.counting import pods_in, sibling_queues
from support.queues import cluster_queue, gang, job, local_queue, one_node
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def test_pods_of_all_localqueues_of_the_clusterqueue_count_and_no_others() -> None:
    world = one_node({"cpu": 1})
    cluster_queue(world, "other", {"cpu": 1})
    local_queue(world, "second", "team")
    async with world.running():
        job(world, "a", "team", cpu=1)
        job(world, "b", "second", cpu=1)
        job(world, "c", "other", cpu=1)
        gang(world, "train", "second", 1, cpu=1)
        await world.pod_and_wait("free")
        queues = sibling_queues(world.state.admission, "default/pod:a")
        pods = pods_in(queues, world.state.cache.cluster, world.cluster.objects("Pod"))
        assert sorted(pod.metadata.name for pod in pods) == ["a", "b", "train-0"]


async def test_all_pods_count_for_a_pod_without_a_queue() -> None:
    world = TermWorld()
    pods = [world.pod("a"), world.pod("b")]
    assert sibling_queues(world.state.admission, "default/pod:a") is None
    assert pods_in(None, world.state.cache.cluster, pods) == pods
