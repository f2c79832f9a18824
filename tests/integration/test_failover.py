"""Leaders are really killed, paused and stopped, under load, and what etcd holds afterwards is
judged."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from podsched.lab.bench.shapes import copies, pod_template
from podsched.serve.client.errors import FenceLost, of_result
from podsched.v1.api_pb2 import Binding, Fence
from support.eventually import PATIENCE, eventually
from support.gangs import gang
from support.real_cluster import ENDLESS_LEASE, real_cluster

pytestmark = pytest.mark.integration


async def test_every_pod_is_bound_once_though_the_leader_is_killed_three_times(
    tmp_path: Path,
) -> None:
    count = 400
    async with real_cluster(tmp_path, replicas=3, api_servers=2, nodes=30) as real:
        submitter = await real.submit("pod", count, pause=0.05)
        for kill in range(3):
            await eventually("more bindings", lambda k=kill: real.bound("pod") > 80 * (k + 1))
            killed = real.observer.leaders[-1].identity
            real.leader().kill(signal.SIGKILL)
            # Perhaps the same replica, started anew: the others, killed just before, may not have
            # met the leader yet, and so wait as long for its liveness key to go. On a busy machine
            # the killed one may have had the lock once more before, unseen.
            await eventually(
                "a new leader", lambda k=killed: real.observer.leaders[-1].identity != k
            )
        assert await submitter.wait() == 0
        await eventually("all pods bound", lambda: real.bound("pod") == count)
        await real.check_history("pod", count)
        # At least: on a busy machine a leader may lose the lock without having been killed.
        assert len(real.observer.leaders) >= 4


async def test_a_gang_is_whole_after_its_leader_was_killed_amid_its_bindings(
    tmp_path: Path,
) -> None:
    size, kills = 300, 3
    async with real_cluster(tmp_path, replicas=3, nodes=30) as real:
        for kill in range(kills):
            group, _ = gang(f"g{kill}", size, 0)
            template = pod_template(cpu="10m")
            template.spec.scheduling_group.pod_group_name = f"g{kill}"
            members = list(copies(template, f"g{kill}", size))
            await real.client.create(group)
            refused = [of_result(one) for one in await real.client.create_pods(members)]
            assert not any(refused)
            terms = len(real.observer.leaders)
            # Killed at the first binding that is seen; by chance a part of the gang is bound.
            await eventually("a binding", lambda k=kill: real.bound(f"g{k}") > 0, pause=0.001)
            real.leader().kill(signal.SIGKILL)
            await eventually("a new leader", lambda t=terms: len(real.observer.leaders) > t)
            await eventually("a whole gang", lambda k=kill: real.bound(f"g{k}") == size)
        for kill in range(kills):
            await real.check_history(f"g{kill}", size)


@pytest.mark.long
async def test_a_killed_leader_is_replaced_long_before_its_lease_ends(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, scheduler_arguments=ENDLESS_LEASE) as real:
        submitter = await real.submit("pod", 100)
        await eventually("some bindings", lambda: real.bound("pod") > 20)
        terms = len(real.observer.leaders)
        real.leader().kill(signal.SIGKILL)
        # The liveness key lasts 2 s; the stream is reset at once.
        await eventually("a leader", lambda: len(real.observer.leaders) > terms)
        assert await submitter.wait() == 0
        await eventually("all pods bound", lambda: real.bound("pod") == 100)
        await real.check_history("pod", 100)


@pytest.mark.long
async def test_a_stopping_leader_hands_over_and_ends_with_exit_code_0(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, scheduler_arguments=ENDLESS_LEASE) as real:
        submitter = await real.submit("pod", 200)
        await eventually("some bindings", lambda: real.bound("pod") > 20)
        terms, leader = len(real.observer.leaders), real.leader()
        await leader.stop(PATIENCE)
        assert leader.exit_code == 0
        await eventually("a leader", lambda: len(real.observer.leaders) > terms)
        assert await submitter.wait() == 0
        await eventually("all pods bound", lambda: real.bound("pod") == 200)
        await real.check_history("pod", 200)


async def test_a_paused_leader_is_replaced_and_stands_by_once_it_goes_on(tmp_path: Path) -> None:
    """Whether it writes before it hears of its deposition is chance; see test_partition."""
    async with real_cluster(tmp_path) as real:
        # Much at a time, so that the leader is paused with bindings still to be sent.
        await real.client.create_pods(list(copies(pod_template(cpu="10m"), "pod", 300)))
        await eventually("some bindings", lambda: real.bound("pod") > 20)
        terms, paused = len(real.observer.leaders), real.leader()
        paused.kill(signal.SIGSTOP)
        await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
        await eventually("all bound", lambda: real.bound("pod") == 300)
        paused.kill(signal.SIGCONT)
        await asyncio.sleep(1.0)
        await real.check_history("pod", 300)
        assert paused.pid is not None, "a deposed leader stands by again"


async def test_only_the_fence_keeps_a_deposed_leaders_binding_out(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, replicas=2, nodes=2) as real:

        async def is_known() -> bool:
            lease = await real.lease()
            return lease.spec.holder_identity == real.observer.leaders[-1].identity

        await eventually("the leader is the lease's holder", is_known)
        terms = len(real.observer.leaders)
        old = Fence(lock="kube-system/kube-scheduler", term=real.observer.leaders[-1].term)
        real.leader().kill(signal.SIGKILL)
        await eventually("a new leader", lambda: len(real.observer.leaders) > terms)
        # A pod no scheduler here is responsible for, so that none of them binds it.
        [pod] = copies(pod_template(schedulerName="nobody"), "pod", 1)
        stored = await real.client.create(pod)
        binding = Binding(
            namespace="default", name="pod-0", uid=stored.metadata.uid, node_name="node-0000"
        )
        with pytest.raises(FenceLost):
            await real.client.bind(binding, fence=old)
        assert not (await real.stored_state()).pods["default/pod-0"].spec.node_name
        await real.client.bind(binding)
        assert (await real.stored_state()).pods["default/pod-0"].spec.node_name == "node-0000"


async def test_a_killed_etcd_loses_nothing_and_scheduling_goes_on_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, fsync=True) as real:
        submitter = await real.submit("before", 100)
        await eventually("some bindings", lambda: real.bound("before") > 30)
        assert await submitter.wait() == 0
        etcd = real.cluster.etcd
        assert etcd is not None and etcd.pid is not None
        os.kill(etcd.pid, signal.SIGKILL)
        await eventually("etcd again", lambda: etcd.pid is not None)
        await eventually("the rest bound", lambda: real.bound("before") == 100)
        submitter = await real.submit("after", 50)
        assert await submitter.wait() == 0
        await eventually("new pods bound", lambda: real.bound("after") == 50)
        await real.check_history("before", 100)


@pytest.mark.long
async def test_an_api_server_that_is_killed_is_replaced_by_the_other(tmp_path: Path) -> None:
    async with real_cluster(tmp_path, api_servers=2) as real:
        submitter = await real.submit("pod", 300)
        await eventually("some bindings", lambda: real.bound("pod") > 50)
        real.cluster.api_servers[0].kill(signal.SIGKILL)
        await eventually("all pods bound", lambda: real.bound("pod") == 300)
        assert await submitter.wait() == 0
        await real.check_history("pod", 300)
