"""ResourceSlices: the devices that a driver publishes.

Source: pkg/apis/resource/validation/validation.go, v1.36.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from podsched.api import objects as o
from podsched.api import quantity
from podsched.api.device_claims import MOST_DEVICES
from podsched.api.names import dns1123_label, dns1123_subdomain
from podsched.api.validation.device_parts import (
    MOST_TAINTS,
    attribute_name,
    device_name,
    driver_name,
    pool_name,
    validate_binding_conditions,
    validate_device_taint,
)
from podsched.api.validation.place import BY_NAME, Place, errors_of
from podsched.api.validation.placement import validate_node_selector
from podsched.api.validation.resource_lists import parse_or_report

#: Max devices of a slice if any of them has taints or consumes counters.
MOST_LARGE_DEVICES: Final = 64
MOST_ATTRIBUTES: Final = 32
MOST_COUNTER_SETS: Final = 8
MOST_COUNTERS: Final = 32
MOST_CONSUMPTIONS: Final = 2
_MOST_VALID_VALUES: Final = 10
_MOST_VALUE_BYTES: Final = 64
#: Max characters of a key that a path shows.
_MOST_ATTRIBUTE_KEY: Final = 63 + 1 + 32
_MOST_COUNTER_KEY: Final = 63
#: Bytes of a capacity whose check is remembered.
_LONGEST_REMEMBERED: Final = 400

_NUMBER, _NAME = "(0|[1-9][0-9]*)", "[0-9a-zA-Z-]+"
_PART: Final = "(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION: Final = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+{_NAME}(\.{_NAME})*)?"
)
_ONE_SELECTION: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_ONE_OF_A_DEVICE: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)
_NOT_OF_A_DEVICE: Final = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set "
    "to true in the ResourceSlice spec"
)


def validate_resource_slice(
    at: Place, item: o.ResourceSlice, stored: o.ResourceSlice | None = None
) -> None:
    """Validate driver, pool, nodes, devices and counters.

    stored: its devices may have the same capacities and taints already.
    """
    spec, at = item.spec, at("spec")
    old = stored.spec if stored is not None else None
    driver_name(at("driver"), spec.driver)
    pool_name(at("pool.name"), spec.pool.name)
    if spec.pool.resource_slice_count <= 0:
        reason = "must be greater than zero"
        at("pool.resourceSliceCount").invalid(spec.pool.resource_slice_count, reason)
    if spec.pool.generation < 0:
        reason = "must be greater than or equal to zero"
        at("pool.generation").invalid(spec.pool.generation, reason)
    if old is not None:
        at("pool.name").fixed(spec.pool.name, old.pool.name, spec.pool.name)
        at("driver").fixed(spec.driver, old.driver, spec.driver)
        before = old.node_name if old.HasField("node_name") else None
        now = spec.node_name if spec.HasField("node_name") else None
        at("nodeName").fixed(now, before, now)
    _check_nodes(at, spec)
    if spec.shared_counters and spec.devices:
        at.invalid("", "only one of `sharedCounters` or `devices` is allowed")
    first = spec.devices[: MOST_DEVICES + 1]
    is_large = any(device.taints or device.consumes_counters for device in first)
    most = MOST_LARGE_DEVICES if is_large else MOST_DEVICES
    known = {device.name: device for device in old.devices} if old is not None else {}
    for each, device in at("devices").each(spec.devices, most, key=BY_NAME):
        _check_device(each, device, known.get(device.name), spec.per_device_node_selection)
    counters = at("sharedCounters")
    for each, counter_set in counters.each(spec.shared_counters, MOST_COUNTER_SETS, key=BY_NAME):
        each("name").name(counter_set.name, dns1123_label)
        _check_counters(each("counters"), counter_set.counters)


validate_resource_slice_replacement = validate_resource_slice


def _check_nodes(at: Place, spec: o.ResourceSliceSpec) -> None:
    """Check that a slice says in one way where its devices are."""
    found = _selections(at, spec, "must be either unset or set to a non-empty string")
    if spec.HasField("node_selector") and len(spec.node_selector.node_selector_terms) != 1:
        terms = [_go_term(term) for term in spec.node_selector.node_selector_terms] or None
        reason = "must have exactly one node selector term"
        at("nodeSelector.nodeSelectorTerms").invalid(terms, reason)
    if spec.HasField("per_device_node_selection"):
        if spec.per_device_node_selection:
            found.append("`perDeviceNodeSelection`")
        else:
            reason = "must be either unset or set to true"
            at("perDeviceNodeSelection").invalid(False, reason)
    if at.present(found, _ONE_SELECTION) and len(found) > 1:
        reason = f"{_ONE_SELECTION}, but multiple fields are set"
        at.invalid(f"{{{', '.join(found)}}}", reason)


def _selections(at: Place, part: o.ResourceSliceSpec | o.Device, empty: str) -> list[str]:
    """Check how a slice or a device says where it is; return the ways."""
    found = []
    if part.HasField("node_name"):
        if part.node_name:
            found.append("`nodeName`")
            at("nodeName").rule(part.node_name, dns1123_subdomain)
        else:
            at("nodeName").invalid("", empty)
    if part.HasField("node_selector"):
        found.append("`nodeSelector`")
        validate_node_selector(at("nodeSelector"), part.node_selector)
    if part.HasField("all_nodes"):
        if part.all_nodes:
            found.append("`allNodes`")
        else:
            at("allNodes").invalid(False, "must be either unset or set to true")
    return found


def _check_device(at: Place, device: o.Device, old: o.Device | None, per_device: bool) -> None:
    device_name(at("name"), device.name)
    count = len(device.attributes) + len(device.capacity)
    if count > MOST_ATTRIBUTES:
        reason = f"the total number of attributes and capacities must not exceed {MOST_ATTRIBUTES}"
        at.invalid(count, reason)
    else:
        _check_attributes(at, device, old)
    if old is None or device.taints != old.taints:
        for each, taint in at("taints").each(device.taints, MOST_TAINTS):
            validate_device_taint(each, taint)
    consumed = at("consumesCounters")
    by_set = attrgetter("counter_set")
    for each, consumption in consumed.each(device.consumes_counters, MOST_CONSUMPTIONS, key=by_set):
        each("counterSet").name(consumption.counter_set, dns1123_label)
        _check_counters(each("counters"), consumption.counters)
    if per_device:
        found = _selections(at, device, "must not be empty")
        if at.present(found, _ONE_OF_A_DEVICE) and len(found) > 1:
            at.invalid(f"{{{', '.join(found)}}}", _ONE_OF_A_DEVICE)
    elif any(map(device.HasField, ("node_name", "node_selector", "all_nodes"))):
        at.invalid(None, _NOT_OF_A_DEVICE)
    validate_binding_conditions(at, device)


def _check_attributes(at: Place, device: o.Device, old: o.Device | None) -> None:
    """Check attributes and capacities; not of a device with too many, which takes long."""
    attributes = device.attributes
    _check_map(at("attributes"), attributes, attribute_name, _check_attribute, _MOST_ATTRIBUTE_KEY)
    if old is None or device.capacity != old.capacity:
        check = _check_shareable if device.allow_multiple_allocations else _check_exclusive
        _check_map(at("capacity"), device.capacity, attribute_name, check, _MOST_ATTRIBUTE_KEY)


def _check_map(
    at: Place,
    items: Mapping[str, Any],
    check_key: Callable[[Place, str], None],
    check: Callable[[Place, Any], None],
    longest: int,
) -> None:
    for key in at.keys(sorted(items)):
        if len(key) > longest or not _is_good_key(check_key, key):
            check_key(at, key)
        check(at[_shortened(key, longest)], items[key])


# The devices of a slice are alike: with names and capacities checked once, a slice of 128 devices
# with 32 of them each takes 8 ms instead of 85.


@lru_cache(1 << 13)
def _is_good_key(check: Callable[[Place, str], None], key: str) -> bool:
    return not errors_of(check, key)


@lru_cache(1 << 13)
def _is_good_capacity(content: bytes) -> bool:
    return not errors_of(_check_policy, o.DeviceCapacity.FromString(content))


def _shortened(key: str, longest: int) -> str:
    """Return a key without its middle, if it is longer than keys can be."""
    if len(key) <= longest:
        return key
    rest = longest - 3
    return f"{key[: (rest + 1) // 2]}...{key[len(key) - rest // 2 :]}"


def _check_counters(at: Place, counters: Mapping[str, o.Counter]) -> None:
    if at.present(counters) and at.bounded(counters, MOST_COUNTERS):
        _check_map(at, counters, device_name, _check_value, _MOST_COUNTER_KEY)


def _check_value(at: Place, item: o.Counter | o.DeviceCapacity) -> None:
    parse_or_report(at("value"), item.value)


def _check_attribute(at: Place, attribute: o.DeviceAttribute) -> None:
    if attribute.HasField("string_value"):
        at("string").within(len(attribute.string_value.encode()), _MOST_VALUE_BYTES)
    if attribute.HasField("version_value"):
        version = attribute.version_value
        if len(version) > 4 * _MOST_VALUE_BYTES or _VERSION.fullmatch(version) is None:
            reason = "must be a string compatible with semver.org spec 2.0.0"
            at("version").invalid(version, reason)
        at("version").within(len(version.encode()), _MOST_VALUE_BYTES)
    if len(attribute.ListFields()) != 1:
        at.invalid(_go_attribute(attribute), "exactly one value must be specified")


def _check_exclusive(at: Place, capacity: o.DeviceCapacity) -> None:
    _check_value(at, capacity)
    if capacity.HasField("request_policy"):
        at("requestPolicy").forbidden("allowMultipleAllocations must be true")


def _check_shareable(at: Place, capacity: o.DeviceCapacity) -> None:
    content = capacity.SerializeToString(deterministic=True)
    if len(content) > _LONGEST_REMEMBERED or not _is_good_capacity(content):
        _check_policy(at, capacity)


def _check_policy(at: Place, capacity: o.DeviceCapacity) -> None:
    total = parse_or_report(at("value"), capacity.value)
    if total is None or not capacity.HasField("request_policy"):
        return
    policy, at = capacity.request_policy, at("requestPolicy")
    if policy.valid_values and policy.HasField("valid_range"):
        at.forbidden(
            'exactly one policy can be specified, cannot specify "validValues" and "validRange" at '
            "the same time"
        )
        return
    default = parse_or_report(at("default"), policy.default) if policy.HasField("default") else None
    if policy.valid_values:
        at("default").present(policy.HasField("default"), "required when validValues is defined")
        if default is not None:
            _check_valid_values(at("validValues"), policy, default, capacity.value)
    elif policy.HasField("valid_range"):
        at("default").present(policy.HasField("default"), "required when validRange is defined")
        if default is not None:
            _check_range(at("validRange"), policy, default, capacity.value)


def _check_valid_values(
    at: Place, policy: o.CapacityRequestPolicy, default: Fraction, total: str
) -> None:
    if not at.bounded(policy.valid_values, _MOST_VALID_VALUES):
        return
    amounts = []
    for each, text in at.each(policy.valid_values, _MOST_VALID_VALUES):
        amount = parse_or_report(each, text)
        if amount is None:
            return
        amounts.append(amount)
    for index, text in enumerate(policy.valid_values[1:], start=1):
        if amounts[index - 1] > amounts[index]:
            at[index].invalid(text, "values must be sorted in ascending order")
    for index, text in enumerate(policy.valid_values):
        if amounts[index] > quantity.parse(total):
            at[index].invalid(text, f"option is larger than capacity value: {total}")
    at.different(policy.valid_values, quantity.value, lambda text: str(quantity.value(text)))
    if default not in amounts:
        reason = "default value is not valid according to the requestPolicy"
        at.invalid(policy.default, reason)


def _check_range(at: Place, policy: o.CapacityRequestPolicy, default: Fraction, total: str) -> None:
    span, capacity = policy.valid_range, quantity.parse(total)
    if not at("min").present(span.HasField("min"), "required when validRange is defined"):
        return
    least = parse_or_report(at("min"), span.min)
    most = parse_or_report(at("max"), span.max) if span.HasField("max") else None
    step = parse_or_report(at("step"), span.step) if span.HasField("step") else None
    if least is None or (most is None and span.HasField("max")):
        return
    if least > capacity:
        at("min").invalid(span.min, f"min is larger than capacity value: {total}")
    if default < least:
        at("min").invalid(policy.default, f"default is less than min: {span.min}")
    if most is not None:
        if least > most:
            at("max").invalid(span.min, f"min is larger than max: {span.max}")
        if most > capacity:
            at("max").invalid(span.max, f"max is larger than capacity value: {total}")
        if default > most:
            at("max").invalid(policy.default, f"default is more than max: {span.max}")
    if step is not None:
        _check_step(at("step"), policy, least + step, total)


def _check_step(at: Place, policy: o.CapacityRequestPolicy, first: Fraction, total: str) -> None:
    span = policy.valid_range
    step, least = quantity.value(span.step), quantity.value(span.min)
    if quantity.parse(span.step) <= 0:
        at.invalid(span.step, "must be greater than zero")
        return
    if first > quantity.parse(total):
        shown = quantity.format_quantity(first)
        at.invalid(span.step, f"one step {shown} is larger than capacity value: {total}")
    for text in (policy.default, *((span.max,) if span.HasField("max") else ())):
        if (quantity.value(text) - least) % step:
            reason = f"value is not a multiple of a given step ({span.step}) from ({span.min})"
            at.invalid(text, reason)


# ------------------------------------------------------------------ as Kubernetes shows values


def _go_attribute(attribute: o.DeviceAttribute) -> object:
    if not attribute.ListFields():
        return ""
    return {
        name: getattr(attribute, field) if attribute.HasField(field) else None
        for name, field in (
            ("IntValue", "int_value"),
            ("BoolValue", "bool_value"),
            ("StringValue", "string_value"),
            ("VersionValue", "version_value"),
        )
    }


def _go_term(term: o.NodeSelectorTerm) -> dict[str, object]:
    def shown(requirements: Any) -> list[dict[str, object]] | None:
        return [
            {"Key": each.key, "Operator": each.operator, "Values": [*each.values] or None}
            for each in requirements
        ] or None

    return {
        "MatchExpressions": shown(term.match_expressions),
        "MatchFields": shown(term.match_fields),
    }
