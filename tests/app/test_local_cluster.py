"""A cluster on this machine that cannot start says why, and stops what was started."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, ClassVar

import pytest

from podsched.actors.local_ray import RayStartError
from podsched.app import local_cluster
from podsched.app.local_cluster import LocalCluster
from podsched.app.local_specs import LocalClusterOptions
from podsched.app.supervisor import ManagedProcess, Place, ProcessFailed, ProcessSpec
from podsched.lib.tasks import TaskSet
from support.eventually import eventually
from support.processes import commands_mentioning


def test_an_identity_leads_to_its_process(tmp_path: Path) -> None:
    cluster = LocalCluster(LocalClusterOptions(tmp_path))
    for index in (1, 10):
        spec = ProcessSpec(f"scheduler-{index}", (), 1)
        cluster.schedulers.append(ManagedProcess(spec, tmp_path, TaskSet("test")))
    assert cluster.replica_of("scheduler-10_1a2b").spec.name == "scheduler-10"
    with pytest.raises(LookupError):
        cluster.replica_of("scheduler-2_1a2b")


def test_a_process_listens_where_its_place_is(tmp_path: Path) -> None:
    apart = Place("10.77.0.10", ("/usr/sbin/ip", "netns", "exec", "scheduler-0"))
    options = LocalClusterOptions(
        tmp_path, place=lambda name: apart if name == "scheduler-0" else Place()
    )
    cluster = LocalCluster(options)
    specs = [cluster.specs.scheduler(index, cluster.ray) for index in (0, 1)]
    assert [spec.place for spec in specs] == [apart, Place()]
    assert [
        f"--health-listen={host}:{spec.health_port}" in spec.arguments
        for host, spec in zip(("10.77.0.10", "127.0.0.1"), specs, strict=True)
    ] == [True, True]


class LateRay:
    """Fails to start twice."""

    address = "127.0.0.1:1"
    environment: ClassVar[dict[str, str]] = {}

    def __init__(self, **_: object) -> None:
        self.starts = 0

    async def start(self) -> None:
        self.starts += 1
        if self.starts <= 2:
            raise RayStartError("no luck")

    async def wait(self) -> str:
        await asyncio.Event().wait()
        return "ended"

    async def stop(self) -> None:
        pass


@pytest.mark.looptime
async def test_ray_is_started_later_if_its_first_start_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "LocalRay", LateRay)
    options = LocalClusterOptions(
        tmp_path, replicas=0, api_servers=0, evaluator="ray", etcd_endpoints=("127.0.0.1:1",)
    )
    warnings: list[str] = []
    cluster = LocalCluster(options, warnings.append)
    await cluster.start()
    try:
        ray: Any = cluster.ray
        assert warnings == ["no luck; evaluating nodes locally, and trying again"]
        # So that replicas join it once it runs.
        assert "--ray-address=127.0.0.1:1" in cluster.specs.scheduler(0, ray).arguments
        await asyncio.sleep(5)
        assert (ray.starts, warnings[1:]) == (3, ["no luck; trying again"])
    finally:
        await cluster.stop()


@pytest.mark.integration
async def test_a_cluster_that_cannot_start_says_why_and_leaves_nothing_running(
    tmp_path: Path,
) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text("kind: Nonsense\n")
    options = LocalClusterOptions(
        tmp_path / "data", replicas=1, evaluator="local", fsync=False, scheduler_config=config
    )
    cluster = LocalCluster(options)
    with pytest.raises(ProcessFailed) as failed:
        await cluster.start()
    assert "scheduler-0 did not become ready" in str(failed.value)
    assert "Nonsense" in str(failed.value)
    await eventually("nothing runs", lambda: commands_mentioning(str(tmp_path)), [])


@pytest.mark.integration
@pytest.mark.parametrize("keeps", [True, False])
async def test_a_fault_of_etcd_is_told_to_those_who_keep_its_data(
    keeps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_cluster, "known_fault", lambda _: "it forgets")
    told: list[str] = []
    options = LocalClusterOptions(
        tmp_path, replicas=0, api_servers=0, fsync=False, keeps_data=keeps, evaluator="local"
    )
    cluster = LocalCluster(options, told.append)
    await cluster.start()
    await cluster.stop()
    assert told == ["it forgets"] * keeps
    log = (tmp_path / "etcd" / "etcd.log").read_text()
    assert "flag provided but not defined" not in log
