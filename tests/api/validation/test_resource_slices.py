"""Rules of ResourceSlices."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject
from podsched.api.validation import validate

HERE = {"nodeName": "node-1"}
COUNTERS = {"counters": {"memory": {"value": "1Gi"}}}
NODE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
EITHER = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
    "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
)


def pool(*devices: dict[str, Any], where: dict[str, Any] = HERE, **spec: Any) -> AnyObject:
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}}
    named = {"name": "node-1", "generation": 0, "resourceSliceCount": 1}
    content = {"driver": "gpu.example.com", "pool": named, "devices": [*devices], **where, **spec}
    return from_manifest({**head, "spec": content}).message


def device(name: str = "gpu-0", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


def complaints(item: AnyObject, old: AnyObject | None = None) -> list[str]:
    return [str(error) for error in validate("ResourceSlice", item, old)]


def of_device(**fields: Any) -> list[str]:
    """What is wrong with a device, without its path."""
    found = complaints(pool(device(**fields)))
    assert all(each.startswith("spec.devices[0]") for each in found)
    return [each.removeprefix("spec.devices[0]").removeprefix(".") for each in found]


def of_policy(total: str = "8", **policy: Any) -> list[str]:
    """What is wrong with the request policy of a capacity."""
    capacity = {"m": {"value": total, "requestPolicy": policy}}
    found = of_device(capacity=capacity, allowMultipleAllocations=True)
    return [each.removeprefix("capacity[m].requestPolicy.") for each in found]


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        (HERE, []),
        ({"allNodes": True}, []),
        ({"nodeSelector": {"nodeSelectorTerms": [NODE]}}, []),
        (
            {},
            [
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                "`perDeviceNodeSelection` is required"
            ],
        ),
        (
            {**HERE, "allNodes": True},
            [
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
                "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple "
                "fields are set"
            ],
        ),
    ],
)
def test_a_slice_says_in_one_way_where_its_devices_are(
    where: dict[str, Any], wrong: list[str]
) -> None:
    assert complaints(pool(device(), where=where)) == wrong


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        (HERE, []),
        ({}, [f"spec.devices[0]: Required value: {EITHER}"]),
        (
            {**HERE, "allNodes": True},
            [f'spec.devices[0]: Invalid value: "{{`nodeName`, `allNodes`}}": {EITHER}'],
        ),
    ],
)
def test_or_each_device_says_it(fields: dict[str, Any], wrong: list[str]) -> None:
    assert complaints(pool(device(**fields), where={"perDeviceNodeSelection": True})) == wrong


def test_a_device_does_not_say_it_if_the_slice_does() -> None:
    (found,) = of_device(**HERE)
    assert found.endswith(
        "can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )


def test_a_slice_has_devices_or_counters() -> None:
    counters = [{"name": "c", **COUNTERS}]
    assert complaints(pool(sharedCounters=counters)) == []
    assert complaints(pool(device(), sharedCounters=counters)) == [
        'spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'
    ]


@pytest.mark.parametrize(
    ("count", "fields", "most"),
    [
        (128, {}, 0),
        (129, {}, 128),
        (64, {"taints": [{"key": "a", "effect": "None"}]}, 0),
        (65, {"taints": [{"key": "a", "effect": "None"}]}, 64),
        (65, {"consumesCounters": [{"counterSet": "c", **COUNTERS}]}, 64),
    ],
)
def test_devices_are_bounded(count: int, fields: dict[str, Any], most: int) -> None:
    item = pool(*(device(f"d-{index}", **fields) for index in range(count)))
    expected = [f"spec.devices: Too many: {count}: must have at most {most} items"] if most else []
    assert complaints(item) == expected


def test_attributes_and_capacities_are_bounded_together() -> None:
    attributes = {f"a{index}": {"int": index} for index in range(31)}
    assert of_device(attributes=attributes, capacity={"m": {"value": "1"}}) == []
    assert of_device(
        attributes=attributes, capacity={"m": {"value": "1"}, "n": {"value": "1"}}
    ) == [": Invalid value: 33: the total number of attributes and capacities must not exceed 32"]


@pytest.mark.parametrize(
    ("attribute", "wrong"),
    [
        ({"int": 0}, []),
        ({"bool": False}, []),
        ({"string": ""}, []),
        ({"version": "1.2.3-rc.1+build.7"}, []),
        ({}, ['attributes[a]: Invalid value: "": exactly one value must be specified']),
        (
            {"int": 1, "bool": True},
            [
                'attributes[a]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,'
                '"VersionValue":null}: exactly one value must be specified'
            ],
        ),
        ({"string": "x" * 65}, ["attributes[a].string: Too long: may not be more than 64 bytes"]),
        (
            {"version": "1.2"},
            [
                'attributes[a].version: Invalid value: "1.2": must be a string compatible with '
                "semver.org spec 2.0.0"
            ],
        ),
    ],
)
def test_an_attribute_has_one_value(attribute: dict[str, Any], wrong: list[str]) -> None:
    assert of_device(attributes={"a": attribute}) == wrong


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("a", ""),
        ("gpu.example.com/a", ""),
        ("a-b", "a valid C identifier must start with"),
        ("/a", "the domain must not be empty"),
        ("gpu.example.com/", "the name must not be empty"),
        ("a/b/c", ""),
        ("a" * 33, "Too long: may not be more than 32 bytes"),
    ],
)
def test_attributes_are_named_like_variables(name: str, wrong: str) -> None:
    found = of_device(attributes={name: {"int": 1}})
    assert len(found) == bool(wrong)
    assert all(wrong in each for each in found)


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        ({"default": "2", "validValues": ["1", "2", "4"]}, []),
        ({"default": "2", "validRange": {"min": "2", "max": "8", "step": "2"}}, []),
        ({"validValues": ["1"]}, ["default: Required value: required when validValues is defined"]),
        (
            {"default": "3", "validValues": ["4", "2", "16"]},
            [
                'validValues[1]: Invalid value: "2": values must be sorted in ascending order',
                'validValues[2]: Invalid value: "16": option is larger than capacity value: 8',
                'validValues: Invalid value: "3": default value is not valid according to the '
                "requestPolicy",
            ],
        ),
        (
            {"default": "1", "validRange": {}},
            ["validRange.min: Required value: required when validRange is defined"],
        ),
        (
            {"default": "1", "validRange": {"min": "2", "max": "16"}},
            [
                'validRange.min: Invalid value: "1": default is less than min: 2',
                'validRange.max: Invalid value: "16": max is larger than capacity value: 8',
            ],
        ),
        (
            {"default": "3", "validRange": {"min": "2", "step": "2"}},
            [
                'validRange.step: Invalid value: "3": value is not a multiple of a given step (2) '
                "from (2)"
            ],
        ),
        (
            {"default": "4", "validRange": {"min": "1", "max": "2"}},
            ['validRange.max: Invalid value: "4": default is more than max: 2'],
        ),
        (
            {"default": "2", "validRange": {"min": "2", "max": "x", "step": "2"}},
            [
                'validRange.max: Invalid value: "x": quantities must match the regular expression '
                "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            ],
        ),
        (
            {"default": "2", "validRange": {"min": "2", "step": "0"}},
            ['validRange.step: Invalid value: "0": must be greater than zero'],
        ),
        (
            {"default": "2", "validRange": {"min": "2", "step": "1n"}},
            [],
        ),
    ],
)
def test_a_request_policy_agrees_with_itself(policy: dict[str, Any], wrong: list[str]) -> None:
    assert of_policy(**policy) == wrong


def test_only_a_device_for_several_has_a_request_policy() -> None:
    capacity = {"m": {"value": "8", "requestPolicy": {"default": "1"}}}
    assert of_device(capacity=capacity) == [
        "capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"
    ]


def test_conditions_for_binding_come_with_those_that_it_failed() -> None:
    both = {"bindingConditions": ["a", "b"], "bindingFailureConditions": ["c"]}
    assert of_device(**both) == []
    assert of_device(bindingConditions=["a"]) == [
        "bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to "
        "use bindingConditions"
    ]
    assert of_device(bindingConditions=["a", "a"], bindingFailureConditions=["a"]) == [
        'bindingConditions[1]: Duplicate value: "a"',
        'bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not '
        "overlap with bindingConditions",
    ]


def test_driver_pool_and_node_stay() -> None:
    moved = pool(where={"nodeName": "node-2"}, driver="other.example.com")
    assert complaints(moved, pool()) == [
        'spec.driver: Invalid value: "other.example.com": field is immutable',
        'spec.nodeName: Invalid value: "node-2": field is immutable',
    ]


def test_a_taint_that_is_stored_may_stay_whatever_it_is() -> None:
    strange = {"key": "a", "effect": "Strange"}
    old = pool(device(taints=[strange]))
    assert complaints(pool(device(taints=[strange], attributes={"a": {"int": 1}})), old) == []
    (found,) = complaints(pool(device(taints=[strange, strange])), old)[:1]
    assert found.startswith('spec.devices[0].taints[0].effect: Unsupported value: "Strange"')


@pytest.mark.parametrize("text", ["", "1GiB", "9" * 5000])
def test_amounts_are_quantities(text: str) -> None:
    for fields in (
        {"capacity": {"m": {"value": text}}},
        {"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": text}}}]},
    ):
        (found,) = of_device(**fields)
        assert "quantities must match the regular expression" in found
