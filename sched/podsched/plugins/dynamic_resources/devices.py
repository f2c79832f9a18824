"""The devices of a cluster as allocation reads them: classes, slices by pool, and devices in use.

Objects are parsed (*read*) once: after a change, only the slices and claims that changed.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Final, NoReturn
from weakref import WeakValueDictionary

from podsched.api.device_taints import rules_for_slice, with_rules
from podsched.api.extended_resources import extended_claim_owner
from podsched.api.objects import copy_of
from podsched.framework.changed_keys import ChangedKeys
from podsched.framework.nodes import ClusterView, JournaledColumns
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.documents import (
    read_device_class,
    read_resource_claim,
    read_resource_slice,
)
from podsched.plugins.dynamic_resources.in_use import ClaimKey, ClaimsByKey, DevicesInUse, uses_of
from podsched.plugins.dynamic_resources.model import (
    DeviceClass,
    Node,
    PoolKey,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.pod_claims import CLAIM, CLASS, RULE, SLICE
from podsched.plugins.dynamic_resources.pools import reaches
from podsched.v1 import objects_pb2 as v1

#: Max claims whose serialized specs are remembered.
_MOST_SPECS: Final = 20_000
#: Slices of more bytes are read in a thread: the largest take 40 ms, smaller ones at most 2 ms.
_QUICKLY_READ: Final = 10_000
#: The number of claims that are read between two pauses; one takes 10 µs.
_CLAIMS_PER_PAUSE: Final = 100
#: Max different specs that are remembered parsed.
_MOST_PARSED: Final = 1024
#: The kinds of objects that decisions on devices read.
DEVICE_KINDS: Final = (CLAIM, CLASS, SLICE, RULE)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Content:
    """What slices have in common that differ only in the names of slice, pool and node.

    They share their devices, so selectors are evaluated once for all of them. ``number`` is never
    used again. ``is_plain``: each device is used as a whole, and by the slice's nodes.
    ``comes_last``: its pool is tried after others. ``suiting``: by the number of a kind of request,
    the names of the suitable devices, or None (see ``free_devices``).
    """

    number: int
    piece: ResourceSlice
    is_plain: bool = field(init=False)
    comes_last: bool = field(init=False)
    suiting: dict[int, frozenset[str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        piece, devices = self.piece, self.piece.devices
        self.is_plain = not (
            piece.shared_counters
            or piece.per_device_node_selection
            or any(one.counter_sets or one.allow_multiple_allocations for one in devices)
        )
        self.comes_last = any(one.binding_conditions for one in devices)


@dataclass(slots=True, eq=False)
class StoredPool:
    """A pool with its slices, ordered by name; ``contents``: theirs, in the same order.

    ``nodes``: the nodes that slices name; "" stands for slices for several nodes. ``is_simple``:
    the pool is complete and valid, all slices are for the same nodes and all contents plain.
    """

    slices: Sequence[ResourceSlice]
    contents: Sequence[Content]
    nodes: Collection[str] = field(init=False)
    is_simple: bool = field(init=False)

    def __post_init__(self) -> None:
        self.nodes = {piece.nodes.node_name for piece in self.slices}
        names = [device.name for piece in self.slices for device in piece.devices]
        versions = {(piece.generation, piece.slice_count) for piece in self.slices}
        self.is_simple = (
            len(self.nodes) == 1
            and len(versions) == 1
            and len(self.slices) == self.slices[0].slice_count
            and all(content.is_plain for content in self.contents)
            and len(set(names)) == len(names)
        )

    @property
    def comes_last(self) -> bool:
        """Whether its devices are tried after those of other pools."""
        return any(content.comes_last for content in self.contents)


@dataclass(slots=True, eq=False)
class Devices:
    """The devices of a cluster. All fields but ``classes`` are updated in place.

    ``pools_of_node``: the pools with a slice for this node only, ordered. ``changed``: the journal
    of nodes whose slices changed. In both, "" stands for slices for several nodes.
    """

    classes: Mapping[str, DeviceClass]
    classes_version: int
    in_use: DevicesInUse = field(default_factory=DevicesInUse)
    pools: dict[PoolKey, StoredPool] = field(default_factory=dict)
    pools_of_node: dict[str, list[PoolKey]] = field(default_factory=dict)
    changed: ChangedKeys[str] = field(default_factory=ChangedKeys)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, so that the state of a pod with claims stays in this process.

        It is too large to be sent to another. For 500 nodes with eight unlike devices each, it took
        80 ms to find that out, for each new class of pods.
        """
        raise TypeError("the devices of a cluster are not sent to other processes")

    def put(self, key: PoolKey, pieces: Sequence[tuple[ResourceSlice, Content]]) -> None:
        """Set the slices of a pool, ordered by name, with their contents; none remove the pool."""
        before = self.nodes_of([key])
        if pieces:
            slices, contents = zip(*pieces, strict=True)
            self.pools[key] = StoredPool(slices, contents)
        else:
            del self.pools[key]
        now = self.nodes_of([key])
        for name in before - now:
            self.pools_of_node[name].remove(key)
            if not self.pools_of_node[name]:
                del self.pools_of_node[name]
        for name in now - before:
            insort(self.pools_of_node.setdefault(name, []), key)
        for name in before | now:
            self.changed.add(name)

    def slices_for(self, node: Node) -> list[ResourceSlice]:
        """Return all slices of the pools that the node may reach."""
        return [piece for key in self.pools_for(node) for piece in self.pools[key].slices]

    def situation(self, node: Node) -> Hashable | None:
        """Return a value; on nodes with equal values the same claims fit.

        Return None if a slice selects nodes per device: comparing devices would take long.
        """
        found = []
        for key in self.pools_for(node):
            pool = self.pools[key]
            if any(piece.per_device_node_selection for piece in pool.slices):
                return None
            numbers = tuple(content.number for content in pool.contents)
            reached = tuple(reaches(node, piece.nodes) for piece in pool.slices)
            found.append((key[0], numbers, reached, self.in_use.of_pool(key)))
        return tuple(found)

    def nodes_of(self, pools: Iterable[PoolKey]) -> set[str]:
        """Return the nodes that the slices of pools name; "" for slices for several nodes."""
        return {name for key in pools if key in self.pools for name in self.pools[key].nodes}

    @property
    def position(self) -> tuple[int, int]:
        """The current position in the journals of devices in use and of slices."""
        return self.in_use.touched.position, self.changed.position

    def touched_since(self, position: tuple[int, int]) -> set[str] | None:
        """Return the nodes whose devices, or their use, changed since; None: maybe all.

        "" stands for devices of several nodes.
        """
        pools = self.in_use.touched.since(position[0])
        nodes = self.changed.since(position[1])
        if pools is None or nodes is None:
            return None
        return {*nodes, *self.nodes_of(pools)}

    def pools_for(self, node: Node) -> list[PoolKey]:
        """Return the pools that the node may reach."""
        mine, others = self.pools_of_node.get(node.name, ()), self.pools_of_node.get("", ())
        return sorted({*mine, *others}) if others else list(mine)


