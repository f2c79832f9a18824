"""A further node like an existing one, with devices of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from podsched.api import objects as o
from podsched.api.node_labels import HOSTNAME

#: A pool of devices: driver, name and generation.
_Pool = tuple[str, str, int]


def copy_of_node(node: o.Node, name: str) -> o.Node:
    """Return a copy with another name and host name that is not cordoned."""
    copy = o.copy_of(node)
    copy.metadata.name, copy.metadata.uid = name, f"uid-of-copy-{name}"
    if HOSTNAME in copy.metadata.labels:
        copy.metadata.labels[HOSTNAME] = name
    copy.spec.unschedulable = False
    return copy


class NodeDevices:
    """The slices of devices that single nodes reach, by the name of the node."""

    def __init__(self, slices: Iterable[o.ResourceSlice]) -> None:
        self._of_node: dict[str, list[o.ResourceSlice]] = {}
        self._sizes: Counter[_Pool] = Counter()
        for piece in slices:
            self._sizes[_pool(piece)] += 1
            if piece.spec.node_name:
                self._of_node.setdefault(piece.spec.node_name, []).append(piece)

    def of(self, name: str) -> Sequence[o.ResourceSlice]:
        """Return the slices that only the node of this name reaches."""
        return self._of_node.get(name, ())

    def copies(self, like: str, name: str) -> list[o.ResourceSlice]:
        """Return copies of a node's slices for a further node, in pools of their own."""
        mine = self.of(like)
        counts = Counter(map(_pool, mine))
        copies = []
        for piece in mine:
            copy = o.copy_of(piece)
            copy.metadata.name = f"{piece.metadata.name}-of-{name}"
            copy.metadata.uid = f"uid-of-copy-{copy.metadata.name}"
            copy.spec.node_name = name
            pool = copy.spec.pool
            pool.name = name if pool.name == like else f"{pool.name}-of-{name}"
            # Slices of the pool that other nodes reach are not copied.
            pool.resource_slice_count -= self._sizes[_pool(piece)] - counts[_pool(piece)]
            copies.append(copy)
        return copies


def _pool(piece: o.ResourceSlice) -> _Pool:
    return piece.spec.driver, piece.spec.pool.name, piece.spec.pool.generation
