"""etcd restored from an older backup while everything runs on: noticed, and scheduling goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.lab.bench.shapes import copies, pod_template
from podsched.serve.client.errors import AlreadyExists, ClientError, of_result
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.snapshot import restore_snapshot, save_snapshot
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration


async def shown(real: RealCluster) -> set[str]:
    """The names of the pods that the API server has in memory."""
    listed = await real.client.list("Pod", allow_stale=True)
    return {pod.metadata.name for pod in listed.items}


async def create(real: RealCluster, prefix: str, count: int) -> None:
    pods = list(copies(pod_template(), prefix, count))
    assert not any(map(of_result, await real.client.create_pods(pods)))


async def creates_again(real: RealCluster) -> bool:
    """Whether all are there; an answer that got lost does not say what was stored."""
    try:
        results = await real.client.create_pods(list(copies(pod_template(), "after", 5)))
    except ClientError:
        return False
    return all(isinstance(of_result(result), AlreadyExists | None) for result in results)


async def renewed_since(real: RealCluster, before: int) -> bool:
    return (await real.lease()).metadata.resource_version != before


async def bound(real: RealCluster, prefix: str) -> int:
    pods = (await real.stored_state()).pods
    return sum(
        bool(pod.spec.node_name) for key, pod in pods.items() if key.startswith(f"default/{prefix}")
    )


def said(folder: Path, text: str) -> bool:
    """Whether a log has the text."""
    return any(text in path.read_text() for path in folder.rglob("*.log"))


async def test_processes_notice_an_etcd_that_was_restored_under_them(tmp_path: Path) -> None:
    etcd = EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "etcd", fsync=False))
    await etcd.start()
    port, backup = int(etcd.endpoint.rpartition(":")[2]), tmp_path / "backup"
    restored = EmbeddedEtcd(
        EmbeddedEtcdOptions(tmp_path / "restored", client_port=port, fsync=False)
    )
    try:
        options = {"replicas": 2, "nodes": 3, "etcd_endpoints": (etcd.endpoint,)}
        async with real_cluster(tmp_path / "cluster", **options) as real:
            await create(real, "kept", 10)
            await eventually("bound", lambda: bound(real, "kept"), 10)
            await save_snapshot(EtcdOptions((etcd.endpoint,)), backup)
            await create(real, "lost", 15)
            await eventually("bound", lambda: bound(real, "lost"), 15)
            # Only a lock that was renewed since the backup loses a part of its history.
            before = (await real.lease()).metadata.resource_version
            await eventually("the lock is renewed", lambda: renewed_since(real, before))

            await etcd.stop()
            await restore_snapshot(backup, tmp_path / "restored")
            await restored.start()

            kept = {f"kept-{number}" for number in range(10)}
            await eventually("the API server shows what is there", lambda: shown(real), kept)
            await eventually("writes again", lambda: creates_again(real))
            await eventually("scheduling goes on", lambda: bound(real, "after"), 5)
            assert not (await real.stored_state()).overcommitted_nodes()
            # The elector's watch may connect again after the scheduler has gone on.
            for text in ("listing again", "racing anew"):
                whole = f"etcd was restored from a backup, {text}"
                await eventually(whole, lambda whole=whole: said(tmp_path / "cluster", whole))
    finally:
        await etcd.stop()
        await restored.stop()
