"""Degraded modes: parts are missing, and what goes on, what fails clearly, and what comes back."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path

import pytest

from podsched.api.reasons import StatusReason
from podsched.bench.shapes import copies, pod_template
from podsched.chaos.members import EtcdMembers
from podsched.client.errors import ClientError
from podsched.lib.relay import Relay, Weather
from podsched.lib.tasks import TaskSet
from support.eventually import eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration


numbers = itertools.count()


async def create(real: RealCluster, prefix: str, count: int = 20) -> None:
    await real.client.create_pods(list(copies(pod_template(), prefix, count)))


async def refused(real: RealCluster, prefix: str) -> str:
    """The reason for which a pod is not accepted; "" when it is."""
    (pod,) = copies(pod_template(), f"{prefix}-{next(numbers)}", 1)
    try:
        await real.client.create(pod)
    except ClientError as error:
        return error.reason
    return ""


async def test_etcd_without_a_member_and_without_a_majority(tmp_path: Path) -> None:
    """One down: nothing is noticed. Two: no writes, stale reads, and all by itself afterwards."""
    etcd = EtcdMembers(tmp_path / "members", 3)
    try:
        await etcd.start()
        endpoints = etcd.endpoints
        async with real_cluster(tmp_path, replicas=2, etcd_endpoints=endpoints) as real:
            leaders = len(real.observer.leaders)
            follower = ((await etcd.leader()) + 1) % 3
            await etcd.members[follower].kill()
            await create(real, "minority")
            await eventually("bound by a majority", lambda: real.bound("minority") == 20)
            assert len(real.observer.leaders) == leaders

            second = (follower + 1) % 3
            await etcd.members[second].kill()
            assert await refused(real, "lost") in (
                StatusReason.UNAVAILABLE,
                StatusReason.OUTCOME_UNKNOWN,
            )
            stale = await real.client.list("Pod", allow_stale=True)
            assert len(stale.items) >= 20
            await etcd.start([follower, second])
            await eventually("writes again", lambda: refused(real, "back"), "", within=40)
            await eventually("scheduling goes on", lambda: real.bound("back") > 0, within=60)

            await real.check_history("minority", 20)
    finally:
        await etcd.stop()


async def test_without_any_api_server_and_with_a_leader_that_reaches_none(tmp_path: Path) -> None:
    """All down: the leader stays. The leader alone cut off: it leaves the lock to another."""
    tasks, chance = TaskSet("relays"), random.Random(1).random
    relays: dict[str, Relay] = {}

    def route(process: str, address: str) -> str:
        if not process.startswith("scheduler") or address in real_etcd:
            return address
        return relays.setdefault(process, Relay(address, tasks, chance)).address

    etcd = EtcdMembers(tmp_path / "members", 1)
    real_etcd = etcd.endpoints
    try:
        await etcd.start()
        options = {"replicas": 2, "etcd_endpoints": real_etcd, "route": route}
        async with real_cluster(tmp_path, **options) as real:
            leaders = len(real.observer.leaders)
            (api,) = real.cluster.api_servers
            api.hold()
            api.kill()
            await asyncio.sleep(4.0)
            api.release()
            await eventually("an API server", lambda: refused(real, "outage"), "", within=30)
            await eventually("scheduling goes on", lambda: real.bound("outage") > 0, within=30)
            assert len(real.observer.leaders) == leaders

            cut = real.leader()
            storm = Weather(forth=False, back=False)
            relays[cut.spec.name].strike(storm)
            await create(real, "cut")
            await eventually("the other leads", lambda: real.leader() is not cut, within=30)
            await eventually("it binds", lambda: real.bound("cut") == 20, within=20)
            relays[cut.spec.name].mend(storm)
            await real.check_history("cut", 20)
    finally:
        for relay in relays.values():
            relay.close()
        await tasks.stop()
        await etcd.stop()
