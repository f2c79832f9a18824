"""What many claims and volumes cost: each is looked at a few times, and others have their turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import orjson
import pytest

from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import AnyObject, PersistentVolume, PersistentVolumeClaim
from podsched.lib import event_loop
from podsched.lib.event_loop import ROUND
from podsched.lib.tasks import in_background
from podsched.serve.agent.volume_controller import VolumeController
from podsched.serve.agent.volumes import Round
from podsched.serve.client.informer import Event, EventType, Informer
from podsched.v1.api_pb2 import BatchResult, PatchRequest
from support.visited import Visited

pytestmark = pytest.mark.looptime

MANY = 300


class Objects:
    """Claims and volumes as an informer has them; what the controller writes comes as events."""

    def __init__(self) -> None:
        self.stores = {"PersistentVolumeClaim": Visited(), "PersistentVolume": Visited()}
        self.controller = VolumeController(cast(Any, self), cast(Informer, self))
        self.written = 0

    @property
    def visits(self) -> int:
        return sum(store.visits for store in self.stores.values())

    def objects(self, kind: str) -> dict[str, AnyObject]:
        return self.stores.get(kind, Visited())

    def get(self, kind: str, key: str) -> AnyObject | None:
        return self.objects(kind).get(key)

    def put(self, item: AnyObject) -> None:
        kind, metadata = type(item).__name__, item.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        store = self.stores[kind]
        old = dict.get(store, key)
        self.written += 1
        metadata.resource_version = str(self.written)
        store[key] = item
        type_ = EventType.ADDED if old is None else EventType.MODIFIED
        self.controller.changed(Event(type_, kind, key, old, item))

    def remove(self, kind: str, key: str) -> None:
        old = self.stores[kind].pop(key)
        self.controller.changed(Event(EventType.DELETED, kind, key, old, None))

    async def patch_many(
        self, patches: Sequence[PatchRequest], *, traceparent: str = ""
    ) -> list[BatchResult]:
        await asyncio.sleep(0.01)
        results = []
        for patch in patches:
            key = f"{patch.namespace}/{patch.name}" if patch.namespace else patch.name
            item = dict.get(self.stores[patch.kind], key)
            assert item is not None
            if item.metadata.resource_version != str(patch.resource_version):
                results.append(BatchResult(code=10, message="conflict"))
                continue
            self.put(apply_merge_patch(item, orjson.loads(patch.merge_patch)).message)
            results.append(BatchResult())
        return results

    async def create_many(self, items: Any) -> list[BatchResult]:
        raise AssertionError("nothing is provisioned")


def claim(number: int) -> PersistentVolumeClaim:
    item = PersistentVolumeClaim()
    item.metadata.namespace, item.metadata.name = "default", f"claim-{number}"
    item.metadata.uid = f"uid-{number}"
    item.spec.storage_class_name = "local"
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.resources.requests["storage"] = "1Gi"
    return item


def volume(number: int) -> PersistentVolume:
    item = PersistentVolume()
    item.metadata.name = f"volume-{number}"
    item.spec.capacity["storage"] = "1Gi"
    item.spec.access_modes.append("ReadWriteOnce")
    item.spec.storage_class_name = "local"
    item.status.phase = "Available"
    return item


@asynccontextmanager
async def running(world: Objects) -> AsyncIterator[None]:
    async with in_background(world.controller.run(), "volume controller"):
        yield


def phases(world: Objects) -> set[str]:
    return {item.status.phase for store in world.stores.values() for item in dict.values(store)}


async def test_many_claims_and_volumes_are_looked_at_a_few_times_each() -> None:
    world = Objects()
    async with running(world):
        for number in range(MANY):
            world.put(claim(number))
            world.put(volume(number))
        await asyncio.sleep(30)
        assert phases(world) == {"Bound"}
        assert world.visits <= 40 * MANY
        before = world.visits
        for number in range(MANY):
            world.remove("PersistentVolumeClaim", f"default/claim-{number}")
        await asyncio.sleep(30)
        assert phases(world) == {"Released"}
        for number in range(MANY):
            world.remove("PersistentVolume", f"volume-{number}")
        assert world.visits - before <= 40 * MANY


@pytest.fixture
def happened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What happens, where a decision takes 0.7 of a round of the event loop."""
    now, found = 0.0, list[str]()
    for clock in ("monotonic", "thread_time"):
        monkeypatch.setattr(event_loop, clock, lambda: now)
    decide = Round.sync_claim

    def slowly(decisions: Round, key: str) -> Any:
        nonlocal now
        now += 0.7 * ROUND
        found.append("decision")
        return decide(decisions, key)

    monkeypatch.setattr(Round, "sync_claim", slowly)
    yield found


async def test_decisions_give_way_to_others(happened: list[str]) -> None:
    async def other() -> None:
        while True:
            happened.append("other")
            await asyncio.sleep(0)

    world = Objects()
    for number in range(10):
        world.put(claim(number))
    others = asyncio.create_task(other())
    async with running(world):
        for _ in range(50):
            await asyncio.sleep(0)
    assert happened.count("decision") >= 10
    others.cancel()
    runs = "".join(what[0] for what in happened).strip("o").split("o")
    assert max(map(len, runs)) <= 2


async def test_a_volume_that_comes_is_given_to_one_of_the_claims_that_wait() -> None:
    world = Objects()
    async with running(world):
        for number in range(3):
            world.put(claim(number))
        await asyncio.sleep(1)
        world.put(volume(0))
        await asyncio.sleep(5)
        bound = [item.status.phase for item in dict.values(world.stores["PersistentVolumeClaim"])]
        assert sorted(bound) == ["", "", "Bound"]


async def test_claims_that_come_one_by_one_during_a_call_all_get_volumes() -> None:
    """The second of them is given the same volume as the third, whose patch replaces its own."""
    world = Objects()
    claims, volumes = [*map(claim, range(3))], [*map(volume, range(3))]
    for number in (1, 2):
        claims[number].spec.resources.requests["storage"] = "5Gi"
        volumes[number].spec.capacity["storage"] = "5Gi"
    async with running(world):
        for item in volumes:
            world.put(item)
        await asyncio.sleep(1)
        for waiting in claims:
            world.put(waiting)
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        assert phases(world) == {"Bound"}
