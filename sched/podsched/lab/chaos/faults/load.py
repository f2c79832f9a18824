"""Clients that overload the system: floods of objects, watches that are never read."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from podsched.api.objects import ConfigMap
from podsched.lab.chaos.system import System
from podsched.lib.tasks import in_background
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import ClientError
from podsched.v1.api_pb2 import WatchRequest

#: Objects of a call of a flood, and bytes of each.
_BATCH, _BYTES = 50, 4_000
#: Seconds for which a watch is not read, longer than any fault.
_FOREVER = 3_600.0


@asynccontextmanager
async def flood(system: System, pick: float) -> AsyncIterator[str]:
    """Create objects as fast as the API servers take them, and delete them afterwards."""
    async with system.direct_client() as client:
        try:
            async with in_background(_create(client, int(pick * 1e9)), "flood"):
                yield "a flood of ConfigMaps"
        finally:
            with contextlib.suppress(ClientError):
                await client.delete_collection("ConfigMap", "default", label_selector="chaos=flood")


async def _create(client: ApiClient, prefix: int) -> None:
    number = 0
    while True:
        batch = [_config_map(f"flood-{prefix}-{number + index}") for index in range(_BATCH)]
        number += _BATCH
        try:
            await client.create_many(batch)
        except ClientError:
            await asyncio.sleep(0.1)


def _config_map(name: str) -> ConfigMap:
    config_map = ConfigMap(data={"text": "x" * _BYTES})
    config_map.metadata.name, config_map.metadata.namespace = name, "default"
    config_map.metadata.labels["chaos"] = "flood"
    return config_map


@asynccontextmanager
async def slow_watcher(system: System, _: float) -> AsyncIterator[str]:
    """Watch all pods without reading the stream."""
    async with system.direct_client() as client, AsyncExitStack() as watchers:
        for _ in range(5):
            await watchers.enter_async_context(in_background(_watch(client), "slow watcher"))
        yield "five watchers read nothing"


async def _watch(client: ApiClient) -> None:
    async for _ in client.watch_stream(WatchRequest(kinds=["Pod", "Node", "Event"])):
        await asyncio.sleep(_FOREVER)
