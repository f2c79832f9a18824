"""What ``sched status`` tells besides the replicas."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import cast

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import ClusterQueue, Job, Lease, StatefulSet
from podsched.app.leader_requests import REASON, pause_name
from podsched.app.replica_lease import (
    COMPONENT,
    DEFAULT_LOCK,
    LABEL,
    NAMESPACE,
    PREFIX,
    STALE_AFTER,
)
from podsched.cli.describe import NO_CONTROLLER, description
from podsched.cli.status import (
    collect,
    left_alone_text,
    queue_counts,
    status_lines,
    without_controller,
)
from podsched.serve.client.api_client import ApiClient, Listing
from podsched.serve.client.errors import Forbidden
from podsched.testing.fake_cluster import FakeCluster
from support.command_client import CommandClient, replica_set
from support.commands import Commands
from support.engine_world import node, pod


def stateful_set(name: str) -> StatefulSet:
    item = StatefulSet()
    item.metadata.name, item.metadata.namespace = name, "default"
    return item


async def test_workloads_that_no_controller_has_looked_at_are_counted() -> None:
    cluster = FakeCluster()
    for name, controlled in {"a": False, "b": False, "c": True}.items():
        cluster.create(replica_set(name, name, controlled=controlled))
    cluster.create(stateful_set("db"))
    client = cast(ApiClient, CommandClient(cluster))
    assert await without_controller(client) == {"ReplicaSet": 2, "StatefulSet": 1}


async def test_a_job_whose_pods_wait_in_a_queue_has_a_controller() -> None:
    cluster = FakeCluster()
    for name, active in {"new": 0, "waiting": 3}.items():
        item = Job()
        item.metadata.name, item.metadata.namespace = name, "default"
        item.status.active = active
        cluster.create(item)
    client = cast(ApiClient, CommandClient(cluster))
    assert await without_controller(client) == {"Job": 1}


async def test_who_may_not_list_workloads_is_told_the_rest() -> None:
    class Guarded:
        async def list(self, kind: str) -> Listing:
            raise Forbidden(f"cannot list {kind}")

    assert await without_controller(cast(ApiClient, Guarded())) == {}


def test_the_count_is_told_in_a_sentence() -> None:
    text = left_alone_text("ReplicaSet", 2)
    assert text == "2 ReplicaSets make no pods: no controller has processed them"
    text = left_alone_text("StatefulSet", 1)
    assert text == "1 StatefulSet makes no pods: podsched has no controller for it"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "ReplicationController"])
def test_a_description_says_that_no_controller_makes_pods(kind: str) -> None:
    item = KINDS[kind].message()
    item.metadata.name = "web"
    said = f"Controller:    {NO_CONTROLLER}"
    assert said in description(item, [], [], 0.0).splitlines()
    item.status.observed_generation = 1
    assert said not in description(item, [], [], 0.0).splitlines()


def lease(name: str, holder: str, **about: str) -> Lease:
    """A Lease that was renewed just now, with what a replica writes about itself."""
    item = Lease()
    item.metadata.namespace, item.metadata.name = NAMESPACE, name
    if about:
        item.metadata.labels[LABEL] = COMPONENT
    item.spec.holder_identity = holder
    item.spec.renew_time.FromSeconds(int(time.time()))
    for key, value in about.items():
        item.metadata.annotations[PREFIX + key.replace("_", "-")] = value
    return item


def a_cluster() -> FakeCluster:
    """Two nodes, a pod on one and one that waits, and a leader with two others."""
    cluster = FakeCluster()
    record = lease(DEFAULT_LOCK.partition("/")[2], "b_1")
    record.spec.lease_transitions = 3
    gone = lease("c", "c_1", state="standby", pid="3", api="api:3", set_aside="9")
    gone.spec.renew_time.FromSeconds(int(time.time() - STALE_AFTER - 60))
    items = [
        record,
        lease("a", "a_1", state="leading", pid="1", term="7", api="api:2"),
        lease(
            "b",
            "b_1",
            state="leading",
            pid="2",
            term="9",
            api="api:1",
            health="http://h:1",
            set_aside="2",
        ),
        gone,
        *(node(name) for name in ("n1", "n2")),
        pod("bound", {"nodeName": "n1"}),
        pod("waits"),
    ]
    for item in items:
        cluster.create(item)
    return cluster


async def told(cluster: FakeCluster) -> list[str]:
    client = CommandClient(cluster)
    client.channels = SimpleNamespace(endpoint="api:1")  # type: ignore[attr-defined]
    return list(status_lines(await collect(cast(ApiClient, client), DEFAULT_LOCK)))


async def test_the_state_of_each_replica_is_told() -> None:
    lines = await told(a_cluster())
    assert [line.split()[:4] for line in lines[:4]] == [
        ["REPLICA", "PID", "STATE", "TERM"],
        ["a_1", "1", "deposed", "-"],
        ["b_1", "2", "leading", "9"],
        ["c_1", "3", "gone", "-"],
    ]
    assert lines[2].endswith(" h:1")
    assert "Leader:  b_1, 3 transitions" in lines
    assert "API:     api:1, api:2" in lines
    assert "etcd:    unknown" in lines
    assert lines[-3:] == [
        "Nodes:   2",
        "Pods:    1 bound, 1 pending",
        "Ignored: 2 objects that cannot be used; the replicas' logs name them",
    ]


async def test_hollow_nodes_are_told() -> None:
    cluster, labels = a_cluster(), {"podsched.io/hollow": "true"}
    cluster.create(node("h", labels=labels))
    assert "Nodes:   3, 1 hollow: nothing runs on them" in await told(cluster)
    for name in ("n1", "n2"):
        cluster.update(node(name, labels=labels))
    assert "Nodes:   3, all hollow: nothing runs on them" in await told(cluster)


async def test_a_pause_is_told_with_who_and_why() -> None:
    cluster = a_cluster()
    pause = lease(pause_name(DEFAULT_LOCK), "alice")
    pause.metadata.annotations[REASON] = "a bad deploy"
    cluster.create(pause)
    lines = await told(cluster)
    [paused] = [line for line in lines if line.startswith("PAUSED")]
    assert paused.startswith("PAUSED   by alice since ") and paused.endswith(": a bad deploy")
    assert "         Nothing is scheduled until sched leader resume." in lines


async def test_a_cluster_without_replicas_says_so() -> None:
    lines = await told(FakeCluster())
    assert lines[0] == "No scheduler replicas found."
    assert "Leader:  none, 0 transitions" in lines


async def test_a_replica_that_names_no_api_server_adds_no_empty_address() -> None:
    cluster = a_cluster()
    cluster.create(lease("d", "d_1", state="standby", pid="4"))
    assert "API:     api:1, api:2" in await told(cluster)


async def test_queues_are_a_line_with_what_waits_and_is_admitted() -> None:
    cluster = a_cluster()
    assert not any(line.startswith("Queues:") for line in await told(cluster))
    lines = {
        (1, 1): "Queues:  1 ClusterQueue; 1 unit waits, 1 is admitted (sched queues)",
        (3, 5): "Queues:  2 ClusterQueues; 4 units wait, 6 are admitted (sched queues)",
    }
    for counts, line in lines.items():
        queue = ClusterQueue()
        queue.metadata.name = f"queue-{counts[0]}"
        queue.status.pending_workloads, queue.status.admitted_workloads = counts
        cluster.create(queue)
        assert line in await told(cluster)


async def test_who_may_not_list_queues_is_told_the_rest() -> None:
    class Guarded:
        async def list(self, kind: str) -> Listing:
            raise Forbidden(f"cannot list {kind}")

    assert await queue_counts(cast(ApiClient, Guarded())) is None


@pytest.mark.parametrize("command", ["status", "leader transfer", "leader pause", "leader resume"])
def test_a_lock_without_a_namespace_is_a_usage_error(command: str) -> None:
    done = Commands()(*command.split(), "--lock", "scheduler")
    message = 'error: --lock: "scheduler" is not NAMESPACE/NAME\n'
    assert (done.code, done.err) == (2, message)
