"""ResourceClaims, their templates and DeviceClasses.

Source: pkg/apis/resource/validation/validation.go, v1.36.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from podsched.api import objects as o
from podsched.api.codec import write
from podsched.api.device_claims import MOST_ALTERNATIVES, MOST_CONSUMERS, MOST_REQUESTS
from podsched.api.extended_resources import is_extended
from podsched.api.names import dns1123_label, dns1123_subdomain, qualified_name
from podsched.api.validation.device_parts import (
    MOST_CONFIGS,
    NewSelectors,
    device_name,
    driver_name,
    full_attribute_name,
    pool_name,
    validate_binding_conditions,
    validate_configuration,
    validate_device_taint,
    validate_device_tolerations,
    validate_json_size,
    validate_selectors,
)
from podsched.api.validation.meta import validate_annotations, validate_conditions, validate_labels
from podsched.api.validation.place import BY_NAME, BY_UID, Place
from podsched.api.validation.placement import validate_node_selector
from podsched.api.validation.resource_lists import parse_or_report

MOST_CONSTRAINTS: Final = 32
MOST_RESULTS: Final = 32
#: Max capacities that a request names: a device has no more.
MOST_AMOUNTS: Final = 32
_MOST_DEVICE_CONDITIONS: Final = 8
_MOST_DATA_BYTES: Final = 10 << 10
_MOST_ADDRESSES: Final = 16
_MOST_INTERFACE_BYTES: Final = 256
_MOST_HARDWARE_BYTES: Final = 128

_UUID: Final = re.compile(r"[0-9a-fA-F]{8}((-[0-9a-fA-F]{4}){3}-|[0-9a-fA-F]{12})[0-9a-fA-F]{12}")
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest "
    "separated by '/'"
)
_ONE_KIND: Final = "exactly one of `exactly` or `firstAvailable` is required"
_ONE_ATTRIBUTE: Final = (
    'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are '
    "set"
)

_Requests = Mapping[str, frozenset[str]]
"""The names of a claim's requests, each with those of its alternatives."""


# ------------------------------------------------------------------ classes


def validate_device_class(
    at: Place, item: o.DeviceClass, stored: o.DeviceClass | None = None
) -> None:
    """Validate selectors, configuration and the extended resource that it serves.

    stored: it may have selectors and parameters like these already.
    """
    spec, at = item.spec, at("spec")
    old = stored.spec if stored is not None else o.DeviceClassSpec()
    same = spec.selectors == old.selectors
    new = None if same else NewSelectors(at("selectors"), spec.selectors)
    validate_selectors(at("selectors"), spec.selectors, new)
    same = spec.config == old.config
    for each, config in at("config").each(spec.config, MOST_CONFIGS):
        validate_configuration(each, config, stored=same)
    if spec.HasField("extended_resource_name"):
        name = spec.extended_resource_name
        if not is_extended(name) or qualified_name(f"requests.{name}"):
            at("extendedResourceName").invalid(name, "must be a valid extended resource name")


validate_device_class_replacement = validate_device_class


# ------------------------------------------------------------------ taint rules


def validate_device_taint_rule(
    at: Place, item: o.DeviceTaintRule, stored: o.DeviceTaintRule | None = None
) -> None:
    """Validate which devices it selects, and its taint; not an effect that is stored already."""
    selector, where = item.spec.device_selector, at("spec.deviceSelector")
    if selector.HasField("driver"):
        driver_name(where("driver"), selector.driver)
    if selector.HasField("pool"):
        pool_name(where("pool"), selector.pool)
    if selector.HasField("device"):
        device_name(where("device"), selector.device)
    old = stored.spec.taint.effect if stored is not None else ""
    validate_device_taint(at("spec.taint"), item.spec.taint, old)


validate_device_taint_rule_replacement = validate_device_taint_rule


def validate_device_taint_rule_status(at: Place, item: o.DeviceTaintRule) -> None:
    """Validate its conditions."""
    validate_conditions(at("status.conditions"), item.status.conditions, _MOST_DEVICE_CONDITIONS)


# ------------------------------------------------------------------ claims


def validate_resource_claim(at: Place, item: o.ResourceClaim) -> None:
    """Validate requests, constraints and configuration."""
    _check_spec(at("spec"), item.spec)


def validate_resource_claim_replacement(
    at: Place,
    new: o.ResourceClaim | o.ResourceClaimTemplate,
    old: o.ResourceClaim | o.ResourceClaimTemplate,
) -> None:
    """Check that the spec stays as it is."""
    at("spec").fixed(new.spec, old.spec, write(new.spec))


validate_resource_claim_template_replacement = validate_resource_claim_replacement


def validate_resource_claim_template(at: Place, item: o.ResourceClaimTemplate) -> None:
    """Validate the labels and annotations of the claims, and their spec."""
    metadata, at = item.spec.metadata, at("spec")
    validate_labels(at("metadata.labels"), metadata.labels)
    validate_annotations(at("metadata.annotations"), metadata.annotations)
    _check_spec(at("spec"), item.spec.spec)


