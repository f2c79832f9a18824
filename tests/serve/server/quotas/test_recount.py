"""What quotas say is used follows what their namespaces have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, PersistentVolumeClaim, Pod, ResourceQuota
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.quotas.recount import Tally
from podsched.serve.store.protocol import Write, WriteOutcome
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod, quota
from support.api_world import World
from support.eventually import eventually

pytestmark = pytest.mark.looptime


@asynccontextmanager
async def recounting(*cores: ServerCore) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(core.quota_recounter.run()) for core in cores]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def status(world: World) -> dict[str, str]:
    entry = await world.core.registry.get("ResourceQuota", "default", "limits")
    message = entry.decode()
    assert isinstance(message, ResourceQuota)
    return dict(message.status.used)


async def becomes(world: World, **used: str) -> None:
    await eventually(
        f"status.used becomes {used}",
        lambda: status(world),
        {name.replace("_", "."): amount for name, amount in used.items()},
    )


async def delete(world: World, name: str) -> None:
    await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name=name, grace_period_seconds=0))


async def test_a_new_quota_soon_shows_what_is_used(world: World) -> None:
    """Without any create: what was there before it, in its namespace alone."""
    await world.core.creator.create_many([pod("a"), pod("b"), pod("c", "other")])
    async with recounting(world.core):
        await world.core.creator.create(quota(pods="9", requests_cpu="1", configmaps="3"))
        await becomes(world, pods="2", requests_cpu="200m", configmaps="0")


async def test_deletions_are_counted(world: World) -> None:
    """Two of three go."""
    await world.core.creator.create_many([quota(pods="9"), pod("a"), pod("b"), pod("c")])
    async with recounting(world.core):
        await becomes(world, pods="3")
        for name in "ab":
            await delete(world, name)
        await becomes(world, pods="1")


async def test_a_finished_pod_frees_what_it_has_used(world: World) -> None:
    """It still counts as an object."""
    await world.core.creator.create_many([quota(pods="9", requests_cpu="9"), pod("a"), pod("b")])
    async with recounting(world.core):
        await becomes(world, pods="2", requests_cpu="200m")
        finished = (await world.core.registry.get("Pod", "default", "a")).decode()
        assert isinstance(finished, Pod)
        finished.status.phase = "Succeeded"
        await world.core.registry.update(finished, status=True)
        await becomes(world, pods="1", requests_cpu="100m")


async def test_a_pod_that_stays_although_it_should_be_gone_frees_what_it_used(
    world: World,
) -> None:
    """As when its node is lost: no event says so, only time passes."""
    bound = pod("a")
    bound.spec.node_name = "worker-1"
    bound.spec.termination_grace_period_seconds = 30
    await world.core.creator.create_many([quota(pods="9"), bound])
    async with recounting(world.core):
        await becomes(world, pods="1")
        await world.core.deleter.delete(v1.DeleteRequest(kind="Pod", name="a"))
        await asyncio.sleep(40)
        assert await status(world) == {"pods": "1"}
        world.now += 61
        await eventually("it frees", lambda: status(world), {"pods": "0"})


async def test_a_changed_limit_and_a_forged_status_are_put_right(world: World) -> None:
    """A client that may write the status cannot lift the limit for long."""
    await world.core.creator.create_many([quota(pods="9"), pod("a")])
    async with recounting(world.core):
        await becomes(world, pods="1")
        await world.core.registry.update(quota(configmaps="9", pods="1"))
        await becomes(world, configmaps="0", pods="1")
        forged = (await world.core.registry.get("ResourceQuota", "default", "limits")).decode()
        assert isinstance(forged, ResourceQuota)
        forged.status.used["pods"] = "0"
        await world.core.registry.update(forged, status=True)
        await becomes(world, configmaps="0", pods="1")


async def test_a_correction_whose_caller_gave_up_is_made_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when etcd does not answer for as long as the client waits."""
    recounter = world.core.quota_recounter
    await world.core.creator.create_many([quota(pods="9"), pod("a")])
    await recounter.recounted("default")
    await delete(world, "a")
    with monkeypatch.context() as patched:
        patched.setattr(world.store, "write_many", lambda _: asyncio.Event().wait())
        asking = asyncio.create_task(recounter.recounted("default"))
        await asyncio.sleep(1)
        asking.cancel()
        await asyncio.wait([asking])
    async with recounting(world.core):
        await becomes(world, pods="0")


