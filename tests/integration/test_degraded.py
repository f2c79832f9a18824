"""Degraded modes: parts are missing, and what goes on, what fails clearly, and what comes back."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from podsched.api.reasons import StatusReason
from podsched.app.giving_way import CUT_OFF_AFTER
from podsched.lab.bench.shapes import copies, pod_template
from podsched.lab.chaos.system import EtcdMembers
from podsched.lib.network import free_port
from podsched.lib.relay import LinkState, Relay
from podsched.lib.tasks import TaskSet
from podsched.serve.client.errors import ClientError
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1
from support.eventually import eventually
from support.other_version import UNKNOWN, OtherVersion
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration


numbers = itertools.count()
#: Seconds by which a leader counts from earlier: when it last saw a sign of an API server.
SLACK = 4.0
#: Nothing passes, and nothing is closed.
CUT = LinkState(forward=False, backward=False)


class Links:
    """Relays to processes, by the name of the one that connects or is connected to."""

    def __init__(self, tasks: TaskSet) -> None:
        self._tasks = tasks
        self.of: dict[str, Relay] = {}

    def relay(self, process: str, address: str) -> Relay:
        if process not in self.of:
            self.of[process] = Relay(address, self._tasks, random.Random(1).random)
        return self.of[process]

    def to_api_servers(self, process: str, address: str) -> str:
        """A route: schedulers reach API servers through relays; etcd's address is a URL."""
        if not process.startswith("scheduler") or address.startswith("http"):
            return address
        return self.relay(process, address).address

    def to_peers(self, process: str) -> Sequence[str]:
        """Arguments: replicas reach this one through a relay."""
        if not process.startswith("scheduler"):
            return ()
        address = f"127.0.0.1:{free_port()}"
        return (
            f"--listen-peers={address}",
            f"--advertise-peers={self.relay(process, address).address}",
        )


@pytest.fixture
async def links() -> AsyncIterator[Links]:
    tasks = TaskSet("relays")
    links = Links(tasks)
    yield links
    for relay in links.of.values():
        relay.close()
    await tasks.stop()


async def create(real: RealCluster, prefix: str, count: int = 20) -> None:
    await real.client.create_pods(list(copies(pod_template(), prefix, count)))


async def refused(real: RealCluster, prefix: str) -> str:
    """Why a pod is not accepted: the reason, or the error of no answer; "" when it is."""
    (pod,) = copies(pod_template(), f"{prefix}-{next(numbers)}", 1)
    try:
        await real.client.create(pod)
    except ClientError as error:
        return error.reason or type(error).__name__
    return ""


@pytest.mark.long
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
            await eventually("writes again", lambda: refused(real, "back"), "")
            await eventually("scheduling goes on", lambda: real.bound("back") > 0)

            await real.check_history("minority", 20)
    finally:
        await etcd.stop()


async def test_without_any_api_server_and_with_a_leader_that_reaches_none(
    tmp_path: Path, links: Links
) -> None:
    """All down: the leader stays. The leader alone cut off: it leaves the lock to another."""
    async with real_cluster(tmp_path, replicas=2, route=links.to_api_servers) as real:
        (api,) = real.cluster.api_servers
        clock = asyncio.get_running_loop().time
        api.may_restart.clear()
        api.kill()
        began = clock()
        await asyncio.sleep(2.0)
        api.may_restart.set()
        await eventually("an API server", lambda: refused(real, "outage"), "")
        lasted = clock() - began
        await eventually("scheduling goes on", lambda: real.bound("outage") > 0)
        # A busy machine takes longer to start an API server than a leader keeps the lock. It may
        # also hold up a leader until another takes the lock, which is no matter here.
        logs = [process.log_path.read_text() for process in real.cluster.schedulers]
        left = any("No API server can be reached" in log for log in logs)
        assert not left or lasted > CUT_OFF_AFTER - SLACK

        cut = real.leader()
        links.of[cut.spec.name].link.impair(CUT)
        await create(real, "cut")
        await eventually("the other leads", lambda: real.leader() is not cut)
        await eventually("it binds", lambda: real.bound("cut") == 20)
        links.of[cut.spec.name].link.restore(CUT)
        await real.check_history("cut", 20)


def with_news(pod: v1.Pod) -> v1.Pod:
    """The pod as a newer version would create it: with fields that this one does not know."""
    pod.spec.MergeFromString(UNKNOWN)
    return v1.Pod.FromString(pod.SerializeToString() + UNKNOWN)


