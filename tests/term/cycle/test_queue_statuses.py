"""The statuses of queues and cohorts, and the past usage of LocalQueues that is kept there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from podsched.api.objects import ClusterQueue, Cohort, LocalQueue
from podsched.serve.client.errors import Unavailable
from podsched.term.cycle.queue_statuses import PERIOD, QueueStatuses
from podsched.v1 import api_pb2
from support.queues import (
    QUEUE,
    big_node,
    bound,
    cluster_queue,
    cohort,
    flavor,
    gang,
    job,
    local_queue,
    one_node,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

USAGE_BASED = "UsageBasedAdmissionFairSharing"


def status(world: TermWorld, kind: str, name: str) -> Any:
    found = world.cluster.object(kind, name)
    assert isinstance(found, ClusterQueue | LocalQueue | Cohort)
    return found.status


def active(world: TermWorld, kind: str, name: str) -> tuple[str, str, str]:
    [one] = [c for c in status(world, kind, name).conditions if c.type == "Active"]
    return one.status, one.reason, one.message


async def test_statuses_count_units_and_usage() -> None:
    world = one_node({"cpu": 1}, cohort="all")
    cluster_queue(world, "lender", {"cpu": 2}, cohort="all")
    async with world.running():
        gang(world, "g", "team", 3, cpu=1)
        await asyncio.sleep(1)
        job(world, "waiting", "team", cpu=1)
        await asyncio.sleep(3)
        for kind, key in (("ClusterQueue", "team"), ("LocalQueue", "default/team")):
            found = status(world, kind, key)
            counts = found.pending_workloads, found.reserving_workloads, found.admitted_workloads
            assert counts == (1, 1, 1)
            [used] = found.flavors_usage
            [cpu] = used.resources
            assert (used.name, cpu.name, cpu.total) == ("default", "cpu", "3")
            assert cpu.borrowed == ("2" if kind == "ClusterQueue" else "")
        for name in ("g-0", "g-1", "g-2"):
            world.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(3)
        found = status(world, "ClusterQueue", "team")
        assert (found.pending_workloads, found.admitted_workloads) == (0, 1)
        assert found.flavors_usage[0].resources[0].total == "1"


async def test_a_queue_says_whether_it_admits_new_units() -> None:
    world = TermWorld()
    flavor(world)
    cluster_queue(world, "good", {"cpu": 1})
    cluster_queue(world, "bad", None, {"b": {"cpu": 1}, "a": {"cpu": 1}}, stop="Hold")
    local_queue(world, "lost", "nowhere")
    async with world.running(seconds=2):
        good = "True", "Ready", "Can admit new workloads"
        assert active(world, "ClusterQueue", "good") == good
        assert active(world, "ClusterQueue", "bad") == (
            "False",
            "Stopped",
            "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): b,a.",
        )
        good = "True", "Ready", "Can submit new workloads to localQueue"
        assert active(world, "LocalQueue", "default/good") == good
        assert active(world, "LocalQueue", "default/bad")[1] == "ClusterQueueIsInactive"
        assert active(world, "LocalQueue", "default/lost")[1] == "ClusterQueueDoesNotExist"


async def test_each_flavor_without_its_topology_is_told() -> None:
    world = TermWorld()
    for name in ("b", "a"):
        flavor(world, name, topology="racks", kind=name)
    cluster_queue(world, "bad", None, {"b": {"cpu": 1}, "a": {"cpu": 1}})
    async with world.running(seconds=2):
        assert active(world, "ClusterQueue", "bad")[1:] == (
            "TopologyNotFound",
            'Can\'t admit new workloads: there is no Topology "racks" for TAS flavor "b", '
            'there is no Topology "racks" for TAS flavor "a".',
        )


async def test_a_queue_without_a_cohort_borrows_nothing_although_its_quota_was_lowered() -> None:
    world = one_node()
    queue = cluster_queue(world, "team", {"memory": 8, "cpu": 2})
    async with world.running():
        job(world, "a", "team", cpu=2)
        await asyncio.sleep(1)
        queue.spec.resource_groups[0].flavors[0].resources[1].nominal_quota = "1"
        queue.metadata.generation = 7
        world.cluster.update(queue)
        await asyncio.sleep(2)
        found = status(world, "ClusterQueue", "team")
        [used] = found.flavors_usage
        assert [(one.name, one.total, one.borrowed) for one in used.resources] == [
            ("cpu", "2", "0"),
            ("memory", "0", "0"),
        ]
        assert found.conditions[0].observed_generation == 7


async def test_without_fair_sharing_a_queue_shows_no_share() -> None:
    world = TermWorld()
    flavor(world)
    queue = cluster_queue(world, "team", {"cpu": 2})
    queue.status.fair_sharing.weighted_share = 12
    world.cluster.update(queue)
    async with world.running(seconds=2):
        assert not status(world, "ClusterQueue", "team").HasField("fair_sharing")


async def test_with_fair_sharing_queues_and_cohorts_show_their_share() -> None:
    world = TermWorld(queues={"fairSharing": {}})
    big_node(world, "n1")
    flavor(world)
    cohort(world, "root", default={"cpu": 0})
    cohort(world, "all", "root", default={"cpu": 1})
    cluster_queue(world, "team", {"cpu": 1}, cohort="all", weight=2)
    cluster_queue(world, "lender", {"cpu": 6}, cohort="root")
    async with world.running():
        job(world, "a", "team", cpu=4)
        await asyncio.sleep(3)
        assert bound(world) == ["a"]
        # 3 of 8 are borrowed by the queue, with weight 2, and 2 of 8 by its cohort.
        assert status(world, "ClusterQueue", "team").fair_sharing.weighted_share == 188
        assert status(world, "Cohort", "all").fair_sharing.weighted_share == 250


@pytest.mark.parametrize(("mode", "order"), [(USAGE_BASED, "light"), ("", "heavy-2")])
async def test_of_two_local_queues_the_one_that_has_used_less_comes_first(
    mode: str, order: str
) -> None:
    settings = {"admissionFairSharing": {"usageHalfLifeTime": "1h"}}
    world = TermWorld(queues=settings)
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 4}, mode=mode)
    for name in ("heavy", "light"):
        local_queue(world, name, "team")
    async with world.running():
        job(world, "heavy-1", "heavy", cpu=4)
        await asyncio.sleep(1000)
        job(world, "heavy-2", "heavy", cpu=4)
        await asyncio.sleep(2)
        job(world, "light", "light", cpu=4)
        await asyncio.sleep(2)
        if mode:
            past = status(world, "LocalQueue", "default/heavy").fair_sharing
            assert past.admission_fair_sharing_status.consumed_resources["cpu"].endswith("m")
    async with TermWorld(cluster=world.cluster, queues=settings).running(seconds=2) as after:
        after.cluster.delete("Pod", "default/heavy-1")
        await asyncio.sleep(2)
        assert bound(after) == [order]


async def test_a_local_queue_that_is_made_again_has_no_past_usage() -> None:
    world = TermWorld(queues={"admissionFairSharing": {"usageHalfLifeTime": "1h"}})
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 4}, mode=USAGE_BASED)
    async with world.running():
        job(world, "p", "team", cpu=4)
        await asyncio.sleep(1000)
        past = world.state.admission.histories.usage
        assert past("default/team") > 0
        for kind, name in (("Pod", "p"), ("LocalQueue", "team")):
            world.cluster.delete(kind, f"default/{name}")
        local_queue(world, "team", "team")
        await asyncio.sleep(1)
        assert past("default/team") == 0


async def test_what_is_admitted_counts_for_the_local_queue_that_the_group_has_moved_to() -> None:
    world = TermWorld(queues={"admissionFairSharing": {"usageHalfLifeTime": "1h"}})
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 4}, mode=USAGE_BASED)
    local_queue(world, "other", "team")
    async with world.running():
        job(world, "first", "team", cpu=4)
        await asyncio.sleep(1)
        gang(world, "g", "team", 1, cpu=4)
        await asyncio.sleep(1)
        group = world.cluster.object("PodGroup", "default/g")
        assert group is not None
        group.metadata.labels[QUEUE] = "other"
        world.cluster.update(group)
        await asyncio.sleep(1)
        await world.delete_and_wait("first")
        assert bound(world) == ["g-0"]
        assert world.state.admission.histories.usage("default/other") > 0


async def test_what_is_admitted_counts_at_once_and_by_the_weight_of_its_queue() -> None:
    world = TermWorld(queues={"admissionFairSharing": {"usageHalfLifeTime": "1h"}})
    big_node(world, "n1")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 2}, mode=USAGE_BASED)
    local_queue(world, "a", "team", weight="3")
    local_queue(world, "b", "team")
    async with world.running():
        job(world, "block", "team", cpu=2)
        await asyncio.sleep(2)
        for index in range(4):
            for name in ("a", "b"):
                job(world, f"{name}{index}", name, cpu=1)
        await asyncio.sleep(2)
        order: list[str] = []
        world.cluster.delete("Pod", "default/block")
        for _ in range(2):
            await asyncio.sleep(2)
            now = bound(world)
            order += now
            for name in now:
                world.cluster.delete("Pod", f"default/{name}")
        assert order == ["a0", "b0", "a1", "a2"]


async def test_the_statuses_do_not_have_everything_read_anew() -> None:
    async with one_node({"cpu": 4}).running(seconds=3) as world:
        before = world.state.admission.snapshot
        job(world, "a", "team", cpu=1, labels={QUEUE: "team"})
        await asyncio.sleep(3)
        assert status(world, "ClusterQueue", "team").admitted_workloads == 1
        assert world.state.admission.snapshot is before


async def _no_patch(patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
    raise AssertionError("nothing is sent")


async def test_a_round_of_writes_that_is_interrupted_loses_no_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, put = TermWorld(queues={"fairSharing": {}}), list[tuple[str, str]]()
    flavor(world)
    cohort(world, "all")
    for index in range(4):
        cluster_queue(world, f"team-{index}", {"cpu": 1}, cohort="all")
    async with world.running():
        admission = world.state.admission
        admission.outdated = True
        for _ in admission.refresh(world.clock()):
            pass
        changed = list(admission.tallies.changed)
        assert len(changed) == 8
        statuses = QueueStatuses(admission, _no_patch, world.clock, lambda: None)
        monkeypatch.setattr(statuses, "_write", lambda *queue: put.append(queue))
        steps = statuses.refresh(0.0)
        for _ in range(4):
            next(steps)
        assert put == [("Cohort", "all"), *changed[:3]]
        assert list(admission.tallies.changed) == changed[3:]
        steps.close()
        assert statuses.next_time() == PERIOD
        del put[:]
        for _ in statuses.refresh(PERIOD):
            pass
        assert put == [("Cohort", "all"), *changed[3:]]
        assert statuses.next_time() is None


async def test_a_queue_whose_write_fails_is_written_in_the_next_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = TermWorld()
    flavor(world)
    cluster_queue(world, "team", {"cpu": 1})
    async with world.running():
        admission = world.state.admission
        admission.outdated = True
        for _ in admission.refresh(world.clock()):
            pass
        statuses = QueueStatuses(admission, _no_patch, world.clock, lambda: None)
        with monkeypatch.context() as patched:
            patched.setattr(statuses, "inactive", lambda item: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                next(statuses.refresh(0.0))
        assert len(admission.tallies.changed) == 2


class _Patches:
    """What patches objects of a world, unless it is down."""

    def __init__(self, world: TermWorld, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_down, self.store_is_down, self.takes = False, False, 0.0
        self._patch = world.cluster.patch_many
        monkeypatch.setattr(world.cluster, "patch_many", self)

    async def __call__(
        self, patches: Sequence[api_pb2.PatchRequest], *, fence: api_pb2.Fence
    ) -> Sequence[api_pb2.BatchResult]:
        if self.is_down:
            raise Unavailable("no server answers")
        if self.store_is_down:
            return [api_pb2.BatchResult(code=14, reason="UNAVAILABLE") for _ in patches]
        await asyncio.sleep(self.takes)
        return await self._patch(patches, fence=fence)


@pytest.mark.parametrize("down", ["is_down", "store_is_down"])
async def test_a_status_is_written_once_the_api_is_back_although_nothing_changes_then(
    monkeypatch: pytest.MonkeyPatch, down: str
) -> None:
    world = one_node({"cpu": 1})
    patches = _Patches(world, monkeypatch)
    setattr(patches, down, True)
    async with world.running(seconds=20):
        assert not status(world, "ClusterQueue", "team").conditions
        setattr(patches, down, False)
        await asyncio.sleep(10)
        assert active(world, "ClusterQueue", "team")[0] == "True"


async def test_a_status_that_could_not_be_written_is_not_written_when_it_is_outdated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = one_node({"cpu": 0})
    patches = _Patches(world, monkeypatch)
    async with world.running(seconds=3):
        patches.is_down = True
        job(world, "p", "team", cpu=1)
        await asyncio.sleep(1.5)
        world.cluster.delete("Pod", "default/p")
        await asyncio.sleep(1.5)
        patches.is_down = False
        await asyncio.sleep(10)
        assert status(world, "ClusterQueue", "team").pending_workloads == 0


async def test_a_status_that_is_as_before_is_written_if_another_is_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = one_node({"cpu": 0})
    patches = _Patches(world, monkeypatch)
    async with world.running(seconds=3):
        patches.takes = 5.0
        job(world, "p", "team", cpu=1)
        await asyncio.sleep(2)
        world.cluster.delete("Pod", "default/p")
        await asyncio.sleep(20)
        for kind, key in (("ClusterQueue", "team"), ("LocalQueue", "default/team")):
            assert status(world, kind, key).pending_workloads == 0


async def test_statuses_of_queues_and_groups_that_are_refused_are_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = TermWorld()
    flavor(world)
    cluster_queue(world, "team", {"cpu": 1})

    async def refuse(
        patches: Sequence[api_pb2.PatchRequest], *, fence: api_pb2.Fence
    ) -> Sequence[api_pb2.BatchResult]:
        return [api_pb2.BatchResult(code=7, message="denied by policy") for _ in patches]

    monkeypatch.setattr(world.cluster, "patch_many", refuse)
    with capture_logs() as logs:
        async with world.running():
            gang(world, "g", "team", 3, cpu=1)
            await asyncio.sleep(3)
    said = {line["event"] for line in logs if line.get("error") == "denied by policy"}
    assert said == {"Could not write queue statuses", "Could not write pod group statuses"}