@dataclass(slots=True)
class SeenDevices:
    """The devices and nodes up to which values by row are current.

    ``topology``: version and size of the nodes. ``row_position`` and ``position``: in the journals
    of rows, and of the devices.
    """

    devices: Devices
    topology: tuple[int, int]
    row_position: int
    position: tuple[int, int]

    @classmethod
    def of(cls, devices: Devices, nodes: JournaledColumns) -> SeenDevices:
        """Return the current ones."""
        topology = (nodes.topology_version, nodes.size)
        return cls(devices, topology, nodes.position, devices.position)

    def changed(
        self, devices: Devices, nodes: JournaledColumns, *, reads_all: bool = True
    ) -> list[int] | None:
        """Return the rows whose node or devices changed since; None: maybe all.

        ``reads_all``: whether the values also depend on classes, and on devices of several nodes.
        """
        touched = devices.touched_since(self.position)
        is_same = self.topology == (nodes.topology_version, nodes.size)
        rows = () if is_same else nodes.changed_since(self.row_position)
        if touched is None or rows is None or devices.in_use is not self.devices.in_use:
            return None
        if reads_all and (devices is not self.devices or "" in touched):
            return None
        of_names = map(nodes.row_of, touched)
        return [*map(int, rows), *(row for row in of_names if row is not None)]


