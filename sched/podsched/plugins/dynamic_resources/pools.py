"""Gathers the pools that a node can use (*reaches*) from ResourceSlices.

Source: GatherPools of Kubernetes v1.36 (structured/internal/incubating/pools_incubating.go).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from podsched.api.node_selectors import compile_node_selector
from podsched.plugins.dynamic_resources.model import (
    Amount,
    Device,
    Features,
    Node,
    NodeSelection,
    ResourceSlice,
)


@dataclass(slots=True)
class Pool:
    """A pool, with the devices that the node reaches; none if it is incomplete or invalid.

    ``other_slices``: slices that the node does not reach. Their devices consume the same counters.
    """

    driver: str
    name: str
    incomplete: bool = False
    invalid: bool = False
    slices: Sequence[ResourceSlice] = ()
    other_slices: Sequence[ResourceSlice] = ()
    counter_sets: Mapping[str, Mapping[str, Amount]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"

    def devices(self) -> Iterator[tuple[ResourceSlice, Device]]:
        """Yield the devices that the node reaches, with their slices."""
        for piece in self.slices:
            for device in piece.devices:
                yield piece, device

    def all_devices(self) -> Iterator[Device]:
        """Yield all devices of the pool, those of other nodes included."""
        for piece in (*self.slices, *self.other_slices):
            yield from piece.devices


def reaches(node: Node, nodes: NodeSelection) -> bool:
    """Return whether the selection contains the node."""
    if nodes.node_name:
        return nodes.node_name == node.name
    if nodes.all_nodes:
        return True
    if nodes.node_selector is None:
        return False
    return compile_node_selector(nodes.node_selector).matches(node.labels, node.name)


def gather_pools(slices: Sequence[ResourceSlice], node: Node, features: Features) -> list[Pool]:
    """Return the pools that the node reaches, in the order in which their devices are tried.

    Slices of an old generation are ignored. A pool is incomplete until all of its slices are
    published. Pools with binding conditions come last. If the slices of a pool disagree on the
    number of slices, the first one decides: slices for one node come before slices for several
    nodes.
    """
    found: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in sorted(slices, key=_is_shared):
        if _is_relevant(piece, node, features):
            _add_newest(found, piece)
    pools = [
        pool
        for (driver, name), pieces in found.items()
        if (pool := _pool(driver, name, pieces, slices, features)) is not None
    ]
    pools.sort(key=lambda pool: (_has_binding_conditions(pool), pool.driver, pool.name))
    return pools


def _is_shared(piece: ResourceSlice) -> bool:
    """Return whether several nodes may need the slice."""
    return bool(piece.shared_counters) or not piece.nodes.node_name


def _is_relevant(piece: ResourceSlice, node: Node, features: Features) -> bool:
    """Return whether a slice has devices that the node reaches, or counters that they consume."""
    if not features.partitionable_devices and (
        piece.per_device_node_selection is not None or piece.shared_counters
    ):
        return False
    if piece.shared_counters or reaches(node, piece.nodes):
        return True
    per_device = piece.per_device_node_selection and piece.nodes == NodeSelection()
    return bool(per_device) and any(reaches(node, device.nodes) for device in piece.devices)


def _add_newest(found: dict[tuple[str, str], list[ResourceSlice]], piece: ResourceSlice) -> None:
    """Add a slice to its pool unless it is outdated; a newer generation replaces the others."""
    pieces = found.setdefault((piece.driver, piece.pool), [])
    if pieces and piece.generation < pieces[0].generation:
        return
    if pieces and piece.generation > pieces[0].generation:
        pieces.clear()
    pieces.append(piece)


def _pool(
    driver: str,
    name: str,
    pieces: list[ResourceSlice],
    slices: Iterable[ResourceSlice],
    features: Features,
) -> Pool | None:
    """Return the pool; None if it has a newer generation that the node does not reach."""
    newest, expected = pieces[0].generation, pieces[0].slice_count
    others: list[ResourceSlice] = []
    # Slices that this node does not reach belong to the pool, too: without them it is incomplete.
    if len(pieces) != expected:
        of_pool = [piece for piece in slices if (piece.driver, piece.pool) == (driver, name)]
        if any(piece.generation > newest for piece in of_pool):
            return None
        current = [piece for piece in of_pool if piece.generation == newest]
        if len(current) != expected:
            return Pool(driver, name, incomplete=True)
        known = {piece.name for piece in pieces}
        others = [piece for piece in current if piece.name not in known]
    pieces.sort(key=lambda piece: piece.name)
    return _checked(Pool(driver, name, slices=pieces, other_slices=others), features)


def _checked(pool: Pool, features: Features) -> Pool:
    """Return the pool with its counters; an invalid pool has no devices."""
    invalid = Pool(pool.driver, pool.name, invalid=True)
    if not features.partitionable_devices:
        return invalid if _has_repeated_names(pool.slices) else pool
    counter_sets = [one for piece in pool.slices for one in piece.shared_counters]
    pool.slices = [piece for piece in pool.slices if not piece.shared_counters]
    pool.counter_sets = dict(counter_sets)
    known = {(name, counter) for name, counters in counter_sets for counter in counters}
    unknown = any(
        device.counter_sets - pool.counter_sets.keys() or device.counters.keys() - known
        for device in pool.all_devices()
    )
    repeated = len(pool.counter_sets) != len(counter_sets) or _has_repeated_names(pool.slices)
    return invalid if unknown or repeated else pool


def _has_repeated_names(slices: Iterable[ResourceSlice]) -> bool:
    names = [device.name for piece in slices for device in piece.devices]
    return len(names) != len(set(names))


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.binding_conditions for _, device in pool.devices())
