"""Two schedulers with locks and names of their own race for the same nodes of one cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from podsched.app.supervisor import ManagedProcess, ProcessSpec
from podsched.lab.bench.cluster import etcd_of
from podsched.lab.bench.shapes import copies, pod_template
from podsched.lib.network import free_port
from podsched.lib.tasks import TaskSet
from support.allocations import device_template, followed, template_of_claims
from support.eventually import eventually
from support.real_cluster import RealCluster, metric, real_cluster

pytestmark = pytest.mark.integration

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: batch-scheduler}
profiles: [{schedulerName: batch-scheduler}]
"""


async def start_second(real: RealCluster, directory: Path) -> ManagedProcess:
    """A replica of another scheduler, which leads since it is alone with its lock."""
    config = directory / "batch.yaml"
    config.write_text(CONFIG)
    health = free_port()
    arguments = (
        "scheduler",
        f"--server={real.cluster.server}",
        f"--etcd-endpoints={real.cluster.specs.etcd_endpoints[0]}",
        f"--config={config}",
        "--identity=batch-0",
        f"--health-listen=127.0.0.1:{health}",
        "--evaluator=local",
    )
    process = ManagedProcess(
        ProcessSpec("batch-0", arguments, health), real.cluster.log_dir, TaskSet("test")
    )
    real.cluster.schedulers.append(process)
    await process.start()
    await process.wait_ready()
    return process


@pytest.mark.long
async def test_two_schedulers_fill_the_room_there_is_and_no_more(tmp_path: Path) -> None:
    """Of 400 pods for 200 places the rest waits, and no node had to refuse one."""
    room = 200
    async with real_cluster(tmp_path, replicas=1, api_servers=2, nodes=room // 4) as real:
        second = await start_second(real, tmp_path)
        mine = list(copies(pod_template(cpu="1"), "own", room))
        theirs = list(copies(pod_template(cpu="1", schedulerName="batch-scheduler"), "other", room))
        for start in range(0, room, 20):
            part = slice(start, start + 20)
            await real.client.create_pods([*mine[part], *theirs[part]])
        await eventually("the room is taken", lambda: bound(real) >= room)
        await asyncio.sleep(1.0)
        state = await real.stored_state()
        assert not state.overcommitted_nodes()
        assert bound(real) == room
        assert all(pod.status.phase != "Failed" for pod in state.pods.values())
        overtaken = [
            metric(process, "podsched_bind_overtaken_total")
            for process in (real.cluster.schedulers[0], second)
        ]
        assert sum(overtaken), "they never met: nothing was shown"


@pytest.mark.long
async def test_two_schedulers_give_each_device_once(tmp_path: Path) -> None:
    """Of 400 pods for 200 devices the rest waits, in rounds in which all devices come free."""
    nodes, driver, rounds = 20, "gpu.example.com", 3
    devices = {"node_devices": (f"10x{driver}",)}
    async with real_cluster(tmp_path, replicas=1, api_servers=2, nodes=nodes, **devices) as real:
        second = await start_second(real, tmp_path)
        await real.client.create(template_of_claims(driver))
        async with etcd_of(real.cluster) as store, followed(store) as allocations:
            for number in range(1, rounds + 1):
                names = f"own-{number}", f"other-{number}"
                mine = list(copies(device_template(), names[0], 200))
                other = device_template(schedulerName="batch-scheduler")
                theirs = list(copies(other, names[1], 200))
                for start in range(0, 200, 20):
                    part = slice(start, start + 20)
                    await real.client.create_pods([*mine[part], *theirs[part]])
                await eventually("all devices in use", lambda: len(allocations.owners) == 200)
                wanted = 200 * number
                await eventually("their pods bound", lambda w=wanted: bound(real) >= w)
                await real.client.delete_collection("Pod", "default", grace_period_seconds=0)
                await eventually("claims deleted", lambda: not allocations.devices)
        assert bound(real) == 200 * rounds
        logs = [of.log_path.read_text() for of in (real.cluster.schedulers[0], second)]
        assert any("is allocated to another claim" in log for log in logs), "they never met"


def bound(real: RealCluster) -> int:
    return real.bound("own") + real.bound("other")
