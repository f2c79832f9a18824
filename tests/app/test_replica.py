"""A replica that steps down starts over from what the informer knows, and loses nothing."""

from __future__ import annotations

import asyncio

import pytest

from podsched.app.process import Process, ProcessOptions
from podsched.app.replica import Replica, ReplicaOptions, unique_identity
from podsched.app.replica_lease import lease_name
from podsched.config.load import default_config
from podsched.config.settings import ControllerSettings, SchedulerSettings
from podsched.election.options import ElectionOptions
from podsched.engine.state import WATCHED_KINDS
from podsched.store.endpoints import EtcdOptions
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.tracing import Tracer
from podsched.testing.fake_cluster import FakeCluster
from support.engine_world import node, pod

PENDING = {"schedulerName": "default-scheduler", "priority": 0}


def replica(cluster: FakeCluster) -> Replica:
    """A replica whose informer follows the cluster in memory."""
    options = ReplicaOptions(
        default_config(),
        SchedulerSettings(identity="replica-1"),
        EtcdOptions(),
        ElectionOptions(),
        ControllerSettings(),
    )
    process = Process(ProcessOptions("scheduler"), MetricRegistry(), HealthChecks(), Tracer())
    made = Replica(process, options)
    made._informer = cluster.informer(WATCHED_KINDS)
    return made


async def test_what_was_assumed_is_forgotten_and_what_is_known_is_all_there_again() -> None:
    cluster = FakeCluster()
    cluster.create(node("n1"))
    nominee = pod("nominee", {**PENDING, "priority": 10, "schedulingGates": [{"name": "g"}]})
    nominee.status.nominated_node_name = "n1"
    for item in (
        pod("running", {**PENDING, "nodeName": "n1"}),
        pod("assumed", {**PENDING, "priority": 5}),
        pod("waiting", PENDING),
        pod("theirs", {"schedulerName": "theirs"}),
        nominee,
    ):
        cluster.create(item)
    made = replica(cluster)
    following = asyncio.create_task(made._informer.run(made._handle))
    await made._informer.synced.wait()
    state = made._state
    queued = state.queue.pop(0.0)
    assert queued is not None and queued.info.uid == "uid-assumed"
    state.cache.assume(queued.info, "n1")
    state.queue.done("uid-assumed")
    made._rebuild()
    assert made._state is not state
    cache, queue = made._state.cache, made._state.queue
    assert cache.assumed_count == 0
    assert (cache.node_count, cache.pod_count) == (1, 1)
    assert queue.place("uid-assumed") == queue.place("uid-waiting") == "active"
    assert queue.place("uid-nominee") == "gated"
    assert queue.place("uid-theirs") == ""
    assert cache.cluster.nominated_node("uid-nominee") == "n1"
    queue.check_invariants()
    # The informer goes on where it was.
    cluster.create(pod("new", PENDING))
    await asyncio.sleep(0.05)
    assert made._state.queue.place("uid-new") == "active"
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await made._client.close()


def test_two_processes_of_one_name_are_never_taken_for_each_other() -> None:
    first, second = unique_identity("replica-1"), unique_identity("replica-1")
    assert first != second
    assert first.rpartition("_")[0] == second.rpartition("_")[0] == "replica-1"


@pytest.mark.parametrize(
    ("replica", "lease"),
    [
        ("scheduler-0", "replica-scheduler-0"),
        ("Host.Example_ä1f", "replica-host.example--1f"),
        ("x" * 300, "replica-" + "x" * 245),
        ("trailing_", "replica-trailing"),
    ],
)
def test_a_replicas_lease_has_a_name_that_objects_may_have(replica: str, lease: str) -> None:
    assert lease_name(replica) == lease
