"""A leader that is cut off from etcd, while everything else still reaches everything."""

from __future__ import annotations

from pathlib import Path

import pytest

from podsched.app.supervisor import ManagedProcess, ProcessSpec
from podsched.lab.bench.shapes import copies, pod_template
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from support.eventually import eventually
from support.real_cluster import ENDLESS_LEASE, RealCluster, metric, real_cluster
from support.relay import Relay

pytestmark = pytest.mark.integration


async def start_behind(real: RealCluster, relay: Relay) -> ManagedProcess:
    """A scheduler replica that reaches etcd through the relay alone."""
    health = free_port()
    arguments = (
        "scheduler",
        f"--server={real.cluster.server}",
        f"--etcd-endpoints=127.0.0.1:{relay.port}",
        "--identity=scheduler-9",
        f"--health-listen=127.0.0.1:{health}",
        "--evaluator=local",
        *ENDLESS_LEASE,
    )
    spec = ProcessSpec("scheduler-9", arguments, health)
    process = ManagedProcess(spec, real.cluster.log_dir, TaskSet("test"))
    real.cluster.schedulers.append(process)
    await process.start()
    await process.wait_ready()
    return process


async def test_a_leader_cut_off_from_etcd_writes_nothing_more_and_stands_by_once_it_is_back(
    tmp_path: Path,
) -> None:
    async with real_cluster(tmp_path, replicas=1, scheduler_arguments=ENDLESS_LEASE) as real:
        relay = Relay(int(real.cluster.specs.etcd_endpoints[0].rpartition(":")[2]))
        await relay.start()
        try:
            cut_off = await start_behind(real, relay)
            await real.leader().stop()
            await eventually("the replica behind the relay leads", lambda: leads(real, cut_off))
            await (await real.cluster.add_replica(1)).wait_ready()
            submitter = await real.submit("pod", 300, pause=0.1)
            await eventually("some bindings", lambda: real.bound("pod") > 30)
            relay.cut()
            # The liveness key goes 2 to 2.5 s after the last keep-alive that came through.
            await eventually("another leader", lambda: not leads(real, cut_off))
            # It has not heard of it, decides on pods as they come and sends their bindings.
            await real.client.create_pods(list(copies(pod_template(cpu="10m"), "late", 50)))
            await eventually("refused", lambda: metric(cut_off, "podsched_fence_lost_total") > 0)
            assert await submitter.wait() == 0
            await eventually("all pods bound", lambda: real.bound("pod") == 300)
            await real.check_history("pod", 300)
            await eventually("the late ones, too", lambda: real.bound("late") == 50)
            await real.check_history("late", 50)
            # With the refused write, and not when its renewDeadline is over.
            await eventually("it stands by", lambda: stopped_leading(cut_off))
            relay.heal()
            await (real.leader()).stop()
            await eventually("it leads again", lambda: leads(real, cut_off))
        finally:
            await relay.stop()


def leads(real: RealCluster, process: ManagedProcess) -> bool:
    return real.leader() is process


def stopped_leading(process: ManagedProcess) -> bool:
    stopped = [line for line in process.log_tail(1000).splitlines() if "Stopped leading" in line]
    return any("reason=deposed" in line for line in stopped)
