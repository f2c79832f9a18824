"""Prevents schedulers from allocating a device to two claims.

    /podsched/devices/<driver>/<pool>/<device>    the claim that has it, "namespace/name"

Invariant: while a claim has a device for itself alone, the device's key exists and names the claim.
The write that stores an allocation puts the keys of its devices. The write that removes the
allocation, or the claim, deletes them. A fenced write, so one of podsched's schedulers, succeeds
only if the keys that it puts are absent. All this is in one etcd transaction. So if two schedulers
allocate the same device on outdated state, one gets a Conflict. A write that arrives late, from
whichever API server, cannot take a device that another claim has got meanwhile.

Writers without a fence (kubectl, kube-controller-manager, other schedulers) maintain the keys, too,
but are never refused, as in Kubernetes. They can allocate a device twice; then its key names the
latest claim, and is deleted with either allocation.

A key may be left of a claim that does not have the device: by an API server of an earlier version,
or by a change of etcd without an API server. So before a write is refused, the claim is checked. If
it does not have the device, the write replaces the key, provided that neither has changed. An
allocation that such a server has stored has no keys, and is protected only by what schedulers know.

Devices with several users at a time have no keys: shares (consumable capacity) and devices for
administrators. The counters that partitions share are not compared either.
"""

from __future__ import annotations

from collections.abc import Mapping

from podsched.api.device_claims import exclusive_devices
from podsched.api.etcd_keys import DEVICES, device_key, name_in, object_key
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, ResourceClaim
from podsched.serve.server import errors
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Mutation, Step
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store.protocol import Compare, Delete, KeyValue, Put
from podsched.v1.api_pb2 import Fence

_CLAIM = KINDS["ResourceClaim"]


def with_device_keys(mutation: Mutation, fence: Fence | None, cache: WatchCache) -> Mutation:
    """Return a mutation that also maintains the keys of a claim's devices.

    Mutations of other kinds are returned unchanged.
    """
    return _Guarded(mutation, fence, cache).mutation if mutation.kind is _CLAIM else mutation


class _Guarded:
    """A mutation of a claim, with what is known of keys that it found put."""

    def __init__(self, mutation: Mutation, fence: Fence | None, cache: WatchCache) -> None:
        self._inner = mutation
        self._fence = fence
        self._cache = cache
        #: For keys left of claims that do not have the device: the compares that this is still so.
        self._left: dict[str, tuple[Compare, ...]] = {}
        self.mutation = mutation._replace(change=self._change, refusal=self._refusal)

    def _change(self, entry: Entry) -> Step | None:
        step = self._inner.change(entry)
        if step is None:
            return None
        if step.value is None:  # Also what cannot be read can be removed.
            before, after = _devices(entry.message) if entry.is_readable() else {}, {}
        else:
            before, after = _devices(entry.message), _devices(_CLAIM.message.FromString(step.value))
        taken = [key for key in after if key not in before]
        compares = step.compares
        if self._fence is not None:
            for key in taken:
                compares += self._left.get(key) or (Compare.absent(key),)
        puts = [Put(key, entry.key.encode()) for key in taken]
        deletes = [Delete(key) for key in before if key not in after]
        return step._replace(compares=compares, ops=(*step.ops, *puts, *deletes))

    def _refusal(self, current: Mapping[str, KeyValue | None]) -> ApiError | None:
        """Return why the devices cannot be allocated; None: the write may be repeated."""
        for key, kv in current.items():
            if kv is None or not key.startswith(DEVICES):
                continue
            owner = kv.value.decode()
            unchanged = self._not_having(owner, key, kv)
            if unchanged is None:
                why = f'device {key.removeprefix(DEVICES)} is allocated to the claim "{owner}"'
                return errors.conflict(_CLAIM, name_in(self._inner.key), why)
            self._left[key] = (Compare.mod_revision_is(key, kv.mod_revision), *unchanged)
        return None

    def _not_having(self, owner: str, key: str, kv: KeyValue) -> tuple[Compare, ...] | None:
        """Return the compares that the claim that a key names has not got the device; None: it has.

        It also counts as having it while the cache is behind the key.
        """
        if owner == self._inner.key:
            return ()  # Its version is compared anyway.
        known = self._cache.get(_CLAIM, owner)
        if self._cache.revision < kv.mod_revision or (known and key in _devices(known.message)):
            return None
        revision = known.revision if known is not None else 0
        return (Compare.mod_revision_is(object_key(_CLAIM, owner), revision),)


def _devices(claim: AnyObject) -> dict[str, None]:
    """Return the keys of the devices that a claim has for itself alone."""
    assert isinstance(claim, ResourceClaim)
    return {device_key(*device): None for device in exclusive_devices(claim)}
