"""A further node like an existing one, with devices and pods of DaemonSets of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from podsched.api import objects as o
from podsched.api.conditions import is_finished
from podsched.api.node_labels import HOSTNAME
from podsched.api.owners import controller_of
from podsched.lib.groups import lists_by_key

#: Begins the keys of taints of a node's state, such as not-ready, which a new node has not.
_TROUBLE: Final = "node.kubernetes.io/"
_DAEMON_SET: Final = "DaemonSet"
#: A pool of devices: driver, name and generation.
_Pool = tuple[str, str, int]


def copy_of_node(node: o.Node, name: str) -> o.Node:
    """Return a copy with another name and host name that is ready and not cordoned."""
    copy = o.copy_of(node)
    copy.metadata.name, copy.metadata.uid = name, f"uid-of-copy-{name}"
    if HOSTNAME in copy.metadata.labels:
        copy.metadata.labels[HOSTNAME] = name
    copy.spec.unschedulable = False
    taints = [taint for taint in node.spec.taints if not taint.key.startswith(_TROUBLE)]
    del copy.spec.taints[:]
    copy.spec.taints.extend(taints)
    return copy


class NodeDevices:
    """The slices of devices that single nodes reach, by the name of the node."""

    def __init__(self, slices: Collection[o.ResourceSlice]) -> None:
        self._sizes = Counter(map(_pool, slices))
        named = ((piece.spec.node_name, piece) for piece in slices if piece.spec.node_name)
        self._of_node = lists_by_key(named)

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


class NodeParts:
    """What comes with single nodes: slices of devices, CSINodes, and pods of DaemonSets."""

    def __init__(self, objects: Iterable[o.AnyObject]) -> None:
        slices: list[o.ResourceSlice] = []
        self._csi_nodes: dict[str, o.CSINode] = {}
        self._daemons: dict[str, list[o.Pod]] = {}
        for item in objects:
            if isinstance(item, o.ResourceSlice):
                slices.append(item)
            elif isinstance(item, o.CSINode):
                self._csi_nodes[item.metadata.name] = item
            elif isinstance(item, o.Pod) and _is_daemon(item) and not is_finished(item):
                self._daemons.setdefault(item.spec.node_name, []).append(item)
        self._devices = NodeDevices(slices)

    def of(self, name: str) -> list[o.AnyObject]:
        """Return what comes with the node of this name."""
        csi_node = self._csi_nodes.get(name)
        daemons = self._daemons.get(name, ())
        return [*self._devices.of(name), *([csi_node] if csi_node else ()), *daemons]

    def copies(self, like: str, name: str) -> list[o.AnyObject]:
        """Return copies of what comes with a node, for a further node."""
        made: list[o.AnyObject] = [*self._devices.copies(like, name)]
        if like in self._csi_nodes:
            csi_node = o.copy_of(self._csi_nodes[like])
            csi_node.metadata.name, csi_node.metadata.uid = name, f"uid-of-copy-{name}"
            made.append(csi_node)
        for pod in self._daemons.get(like, ()):
            daemon = o.copy_of(pod)
            daemon.metadata.name = f"{pod.metadata.name}-on-{name}"
            daemon.metadata.uid = f"{pod.metadata.uid}-on-{name}"
            daemon.spec.node_name = name
            made.append(daemon)
        return made


def _is_daemon(pod: o.Pod) -> bool:
    """Return whether a pod is of a DaemonSet."""
    controller = controller_of(pod.metadata)
    return controller is not None and controller.kind == _DAEMON_SET


def _pool(piece: o.ResourceSlice) -> _Pool:
    return piece.spec.driver, piece.spec.pool.name, piece.spec.pool.generation
