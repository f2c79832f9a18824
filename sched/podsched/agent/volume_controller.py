"""Does what `volumes` decides. (Decisions follow.)"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Protocol

from podsched.api.objects import AnyObject
from podsched.client.informer import Event, Informer
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse

VOLUME_KINDS = ("StorageClass", "PersistentVolume", "PersistentVolumeClaim")


class VolumeClient(Protocol):
    """What the controller needs of the API."""

    def watch(self, request: v1.WatchRequest) -> AsyncGenerator[RawWatchResponse, None]: ...

    async def create_many(self, items: Iterable[AnyObject]) -> Sequence[v1.BatchResult]: ...

    async def patch_many(self, patches: Sequence[v1.PatchRequest]) -> Sequence[v1.BatchResult]: ...


class VolumeController:
    """Binds claims and volumes."""

    def __init__(
        self,
        client: VolumeClient,
        informer: Informer,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._informer = informer
        self._now = now

    def changed(self, event: Event) -> None:
        """A volume, claim or class has changed."""

    async def run(self) -> None:
        """Work until cancelled."""
        await asyncio.Event().wait()
