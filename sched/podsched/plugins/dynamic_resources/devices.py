"""The devices of a cluster as allocation reads them: classes, slices by pool, and what is in use.

Each object is read once for each of its versions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from podsched.api.manifest import to_manifest
from podsched.api.quantity import parse
from podsched.framework.nodes import ClusterView
from podsched.plugins.dynamic_resources.documents import (
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    DeviceClass,
    DeviceID,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, CLASS, SLICE
from podsched.plugins.dynamic_resources.pools import reaches
from podsched.v1 import objects_pb2 as v1

Read = TypeVar("Read")

#: Max contents of slices that are remembered; their numbers are never used again.
_MOST_CONTENTS = 20_000

#: Driver and name of a pool.
PoolKey = tuple[str, str]
#: A device, and what a share consumes of it; None if it is allocated exclusively.
_Use = tuple[DeviceID, Mapping[str, Fraction] | None]


class _ReadObjects(Generic[Read]):
    """What was read of the objects of a kind, as long as they do not change."""

    def __init__(self, read: Callable[[Any], Read]) -> None:
        self._read = read
        self._known: dict[tuple[str, str], tuple[Any, Read]] = {}

    def all(self, messages: Iterable[Any]) -> list[Read]:
        """Return what is read of all objects; forget all others."""
        before, self._known = self._known, {}
        for message in messages:
            key = (message.metadata.namespace, message.metadata.name)
            known = before.get(key)
            if known is None or known[0] is not message:
                known = (message, self._read(message))
            self._known[key] = known
        return [read for _, read in self._known.values()]


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a cluster at one time; plain data.

    ``contents``: of each slice a number for what it holds apart from the names of itself, its pool
    and its node. ``pools_of_node``: pools with slices of one node. ``other_pools``: pools with
    slices that several nodes may reach. ``in_use``: of a pool, which devices are taken and how.
    """

    classes: Mapping[str, DeviceClass]
    classes_version: int
    pools: Mapping[PoolKey, Sequence[ResourceSlice]]
    contents: Mapping[PoolKey, Sequence[int]]
    pools_of_node: Mapping[str, Sequence[PoolKey]]
    other_pools: Sequence[PoolKey]
    allocated: AllocatedState
    in_use: Mapping[PoolKey, Hashable]

    def slices_for(self, node: Node) -> list[ResourceSlice]:
        """Return all slices of the pools that the node may reach."""
        return [piece for key in self._pools_for(node) for piece in self.pools[key]]

    def situation(self, node: Node) -> Hashable | None:
        """Return a value that is equal for nodes on which the same claims fit.

        None if devices of the same slice may differ in the nodes that they can be used from.
        """
        found = []
        for key in self._pools_for(node):
            slices = self.pools[key]
            if any(piece.per_device_node_selection for piece in slices):
                return None
            reached = tuple(reaches(node, piece.nodes) for piece in slices)
            found.append((key[0], self.contents[key], reached, self.in_use.get(key)))
        return tuple(found)

    def _pools_for(self, node: Node) -> list[PoolKey]:
        mine = self.pools_of_node.get(node.name, ())
        return sorted({*mine, *self.other_pools}) if self.other_pools else list(mine)