@dataclass(slots=True, eq=False)
class _Slice:
    """A stored slice, the DeviceTaintRules for its devices, and what was read from both."""

    stored: v1.ResourceSlice
    rules: tuple[v1.DeviceTaintRule, ...]
    piece: ResourceSlice
    content: Content

    @property
    def pool(self) -> PoolKey:
        return self.piece.driver, self.piece.pool


class KnownDevices:
    """Reads the devices of a cluster, and reads again only objects that changed."""

    def __init__(self, *, tracks_consumers: bool = False) -> None:
        """``tracks_consumers``: whether ``in_use`` must know the consumers of claims."""
        self._tracks_consumers = tracks_consumers
        self._numbers = itertools.count(1)
        #: By the hash of what slices hold.
        self._contents: WeakValueDictionary[bytes, Content] = WeakValueDictionary()
        self._cluster: ClusterView | None = None

    def _begin(self, cluster: ClusterView) -> None:
        """Forget everything and start with another cluster."""
        self._cluster = cluster
        self._devices = Devices({}, -1)
        self._slices: dict[str, _Slice] = {}
        #: The names of slices that changed and must be read.
        self._stale: dict[str, None] = {}
        #: A slice that was read in a thread, by name.
        self._ahead: dict[str, _Slice] = {}
        self._rules_version = -1
        #: The claims for extended resources, by the uid of the pod.
        self._extended: ClaimsByKey[str] = ClaimsByKey()
        #: The positions in the journals of slices and of claims up to which they are read.
        self._slices_position = self._claims_position = -1
        self._stale_claims: dict[ClaimKey, None] = {}

    def prepare(self, cluster: ClusterView) -> Iterator[Callable[[], object] | None]:
        """Read changed objects in steps, so that ``of`` has little left to do.

        See ``framework.plugin.PreparesPlugin``.
        """
        self._note_changes(cluster)
        yield from self.read_claims(cluster)
        while self._stale:
            name = next(iter(self._stale))
            stored: v1.ResourceSlice | None = cluster.get(SLICE, "", name)
            if stored is not None and stored.ByteSize() > _QUICKLY_READ:
                yield partial(self._read_ahead, stored, rules_for_slice(cluster.list(RULE), stored))
            self._read_next(cluster)
            yield None
            self._note_changes(cluster)

    def of(self, cluster: ClusterView) -> Devices:
        """Return the current devices; devices of assumed allocations are in use."""
        for _ in self.prepare(cluster):
            pass
        return self._devices

    def in_use(self, cluster: ClusterView) -> DevicesInUse:
        """Return the devices in use; this reads changed claims, but no slices."""
        for _ in self.read_claims(cluster):
            pass
        return self._devices.in_use

    def extended_claims(self, pod: PodInfo, cluster: ClusterView) -> list[v1.ResourceClaim]:
        """Return the claims that are stored for the extended resources of a pod."""
        self.in_use(cluster)
        stored = (cluster.get(CLAIM, *name) for name in self._extended.claims(pod.uid))
        return [claim for claim in stored if claim is not None]

    def _note_changes(self, cluster: ClusterView) -> None:
        if cluster is not self._cluster:
            self._begin(cluster)
        classes = cluster.version(CLASS)
        if classes != self._devices.classes_version:
            read = map(read_device_class, cluster.list(CLASS))
            by_name = {device_class.name: device_class for device_class in read}
            self._devices = replace(self._devices, classes=by_name, classes_version=classes)
        slices, rules = cluster.assumed(SLICE), cluster.version(RULE)
        changed = slices.changed_since(self._slices_position)
        if changed is None or rules != self._rules_version:
            self._stale.update(dict.fromkeys(self._slices))
            self._stale.update((piece.metadata.name, None) for piece in cluster.list(SLICE))
        else:
            self._stale.update((name, None) for _, name in changed)
        # What is still to be read stays in ``_stale``, so a caller may stop at any pause.
        self._slices_position, self._rules_version = slices.position, rules

    def _read_next(self, cluster: ClusterView) -> None:
        """Read the next slice that changed, unless that was done ahead."""
        name = next(iter(self._stale), None)
        if name is None:
            return
        stored: v1.ResourceSlice | None = cluster.get(SLICE, "", name)
        known = self._slices.get(name)
        rules: tuple[v1.DeviceTaintRule, ...] = ()
        if stored is not None:
            rules = rules_for_slice(cluster.list(RULE), stored)
        if known is None or known.stored is not stored or known.rules != rules:
            read = self._ahead.pop(name, None)
            if stored is None:
                read = None
            elif read is None or read.stored is not stored or read.rules != rules:
                read = self._read(stored, rules)
            self._replace(name, known, read)
        del self._stale[name]

    def _read_ahead(self, stored: v1.ResourceSlice, rules: tuple[v1.DeviceTaintRule, ...]) -> None:
        self._ahead = {stored.metadata.name: self._read(stored, rules)}

    def _read(self, stored: v1.ResourceSlice, rules: tuple[v1.DeviceTaintRule, ...]) -> _Slice:
        message = with_rules(stored, rules) if rules else stored
        spec = copy_of(message.spec)
        spec.ClearField("node_name")
        spec.pool.ClearField("name")
        key = sha256(spec.SerializeToString(deterministic=True)).digest()
        content = self._contents.get(key)
        if content is None:
            piece = read_resource_slice(message)
            content = self._contents[key] = Content(next(self._numbers), piece)
        piece = replace(
            content.piece,
            name=stored.metadata.name,
            pool=stored.spec.pool.name,
            nodes=replace(content.piece.nodes, node_name=stored.spec.node_name),
        )
        return _Slice(stored, rules, piece, content)

    def _replace(self, name: str, known: _Slice | None, read: _Slice | None) -> None:
        if known is not None:
            del self._slices[name]
        if read is not None:
            self._slices[name] = read
        for key in dict.fromkeys(one.pool for one in (known, read) if one is not None):
            stored = self._devices.pools.get(key)
            names = {name, *(piece.name for piece in stored.slices)} if stored else {name}
            pieces = [self._slices[each] for each in sorted(names & self._slices.keys())]
            mine = [(each.piece, each.content) for each in pieces if each.pool == key]
            self._devices.put(key, mine)

    def read_claims(self, cluster: ClusterView) -> Iterator[None]:
        """Read the claims that changed, with pauses about every millisecond."""
        if cluster is not self._cluster:
            self._begin(cluster)
        assumed = cluster.assumed(CLAIM)
        changed = assumed.changed_since(self._claims_position)
        in_use = self._devices.in_use
        if changed is None:
            metas = [claim.metadata for claim in (*cluster.list(CLAIM), *assumed.assumed())]
            changed = {(meta.namespace, meta.name) for meta in metas}
            changed |= in_use.claims | self._extended.of_claim.keys()
        self._claims_position = assumed.position
        self._stale_claims.update(dict.fromkeys(changed))
        while self._stale_claims:
            name, _ = self._stale_claims.popitem()
            claim = assumed.get(*name)
            uses = uses_of(claim)
            in_use.put(name, uses)
            if self._tracks_consumers:
                consumers = claim.status.reserved_for if claim is not None and uses else ()
                in_use.consumers.put(name, (consumer.uid for consumer in consumers))
            owner = "" if claim is None else extended_claim_owner(claim)
            self._extended.put(name, [owner] if owner else ())
            if len(self._stale_claims) % _CLAIMS_PER_PAUSE == 1:
                yield


class KnownClaims:
    """Reads claims; claims with equal specs are read once."""

    def __init__(self) -> None:
        self._known: dict[bytes, ResourceClaim] = {}
        self._specs: dict[tuple[str, str], tuple[v1.ResourceClaim, bytes]] = {}

    def spec(self, message: v1.ResourceClaim) -> bytes:
        """Return a claim's serialized spec; it is equal for claims with equal specs."""
        key = (message.metadata.namespace, message.metadata.name)
        known = self._specs.get(key)
        if known is None or known[0] is not message:
            if len(self._specs) >= _MOST_SPECS:
                self._specs.clear()
            spec = message.spec.SerializeToString(deterministic=True)
            known = self._specs[key] = (message, spec)
        return known[1]

    def read(self, message: v1.ResourceClaim) -> ResourceClaim:
        """Return a claim as the allocator reads it."""
        spec = self.spec(message)
        found = self._known.get(spec)
        if found is None:
            if len(self._known) >= _MOST_PARSED:
                self._known.clear()
            found = self._known[spec] = read_resource_claim(message)
        return replace(found, namespace=message.metadata.namespace, name=message.metadata.name)
