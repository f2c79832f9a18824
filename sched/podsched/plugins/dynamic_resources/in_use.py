"""The devices that claims of a cluster have, updated claim by claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence, Set
from typing import Any, Final, Generic, TypeVar

from podsched.framework.changed_keys import ChangedKeys
from podsched.framework.nodes import ClusterView
from podsched.lib.counted import listed
from podsched.plugins.dynamic_resources.documents import amount_of
from podsched.plugins.dynamic_resources.model import AllocatedState, Amount, DeviceID
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.v1 import objects_pb2 as v1

#: Max pods that are named in the text about a claim.
_MOST_PODS: Final = 2
#: Driver and name of a pool.
PoolKey = tuple[str, str]
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
        self._claims: dict[K, dict[ClaimKey, None]] = {}

    def put(self, claim: ClaimKey, keys: Iterable[K]) -> None:
        """Set the keys of a claim."""
        for key in self.of_claim.pop(claim, ()):
            del self._claims[key][claim]
            if not self._claims[key]:
                del self._claims[key]
        if now := frozenset(keys):
            self.of_claim[claim] = now
            for key in now:
                self._claims.setdefault(key, {})[claim] = None

    def claims(self, key: K) -> Collection[ClaimKey]:
        """Return the claims that have a key."""
        return self._claims.get(key, ())


class DevicesInUse:
    """The devices in use; ``allocated`` is a view that stays current.

    ``changed`` is called with each device whose use changed.
    """

    def __init__(self) -> None:
        self._exclusive: dict[DeviceID, int] = {}
        #: The number of shares of each device, and the capacity that they consume together.
        self._shares: dict[DeviceID, int] = {}
        self._capacity: dict[DeviceID, dict[str, Amount]] = {}
        self._names: dict[PoolKey, set[str]] = {}
        self._of_pool: dict[PoolKey, Hashable] = {}
        self._uses: dict[ClaimKey, Sequence[Use]] = {}
        self._pools: ClaimsByKey[PoolKey] = ClaimsByKey()
        #: The consumers of claims with devices, by uid; the owner may fill it, for ``freed_by``.
        self.consumers: ClaimsByKey[str] = ClaimsByKey()
        #: The journal of pools in which the use of a device changed.
        self._touched: ChangedKeys[PoolKey] = ChangedKeys()
        self.changed: Callable[[DeviceID], None] = _ignore
        self.allocated = AllocatedState(self._exclusive, self._shares, self._capacity)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without ``changed``: in another process nothing changes."""
        return self.__dict__ | {"changed": _ignore}

    def __contains__(self, device: DeviceID) -> bool:
        """Return whether a device is allocated exclusively."""
        return device in self._exclusive

    def is_given_twice(self, device: DeviceID) -> bool:
        """Return whether two claims have a device exclusively, stored or assumed."""
        return self._exclusive.get(device, 0) > 1

    def is_shared(self, device: DeviceID) -> bool:
        """Return whether shares of a device are allocated."""
        return device in self._shares

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
        left._names = {pool: set(self._names[pool]) for pool in pools if pool in self._names}
        devices = [DeviceID(*pool, name) for pool, names in left._names.items() for name in names]
        left._exclusive = {
            device: self._exclusive[device] for device in devices if device in self._exclusive
        }
        left._shares = {
            device: self._shares[device] for device in devices if device in self._shares
        }
        left._capacity = {device: dict(self._capacity[device]) for device in left._shares}
        for device, consumed in (use for claim in claims for use in self._uses.get(claim, ())):
            if device[:2] in left._names:
                left._remove(device, consumed)
        return AllocatedState(left._exclusive, left._shares, left._capacity)

    @property
    def claims(self) -> Set[tuple[str, str]]:
        """The claims that have devices, by namespace and name."""
        return self._uses.keys()

    @property
    def position(self) -> int:
        """The current position in the journal of pools."""
        return self._touched.position

    def touched_since(self, position: int) -> Collection[PoolKey] | None:
        """Return the pools in which the use of devices changed since; None: maybe all."""
        return self._touched.since(position)

    def of_pool(self, pool: PoolKey) -> Hashable:
        """Return a value that is equal if the same devices of a pool are in use in the same way.

        It has no pool's name, so it is equal for pools of different nodes. None: none is in use.
        """
        names = self._names.get(pool)
        if not names:
            return None
        found = self._of_pool.get(pool)
        if found is None:
            found = self._of_pool[pool] = frozenset(
                (name, self._use_of(DeviceID(*pool, name))) for name in names
            )
        return found

    def _use_of(self, device: DeviceID) -> Hashable:
        capacity = self._capacity.get(device)
        shares = None if capacity is None else frozenset(capacity.items())
        return device in self._exclusive, shares

    def _add(self, device: DeviceID, consumed: Mapping[str, Amount] | None) -> None:
        self._names.setdefault(device[:2], set()).add(device.device)
        if consumed is None:
            self._exclusive[device] = self._exclusive.get(device, 0) + 1
        else:
            self._shares[device] = self._shares.get(device, 0) + 1
            amounts = self._capacity.setdefault(device, {})
            for name, amount in consumed.items():
                amounts[name] = amounts.get(name, 0) + amount
        self._note(device)

    def _remove(self, device: DeviceID, consumed: Mapping[str, Amount] | None) -> None:
        if consumed is not None:
            self._remove_share(device, consumed)
        elif self._exclusive[device] > 1:
            self._exclusive[device] -= 1
        else:
            del self._exclusive[device]
        if device not in self._exclusive and device not in self._shares:
            names = self._names[device[:2]]
            names.discard(device.device)
            if not names:
                del self._names[device[:2]]
        self._note(device)

    def _remove_share(self, device: DeviceID, consumed: Mapping[str, Amount]) -> None:
        self._shares[device] -= 1
        if not self._shares[device]:
            del self._shares[device], self._capacity[device]
            return
        amounts = self._capacity[device]
        for name, amount in consumed.items():
            amounts[name] -= amount

    def _note(self, device: DeviceID) -> None:
        self._of_pool.pop(device[:2], None)
        self._touched.add(device[:2])
        self.changed(device)


def users_of_devices(in_use: DevicesInUse, cluster: ClusterView) -> Callable[[DeviceID], str]:
    """Return a function that returns a text with the claims and pods that use a device."""

    def users(device: DeviceID) -> str:
        claims = (cluster.assumed(CLAIM).get(*key) for key in in_use.users(device))
        return ", ".join(_user(claim) for claim in claims if claim is not None)

    return users


def _user(claim: v1.ResourceClaim) -> str:
    pods = [consumer.name for consumer in claim.status.reserved_for]
    shown = listed(pods, _MOST_PODS)
    name = f"in use by claim {claim.metadata.namespace}/{claim.metadata.name}"
    return f"{name} for pod{'s' if len(pods) > 1 else ''} {shown}" if shown else name


def _ignore(device: DeviceID) -> None:
    return None
