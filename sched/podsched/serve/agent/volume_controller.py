"""Binds and provisions volumes: watches claims, volumes and classes, and executes ``volumes``.

Guarantees: every write carries the version that it was decided on, and a failed write is decided
again. Several agents may run it concurrently. The cost of a change is independent of the number of
claims and volumes, and decisions yield to other tasks, as agents also renew leases.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import cast

from podsched.api.objects import (
    AnyObject,
    CSINode,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    joined_key,
    object_key,
)
from podsched.lib.event_loop import Turn
from podsched.serve.agent.deletions import deletions
from podsched.serve.agent.volume_index import VolumeIndex
from podsched.serve.agent.volumes import PROVISIONER, Effect, Round, View
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, Conflict, NotFound
from podsched.serve.client.informer import Event, Informer
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1

VOLUME_KINDS = ("StorageClass", "CSINode", "PersistentVolume", "PersistentVolumeClaim")
_log = get_logger("volume-controller")
_RETRY_SECONDS = 1.0


def _volume_name(claim: AnyObject | None) -> str:
    return cast(PersistentVolumeClaim, claim).spec.volume_name if claim is not None else ""


class VolumeController:
    """Call ``changed`` for every event of ``VOLUME_KINDS`` and Node, and ``run`` as a task."""

    def __init__(
        self,
        client: ApiClient,
        informer: Informer,
        *,
        provisioners: Collection[str] = (PROVISIONER,),
    ) -> None:
        self._informer = informer
        self._provisioners = provisioners
        self._claims: dict[str, None] = {}
        self._volumes: dict[str, None] = {}
        #: Classes whose unbound claims must all be decided, and those with a new available volume.
        self._classes: dict[str, None] = {}
        self._with_volumes: dict[str, None] = {}
        self._index = VolumeIndex()
        self._work = asyncio.Event()
        self._patches = Outbox(client.patch_many, self._patched, merge=self._replaced)
        self._creations = Outbox(client.create_many, self._created)
        self._deletions = deletions(client)

    # ------------------------------------------------------------------ events

    def changed(self, event: Event) -> None:
        """Queue the claims and volumes that a change may affect."""
        if event.kind == "PersistentVolumeClaim":
            self._claim_changed(event)
        elif event.kind == "PersistentVolume":
            self._volume_changed(event)
        elif event.kind == "StorageClass":
            self._classes |= {event.key: None, "": None}
        else:
            return
        self._work.set()

    def _claim_changed(self, event: Event) -> None:
        self._claims[event.key] = None
        self._index.put_claim(event.key, cast(PersistentVolumeClaim | None, event.new))
        before, after = (_volume_name(item) for item in (event.old, event.new))
        for name in (before, after):
            if name:
                self._volumes[name] = None
        if event.new is None or before != after:
            # A volume whose claim does not name it is free again. Decisions on outdated objects can
            # give one claim two volumes.
            self._volumes |= self._index.volumes_for.of(event.key)

    def _volume_changed(self, event: Event) -> None:
        self._volumes[event.key] = None
        self._index.put_volume(event.key, cast(PersistentVolume | None, event.new))
        volume = cast(PersistentVolume, event.new or event.old)
        ref = volume.spec.claim_ref
        if volume.spec.HasField("claim_ref"):
            self._claims[f"{ref.namespace}/{ref.name}"] = None
        self._claims |= self._index.claims_of.of(event.key)
        if event.new is not None and volume.status.phase == "Available":
            self._with_volumes[volume.spec.storage_class_name] = None

    # ------------------------------------------------------------------ writes

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._patches.run(), name="volume patches")
            tasks.create_task(self._creations.run(), name="volume creations")
            tasks.create_task(self._deletions.run(), name="volume deletions")
            tasks.create_task(self._decide(), name="volume decisions")

    async def _decide(self) -> None:
        while True:
            await self._work.wait()
            self._work.clear()
            effects: list[Effect] = []
            turn = Turn()
            for sync, key in self._due(Round(self._view())):
                try:
                    effects += sync(key)
                except Exception as error:
                    # Only this object is faulty; it is ignored until it changes.
                    _log.warning(
                        "Skipped an object that cannot be handled", name=key, exc_info=error
                    )
                await turn.pause()
            for effect in effects:
                self._perform(effect)

    def _due(self, decisions: Round) -> Iterator[tuple[Callable[[str], Iterable[Effect]], str]]:
        """Yield the decisions due in a round; later changes are for the next one."""
        claims, self._claims = self._claims, {}
        volumes, self._volumes = self._volumes, {}
        classes, self._classes = self._classes, {}
        with_volumes, self._with_volumes = self._with_volumes, {}
        for name in classes:
            claims |= self._index.unbound.of(name)
        for key in volumes:
            yield decisions.sync_volume, key
        for key in claims:
            yield decisions.sync_claim, key
        for name in with_volumes:
            for key in list(self._index.unbound.of(name)):
                if not decisions.available_of(name):
                    break
                if key not in claims:
                    yield decisions.sync_claim, key

    def _view(self) -> View:
        objects = self._informer.objects
        return View(
            claims=cast(Mapping[str, PersistentVolumeClaim], objects("PersistentVolumeClaim")),
            volumes=cast(Mapping[str, PersistentVolume], objects("PersistentVolume")),
            classes=cast(Mapping[str, StorageClass], objects("StorageClass")),
            nodes=cast(Mapping[str, Node], objects("Node")),
            csi_nodes=cast(Mapping[str, CSINode], objects("CSINode")),
            index=self._index,
            provisioners=self._provisioners,
        )

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, PersistentVolume):
            self._creations.put(effect.metadata.name, effect)
        elif isinstance(effect, v1.DeleteRequest):
            self._deletions.put(effect.name, effect)
        else:
            key = joined_key(effect.namespace, effect.name)
            self._patches.put(f"{effect.kind} {key}", effect)

    def _patched(self, _: str, patch: v1.PatchRequest, result: v1.BatchResult) -> None:
        failed = errors.of_result(result)
        if failed is None:
            return
        self._decide_claim_of(patch)
        if isinstance(failed, NotFound):
            return
        if not isinstance(failed, Conflict):
            _log.warning("Write failed", kind=patch.kind, name=patch.name, error=str(failed))
        key = joined_key(patch.namespace, patch.name)
        self._later(key, volume=patch.kind == "PersistentVolume")

    def _replaced(self, earlier: v1.PatchRequest, later: v1.PatchRequest) -> v1.PatchRequest:
        """Return the later patch; decide again on the claim that the earlier one was for."""
        if earlier.merge_patch != later.merge_patch:
            self._decide_claim_of(earlier)
        return later

    def _decide_claim_of(self, patch: v1.PatchRequest) -> None:
        """Decide again on the claim that a patch was to bind a volume to."""
        claim = json.loads(patch.merge_patch).get("spec", {}).get("claimRef") or {}
        if "name" in claim:
            self._later(f"{claim['namespace']}/{claim['name']}", volume=False)

    def _created(self, _: str, volume: PersistentVolume, result: v1.BatchResult) -> None:
        failed = errors.of_result(result)
        if failed is None or isinstance(failed, AlreadyExists):
            return
        ref = volume.spec.claim_ref
        _log.warning("Provisioning failed", name=object_key(volume), error=str(failed))
        self._later(f"{ref.namespace}/{ref.name}", volume=False)

    def _later(self, key: str, *, volume: bool) -> None:
        """Decide about a claim or volume again after a while."""

        def look() -> None:
            # Each round replaces both, so they are read now.
            (self._volumes if volume else self._claims)[key] = None
            self._work.set()

        asyncio.get_running_loop().call_later(_RETRY_SECONDS, look)