async def bind_by_hand(real: RealCluster, prefix: str, node: str, count: int) -> None:
    """Have pods that no scheduler is responsible for take one CPU each of a node."""
    template = pod_template(cpu="1", schedulerName="nobody")
    for pod in copies(template, prefix, count):
        stored = await real.client.create(pod)
        uid, name = stored.metadata.uid, stored.metadata.name
        binding = api_pb2.Binding(namespace="default", name=name, uid=uid, node_name=node)
        await real.client.bind(binding)


@pytest.mark.long
async def test_a_leader_whose_watch_lags_until_its_history_is_gone_decides_on_what_is(
    tmp_path: Path, links: Links
) -> None:
    """What it has missed fills a node; the API server starts anew, and knows no history then."""
    options = {"replicas": 1, "nodes": 2, "node_cpu": "4", "route": links.to_api_servers}
    async with real_cluster(tmp_path, **options) as real:
        leader, (api,) = real.leader(), real.cluster.api_servers
        links.of[leader.spec.name].link.impair(CUT)
        await bind_by_hand(real, "unseen", "node-0000", 4)
        restarts = api.restarts
        api.kill()
        await api.wait_restarted(restarts)
        await api.wait_ready()
        await real.client.create_pods(list(copies(pod_template(cpu="1"), "late", 4)))
        links.of[leader.spec.name].link.restore(CUT)
        await eventually("all bound", lambda: real.bound("late") == 4)
        assert "Listing again" in leader.log_tail(1000)
        nodes = {key: nodes for key, nodes in real.observer.nodes_of.items() if "late" in key}
        assert set().union(*nodes.values()) == {"node-0001"}
        await real.check_history("late", 4)


def claims_of(real: RealCluster) -> list[int]:
    """How often each replica has tried to get the lock."""
    tails = [process.log_tail(1000) for process in real.cluster.schedulers]
    return [tail.count("Claiming the lock") for tail in tails]


@pytest.mark.long
async def test_standbys_that_alone_cannot_reach_the_leader_leave_it_the_lock(
    tmp_path: Path, links: Links
) -> None:
    """Silence, a broken connection, and an address at which no process answers."""
    async with real_cluster(tmp_path, replicas=3, process_arguments=links.to_peers) as real:
        leader, terms = real.leader(), len(real.observer.leaders)
        relay = links.of[leader.spec.name]
        submitter = await real.submit("pod", 200, pause=0.3)
        claims = claims_of(real)  # several may claim it when all have just started
        relay.link.impair(CUT)
        await asyncio.sleep(3.0)  # longer than the liveness key's 2 s
        relay.reset()
        await asyncio.sleep(3.0)
        relay.link.restore(CUT)
        relay.reset()
        assert await submitter.wait() == 0
        await eventually("all bound", lambda: real.bound("pod") == 200)
        assert len(real.observer.leaders) == terms
        assert claims_of(real) == claims, "no standby even tried"
        await real.check_history("pod", 200)


@pytest.mark.long
async def test_replicas_of_two_versions_lead_in_turn_and_lose_nothing_of_each_others(
    tmp_path: Path,
) -> None:
    """One reaches the API server as another version would: see ``OtherVersion``."""
    others: list[OtherVersion] = []

    def route(process: str, address: str) -> str:
        if process != "scheduler-1" or address.startswith("http"):
            return address
        others.append(OtherVersion(address))
        return others[-1].address

    def leads(real: RealCluster, name: str) -> bool:
        return real.leader().spec.name == name

    async with real_cluster(tmp_path, replicas=1, route=route) as real:
        try:
            other = await real.cluster.add_replica(1)
            await others[0].start()
            await other.wait_ready()
            for name, prefix in (("scheduler-0", "same"), ("scheduler-1", "other")):
                await eventually(f"{name} leads", lambda n=name: leads(real, n))
                pods = list(copies(pod_template(), prefix, 20))
                await real.client.create_pods([with_news(pod) for pod in pods])
                await eventually("all bound", lambda p=prefix: real.bound(p) == 20)
                await real.check_history(prefix, 20)
                await real.leader().stop()
            stored = (await real.stored_state()).pods
            kept = [key for key, pod in stored.items() if UNKNOWN in pod.SerializeToString()]
            assert len(kept) == 40
        finally:
            for other in others:
                await other.stop()
