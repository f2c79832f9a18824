"""The devices that DeviceClasses provide for extended resources, for other plugins."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Final

import numpy as np

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.framework.nodes import ClusterView, Int64s
from podsched.framework.pods import PodInfo
from podsched.plugins.dynamic_resources.devices import (
    DEVICE_KINDS,
    Devices,
    KnownDevices,
    SeenDevices,
)
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.model import DeviceClass, Node
from podsched.plugins.dynamic_resources.pod_claims import CLAIM
from podsched.plugins.dynamic_resources.pod_needs import NeedsReader
from podsched.plugins.dynamic_resources.pools import reaches
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler

#: The number of rows between two pauses; one takes 10 µs. Counted in one piece, 5,000 nodes took
#: 46 ms.
_ROWS_PER_PAUSE: Final = 100


class CountedDevices:
    """The numbers of a DeviceClass's devices on each node, and of those in use; for scores.

    See ``framework.plugin.ProvidedDevices``. Only changed nodes are counted again. Rules:
    kube-scheduler v1.36 ``noderesources/resource_allocation.go``. Devices count if they are in a
    slice that the node reaches, of any generation, and match the selectors of the class. If a
    selector fails, the node has no such devices.
    """

    def __init__(
        self, devices: KnownDevices, needs: NeedsReader, compile_selector: SelectorCompiler
    ) -> None:
        self._devices = devices
        self._needs = needs
        self._compile = compile_selector
        #: The resources whose devices count in scores.
        self._counted: set[str] = set()
        #: The counts by class, and the devices for which they are valid.
        self._counts: dict[str, tuple[SeenDevices, Int64s]] = {}

    def resource_classes(self, cluster: ClusterView) -> Mapping[str, str]:
        """Return the DeviceClass that provides each extended resource, by the resource's name."""
        return self._needs.resource_classes(cluster)

    def count_ahead(self, resources: Collection[str]) -> None:
        """Note the resources whose devices count in scores."""
        self._counted.update(resources)

    def device_counts(self, resource: str, cluster: ClusterView) -> Int64s | None:
        """Return the devices of a resource's class, and those in use; shape ``(2, size)``."""
        name = self._needs.resource_classes(cluster).get(resource)
        if name is None:
            return None
        for _ in self._count(name, cluster):
            pass
        return self._counts[name][1]

    def devices_version(self, cluster: ClusterView) -> Hashable:
        """Return the versions of everything that ``device_counts`` reads."""
        nodes = cluster.nodes
        versions = (cluster.version(kind) for kind in DEVICE_KINDS)
        return (cluster.assumed(CLAIM).version, *versions, nodes.topology_version, nodes.size)

    def prepare(self, pod: PodInfo, cluster: ClusterView) -> Iterator[None]:
        """Count the devices that the scores of other plugins will read."""
        for resource, device_class in self._needs.provided(pod, cluster):
            if resource in self._counted and device_class in self._devices.of(cluster).classes:
                yield from self._count(device_class, cluster)

    def _count(self, class_name: str, cluster: ClusterView) -> Iterator[None]:
        """Count the devices of a class, which must exist, with pauses about every millisecond."""
        devices, nodes = self._devices.of(cluster), cluster.nodes
        of_class, seen = devices.classes[class_name], SeenDevices.of(devices, nodes)
        known = self._counts.get(class_name)
        rows = None if known is None else known[0].changed(devices, nodes)
        if known is None or rows is None:
            counts = np.zeros((2, nodes.size), dtype=np.int64)
            rows = np.flatnonzero(nodes.alive).tolist()
        else:
            counts = known[1].copy()
        for place, row in enumerate(rows, start=1):
            # Nodes may be gone after a pause; then their rows are counted again.
            if row < nodes.size and nodes.alive[row]:
                counts[:, row] = self._count_on(nodes.node(row).metadata, of_class, devices)
            if place % _ROWS_PER_PAUSE == 0:
                yield
        self._counts[class_name] = seen, counts

    def _count_on(self, node: Node, of_class: DeviceClass, devices: Devices) -> tuple[int, int]:
        there = used = 0
        try:
            for piece in devices.slices_for(node):
                by_device = bool(piece.per_device_node_selection)
                in_use = devices.in_use.by_pool.get((piece.driver, piece.pool), {})
                if not by_device and not reaches(node, piece.nodes):
                    continue
                for device in piece.devices:
                    if by_device and not reaches(node, device.nodes):
                        continue
                    if all(
                        self._compile(expression or "").matches(device.view)
                        for expression in of_class.selectors
                    ):
                        there += 1
                        used += device.name in in_use
        except (AllocationAborted, CompileError, EvaluationError):
            return 0, 0
        return there, used
