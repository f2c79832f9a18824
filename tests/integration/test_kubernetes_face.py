"""Schedulers on podsched's own API server, reached as any Kubernetes cluster is."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
import yaml

from podsched.api.objects import Lease
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import NotFound
from support.api_objects import pod
from support.eventually import eventually

pytestmark = pytest.mark.integration

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "clientConnection": {"qps": -1},
}


@pytest.mark.long
async def test_a_standby_takes_over_while_pods_arrive(tmp_path: Path) -> None:
    """None is lost, no node has more than fits, and the new leader writes events."""
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(CONFIG))
    cluster = LocalCluster(
        LocalClusterOptions(
            tmp_path,
            replicas=2,
            nodes=4,
            node_cpu="64",
            node_pods=60,
            fsync=False,
            evaluator="local",
            kube_address="127.0.0.1:0",
            through_kube=True,
            scheduler_config=config,
            scheduler_arguments=("--takeover=early",),
        )
    )
    client = None
    try:
        await cluster.start()
        client = ApiClient(cluster.server)

        async def holder() -> str:
            try:
                lease = await client.get("Lease", "kube-scheduler", "kube-system")
            except NotFound:
                return ""
            assert isinstance(lease, Lease)
            return lease.spec.holder_identity

        first = await eventually("one leads", holder)
        await eventually(
            "both know who leads",
            lambda: all("New leader" in p.log_tail(50) for p in cluster.schedulers),
        )
        await client.create_pods([pod(f"early-{number}") for number in range(100)])
        killed = cluster.replica_of(first)
        assert killed.pid is not None
        os.kill(killed.pid, signal.SIGKILL)
        await client.create_pods([pod(f"late-{number}") for number in range(100)])

        async def bound() -> list[str]:
            pods = (await client.list("Pod")).items
            return [item.spec.node_name for item in pods if item.spec.node_name]  # type: ignore[union-attr]

        async def all_bound() -> bool:
            return len(await bound()) == 200

        await eventually("all pods are bound", all_bound)
        assert await holder() not in ("", first)
        assert max(Counter(await bound()).values()) <= 60

        late = {f"late-{number}" for number in range(100)}

        async def told() -> bool:
            events = (await client.list("Event")).items
            about = {e.involved_object.name for e in events if e.reason == "Scheduled"}  # type: ignore[union-attr]
            return late <= about

        await eventually("each pod has its event", told)
    finally:
        if client is not None:
            await client.close()
        await cluster.stop()
