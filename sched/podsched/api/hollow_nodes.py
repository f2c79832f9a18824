"""Hollow nodes, which ``sched agent`` simulates: nothing runs on them. They have a label.

Their devices are ResourceSlices of usual shapes, with no hardware behind them. A node's annotation
names them, as ``COUNTxDRIVER[:SHAPE]`` with commas between several. The driver is also the name of
the DeviceClass of its devices. A device of each shape:

    gpu    a whole GPU; four GPUs share an NVLink domain, two a PCIe root
    mig    a GPU in partitions, as NVIDIA's MIG has them: each partition is a device, and those of a
           GPU share the counters of its eight memory slices
    nic    a network card with a PCIe root of its own, which is that of two GPUs

The devices of equal nodes are equal, so that a scheduler evaluates them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from podsched.api import objects as o
from podsched.api.names import dns1123_subdomain

Part = TypeVar("Part")

HOLLOW_LABEL: Final = "podsched.io/hollow"
#: What is said of a hollow node wherever there is room for a sentence.
HOLLOW_TEXT: Final = "hollow node of sched agent: nothing runs on it"
DEVICES_ANNOTATION: Final = "podsched.io/devices"
SHAPES: Final = ("gpu", "mig", "nic")
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"
#: Max devices, or GPUs in partitions, of one driver on a node; and max drivers.
MOST_DEVICES: Final = 128
MOST_DRIVERS: Final = 8

_MOST_DRIVER: Final = 63
#: Limits of a slice: devices that consume counters, counter sets. Of others it holds 128.
_PARTITIONS_PER_SLICE: Final = 64
_SETS_PER_SLICE: Final = 8
_GPUS_PER_DOMAIN, _GPUS_PER_ROOT = 4, 2
_MEMORY_SLICES: Final = 8
#: The profiles of a GPU with 80 GB: compute slices, gigabytes, and the memory slices at which a
#: partition may begin.
_PROFILES: Final = (
    (1, 10, range(7)),
    (2, 20, range(0, 6, 2)),
    (3, 40, range(0, 8, 4)),
    (4, 40, range(1)),
    (7, 80, range(1)),
)


def is_hollow(node: o.Node) -> bool:
    """Return whether a node is hollow: no process runs for its pods."""
    return node.metadata.labels.get(HOLLOW_LABEL) == "true"


class BadDevicesError(ValueError):
    """The text that names devices is invalid; the message says why."""


class HollowDevices(NamedTuple):
    """Devices of one driver on a node."""

    number: int
    driver: str
    shape: str

    @property
    def model(self) -> str:
        """Return the driver's name up to the first dot."""
        return self.driver.partition(".")[0]


def parse_devices(text: str) -> list[HollowDevices]:
    """Return the devices that a text names. Raises BadDevicesError."""
    found = [_parse(item) for item in text.split(",")]
    if len(found) > MOST_DRIVERS:
        raise BadDevicesError(f"must name at most {MOST_DRIVERS} drivers, not {len(found)}")
    if len({devices.driver for devices in found}) < len(found):
        raise BadDevicesError("must name each driver once")
    return found


def _parse(item: str) -> HollowDevices:
    number, separator, rest = item.strip().partition("x")
    driver, _, shape = rest.partition(":")
    if not (separator and driver and number.isascii() and number.isdigit()):
        example = f'must be COUNTxDRIVER[:{"|".join(SHAPES)}], such as "8xh100.example.com"'
        raise BadDevicesError(f'"{item[:80]}": {example}')
    if len(number) > 9 or not 1 <= int(number) <= MOST_DEVICES:
        raise BadDevicesError(f'"{item[:80]}": the count must be from 1 to {MOST_DEVICES}')
    if ":" in rest and shape not in SHAPES:
        raise BadDevicesError(f'"{item[:80]}": the shape must be one of {", ".join(SHAPES)}')
    if len(driver) > _MOST_DRIVER:
        raise BadDevicesError(f'"{item[:80]}…": the driver must have at most {_MOST_DRIVER} bytes')
    if why := dns1123_subdomain(driver):
        raise BadDevicesError(f'"{item[:80]}": the driver is not a name: {why[0]}')
    return HollowDevices(int(number), driver, shape or SHAPES[0])


