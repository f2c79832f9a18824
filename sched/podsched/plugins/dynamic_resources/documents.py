"""Reads objects of resource.k8s.io/v1 from their JSON.

Documents that validation would refuse raise KeyError, TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from podsched.api import codec
from podsched.api.device_selectors import Device as DeviceView
from podsched.api.objects import Message, NodeSelector
from podsched.api.quantity import parse
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    Amount,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    InUse,
    Node,
    NodeSelection,
    PoolKey,
    RequestPolicy,
    ResourceClaim,
    ResourceSlice,
)
from podsched.v1 import objects_pb2 as v1

Document = Mapping[str, Any]
_M = TypeVar("_M", bound=Message)


def read_node(document: Document) -> Node:
    """Read the name and labels of a Node."""
    metadata = document["metadata"]
    return Node(name=metadata["name"], labels=metadata.get("labels"))


def read_device_class(document: Document) -> DeviceClass:
    """Read a DeviceClass."""
    spec = document.get("spec") or {}
    return DeviceClass(
        document["metadata"]["name"],
        _selectors(spec),
        tuple(_message(v1.DeviceClassConfiguration(), one) for one in spec.get("config") or ()),
    )


def read_resource_slice(document: Document) -> ResourceSlice:
    """Read a ResourceSlice."""
    spec = document["spec"]
    pool = spec["pool"]
    return ResourceSlice(
        name=document["metadata"]["name"],
        driver=spec["driver"],
        pool=pool["name"],
        generation=int(pool.get("generation", 0)),
        slice_count=int(pool.get("resourceSliceCount", 0)),
        nodes=_node_selection(spec),
        per_device_node_selection=spec.get("perDeviceNodeSelection"),
        devices=tuple(_device(device, spec["driver"]) for device in spec.get("devices") or ()),
        shared_counters=tuple(
            (counter_set["name"], _counters(counter_set))
            for counter_set in spec.get("sharedCounters") or ()
        ),
    )


def read_resource_claim(document: Document) -> ResourceClaim:
    """Read the spec of a ResourceClaim."""
    metadata, devices = document["metadata"], document["spec"].get("devices") or {}
    return ResourceClaim(
        metadata.get("namespace", ""),
        metadata["name"],
        tuple(_request(request) for request in devices.get("requests") or ()),
        tuple(_message(v1.DeviceConstraint(), one) for one in devices.get("constraints") or ()),
        tuple(_message(v1.DeviceClaimConfiguration(), one) for one in devices.get("config") or ()),
    )


def read_allocated_state(document: Document) -> AllocatedState:
    """Read the devices in use from the form that recorded cases have.

    Its fields are ``devices``, ``sharedDevices`` and ``capacity``.
    """
    found: dict[PoolKey, dict[str, InUse]] = {}

    def use(of: Document) -> InUse:
        pool = found.setdefault((of["driver"], of["pool"]), {})
        return pool.setdefault(of["device"], InUse())

    for device in document.get("devices") or ():
        use(device).exclusive = 1
    for device in document.get("sharedDevices") or ():
        use(device).shares += 1
    for device in document.get("capacity") or ():
        use(device).capacity = _quantities(device.get("consumed"))
    return found


def _message(made: _M, document: Document) -> _M:
    reader = codec.Reader()
    reader.read(made, document, made.DESCRIPTOR.name)
    for problem in reader.problems:
        raise ValueError(f"{problem.path}: {problem.reason}")
    return made


def _request(document: Document) -> DeviceRequest:
    name = document["name"]
    return DeviceRequest(
        name,
        _exactly(name, document.get("exactly") or {}),
        tuple(_exactly(one["name"], one) for one in document.get("firstAvailable") or ()),
    )


def _exactly(name: str, document: Document) -> ExactDeviceRequest:
    capacity = document.get("capacity")
    return ExactDeviceRequest(
        name,
        document.get("deviceClassName", ""),
        _selectors(document),
        document.get("allocationMode", ""),
        int(document.get("count", 0)),
        document.get("adminAccess"),
        tuple(_message(v1.Toleration(), one) for one in document.get("tolerations") or ()),
        None if capacity is None else _quantities(capacity.get("requests")),
    )


def _selectors(document: Document) -> tuple[str | None, ...]:
    return tuple(
        selector["cel"]["expression"] if selector.get("cel") else None
        for selector in document.get("selectors") or ()
    )


def _device(document: Document, driver: str) -> Device:
    capacity = document.get("capacity") or {}
    allow_multiple_allocations = bool(document.get("allowMultipleAllocations"))
    return Device(
        name=document["name"],
        view=DeviceView(
            driver,
            document.get("attributes") or {},
            # Quantities unchanged: CEL distinguishes 1000m from 1.
            {name: entry["value"] for name, entry in capacity.items()},
            allow_multiple_allocations,
        ),
        capacity={name: _capacity(entry) for name, entry in capacity.items()},
        counter_sets=frozenset(
            consumption["counterSet"] for consumption in document.get("consumesCounters") or ()
        ),
        counters={
            (consumption["counterSet"], name): amount
            for consumption in document.get("consumesCounters") or ()
            for name, amount in _counters(consumption).items()
        },
        taints=tuple(_message(v1.Taint(), one) for one in document.get("taints") or ()),
        nodes=_node_selection(document),
        binds_to_node=bool(document.get("bindsToNode")),
        binding_conditions=tuple(document.get("bindingConditions") or ()),
        binding_failure_conditions=tuple(document.get("bindingFailureConditions") or ()),
        allow_multiple_allocations=allow_multiple_allocations,
    )


def _capacity(document: Document) -> DeviceCapacity:
    policy = document.get("requestPolicy")
    return DeviceCapacity(amount_of(document["value"]), None if policy is None else _policy(policy))


def _policy(document: Document) -> RequestPolicy:
    valid_range = document.get("validRange")
    bounds = {
        name: amount_of(valid_range[key])
        for name, key in (("minimum", "min"), ("maximum", "max"), ("step", "step"))
        if valid_range is not None and valid_range.get(key) is not None
    }
    if bounds.get("step", 1) <= 0:
        # Validation refuses such a step. A stored one must not make a search fail.
        del bounds["step"]
    return RequestPolicy(
        default=None if document.get("default") is None else amount_of(document["default"]),
        valid_values=tuple(amount_of(value) for value in document.get("validValues") or ()),
        has_range=valid_range is not None,
        **bounds,
    )


def amount_of(quantity: str) -> Amount:
    """Return the amount of a quantity. Raises QuantityError."""
    amount = parse(quantity)
    return amount.numerator if amount.denominator == 1 else amount


def _counters(document: Document) -> dict[str, Amount]:
    return {
        name: amount_of(entry["value"]) for name, entry in (document.get("counters") or {}).items()
    }


def _quantities(document: Mapping[str, str] | None) -> dict[str, Amount]:
    return {name: amount_of(text) for name, text in (document or {}).items()}


def _node_selection(document: Document) -> NodeSelection:
    selector = document.get("nodeSelector")
    return NodeSelection(
        document.get("nodeName") or "",
        bool(document.get("allNodes")),
        None if selector is None else _message(NodeSelector(), selector),
    )