async def test_a_recount_for_a_caller_does_not_wait_for_those_of_all_namespaces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes as long as a write of etcd."""
    names = [f"n{number}" for number in range(20)]
    quotas = [quota(namespace=name, pods="9") for name in names]
    await world.core.creator.create_many([*quotas, *(pod("a", name) for name in names)])
    await world.core.reflector.wait_until_fresh()
    write_many = world.store.write_many

    async def slow(writes: Sequence[Write]) -> list[WriteOutcome]:
        await asyncio.sleep(1)
        return await write_many(writes)

    monkeypatch.setattr(world.store, "write_many", slow)
    clock = asyncio.get_running_loop().time
    async with recounting(world.core):
        await asyncio.sleep(0.5)
        began = clock()
        await world.core.quota_recounter.recounted(names[-1])
        assert clock() - began < 5


async def test_several_servers_come_to_the_same_count(world: World) -> None:
    """While pods come and go through both."""
    other = await world.another()
    async with recounting(world.core, other):
        await world.core.creator.create(quota(pods="40"))
        await other.reflector.wait_until_fresh()
        for number in range(20):
            core = (world.core, other)[number % 2]
            await core.creator.create_many([pod(f"web-{number}-{i}") for i in range(2)])
            await delete(world, f"web-{number}-0")
        await becomes(world, pods="20")


async def test_creates_that_a_server_did_not_charge_are_counted(world: World) -> None:
    """Such as those of one that has not seen the quota yet."""
    await world.core.creator.create_many([quota(pods="1"), pod("a"), pod("b"), pod("c")])
    async with recounting(world.core):
        await becomes(world, pods="3")


async def test_a_list_from_anew_starts_the_count_anew(world: World) -> None:
    """The changes in between are not known."""
    await world.core.creator.create_many([quota(pods="9"), pod("a"), pod("b")])
    async with recounting(world.core):
        await becomes(world, pods="2")
        cache = world.core.cache
        kinds = (KINDS["Pod"], KINDS["ResourceQuota"])
        entries = [entry for kind in kinds for entry in cache.objects(kind).values()]
        cache.load([entry for entry in entries if entry.key != "default/a"], cache.revision)
        await becomes(world, pods="1")


def test_a_tally_forgets_what_is_no_longer_used() -> None:
    """Storage classes have names that clients choose, and quotas count by class."""
    claims, tally = KINDS["PersistentVolumeClaim"], Tally()
    for number in range(9):
        claim = PersistentVolumeClaim()
        claim.spec.storage_class_name = f"class-{number}"
        claim.spec.resources.requests["storage"] = "1Gi"
        entry = Entry(claims, "default/a", claim.SerializeToString(), number, number)
        tally.set(claims, "default/a", entry, 0.0)
    counted = {name.partition(".")[0] for name in tally.total(quota()) if "class" in name}
    assert counted == {"class-8"}


def test_a_terminating_pod_is_counted_anew_only_once_its_time_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be thousands, and recounts several times a second."""
    pods, tally, terminating = KINDS["Pod"], Tally(), pod()
    terminating.metadata.deletion_timestamp.seconds = 100
    tally.set(
        pods, "default/web", Entry(pods, "default/web", terminating.SerializeToString(), 1, 1), 0.0
    )
    decode, decoded = Entry.decode, []

    def counting(entry: Entry) -> AnyObject:
        decoded.append(entry.key)
        return decode(entry)

    monkeypatch.setattr(Entry, "decode", counting)
    counts = []
    for now in (99.0, 100.0, 101.0, 102.0):
        tally.stop_counting_ended_pods(now)
        counts.append(len(decoded))
    assert counts == [0, 0, 1, 1]
    assert "pods" not in tally.total(quota())
