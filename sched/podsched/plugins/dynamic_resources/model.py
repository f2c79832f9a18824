"""The objects of resource.k8s.io/v1 as the allocator reads them.

Names are those of Kubernetes' API. Quantities are exact. Constraints, taints, tolerations and
configurations stay messages of the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import NamedTuple

from podsched.api.device_selectors import Device as DeviceView
from podsched.api.objects import NodeSelector
from podsched.v1 import objects_pb2 as v1

#: The metadata of the node on which devices are allocated: its name and labels are read.
Node = v1.ObjectMeta
#: An exact amount: an int where possible, because ints are many times as fast as fractions.
Amount = Fraction | int

#: Max devices of one claim (AllocationResultsMaxSize).
MAX_RESULTS = 32

EXACT_COUNT = "ExactCount"
ALL = "All"


@dataclass(frozen=True, slots=True)
class Features:
    """Feature gates of allocation; by default those of Kubernetes v1.36."""

    admin_access: bool = True
    consumable_capacity: bool = True
    # DRADeviceBindingConditions and DRAResourceClaimDeviceStatus, which are only useful together.
    binding_conditions: bool = True
    device_taints: bool = True
    partitionable_devices: bool = True
    prioritized_list: bool = True
    list_type_attributes: bool = False

    @classmethod
    def of(cls, gates: Iterable[str]) -> Features:
        """Return the features whose gates are named; all others are off."""
        names = set(gates)
        return cls(**{name: gate in names for name, gate in _GATES.items()})


_GATES = {
    "admin_access": "DRAAdminAccess",
    "consumable_capacity": "DRAConsumableCapacity",
    "binding_conditions": "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "device_taints": "DRADeviceTaints",
    "partitionable_devices": "DRAPartitionableDevices",
    "prioritized_list": "DRAPrioritizedList",
    "list_type_attributes": "DRAListTypeAttributes",
}


class Fault(StrEnum):
    """Known faults of the allocator of v1.36.2 that change allocations."""

    #: A device that is refused keeps the counters and constraints it has taken; a shareable device
    #: that is given back keeps the counters.
    LEAK = "leak"
    #: A distinctAttribute compares only with the latest device of each request.
    DISTINCT = "distinct"
    #: Pools of different drivers with the same name share their counters.
    POOL_NAME = "pool-name"


#: Driver and name of a pool.
PoolKey = tuple[str, str]


class DeviceID(NamedTuple):
    """The name of a device in its cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The amounts of a capacity that a request may consume: a range, or a set of valid values."""

    default: Amount | None = None
    valid_values: tuple[Amount, ...] = ()
    has_range: bool = False
    minimum: Amount | None = None
    maximum: Amount | None = None
    step: Amount | None = None


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """The amount of a capacity that a device has, and the policy for consuming it."""

    value: Amount
    policy: RequestPolicy | None = None


@dataclass(frozen=True, slots=True)
class NodeSelection:
    """The nodes that can use a slice or device: one by name, all, or those of a selector."""

    node_name: str = ""
    all_nodes: bool = False
    node_selector: NodeSelector | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device of a ResourceSlice.

    ``view``: its properties as CEL selectors see them. ``counters``: the amounts that it consumes
    of its pool's shared counters, by (counter set, counter). ``counter_sets``: the sets that it
    names, even if it consumes nothing of them.
    """

    name: str
    view: DeviceView
    capacity: Mapping[str, DeviceCapacity]
    counter_sets: frozenset[str]
    counters: Mapping[tuple[str, str], Amount]
    taints: tuple[v1.Taint, ...]
    nodes: NodeSelection
    binds_to_node: bool
    binding_conditions: tuple[str, ...]
    binding_failure_conditions: tuple[str, ...]
    allow_multiple_allocations: bool


@dataclass(frozen=True, slots=True, eq=False)
class ResourceSlice:
    """A part of a pool: devices, or counters that the pool's devices share.

    ``per_device_node_selection`` is None if the field is absent.
    """

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    nodes: NodeSelection
    per_device_node_selection: bool | None
    devices: tuple[Device, ...]
    shared_counters: tuple[tuple[str, Mapping[str, Amount]], ...]


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """A DeviceClass; a selector is None if it is not a CEL expression."""

    name: str
    selectors: tuple[str | None, ...]
    config: tuple[v1.DeviceClassConfiguration, ...]


@dataclass(frozen=True, slots=True)
class ExactDeviceRequest:
    """A request, or one of its alternatives.

    ``admin_access`` is None if the field is absent, ``capacity`` if no capacity is requested.
    """

    name: str
    device_class_name: str
    selectors: tuple[str | None, ...]
    allocation_mode: str
    count: int
    admin_access: bool | None
    tolerations: tuple[v1.Toleration, ...]
    capacity: Mapping[str, Amount] | None


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request of a claim: ``exactly``, or the first available of several alternatives."""

    name: str
    exactly: ExactDeviceRequest
    first_available: tuple[ExactDeviceRequest, ...] = ()

    def alternatives(self) -> list[tuple[str, ExactDeviceRequest]]:
        """Return the alternatives, else the request itself; each with its name in allocations."""
        found = [(f"{self.name}/{one.name}", one) for one in self.first_available]
        return found or [(self.name, self.exactly)]


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """The spec of a ResourceClaim."""

    namespace: str
    name: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[v1.DeviceConstraint, ...]
    config: tuple[v1.DeviceClaimConfiguration, ...]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(slots=True)
class InUse:
    """How a device is in use.

    ``exclusive``: the number of claims that have it for themselves. ``shares``: the number of
    shares; ``capacity``: what they consume together, None without shares.
    """

    exclusive: int = 0
    shares: int = 0
    capacity: dict[str, Amount] | None = None

    def add(self, consumed: Mapping[str, Amount] | None) -> None:
        """Add a share that consumes this capacity; None: a claim has the device for itself."""
        if consumed is None:
            self.exclusive += 1
            return
        self.shares += 1
        self.capacity = self.capacity or {}
        for name, amount in consumed.items():
            self.capacity[name] = self.capacity.get(name, 0) + amount

    def remove(self, consumed: Mapping[str, Amount] | None) -> None:
        """Remove what was added."""
        if consumed is None:
            self.exclusive -= 1
            return
        self.shares -= 1
        capacity = self.capacity or {}
        for name, amount in consumed.items():
            capacity[name] -= amount
        self.capacity = capacity if self.shares else None


#: The devices in use, by pool and name.
AllocatedState = Mapping[PoolKey, Mapping[str, InUse]]
