"""The devices of a cluster as allocation reads them: classes, slices by pool, and what is in use.

Each object is read once for each of its versions. Of claims, only those that changed are read.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from podsched.api.device_taints import rules_for_slice, with_rules
from podsched.api.manifest import to_manifest
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.documents import (
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from podsched.plugins.dynamic_resources.extended_claims import owner_of_extended_claim
from podsched.plugins.dynamic_resources.free_devices import FreeDevices, KnownPools
from podsched.plugins.dynamic_resources.in_use import DevicesInUse, PoolKey, uses_of
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    DeviceClass,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, CLASS, RULE, SLICE
from podsched.plugins.dynamic_resources.pools import reaches
from podsched.v1 import objects_pb2 as v1

Read = TypeVar("Read")

#: Max contents of slices that are remembered; their numbers are never used again.
_MOST_CONTENTS: Final = 20_000
#: Max kinds of claims whose specs are remembered.
_MOST_KINDS: Final = 1024
#: The kinds that decisions on devices read.
DEVICE_KINDS: Final = (CLAIM, CLASS, SLICE, RULE)


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

    def knows(self, message: Any) -> bool:
        """Whether an object was read."""
        known = self._known.get((message.metadata.namespace, message.metadata.name))
        return known is not None and known[0] is message

    def one(self, message: Any) -> Read:
        """Return what is read of an object."""
        key = (message.metadata.namespace, message.metadata.name)
        if not self.knows(message):
            self._known[key] = (message, self._read(message))
        return self._known[key][1]


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of a cluster; ``in_use`` stays current, the rest is as of one time.

    ``contents``: of each slice a number for what it holds apart from the names of itself, its pool
    and its node. ``pools_of_node``: pools with slices of one node. ``other_pools``: pools with
    slices that several nodes may reach.
    """

    classes: Mapping[str, DeviceClass]
    classes_version: int
    pools: Mapping[PoolKey, Sequence[ResourceSlice]]
    contents: Mapping[PoolKey, Sequence[int]]
    pools_of_node: Mapping[str, Sequence[PoolKey]]
    other_pools: Sequence[PoolKey]
    in_use: DevicesInUse

    @property
    def allocated(self) -> AllocatedState:
        """The devices in use."""
        return self.in_use.allocated

    def slices_for(self, node: Node) -> list[ResourceSlice]:
        """Return all slices of the pools that the node may reach."""
        return [piece for key in self.pools_for(node) for piece in self.pools[key]]

    def situation(self, node: Node) -> Hashable | None:
        """Return a value that is equal for nodes on which the same claims fit.

        None if devices of the same slice may differ in the nodes that they can be used from.
        """
        found = []
        for key in self.pools_for(node):
            slices = self.pools[key]
            if any(piece.per_device_node_selection for piece in slices):
                return None
            reached = tuple(reaches(node, piece.nodes) for piece in slices)
            found.append((key[0], self.contents[key], reached, self.in_use.of_pool(key)))
        return tuple(found)

    def nodes_of(self, pool: PoolKey) -> set[str]:
        """Return the nodes that the slices of a pool name; "" for slices of several nodes."""
        return {piece.nodes.node_name for piece in self.pools.get(pool, ())}

    def pools_for(self, node: Node) -> list[PoolKey]:
        """Return the pools that the node may reach."""
        mine = self.pools_of_node.get(node.name, ())
        return sorted({*mine, *self.other_pools}) if self.other_pools else list(mine)


class _TaintedSlices:
    """The slices with the taints that DeviceTaintRules add to their devices."""

    def __init__(self) -> None:
        #: By name: the slice as it is stored, the rules that select devices of it, and the result.
        self._known: dict[str, tuple[v1.ResourceSlice, tuple[Any, ...], v1.ResourceSlice]] = {}

    def all(self, cluster: ClusterView) -> Iterable[v1.ResourceSlice]:
        """Return all slices: the same objects as long as neither they nor their rules change."""
        slices: Sequence[v1.ResourceSlice] = cluster.list(SLICE)
        rules: Sequence[v1.DeviceTaintRule] = cluster.list(RULE)
        if not rules:
            self._known.clear()
            return slices
        before, self._known = self._known, {}
        return [self._with_rules(piece, rules, before) for piece in slices]

    def _with_rules(
        self,
        piece: v1.ResourceSlice,
        rules: Sequence[v1.DeviceTaintRule],
        before: Mapping[str, Any],
    ) -> v1.ResourceSlice:
        applied = rules_for_slice(rules, piece)
        if not applied:
            return piece
        name = piece.metadata.name
        known = before.get(name)
        if known is None or known[0] is not piece or known[1] != applied:
            known = (piece, applied, with_rules(piece, applied))
        self._known[name] = known
        made: v1.ResourceSlice = known[2]
        return made


