"""Clusters with devices and claims, made up by hypothesis, and selectors that need no CEL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from podsched.api.cel.errors import EvaluationError
from podsched.api.device_selectors import Device
from podsched.plugins.dynamic_resources import documents
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.cases import message
from podsched.plugins.dynamic_resources.model import (
    DeviceClass,
    Features,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from podsched.v1 import objects_pb2 as v1

DRIVER = "a.example"
GATES = (
    "DRAAdminAccess",
    "DRAConsumableCapacity",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus",
    "DRADeviceTaints",
    "DRAPartitionableDevices",
    "DRAPrioritizedList",
    "DRAListTypeAttributes",
)
#: What the devices and requests of a case may have. Few at a time, so that each matters.
TRAITS = ("counters", "capacity", "shares", "taints", "constraints", "alternatives", "admin", "all")
Document = dict[str, Any]


class AttributeSelector:
    """``name=value``: the device has this string; ``name``: fails without the attribute."""

    estimated_cost = 1

    def __init__(self, expression: str) -> None:
        self._name, _, self._value = expression.partition("=")

    def matches(self, device: Device) -> bool:
        attribute = device.attributes.get(self._name)
        if self._value:
            return attribute == {"string": self._value}
        if attribute is None:
            raise EvaluationError(f"no such key: {self._name}")
        return True


def read_class(of: Document) -> DeviceClass:
    return documents.read_device_class(message(v1.DeviceClass(), of))


def read_slice(of: Document) -> ResourceSlice:
    return documents.read_resource_slice(message(v1.ResourceSlice(), of))


def read_claim(of: Document) -> ResourceClaim:
    return documents.read_resource_claim(message(v1.ResourceClaim(), of))


def allocator_of(
    slices: Sequence[Document], classes: Sequence[Document] = (), **options: Any
) -> Allocator:
    """An allocator for a node, with documents of slices and of classes, by default one, ``any``."""
    read = map(read_class, classes or [{"metadata": {"name": "any"}}])
    candidates = Candidates(
        Node(name="node"),
        {of_class.name: of_class for of_class in read},
        [read_slice(of) for of in slices],
        {},
        Features(),
        AttributeSelector,
    )
    return Allocator(candidates, **options)


class World:
    """Draws the parts of one case; ``traits``: what devices and requests have at times."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._traits = draw(st.sets(st.sampled_from(TRAITS), max_size=4))

    def _one(self, values: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(values))

    def _often(self, trait: str) -> bool:
        return trait in self._traits and self._one([True, True, False])

    def case(self) -> Document:
        """Return a case as ``podsched.plugins.dynamic_resources.cases`` runs it."""
        off = self._one([*GATES, *[""] * 20])
        slices = [of for number in range(self._one([1, 1, 2])) for of in self._pool(number)]
        in_use = {"driver": DRIVER, "pool": "pool-0", "device": self._one(["dev-0", "dev-1"])}
        consumed = in_use | {"consumed": {"memory": "1Gi"}}
        of_class = {"selectors": [{"cel": {"expression": "model=x"}}]}
        return {
            "name": "made up",
            "features": [gate for gate in GATES if gate != off],
            "node": {"metadata": {"name": "node"}},
            "classes": [
                {"metadata": {"name": "any"}, "spec": {}},
                {"metadata": {"name": "x"}, "spec": of_class},
            ],
            "slices": slices,
            "allocated": self._one([{}, {}, {"devices": [in_use]}, {"capacity": [consumed]}]),
            "claims": [self._claim(number) for number in range(self._one([1, 1, 2]))],
        }

    def _pool(self, number: int) -> list[Document]:
        """Return a slice with counters and one with devices."""
        pool = {"name": f"pool-{number}", "generation": 1, "resourceSliceCount": 2}
        of_pool = {"driver": DRIVER, "pool": pool, "nodeName": "node"}
        counters = [
            {"name": f"gpu-{n}", "counters": {"slices": {"value": self._one(["2", "3"])}}}
            for n in (0, 1)
        ]
        devices = [self._device(n) for n in range(self._one([2, 4, 5, 6]))]
        if "counters" in self._traits and self._one([True, False]):
            devices = _mirrored(
                [of for of in devices if len(of.get("consumesCounters", ())) < 2][:3]
            )
            counters = [of | {"counters": counters[0]["counters"]} for of in counters]
        content = ("c", {"sharedCounters": counters}), ("d", {"devices": devices})
        return [
            {"metadata": {"name": f"{name}-{number}"}, "spec": of_pool | of} for name, of in content
        ]

    def _device(self, number: int) -> Document:
        device: Document = {"name": f"dev-{number}", "attributes": self._attributes()}
        if self._often("counters"):
            counters = {"slices": {"value": self._one(["1", "2"])}}
            sets = self._one([["gpu-0"], ["gpu-0"], ["gpu-1"], ["gpu-1"], ["gpu-0", "gpu-1"]])
            device["consumesCounters"] = [
                {"counterSet": name, "counters": counters} for name in sets
            ]
        if self._often("capacity") or "shares" in self._traits:
            device["capacity"] = self._capacity()
            device["allowMultipleAllocations"] = self._often("shares")
        if self._often("taints"):
            device["taints"] = [{"key": "broken", "effect": "NoSchedule"}]
        return device

    def _attributes(self) -> Document:
        attributes: Document = {"model": {"string": self._one(["x", "x", "y"])}}
        if "constraints" in self._traits:
            attributes["numa"] = {"int": self._one([0, 1, 2])}
            attributes["links"] = self._one([{"strings": ["p", "q"]}, {"string": "q"}, {}])
        return attributes if self._one([True] * 9 + [False]) else {}

    def _capacity(self) -> Document:
        memory: Document = {"value": self._one(["2Gi", "4Gi", "6Gi"])}
        ranged = {"default": "2Gi", "validRange": {"min": "1Gi", "max": "4Gi", "step": "1Gi"}}
        values = {"default": "2Gi", "validValues": ["2Gi", "4Gi"]}
        if policy := self._one([{}, {"default": "1Gi"}, ranged, values]):
            memory["requestPolicy"] = policy
        return {"memory": memory}

    def _claim(self, number: int) -> Document:
        devices = {"requests": [self._request(n) for n in range(self._one([0, 1, 2, 2, 3]))]}
        if self._often("constraints"):
            devices["constraints"] = [self._constraint() for _ in range(self._one([1, 2]))]
        return {"metadata": {"name": f"claim-{number}"}, "spec": {"devices": devices}}

    def _constraint(self) -> Document:
        kind = self._one(["matchAttribute", "distinctAttribute"])
        constraint = {kind: f"{DRIVER}/{self._one(['model', 'numa', 'links'])}"}
        requests = self._one([[], ["req-0"], ["req-1"], ["req-1", "req-2"]])
        return constraint | ({"requests": requests} if requests else {})

    def _request(self, number: int) -> Document:
        name = {"name": f"req-{number}"}
        if not self._often("alternatives"):
            exactly = self._exactly() | ({"adminAccess": True} if self._often("admin") else {})
            return name | {"exactly": exactly}
        return name | {"firstAvailable": [{"name": f"alt-{n}"} | self._exactly() for n in (0, 1)]}

    def _exactly(self) -> Document:
        is_all = self._often("all") and self._one([True, False])
        exactly: Document = {
            "deviceClassName": self._one(["any", "any", "x"]),
            "allocationMode": "All" if is_all else "ExactCount",
            "count": self._one([1, 1, 2, 3]),
        }
        if selector := self._one(["", "", "", "model=x", "model=y", "model"]):
            exactly["selectors"] = [{"cel": {"expression": selector}}]
        if self._often("taints"):
            exactly["tolerations"] = [{"key": "broken", "operator": "Exists"}]
        if self._often("capacity"):
            exactly["capacity"] = {"requests": {"memory": self._one(["1Gi", "3Gi"])}}
        return exactly


def _mirrored(devices: list[Document]) -> list[Document]:
    """Return the devices with counters of one set, then the same with another set."""
    mirrored = []
    for number, name in enumerate(("gpu-0", "gpu-1")):
        for n, device in enumerate(devices):
            consumption = [of | {"counterSet": name} for of in device.get("consumesCounters", ())]
            counters = {"consumesCounters": consumption} if consumption else {}
            mirrored.append(device | {"name": f"dev-{number * len(devices) + n}"} | counters)
    return mirrored


@st.composite
def cases(draw: st.DrawFn) -> Document:
    """Allocation cases."""
    return World(draw).case()
