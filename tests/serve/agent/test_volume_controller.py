"""The volume controller takes notice of what its own earlier writes have made wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from podsched.api.objects import (
    AnyObject,
    PersistentVolume,
    PersistentVolumeClaim,
    object_key,
)
from podsched.api.reasons import StatusReason
from podsched.serve.agent.volume_controller import VolumeController
from podsched.serve.client import errors
from podsched.serve.client.errors import NotFound
from podsched.serve.client.informer import Event, EventType, Informer
from podsched.v1.api_pb2 import BatchResult, PatchRequest

pytestmark = pytest.mark.looptime

BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class Objects:
    """Claims and volumes as an informer has them, and the patches of the controller."""

    def __init__(self, *objects: AnyObject) -> None:
        self.patched: list[str] = []
        self.answer = BatchResult()
        self._objects: dict[str, dict[str, AnyObject]] = {}
        for item in objects:
            self.add(item)

    def add(self, item: AnyObject) -> None:
        self._objects.setdefault(type(item).__name__, {})[object_key(item)] = item

    def objects(self, kind: str) -> dict[str, AnyObject]:
        return self._objects.get(kind, {})

    async def patch_many(
        self, patches: Sequence[PatchRequest], *, traceparent: str = ""
    ) -> list[BatchResult]:
        self.patched += [f"{patch.name} {patch.merge_patch.decode()}" for patch in patches]
        return [self.answer for _ in patches]

    async def create_many(self, items: Any) -> list[BatchResult]:
        raise AssertionError("nothing is provisioned")


def bound_volume(name: str) -> PersistentVolume:
    volume = PersistentVolume()
    volume.metadata.name = name
    volume.metadata.annotations[BY_CONTROLLER] = "yes"
    volume.spec.claim_ref.namespace, volume.spec.claim_ref.name = "default", "data"
    volume.spec.claim_ref.uid = "uid-data"
    volume.status.phase = "Bound"
    return volume


async def test_a_second_volume_that_a_claim_was_given_is_free_once_the_claim_has_the_first() -> (
    None
):
    """Two rounds may each give the claim a volume, before either write is seen."""
    pending = PersistentVolumeClaim()
    pending.metadata.namespace, pending.metadata.name = "default", "data"
    pending.metadata.uid = "uid-data"
    claim = PersistentVolumeClaim()
    claim.CopyFrom(pending)
    claim.spec.volume_name, claim.status.phase = "first", "Bound"
    for annotation in ("pv.kubernetes.io/bind-completed", BY_CONTROLLER):
        claim.metadata.annotations[annotation] = "yes"
    world = Objects(pending, bound_volume("first"), bound_volume("second"))
    controller = VolumeController(cast(Any, world), cast(Informer, world))
    running = asyncio.create_task(controller.run())
    for kind in ("PersistentVolumeClaim", "PersistentVolume"):
        for key, item in world.objects(kind).items():
            controller.changed(Event(EventType.ADDED, kind, key, None, item))
    await asyncio.sleep(1)
    world.patched.clear()
    world.objects("PersistentVolumeClaim")["default/data"] = claim
    controller.changed(
        Event(EventType.MODIFIED, "PersistentVolumeClaim", "default/data", pending, claim)
    )
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    [patch] = world.patched
    assert patch.startswith("second ") and '"claimRef": null' in patch


async def test_a_claim_that_has_lost_its_volume_is_bound_again_when_the_volume_is_back() -> None:
    claim, volume = PersistentVolumeClaim(), PersistentVolume()
    claim.metadata.namespace, claim.metadata.name, claim.metadata.uid = "default", "data", "u"
    claim.metadata.annotations["pv.kubernetes.io/bind-completed"] = "yes"
    claim.spec.volume_name, claim.status.phase = "v", "Lost"
    world = Objects(claim)
    controller = VolumeController(cast(Any, world), cast(Informer, world))
    running = asyncio.create_task(controller.run())
    kind = "PersistentVolumeClaim"
    controller.changed(Event(EventType.ADDED, kind, "default/data", None, claim))
    await asyncio.sleep(1)
    volume.metadata.name = "v"
    world.add(volume)
    controller.changed(Event(EventType.ADDED, "PersistentVolume", "v", None, volume))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    [patch] = world.patched
    assert patch.startswith("v ") and '"claimRef"' in patch


async def test_a_claim_whose_volume_was_deleted_before_the_write_gets_another() -> None:
    claim = PersistentVolumeClaim()
    claim.metadata.namespace, claim.metadata.name, claim.metadata.uid = "default", "data", "u"
    claim.spec.storage_class_name = ""
    small, big = PersistentVolume(), PersistentVolume()
    for volume, size in ((small, "1Gi"), (big, "2Gi")):
        volume.metadata.name, volume.status.phase = size.lower(), "Available"
        volume.spec.capacity["storage"] = size
    world = Objects(claim, small, big)
    world.answer = errors.as_result(NotFound("it is gone", reason=StatusReason.NOT_FOUND))
    controller = VolumeController(cast(Any, world), cast(Informer, world))
    running = asyncio.create_task(controller.run())
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        for key, item in world.objects(kind).items():
            controller.changed(Event(EventType.ADDED, kind, key, None, item))
    await asyncio.sleep(0.5)
    del world.objects("PersistentVolume")["1gi"]
    controller.changed(Event(EventType.DELETED, "PersistentVolume", "1gi", small, None))
    await asyncio.sleep(1)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert [patch.partition(" ")[0] for patch in world.patched] == ["1gi", "2gi"]
