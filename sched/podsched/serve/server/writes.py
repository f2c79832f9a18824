"""Writes changes of objects with the keys of what the objects have for themselves alone.

These are the addresses and ports of Services (``service_addresses``), the devices of claims
(``device_guard``) and what bindings put for a node (``bind_guard``). Whatever changes or removes
objects for a client writes through this. A changed Event lives on for another TTL (``expiry``).
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.reasons import StatusReason
from podsched.serve.server import errors
from podsched.serve.server.admission_sources import AdmissionSources
from podsched.serve.server.bind_guard import NODE, BindGuard
from podsched.serve.server.device_guard import with_device_keys
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.expiry import EVENT, EventExpiry
from podsched.serve.server.mutations import Mutation, Outcome, Step
from podsched.serve.server.service_addresses import SERVICE, ServiceAddresses
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
        expiry: EventExpiry,
        guard: BindGuard,
        cache: WatchCache,
    ) -> None:
        self._storage = storage
        self._sources = sources
        self._addresses = addresses
        self._expiry = expiry
        self._guard = guard
        self._cache = cache

    async def change(
        self, planned: Sequence[Mutation | ApiError], fence: Fence | None, *, dry_run: bool
    ) -> list[Outcome]:
        """Execute mutations, each independently; an error in place of one becomes its outcome.

        Admission sees the written objects afterwards, so a client that has changed a LimitRange or
        StorageClass can rely on it in its next call. Raises ApiError.
        """
        lease: int | ApiError = 0
        if any(isinstance(plan, Mutation) and plan.kind is EVENT for plan in planned):
            lease = await errors.awaited(self._expiry.lease())
        guarded = [
            self._guarded(plan, fence, lease) if isinstance(plan, Mutation) else plan
            for plan in planned
        ]
        outcomes = await self._storage.mutate_planned(guarded, fence, dry_run=dry_run)
        again = _refused_services(guarded, outcomes)
        if again and await errors.awaited(self._sources.refresh()) is None:
            done = await self._storage.mutate([*again.values()], fence, dry_run=dry_run)
            for at, outcome in zip(again, done, strict=True):
                outcomes[at] = outcome
        lost = any(_failed(outcome, StatusReason.LEASE_NOT_FOUND) for outcome in outcomes)
        if lost and isinstance(lease, int):
            self._expiry.forget_lease(lease)
        if not dry_run:
            await self._sources.settle(outcomes)
        return outcomes

    def _guarded(self, mutation: Mutation, fence: Fence | None, lease: int | ApiError) -> Mutation:
        if mutation.kind is EVENT:
            return _with_lease(mutation, lease)
        if mutation.kind is NODE:
            return self._guard.with_node_keys(mutation)
        return self._addresses.guarded(with_device_keys(mutation, fence, self._cache))


def _with_lease(mutation: Mutation, lease: int | ApiError) -> Mutation:
    """Return a mutation that attaches the object to a lease: a put without one detaches it.

    lease: the error if none was granted. A deletion needs none: a full etcd grants no lease, but
    takes deletions.
    """

    def change(entry: Entry) -> Step | None:
        step = mutation.change(entry)
        if step is None or step.value is None:
            return step
        if isinstance(lease, ApiError):
            raise lease
        return step._replace(lease=lease)

    return mutation._replace(change=change)


def _refused_services(
    planned: Sequence[Mutation | ApiError], outcomes: Sequence[Outcome]
) -> dict[int, Mutation]:
    """Return the refused changes of Services, by their places.

    What they ask for may be free since another change, which the cache has not shown yet.
    """
    return {
        at: plan
        for at, (plan, outcome) in enumerate(zip(planned, outcomes, strict=True))
        if isinstance(plan, Mutation)
        and plan.kind is SERVICE
        and _failed(outcome, StatusReason.INVALID)
    }


def _failed(outcome: Outcome, reason: StatusReason) -> bool:
    return isinstance(outcome, ApiError) and outcome.reason == reason
