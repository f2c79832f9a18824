"""What docs/failover.md tells people to do by hand, done with etcdctl on a real cluster."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from podsched.lab.bench.shapes import copies, pod_template
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.embedded import find_etcd
from podsched.serve.store.etcd import connect
from podsched.serve.store.protocol import Put
from podsched.term.election.record import LeaderElectionRecord, LockKeys, encode_lease
from support.eventually import eventually
from support.real_cluster import real_cluster

pytestmark = pytest.mark.integration

FAILOVER = Path(__file__).parents[2] / "docs" / "failover.md"


def commands(row: str) -> list[list[str]]:
    """The etcdctl commands of the runbook's row that begins so."""
    text = next(line for line in FAILOVER.read_text().splitlines() if line.startswith(row))
    return [found.split() for found in re.findall(r"`etcdctl ([^`]+)`", text)]


async def etcdctl(endpoint: str, words: list[str]) -> str:
    binary = find_etcd().with_name("etcdctl")
    run = await asyncio.to_thread(
        subprocess.run,
        [binary, f"--endpoints={endpoint}", *words],
        check=True,
        capture_output=True,
        text=True,
    )
    return run.stdout


@pytest.mark.long
async def test_a_lock_that_was_taken_for_a_day_is_freed_with_etcdctl(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, replicas=1) as real:
        for replica in real.cluster.schedulers:
            replica.may_restart.clear()
            replica.kill()
        record = LeaderElectionRecord(holder_identity="ghost", lease_duration_seconds=86_400)
        keys = LockKeys("kube-system", "kube-scheduler")
        store = await connect(EtcdOptions(endpoints=real.cluster.specs.etcd_endpoints))
        try:
            lease = encode_lease(record, keys, None)
            await store.txn([], [Put(keys.record, lease.SerializeToString())])
        finally:
            await store.close()
        for replica in real.cluster.schedulers:
            replica.may_restart.set()
            await replica.wait_ready()
        terms = len(real.observer.leaders)
        await real.client.create_pods(list(copies(pod_template(), "pod", 1)))
        await asyncio.sleep(3.0)
        assert not real.bound("pod"), "there is no leader"
        rows = commands("| The lock is stuck")
        assert len(rows) == 2
        for words in rows:
            assert (await etcdctl(real.cluster.specs.etcd_endpoints[0], words)).strip() == "1"
        await eventually("a leader", lambda: len(real.observer.leaders) > terms)
        await eventually("it binds", lambda: real.bound("pod"))