def class_of(devices: HollowDevices) -> o.DeviceClass:
    """Return the class of all devices of a driver."""
    made = o.DeviceClass()
    made.metadata.name = devices.driver
    made.spec.selectors.add().cel.expression = f'device.driver == "{devices.driver}"'
    return made


def slices_of(node: o.Node) -> list[o.ResourceSlice]:
    """Return the slices of a stored node, which own nothing without it. Raises BadDevicesError."""
    text = node.metadata.annotations.get(DEVICES_ANNOTATION, "")
    parsed = parse_devices(text) if text else []
    return [piece for devices in parsed for piece in _slices(node, devices)]


def _slices(node: o.Node, devices: HollowDevices) -> list[o.ResourceSlice]:
    slices: list[o.ResourceSlice] = []
    for spec in _contents(devices):
        made = o.ResourceSlice(spec=spec)
        made.metadata.name = f"{node.metadata.name}-{devices.driver}-{len(slices)}"
        made.metadata.annotations[DEVICES_ANNOTATION] = ":".join(map(str, devices))
        made.metadata.owner_references.add(
            api_version="v1",
            kind="Node",
            name=node.metadata.name,
            uid=node.metadata.uid,
            controller=True,
        )
        made.spec.driver = devices.driver
        made.spec.node_name = made.spec.pool.name = node.metadata.name
        made.spec.pool.generation = 1
        slices.append(made)
    for made in slices:
        made.spec.pool.resource_slice_count = len(slices)
    return slices


def _contents(devices: HollowDevices) -> Iterator[o.ResourceSliceSpec]:
    """Yield what each slice holds: devices, or the counters that they share."""
    numbers = range(devices.number)
    if devices.shape != "mig":
        make = _gpu if devices.shape == "gpu" else _nic
        yield o.ResourceSliceSpec(devices=[make(devices, number) for number in numbers])
        return
    for counters in _parts([_counters(number) for number in numbers], _SETS_PER_SLICE):
        yield o.ResourceSliceSpec(shared_counters=counters)
    partitions = [device for number in numbers for device in _partitions(devices, number)]
    for part in _parts(partitions, _PARTITIONS_PER_SLICE):
        yield o.ResourceSliceSpec(devices=part)


def _parts(items: Sequence[Part], most: int) -> Iterator[Sequence[Part]]:
    for start in range(0, len(items), most):
        yield items[start : start + most]


def _gpu(devices: HollowDevices, number: int) -> o.Device:
    device = _of_gpu(devices, f"gpu-{number}", number)
    device.attributes["nvlinkDomain"].int_value = number // _GPUS_PER_DOMAIN
    device.capacity["memory"].value = "80Gi"
    return device


def _of_gpu(devices: HollowDevices, name: str, number: int) -> o.Device:
    device = o.Device(name=name)
    device.attributes["model"].string_value = devices.model
    device.attributes["index"].int_value = number
    device.attributes["driverVersion"].version_value = "580.65.6"
    device.attributes[PCIE_ROOT].string_value = _root(number // _GPUS_PER_ROOT)
    return device


def _root(number: int) -> str:
    return f"pci0000:{number:02x}"


def _partitions(devices: HollowDevices, number: int) -> Iterator[o.Device]:
    for compute, memory, starts in _PROFILES:
        for start in starts:
            device = _of_gpu(devices, f"gpu-{number}-mig-{compute}g{memory}gb-{start}", number)
            device.attributes["profile"].string_value = f"{compute}g.{memory}gb"
            device.capacity["memory"].value = f"{memory}Gi"
            consumed = device.consumes_counters.add(counter_set=f"gpu-{number}")
            for place in range(start, start + memory // 10):
                consumed.counters[f"memory-slice-{place}"].value = "1"
            yield device


def _counters(number: int) -> o.CounterSet:
    counters = o.CounterSet(name=f"gpu-{number}")
    for place in range(_MEMORY_SLICES):
        counters.counters[f"memory-slice-{place}"].value = "1"
    return counters


def _nic(devices: HollowDevices, number: int) -> o.Device:
    device = o.Device(name=f"nic-{number}")
    device.attributes["model"].string_value = devices.model
    device.attributes["index"].int_value = number
    device.attributes["rdma"].bool_value = True
    device.attributes[PCIE_ROOT].string_value = _root(number)
    return device
