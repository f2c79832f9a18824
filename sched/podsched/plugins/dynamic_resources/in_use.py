"""The devices that claims of a cluster have, updated claim by claim."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Generic, TypeVar

from podsched.api.device_claims import exclusive_devices
from podsched.framework.changed_keys import ChangedKeys
from podsched.lib.groups import Groups
from podsched.plugins.dynamic_resources.documents import amount_of
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    Amount,
    DeviceID,
    InUse,
    PoolKey,
)
from podsched.v1 import objects_pb2 as v1

#: Namespace and name of a claim.
ClaimKey = tuple[str, str]
K = TypeVar("K", PoolKey, str)
#: A device, and the capacity that a share consumes of it; None if it is allocated exclusively.
Use = tuple[DeviceID, Mapping[str, Amount] | None]


def uses_of(claim: v1.ResourceClaim | None) -> Sequence[Use]:
    """Return the devices of a claim, except with admin access, which does not use up a device."""
    if claim is None or not claim.status.HasField("allocation"):
        return ()
    return [
        (
            DeviceID(result.driver, result.pool, result.device),
            {name: amount_of(amount) for name, amount in result.consumed_capacity.items()}
            if result.share_id
            else None,
        )
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    ]


class ClaimsByKey(Generic[K]):
    """Claims by keys that they have, such as the uids of their consumers."""

    def __init__(self) -> None:
        self.of_claim: dict[ClaimKey, frozenset[K]] = {}
        self._claims: Groups[K, ClaimKey, None] = Groups()

    def put(self, claim: ClaimKey, keys: Iterable[K]) -> None:
        """Set the keys of a claim."""
        for key in self.of_claim.pop(claim, ()):
            self._claims.drop(key, claim)
        if now := frozenset(keys):
            self.of_claim[claim] = now
            for key in now:
                self._claims.put(key, claim, None)

    def claims(self, key: K) -> Collection[ClaimKey]:
        """Return the claims that have a key."""
        return self._claims.of(key)


class DevicesInUse:
    """The devices in use.

    ``by_pool`` stays current; no pool in it is empty. ``touched``: the journal of pools in which
    the use of a device changed. ``consumers``: the consumers of claims with devices, by uid; the
    owner may fill it, for ``freed_by``.
    """

    def __init__(self) -> None:
        self.by_pool: dict[PoolKey, dict[str, InUse]] = {}
        self.touched: ChangedKeys[PoolKey] = ChangedKeys()
        self.consumers: ClaimsByKey[str] = ClaimsByKey()
        self._uses: dict[ClaimKey, Sequence[Use]] = {}
        self._pools: ClaimsByKey[PoolKey] = ClaimsByKey()

    def given_twice(self, claim: v1.ResourceClaim) -> DeviceID | None:
        """Return a device of a claim that another has exclusively, too, stored or assumed."""
        for device in map(DeviceID._make, exclusive_devices(claim)):
            use = self.by_pool.get(device[:2], {}).get(device.device)
            if use is not None and use.exclusive > 1:
                return device
        return None

    def put(self, claim: ClaimKey, uses: Sequence[Use]) -> None:
        """Set the devices of a claim."""
        if uses == self._uses.get(claim, ()):
            return
        for use in self._uses.pop(claim, ()):
            self._remove(*use)
        for use in uses:
            self._add(*use)
        self._pools.put(claim, (device[:2] for device, _ in uses))
        if uses:
            self._uses[claim] = uses

    def freed_by(self, gone: Set[str]) -> frozenset[ClaimKey]:
        """Return the claims whose consumers are all among the pods with these uids."""
        claims = {claim for uid in gone for claim in self.consumers.claims(uid)}
        return frozenset(claim for claim in claims if self.consumers.of_claim[claim] <= gone)

    def users(self, device: DeviceID) -> list[ClaimKey]:
        """Return the claims that have a device."""
        claims = self._pools.claims(device[:2])
        return [claim for claim in claims if any(used == device for used, _ in self._uses[claim])]

    def claims_in(self, pools: Iterable[PoolKey]) -> list[ClaimKey]:
        """Return the claims with devices of some pools."""
        found = (claim for pool in pools for claim in self._pools.claims(pool))
        return list(dict.fromkeys(found))

    def without(self, claims: Iterable[ClaimKey], pools: Iterable[PoolKey]) -> AllocatedState:
        """Return the devices in use of some pools if these claims had none."""
        left = DevicesInUse()
        for pool in pools:
            if known := self.by_pool.get(pool):
                left.by_pool[pool] = {
                    name: replace(use, capacity=use.capacity and dict(use.capacity))
                    for name, use in known.items()
                }
        for device, consumed in (use for claim in claims for use in self._uses.get(claim, ())):
            if device[:2] in left.by_pool:
                left._remove(device, consumed)
        return left.by_pool

    @property
    def claims(self) -> Set[ClaimKey]:
        """The claims that have devices."""
        return self._uses.keys()

    def of_pool(self, pool: PoolKey) -> Hashable:
        """Return a value that is equal if the same devices of a pool are in use in the same way.

        It has no pool's name, so it is equal for pools of different nodes. None: none is in use.
        """
        used = self.by_pool.get(pool)
        if used is None:
            return None
        return frozenset(
            (
                name,
                use.exclusive > 0,
                None if use.capacity is None else frozenset(use.capacity.items()),
            )
            for name, use in used.items()
        )

    def _add(self, device: DeviceID, consumed: Mapping[str, Amount] | None) -> None:
        self.by_pool.setdefault(device[:2], {}).setdefault(device.device, InUse()).add(consumed)
        self.touched.add(device[:2])

    def _remove(self, device: DeviceID, consumed: Mapping[str, Amount] | None) -> None:
        pool = self.by_pool[device[:2]]
        use = pool[device.device]
        use.remove(consumed)
        if not use.exclusive and not use.shares:
            del pool[device.device]
            if not pool:
                del self.by_pool[device[:2]]
        self.touched.add(device[:2])
