"""Objects that no API server would store, written to etcd by another program, do no harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from podsched.api.etcd_keys import object_key
from podsched.api.kinds import KINDS
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.lab.bench.shapes import node, pod_template
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.etcd import connect
from podsched.serve.store.protocol import Put
from support.commands import Commands
from support.eventually import eventually_blocking

pytestmark = pytest.mark.integration

FAR = 253_402_300_800  # the first second of the year 10000


def named(kind: str, namespace: str, name: str) -> Any:
    item = KINDS[kind].new()
    item.metadata.namespace, item.metadata.name, item.metadata.uid = namespace, name, name
    return item


def pod(name: str, **spec: Any) -> Any:
    item = pod_template(**spec)
    item.metadata.name = item.metadata.uid = name
    item.spec.scheduler_name = "default-scheduler"
    item.status.phase = "Pending"
    return item


def planted() -> list[tuple[str, str, str, bytes]]:
    """Kind, namespace, name and value of what no reader can use, or not without trouble."""
    deep, started, deleting, much = pod("deep"), pod("started"), pod("deleting"), pod("much")
    inner = deep.metadata.managed_fields.add()
    for _ in range(60):
        inner = inner.fields["f"].struct_value
    for late in (started, deleting):
        late.spec.node_name = "node-0000"
        late.metadata.creation_timestamp.seconds = FAR
        late.status.start_time.seconds = -FAR
        late.status.phase = "Running"
    started.metadata.annotations["podsched.io/run-seconds"] = "1e308"
    deleting.metadata.deletion_timestamp.seconds = FAR
    deleting.metadata.deletion_grace_period_seconds = 2**62
    much.spec.containers[0].resources.requests["cpu"] = "9" * 5000
    far = node("far")
    ready = far.status.conditions[0]
    ready.last_heartbeat_time.seconds = ready.last_transition_time.seconds = FAR
    far.status.allocatable["memory"] = "lots"
    lease = named("Lease", "kube-node-lease", "far")
    lease.spec.renew_time.seconds, lease.spec.lease_duration_seconds = FAR, 2**31 - 1
    budget = named("PodDisruptionBudget", "default", "budget")
    budget.spec.min_available = "9" * 5000
    budget.spec.selector.match_expressions.add(key="!", operator="Near")
    volume, claim = (
        named("PersistentVolume", "", "vol"),
        named("PersistentVolumeClaim", "default", "c"),
    )
    volume.spec.capacity["storage"] = claim.spec.resources.requests["storage"] = "huge"
    volume.spec.claim_ref.namespace, volume.spec.claim_ref.name = "default", "c"
    items = (deep, started, deleting, much, lease, far, budget, volume, claim)
    found = [
        (
            item.DESCRIPTOR.name,
            item.metadata.namespace,
            item.metadata.name,
            item.SerializeToString(),
        )
        for item in items
    ]
    return [*found, ("Pod", "default", "bytes", b"\xff" * 40), ("Node", "", "empty", b"")]


async def plant(endpoints: tuple[str, ...]) -> None:
    store = await connect(EtcdOptions(endpoints))
    for kind, namespace, name, value in planted():
        key = f"{namespace}/{name}" if namespace else name
        await store.txn([], [Put(object_key(KINDS[kind], key), value)])
    await store.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    options = LocalClusterOptions(
        tmp_path,
        replicas=2,
        nodes=2,
        evaluator="local",
        fsync=False,
        agent_arguments=("--adopt",),
    )
    with asyncio.Runner() as runner:
        running = LocalCluster(options)
        runner.run(running.start())
        runner.run(plant(running.specs.etcd_endpoints))
        try:
            yield running
        finally:
            runner.run(running.stop())


@pytest.mark.long
def test_planted_objects_are_ignored_shown_raw_and_deleted(cluster: LocalCluster) -> None:
    sched = Commands(cluster.server)
    good = json.dumps({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "good"},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "b"}]},
    })  # fmt: skip
    sched.ok("apply", "-f", "-", stdin=good)
    sched.until("Running", "get", "pod", "good")
    sched.until("Ignored: ", "status")
    for kind, namespace, name, value in planted():
        where = ["-n", namespace or "default"]
        raw = json.loads(sched.ok("get", kind, name, "-o", "raw", *where))
        assert (raw["name"], raw["kind"]) == (name, kind) and bool(raw.get("value")) == bool(value)
        for arguments in (["get", "-o", "yaml"], ["get", "-o", "wide"], ["describe"]):
            shown = sched(arguments[0], kind, name, *arguments[1:], *where)
            assert shown.code in (0, 1), f"{arguments} {kind} {name}: {shown.err}"
    for kind in ("pods", "nodes", "pv", "pvc", "pdb"):
        sched.ok("get", kind, "-A", "-o", "wide")
    for kind, namespace, name, _ in planted():
        grace = ["--grace-period", "0"] if kind == "Pod" else []
        sched.ok("delete", kind, name, "-n", namespace or "default", *grace)
    sched.ok("delete", "pod", "good")
    eventually_blocking("nothing is ignored", lambda: "Ignored" not in sched.ok("status"))
    assert [process.restarts for process in cluster.processes] == [0] * len(cluster.processes)
