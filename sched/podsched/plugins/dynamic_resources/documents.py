"""Reads objects of resource.k8s.io/v1.

Objects that validation would refuse raise QuantityError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from podsched.api import codec
from podsched.api.device_selectors import Device as DeviceView
from podsched.api.quantity import parse
from podsched.plugins.dynamic_resources.model import (
    Amount,
    Device,
    DeviceCapacity,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    NodeSelection,
    RequestPolicy,
    ResourceClaim,
    ResourceSlice,
)
from podsched.v1 import objects_pb2 as v1


def read_device_class(stored: v1.DeviceClass) -> DeviceClass:
    """Read a DeviceClass."""
    spec = stored.spec
    return DeviceClass(stored.metadata.name, _selectors(spec.selectors), tuple(spec.config))


def read_resource_slice(stored: v1.ResourceSlice) -> ResourceSlice:
    """Read a ResourceSlice."""
    spec = stored.spec
    by_device = spec.HasField("per_device_node_selection")
    return ResourceSlice(
        name=stored.metadata.name,
        driver=spec.driver,
        pool=spec.pool.name,
        generation=spec.pool.generation,
        slice_count=spec.pool.resource_slice_count,
        nodes=_node_selection(spec),
        per_device_node_selection=spec.per_device_node_selection if by_device else None,
        devices=tuple(_device(device, spec.driver) for device in spec.devices),
        shared_counters=tuple((one.name, _counters(one)) for one in spec.shared_counters),
    )


def read_resource_claim(stored: v1.ResourceClaim) -> ResourceClaim:
    """Read the spec of a ResourceClaim."""
    metadata, devices = stored.metadata, stored.spec.devices
    return ResourceClaim(
        metadata.namespace,
        metadata.name,
        tuple(map(_request, devices.requests)),
        tuple(devices.constraints),
        tuple(devices.config),
    )


def _request(request: v1.DeviceRequest) -> DeviceRequest:
    exactly = request.exactly
    admin_access = exactly.admin_access if exactly.HasField("admin_access") else None
    return DeviceRequest(
        request.name,
        _exactly(request.name, exactly, admin_access),
        tuple(_exactly(one.name, one, None) for one in request.first_available),
    )


def _exactly(
    name: str, request: v1.ExactDeviceRequest | v1.DeviceSubRequest, admin_access: bool | None
) -> ExactDeviceRequest:
    return ExactDeviceRequest(
        name,
        request.device_class_name,
        _selectors(request.selectors),
        request.allocation_mode,
        request.count,
        admin_access,
        tuple(request.tolerations),
        _amounts(request.capacity.requests) if request.HasField("capacity") else None,
    )


def _selectors(selectors: Iterable[v1.DeviceSelector]) -> tuple[str | None, ...]:
    return tuple(one.cel.expression if one.HasField("cel") else None for one in selectors)


def _device(device: v1.Device, driver: str) -> Device:
    return Device(
        name=device.name,
        view=DeviceView(
            driver,
            {name: codec.write(device.attributes[name]) for name in sorted(device.attributes)},
            # Quantities unchanged: CEL distinguishes 1000m from 1.
            {name: device.capacity[name].value for name in sorted(device.capacity)},
            device.allow_multiple_allocations,
        ),
        capacity={name: _capacity(offered) for name, offered in device.capacity.items()},
        counter_sets=frozenset(one.counter_set for one in device.consumes_counters),
        counters={
            (one.counter_set, name): amount
            for one in device.consumes_counters
            for name, amount in _counters(one).items()
        },
        taints=tuple(device.taints),
        nodes=_node_selection(device),
        binds_to_node=device.binds_to_node,
        binding_conditions=tuple(device.binding_conditions),
        binding_failure_conditions=tuple(device.binding_failure_conditions),
        allow_multiple_allocations=device.allow_multiple_allocations,
    )


def _capacity(offered: v1.DeviceCapacity) -> DeviceCapacity:
    policy = _policy(offered.request_policy) if offered.HasField("request_policy") else None
    return DeviceCapacity(amount_of(offered.value), policy)


def _policy(policy: v1.CapacityRequestPolicy) -> RequestPolicy:
    valid_range = policy.valid_range
    bounds = {
        name: amount_of(getattr(valid_range, key))
        for name, key in (("minimum", "min"), ("maximum", "max"), ("step", "step"))
        if valid_range.HasField(key)
    }
    if bounds.get("step", 1) <= 0:
        # Validation refuses such a step. A stored one must not make a search fail.
        del bounds["step"]
    return RequestPolicy(
        default=amount_of(policy.default) if policy.HasField("default") else None,
        valid_values=tuple(map(amount_of, policy.valid_values)),
        has_range=policy.HasField("valid_range"),
        **bounds,
    )


def amount_of(quantity: str) -> Amount:
    """Return the amount of a quantity. Raises QuantityError."""
    amount = parse(quantity)
    return amount.numerator if amount.denominator == 1 else amount


def _counters(counters: v1.CounterSet | v1.DeviceCounterConsumption) -> dict[str, Amount]:
    return {name: amount_of(one.value) for name, one in counters.counters.items()}


def _amounts(quantities: Mapping[str, str]) -> dict[str, Amount]:
    return {name: amount_of(text) for name, text in quantities.items()}


def _node_selection(selection: v1.ResourceSliceSpec | v1.Device) -> NodeSelection:
    return NodeSelection(
        selection.node_name,
        selection.all_nodes,
        selection.node_selector if selection.HasField("node_selector") else None,
    )