class KnownDevices:
    """Reads the devices of a cluster, again when they have changed."""

    def __init__(self) -> None:
        self._classes = _ReadObjects(lambda of: read_device_class(to_manifest(of)))
        self._slices = _ReadObjects(self._read_slice)
        self._uses = _ReadObjects(_uses)
        self._numbers = itertools.count(1)
        self._contents: dict[bytes, int] = {}
        self._found: tuple[Hashable, Devices] | None = None

    def of(self, cluster: ClusterView) -> Devices:
        """Return the devices now; assumed allocations are in use."""
        assumed = cluster.assumed(CLAIM)
        kinds = (CLAIM, CLASS, SLICE)
        version = (id(cluster), assumed.version, *(cluster.version(kind) for kind in kinds))
        if self._found is None or self._found[0] != version:
            self._found = (version, self._read(cluster))
        return self._found[1]

    def _read(self, cluster: ClusterView) -> Devices:
        pools: dict[PoolKey, list[tuple[ResourceSlice, int]]] = {}
        of_node: dict[str, dict[PoolKey, None]] = {}
        others: dict[PoolKey, None] = {}
        for piece, number in self._slices.all(cluster.list(SLICE)):
            key = (piece.driver, piece.pool)
            pools.setdefault(key, []).append((piece, number))
            if piece.nodes.node_name:
                of_node.setdefault(piece.nodes.node_name, {})[key] = None
            else:
                others[key] = None
        for pieces in pools.values():
            pieces.sort(key=lambda entry: entry[0].name)
        uses = self._uses.all(_claims_now(cluster))
        return Devices(
            {of.name: of for of in self._classes.all(cluster.list(CLASS))},
            cluster.version(CLASS),
            {key: [piece for piece, _ in pieces] for key, pieces in pools.items()},
            {key: tuple(number for _, number in pieces) for key, pieces in pools.items()},
            {name: sorted(keys) for name, keys in of_node.items()},
            sorted(others),
            *_in_use(itertools.chain.from_iterable(uses)),
        )

    def _read_slice(self, message: v1.ResourceSlice) -> tuple[ResourceSlice, int]:
        spec = v1.ResourceSliceSpec()
        spec.CopyFrom(message.spec)
        spec.ClearField("node_name")
        spec.pool.ClearField("name")
        content = spec.SerializeToString(deterministic=True)
        if len(self._contents) >= _MOST_CONTENTS:
            self._contents.clear()
        number = self._contents.get(content)
        if number is None:
            number = self._contents[content] = next(self._numbers)
        return read_resource_slice(to_manifest(message)), number


def read_claim(message: v1.ResourceClaim) -> ResourceClaim:
    """Return what a claim asks for."""
    return read_resource_claim(to_manifest(message))


def _claims_now(cluster: ClusterView) -> Iterator[v1.ResourceClaim]:
    """Yield all claims that are allocated, assumed allocations included."""
    changed = {
        (claim.metadata.namespace, claim.metadata.name): claim
        for claim in cluster.assumed(CLAIM).assumed()
    }
    for stored in cluster.list(CLAIM):
        key = (stored.metadata.namespace, stored.metadata.name)
        claim = changed.get(key, stored) if changed else stored
        if claim.status.HasField("allocation"):
            yield claim


def _uses(claim: v1.ResourceClaim) -> Sequence[_Use]:
    """Return the devices of a claim, without those for administrators, who only look on."""
    return [
        (
            DeviceID(result.driver, result.pool, result.device),
            {name: parse(of) for name, of in result.consumed_capacity.items()}
            if result.share_id
            else None,
        )
        for result in claim.status.allocation.devices.results
        if not result.admin_access
    ]


def _in_use(uses: Iterable[_Use]) -> tuple[AllocatedState, dict[PoolKey, Hashable]]:
    exclusive: set[DeviceID] = set()
    capacity: dict[DeviceID, dict[str, Fraction]] = {}
    for device, consumed in uses:
        if consumed is None:
            exclusive.add(device)
            continue
        amounts = capacity.setdefault(device, {})
        for name, amount in consumed.items():
            amounts[name] = amounts.get(name, Fraction()) + amount
    by_pool: dict[PoolKey, list[Hashable]] = {}
    for device in exclusive:
        by_pool.setdefault(device[:2], []).append(device.device)
    for device, amounts in capacity.items():
        use = (device.device, frozenset(amounts.items()))
        by_pool.setdefault(device[:2], []).append(use)
    state = AllocatedState(frozenset(exclusive), frozenset(capacity), capacity)
    return state, {key: frozenset(taken) for key, taken in by_pool.items()}
