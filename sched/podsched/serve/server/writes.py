"""Writes changes of objects with the keys of what the objects have for themselves alone.

These are the addresses and ports of Services (``service_addresses``) and the devices of claims
(``device_guard``). Whatever changes or removes objects for a client writes through this.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.device_guard import with_device_keys
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Outcome
from podsched.serve.server.service_addresses import ServiceAddresses
from podsched.serve.server.storage import ObjectStorage
from podsched.serve.server.watchcache import WatchCache
from podsched.v1.api_pb2 import Fence


class GuardedWrites:
    """Writes changes, and then waits until admission knows of them."""

    def __init__(
        self,
        storage: ObjectStorage,
        sources: AdmissionSources,
        addresses: ServiceAddresses,
        cache: WatchCache,
    ) -> None:
        self._storage = storage
        self._sources = sources
        self._addresses = addresses
        self._cache = cache

    async def change(
        self, planned: Sequence[Mutation | ApiError], fence: Fence | None, *, dry_run: bool
    ) -> list[Outcome]:
        """Execute mutations, each independently; an error in place of one becomes its outcome.

        Admission sees the written objects afterwards, so a client that has changed a LimitRange or
        StorageClass can rely on it in its next call.
        """
        guarded = [
            self._guarded(plan, fence) if isinstance(plan, Mutation) else plan for plan in planned
        ]
        outcomes = await self._storage.mutate_planned(guarded, fence, dry_run=dry_run)
        if not dry_run:
            await self._sources.settle(outcomes)
        return outcomes

    def _guarded(self, mutation: Mutation, fence: Fence | None) -> Mutation:
        return self._addresses.guarded(with_device_keys(mutation, fence, self._cache))