def _check_spec(at: Place, spec: o.ResourceClaimSpec) -> None:
    claim, at = spec.devices, at("devices")
    names = _names(claim)
    requests = claim.requests[: MOST_REQUESTS + 1]
    new = NewSelectors(at("requests"), chain(*map(_selectors, requests)))
    for each, request in at("requests").each(claim.requests, MOST_REQUESTS, key=BY_NAME):
        _check_request(each, request, new)
    for each, constraint in at("constraints").each(claim.constraints, MOST_CONSTRAINTS):
        _check_constraint(each, constraint, names)
    for each, config in at("config").each(claim.config, MOST_CONFIGS):
        _check_references(each("requests"), config.requests, names)
        validate_configuration(each, config)


def _names(claim: o.DeviceClaim) -> _Requests:
    return {
        request.name: frozenset(each.name for each in request.first_available)
        for request in claim.requests[: MOST_REQUESTS + 1]
    }


def _selectors(request: o.DeviceRequest) -> Iterator[o.DeviceSelector]:
    yield from request.exactly.selectors
    for alternative in request.first_available:
        yield from alternative.selectors


def _check_request(at: Place, request: o.DeviceRequest, new: NewSelectors) -> None:
    at("name").rule(request.name, dns1123_label)
    exactly, alternatives = request.HasField("exactly"), request.first_available
    if exactly and alternatives:
        at.invalid(None, f"{_ONE_KIND}, but multiple fields are set")
    elif exactly:
        _check_devices(at("exactly"), request.exactly, new)
    elif alternatives:
        at = at("firstAvailable")
        for each, alternative in at.each(alternatives, MOST_ALTERNATIVES, key=BY_NAME):
            each("name").rule(alternative.name, dns1123_label)
            _check_devices(each, alternative, new)
    else:
        at.required(_ONE_KIND)


def _check_devices(
    at: Place, asked: o.ExactDeviceRequest | o.DeviceSubRequest, new: NewSelectors
) -> None:
    at("deviceClassName").name(asked.device_class_name, dns1123_subdomain)
    validate_selectors(at("selectors"), asked.selectors, new)
    mode, count = asked.allocation_mode, asked.count
    if mode == "All":
        if count:
            reason = "must not be specified when allocationMode is 'All'"
            at("count").invalid(count, reason)
    elif mode == "ExactCount":
        if count <= 0:
            at("count").invalid(count, "must be greater than zero")
    else:
        at("allocationMode").not_supported(mode, ("All", "ExactCount"))
    validate_device_tolerations(at("tolerations"), asked.tolerations)
    _check_amounts(at("capacity.requests"), asked.capacity.requests)


def _check_amounts(at: Place, amounts: Mapping[str, str]) -> None:
    # As in Kubernetes, they may have any name and sign.
    for name in at.keys(amounts, MOST_AMOUNTS):
        parse_or_report(at[name], amounts[name])


def _check_constraint(at: Place, constraint: o.DeviceConstraint, names: _Requests) -> None:
    _check_references(at("requests"), constraint.requests, names)
    # As Kubernetes' ``validateDeviceConstraint``: both together are accepted, and if there is none,
    # the text says that there are several.
    if constraint.HasField("match_attribute"):
        full_attribute_name(at("matchAttribute"), constraint.match_attribute)
    elif constraint.HasField("distinct_attribute"):
        full_attribute_name(at("distinctAttribute"), constraint.distinct_attribute)
    else:
        at.required(_ONE_ATTRIBUTE)


def _check_references(at: Place, references: Sequence[str], names: _Requests) -> None:
    for each, reference in at.each(references, MOST_REQUESTS, key=str):
        _check_reference(each, reference, names)


def _check_reference(at: Place, reference: str, names: _Requests) -> None:
    name, *more = reference.split("/", 2)
    if len(more) < 2:
        for part in (name, *more):
            at.rule(part, dns1123_label)
    if name not in names or len(more) == 2 or (more and more[0] not in names[name]):
        at.invalid(reference, _NO_REQUEST)


# ------------------------------------------------------------------ the status of claims


