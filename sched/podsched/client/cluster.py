"""The port through which a scheduler replica sees and changes the cluster.

Implemented by `GrpcCluster` on the API server and by `fake.FakeCluster` in memory; one contract
suite runs on both. A real Kubernetes cluster could be a third. Every write that needs leadership
takes a `Fence`.

Calls raise `client.errors.ClientError` when they fail as a whole; what became of each item is a
`BatchResult` (code 0: done; else `reason`: FENCE_LOST, ALREADY_BOUND with `node_name`, NOT_FOUND,
...).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from podsched.api.codec import format_time
from podsched.api.objects import AnyObject, Event
from podsched.client.api_client import ApiClient
from podsched.client.informer import Handler, Informer
from podsched.v1 import api_pb2 as v1

MOST_PER_CALL = 1000


class InformerPort(Protocol):
    """Objects kept current; see `Informer`."""

    synced: asyncio.Event

    @property
    def revision(self) -> int: ...

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...

    async def wait_for_revision(self, revision: int) -> None: ...

    async def run(self, handler: Handler) -> None: ...


class Cluster(Protocol):
    """What a scheduler needs of a cluster."""

    def informer(self, kinds: Sequence[str]) -> InformerPort:
        """Follow kinds, in one stream; lists deliver them in this order."""
        ...

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """One object as it is now. NotFound."""
        ...

    async def bind(
        self, bindings: Sequence[v1.Binding], fence: v1.Fence, *, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """Bind pods. With a uid, binding again to the same node is a success."""
        ...

    async def evict(
        self, evictions: Sequence[v1.EvictRequest], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Delete pods gracefully, with or without regard to disruption budgets."""
        ...

    async def patch_status(
        self, patches: Sequence[v1.PodStatusPatch], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Set conditions and nominations of pods."""
        ...

    async def patch(
        self, patches: Sequence[v1.PatchRequest], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Patch objects of any kind."""
        ...

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """Store new events, and count and time of those stored before; best effort, not fenced."""
        ...


class GrpcCluster:
    """The cluster behind API servers."""

    def __init__(self, client: ApiClient) -> None:
        self.client = client

    def informer(self, kinds: Sequence[str]) -> Informer:
        """See `Cluster.informer`."""
        return Informer(self.client, kinds)

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """See `Cluster.get`."""
        return await self.client.get(kind, name, namespace)

    async def bind(
        self, bindings: Sequence[v1.Binding], fence: v1.Fence, *, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """See `Cluster.bind`."""
        return await self.client.bind_pods(bindings, fence=fence, traceparent=traceparent)

    async def evict(
        self, evictions: Sequence[v1.EvictRequest], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See `Cluster.evict`."""
        return await self.client.evict_pods(evictions, fence=fence)

    async def patch_status(
        self, patches: Sequence[v1.PodStatusPatch], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See `Cluster.patch_status`."""
        return await self.client.patch_pod_statuses(patches, fence=fence)

    async def patch(
        self, patches: Sequence[v1.PatchRequest], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See `Cluster.patch`."""
        return await self.client.patch_many(patches, fence=fence)

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """See `Cluster.record_events`."""
        for start in range(0, len(new), MOST_PER_CALL):
            await self.client.create_many(new[start : start + MOST_PER_CALL])
        for start in range(0, len(repeated), MOST_PER_CALL):
            patches = [repetition(event) for event in repeated[start : start + MOST_PER_CALL]]
            await self.client.patch_many(patches)


def repetition(event: Event) -> v1.PatchRequest:
    """Return the patch that says an event has happened again."""
    patch = {"count": event.count, "lastTimestamp": format_time(event.last_timestamp)}
    return v1.PatchRequest(
        kind="Event",
        namespace=event.metadata.namespace,
        name=event.metadata.name,
        merge_patch=json.dumps(patch).encode(),
    )
