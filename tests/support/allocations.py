"""The devices of claims in a real etcd, judged revision by revision, and pods that want them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Any

from podsched.api.device_claims import exclusive_devices
from podsched.api.etcd_keys import kind_prefix
from podsched.api.kinds import KINDS
from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod, ResourceClaim
from podsched.lab.bench.shapes import pod_template
from podsched.lib.tasks import in_background
from podsched.serve.store.protocol import EventType, Store, WatchEvent

Device = tuple[str, str, str]


def template_of_claims(device_class: str) -> Any:
    """The template "gpu" of claims with one device."""
    request = {"name": "gpu", "exactly": {"deviceClassName": device_class}}
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu", "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }
    return from_manifest(document).message


def device_template(**spec: Any) -> Pod:
    """A template of pods with a claim of the template "gpu"."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return pod_template(cpu="10m", memory="", resourceClaims=claims, **spec)


class Allocations:
    """Which claim has which device, followed revision by revision.

    given: how many allocations there were. twice: what was wrong, in words.
    """

    def __init__(self) -> None:
        self.owners: dict[Device, str] = {}
        self.devices: dict[str, list[Device]] = {}
        self.given = 0
        self.twice: list[str] = []

    async def follow(self, store: Store) -> None:
        """Judge all revisions from the first one on, until cancelled."""
        async for batch in store.watch(kind_prefix(KINDS["ResourceClaim"]), start_revision=1):
            for number, events in groupby(batch.events, lambda event: event.kv.mod_revision):
                self._revision(number, list(events))

    def _revision(self, number: int, events: list[WatchEvent]) -> None:
        for event in events:
            for device in self.devices.pop(event.kv.key, ()):
                if self.owners.get(device) == event.kv.key:
                    del self.owners[device]
        for event in events:
            if event.type is EventType.PUT:
                self._put(number, event.kv.key, ResourceClaim.FromString(event.kv.value))

    def _put(self, number: int, key: str, claim: ResourceClaim) -> None:
        devices = list(exclusive_devices(claim))
        self.given += bool(devices)
        self.devices[key] = devices
        for device in devices:
            other = self.owners.setdefault(device, key)
            if other != key:
                self.twice.append(f"{device} belongs to {other} and {key} at revision {number}")


@asynccontextmanager
async def followed(store: Store) -> AsyncIterator[Allocations]:
    """Allocations that are judged while the block runs."""
    allocations = Allocations()
    async with in_background(allocations.follow(store), "follow claims"):
        yield allocations
    assert not allocations.twice, allocations.twice[:5]