class KnownDevices:
    """Reads the devices of a cluster, again when they have changed."""

    def __init__(
        self, compile_selector: SelectorCompiler, *, tracks_consumers: bool = False
    ) -> None:
        """``tracks_consumers``: whether ``in_use`` has to know who uses which claim."""
        self._compile = compile_selector
        self._tracks_consumers = tracks_consumers
        self._classes = _ReadObjects(lambda of: read_device_class(to_manifest(of)))
        self._tainted = _TaintedSlices()
        self._slices = _ReadObjects(self._read_slice)
        self._numbers = itertools.count(1)
        self._contents: dict[bytes, int] = {}
        self._found: tuple[Hashable, Devices] | None = None
        self._cluster: ClusterView | None = None
        self._in_use = DevicesInUse()
        #: The claims for extended resources, by the uid of the pod, and the uids by claim.
        self._extended: dict[str, dict[tuple[str, str], None]] = {}
        self._owners: dict[tuple[str, str], str] = {}
        #: The position in the journal of claims up to which they are read.
        self._position = 0
        self._free: FreeDevices | None = None
        self._known_pools = KnownPools()

    def prepare(self, cluster: ClusterView) -> Iterator[None]:
        """Read in steps what has changed, so that ``of`` has little left to do."""
        version = tuple(cluster.version(kind) for kind in (CLASS, SLICE, RULE))
        if self._found is not None and self._found[0] == version and self._cluster is cluster:
            return
        pools: dict[PoolKey, list[ResourceSlice]] = {}
        for message in self._tainted.all(cluster):
            if not self._slices.knows(message):
                yield
            piece, _ = self._slices.one(message)
            pools.setdefault((piece.driver, piece.pool), []).append(piece)
        for key, pieces in pools.items():
            pieces.sort(key=lambda piece: piece.name)
            if not self._known_pools.knows(key, pieces):
                self._known_pools.pool(key, pieces)
                yield

    def of(self, cluster: ClusterView) -> Devices:
        """Return the devices now; assumed allocations are in use."""
        self._read_claims(cluster)
        version = tuple(cluster.version(kind) for kind in (CLASS, SLICE, RULE))
        if self._found is None or self._found[0] != version:
            self._found = (version, self._read(cluster))
            devices = self._found[1]
            self._free = FreeDevices(
                devices.pools, devices.classes, self._in_use, self._compile, self._known_pools
            )
        return self._found[1]

    def free(self, cluster: ClusterView) -> FreeDevices:
        """Return the numbers of free devices now."""
        self.of(cluster)
        assert self._free is not None
        return self._free

    def _read_claims(self, cluster: ClusterView) -> None:
        """Catch up with the claims that have changed."""
        assumed = cluster.assumed(CLAIM)
        changed = assumed.changed_since(self._position) if cluster is self._cluster else None
        if changed is None:
            self._cluster, self._found, self._in_use = cluster, None, DevicesInUse()
            self._extended, self._owners = {}, {}
            metas = [claim.metadata for claim in (*cluster.list(CLAIM), *assumed.assumed())]
            changed = dict.fromkeys((meta.namespace, meta.name) for meta in metas)
        self._position = assumed.position
        for name in changed:
            claim = assumed.get(*name)
            uses = uses_of(claim)
            self._in_use.put(name, uses)
            if self._tracks_consumers:
                consumers = claim.status.reserved_for if claim is not None and uses else ()
                self._in_use.reserve(name, frozenset(of.uid for of in consumers))
            self._note_owner(name, "" if claim is None else owner_of_extended_claim(claim))

    def _note_owner(self, claim: tuple[str, str], owner: str) -> None:
        """Note for which pod's extended resources a claim was made; "" for none."""
        before = self._owners.pop(claim, "")
        if before:
            del self._extended[before][claim]
            if not self._extended[before]:
                del self._extended[before]
        if owner:
            self._owners[claim] = owner
            self._extended.setdefault(owner, {})[claim] = None

    def extended_claims(self, pod: PodInfo, cluster: ClusterView) -> list[v1.ResourceClaim]:
        """Return the claims that are stored for the extended resources of a pod."""
        self._read_claims(cluster)
        stored = (cluster.get(CLAIM, *name) for name in self._extended.get(pod.uid, ()))
        return [claim for claim in stored if claim is not None]

    def _read(self, cluster: ClusterView) -> Devices:
        pools: dict[PoolKey, list[tuple[ResourceSlice, int]]] = {}
        of_node: dict[str, dict[PoolKey, None]] = {}
        others: dict[PoolKey, None] = {}
        for piece, number in self._slices.all(self._tainted.all(cluster)):
            key = (piece.driver, piece.pool)
            pools.setdefault(key, []).append((piece, number))
            if piece.nodes.node_name:
                of_node.setdefault(piece.nodes.node_name, {})[key] = None
            else:
                others[key] = None
        for pieces in pools.values():
            pieces.sort(key=lambda entry: entry[0].name)
        return Devices(
            {of.name: of for of in self._classes.all(cluster.list(CLASS))},
            cluster.version(CLASS),
            {key: [piece for piece, _ in pieces] for key, pieces in pools.items()},
            {key: tuple(number for _, number in pieces) for key, pieces in pools.items()},
            {name: sorted(keys) for name, keys in of_node.items()},
            sorted(others),
            self._in_use,
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


class KnownClaims:
    """What claims ask for; claims of equal specs are read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, ResourceClaim] = {}
        self._specs: dict[tuple[str, str], tuple[v1.ResourceClaim, bytes]] = {}

    def spec(self, message: v1.ResourceClaim) -> bytes:
        """Return a claim's spec, serialized, by which it can be compared."""
        key = (message.metadata.namespace, message.metadata.name)
        known = self._specs.get(key)
        if known is None or known[0] is not message:
            if len(self._specs) >= _MOST_CONTENTS:
                self._specs.clear()
            spec = message.spec.SerializeToString(deterministic=True)
            known = self._specs[key] = (message, spec)
        return known[1]

    def read(self, message: v1.ResourceClaim) -> ResourceClaim:
        """Return what a claim asks for."""
        spec = self.spec(message)
        found = self._known.get(spec)
        if found is None:
            if len(self._known) >= _MOST_KINDS:
                self._known.clear()
            found = self._known[spec] = read_resource_claim(to_manifest(message))
        return replace(found, namespace=message.metadata.namespace, name=message.metadata.name)