def validate_resource_claim_status_update(
    at: Place, new: o.ResourceClaim, old: o.ResourceClaim
) -> None:
    """Validate consumers, allocation and the statuses of devices.

    An allocation may be set or cleared, and not changed.
    """
    status, before, at = new.status, old.status, at("status")
    _check_consumers(at("reservedFor"), status)
    _check_device_statuses(at("devices"), status)
    if status.reserved_for:
        at_consumers = at("reservedFor")
        if not status.HasField("allocation"):
            at_consumers.forbidden("may not be specified when `allocated` is not set")
        elif new.metadata.HasField("deletion_timestamp"):
            known = {item.SerializeToString(deterministic=True) for item in before.reserved_for}
            if any(
                item.SerializeToString(deterministic=True) not in known
                for item in status.reserved_for
            ):
                at_consumers.forbidden(
                    "new entries may not be added while `deallocationRequested` or "
                    "`deletionTimestamp` are set"
                )
    if status.HasField("allocation"):
        if before.HasField("allocation"):
            shown = write(status.allocation)
            at("allocation").fixed(status.allocation, before.allocation, shown)
        else:
            _check_allocation(at("allocation"), status.allocation, _names(new.spec.devices))


def _check_consumers(at: Place, status: o.ResourceClaimStatus) -> None:
    for each, consumer in at.each(status.reserved_for, MOST_CONSUMERS, key=BY_UID):
        for name in ("resource", "name", "uid"):
            each(name).present(getattr(consumer, name))


def _check_allocation(at: Place, allocation: o.AllocationResult, names: _Requests) -> None:
    devices = at("devices")
    for each, result in devices("results").each(allocation.devices.results, MOST_RESULTS):
        _check_reference(each("request"), result.request, names)
        _check_id(each, result)
        # As in Kubernetes, tolerations are not checked here: they are those of the request.
        validate_binding_conditions(each, result)
        _check_share(each("shareID"), result)
        _check_amounts(each("consumedCapacity"), result.consumed_capacity)
    for each, config in devices("config").each(allocation.devices.config, 2 * MOST_CONFIGS):
        each("source").one_of(config.source, ("FromClaim", "FromClass"), required=True)
        _check_references(each("requests"), config.requests, names)
        validate_configuration(each, config)
    if allocation.HasField("node_selector"):
        validate_node_selector(at("nodeSelector"), allocation.node_selector)


def _check_id(at: Place, device: Any) -> None:
    """Check what names a device."""
    driver_name(at("driver"), device.driver)
    pool_name(at("pool"), device.pool)
    device_name(at("device"), device.device)


def _check_share(at: Place, device: Any) -> None:
    text = device.share_id
    if not device.HasField("share_id"):
        return
    if len(text) not in (32, 36, 38, 45):
        at.invalid(text, f"error validating uid: invalid UUID length: {len(text.encode())}")
    elif len(text) <= 36 and _UUID.fullmatch(text) is None:
        at.invalid(text, "error validating uid: invalid UUID format")
    elif len(text) != 36 or text != text.lower():
        at.invalid(
            text,
            "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with "
            "lowercase hexadecimal characters",
        )


def shared_device_id(device: Any) -> tuple[str, str, str, str]:
    """Return what names a device, or one share of it: driver, pool, device, share."""
    return (device.driver, device.pool, device.device, device.share_id)


def _shown_id(device: Any) -> dict[str, str]:
    return dict(zip(("Driver", "Pool", "Device", "ShareID"), shared_device_id(device), strict=True))


def _check_device_statuses(at: Place, status: o.ResourceClaimStatus) -> None:
    """Check the statuses that drivers report of devices, each of which must be allocated."""
    allocated = {shared_device_id(result) for result in status.allocation.devices.results}
    for each, device in at.each(status.devices):
        _check_id(each, device)
        _check_share(each("shareID"), device)
        if shared_device_id(device) not in allocated:
            each.invalid(_shown_id(device), "must be an allocated device in the claim")
        validate_conditions(each("conditions"), device.conditions, _MOST_DEVICE_CONDITIONS)
        if device.HasField("data"):
            validate_json_size(each("data"), device.data, _MOST_DATA_BYTES)
        _check_network(each("networkData"), device.network_data)
    at.different(status.devices, shared_device_id, _shown_id)


def _check_network(at: Place, data: o.NetworkDeviceData) -> None:
    for name, text, most in (
        ("interfaceName", data.interface_name, _MOST_INTERFACE_BYTES),
        ("hardwareAddress", data.hardware_address, _MOST_HARDWARE_BYTES),
    ):
        at(name).within(len(text.encode()), most)
    for each, address in at("ips").each(data.ips, _MOST_ADDRESSES, key=str):
        _check_interface_address(each, address)


_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F.:])0+(?=[0-9])|(?<=\.)0+(?=[0-9])")


def _check_interface_address(at: Place, address: str) -> None:
    """Check that it is an address with the length of its prefix, in its usual form."""
    host, _, length = address.partition("/")
    plain = _LEADING_ZEROS.sub("", host) if ":" not in host else host
    try:
        found = ipaddress.ip_interface(f"{plain}/{length}")
    except ValueError:
        found = None
    if found is None or not re.fullmatch(r"0|[1-9][0-9]*", length):
        at.invalid(
            address, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        )
    elif found.with_prefixlen != address:
        at.invalid(address, f'must be in canonical form ("{found.with_prefixlen}")')
