"""The resources that the plugins of this package read, as columns over rows.

Which names count as resources of a node: kube-scheduler v1.36 ``util.IsScalarResourceName`` and
``noderesources/resource_allocation.go``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podsched.api.extended_resources import is_extended, may_be_devices
from podsched.api.resources import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
)
from podsched.config.plugin_args import ResourceSpec
from podsched.framework.nodes import ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import ProvidedDevices
from podsched.framework.pods import PodClass
from podsched.framework.verdicts import Rows
from podsched.plugins.rows.base_rows import rows_of_base

NATIVE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_NATIVE_DOMAIN = "kubernetes.io/"

#: By resource, the number of devices of each row and the number in use, shape ``(2, size)``.
DevicesByRow = Mapping[str, Int64s]


def is_scalar(name: str) -> bool:
    """Return whether kube-scheduler counts the resource on nodes (``Resource.ScalarResources``).

    It does so for extended resources, huge pages and attachable volumes, besides cpu, memory,
    ephemeral storage and pods.
    """
    return (
        is_extended(name)
        or name.startswith((HUGE_PAGES_PREFIX, ATTACHABLE_VOLUMES_PREFIX))
        or ("/" in name and _NATIVE_DOMAIN in name)
    )


@dataclass(frozen=True, slots=True)
class ResourceColumn:
    """One resource over rows; all arrays have shape ``(len(rows),)``.

    ``used``: the sum of requests of the pods on the node; ``wanted``: ``used`` plus the request of
    the pod to schedule. The resource does not count in the score of rows with ``allocatable`` 0.
    """

    weight: int
    used: Int64s
    wanted: Int64s
    allocatable: Int64s


def resource_columns(
    nodes: NodeColumns,
    rows: Rows,
    resources: Sequence[ResourceSpec],
    requests: Mapping[str, int],
    *,
    nonzero: bool,
    devices: DevicesByRow,
) -> list[ResourceColumn]:
    """Return the columns of the resources that count in a score for a pod with these requests.

    ``nonzero``: cpu and memory include the defaults for containers without requests. Resources
    other than cpu, memory and ephemeral storage are left out if the pod does not request them.
    ``devices`` count on nodes without allocatable of their resource.
    """
    columns = []
    for resource in resources:
        name = resource.name
        request = requests.get(name, 0)
        if name not in NATIVE and not (request and is_scalar(name)):
            continue
        counted = nonzero and name in (CPU, MEMORY)
        source = nodes.nonzero_requested(name) if counted else nodes.requested(name)
        used, allocatable = source[rows], nodes.allocatable(name)[rows]
        if name in devices:
            there, in_use = devices[name][:, rows_of_base(nodes, rows)]
            by_devices = (allocatable == 0) & (there > 0)
            allocatable = np.where(by_devices, there, allocatable)
            used = np.where(by_devices, in_use, used)
        columns.append(ResourceColumn(resource.weight, used, used + request, allocatable))
    return columns


class ScoredDevices:
    """The devices that a plugin's score counts as amounts of the resources that they provide.

    On nodes without allocatable of a resource, a score counts the devices of its DeviceClass: all
    devices as allocatable, those in use as requested.
    """

    def __init__(self, resources: Sequence[ResourceSpec]) -> None:
        self._names = [resource.name for resource in resources if may_be_devices(resource.name)]
        self._devices: ProvidedDevices | None = None

    def leave_to(self, devices: ProvidedDevices) -> None:
        """Count the devices that another plugin provides."""
        self._devices = devices
        devices.count_ahead(self._names)

    def version(self, cls: PodClass, cluster: ClusterView) -> Hashable:
        """Return a value that changes when counts do; None if the class requests no devices."""
        names = self._requested(cls)
        return self._devices.devices_version(cluster) if self._devices and names else None

    def counts(self, cls: PodClass, cluster: ClusterView) -> DevicesByRow:
        """Return the counts for the resources that the pods of a class request."""
        names = self._requested(cls)
        if self._devices is None or not names:
            return {}
        counts = ((name, self._devices.device_counts(name, cluster)) for name in names)
        return {name: found for name, found in counts if found is not None}

    def _requested(self, cls: PodClass) -> list[str]:
        return [name for name in self._names if cls.requests.get(name)]
