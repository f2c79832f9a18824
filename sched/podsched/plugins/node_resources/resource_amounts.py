"""The resources that the plugins of this package read, as columns over rows.

Which names count as resources of a node: kube-scheduler v1.36 ``util.IsScalarResourceName`` and
``noderesources/resource_allocation.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from podsched.api.extended_resources import is_extended
from podsched.api.resources import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
)
from podsched.config.plugin_args import ResourceSpec
from podsched.framework.nodes import Int64s, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.rows.base_rows import rows_of_base

NATIVE = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})
_NATIVE_DOMAIN = "kubernetes.io/"


#: By resource, the number of devices of each row and the number in use, shape ``(2, size)``.
DevicesByRow = Mapping[str, Int64s]


@dataclass(frozen=True, slots=True)
class WeightedResource:
    """A resource that a score reads, and its weight (1..100)."""

    name: str
    weight: int


def weighted_resources(resources: Sequence[ResourceSpec]) -> tuple[WeightedResource, ...]:
    """Return the resources that a plugin's arguments name."""
    return tuple(WeightedResource(resource.name, resource.weight) for resource in resources)


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


def with_devices(
    allocatable: Int64s, used: Int64s, counts: Int64s, nodes: NodeColumns, rows: Rows
) -> tuple[Int64s, Int64s]:
    """Return allocatable and used amounts; on nodes without allocatable, devices count instead.

    ``counts``: of all rows, as in ``DevicesByRow``; the other arrays have shape ``(len(rows),)``.
    """
    base = rows_of_base(nodes, rows)
    there, in_use = counts[:, base]
    by_devices = (allocatable == 0) & (there > 0)
    return np.where(by_devices, there, allocatable), np.where(by_devices, in_use, used)


def resource_columns(
    nodes: NodeColumns,
    rows: Rows,
    resources: Sequence[WeightedResource],
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
            allocatable, used = with_devices(allocatable, used, devices[name], nodes, rows)
        columns.append(ResourceColumn(resource.weight, used, used + request, allocatable))
    return columns
