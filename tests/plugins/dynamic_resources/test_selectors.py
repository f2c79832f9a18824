"""CEL selectors on the allocator's devices."""

from __future__ import annotations

import pytest

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.plugins.dynamic_resources.model import Device, Features
from podsched.plugins.dynamic_resources.selectors import selector_compiler
from support.device_world import read_slice

DRIVER = "gpu.example.com"


def device() -> Device:
    (found,) = read_slice(
        {
            "metadata": {"name": "slice"},
            "spec": {
                "driver": DRIVER,
                "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "node",
                "devices": [
                    {
                        "name": "gpu-0",
                        "attributes": {"model": {"string": "a100"}, "links": {"ints": [1, 2]}},
                        "capacity": {"memory": {"value": "80Gi"}, "lanes": {"value": "1000m"}},
                        "allowMultipleAllocations": True,
                    }
                ],
            },
        }
    ).devices
    return found


@pytest.mark.parametrize(
    "expression",
    [
        'device.driver == "gpu.example.com"',
        "device.allowMultipleAllocations",
        'device.attributes["gpu.example.com"].model == "a100"',
        'device.capacity["gpu.example.com"].memory.compareTo(quantity("80Gi")) == 0',
        # Kubernetes does not take 1000m for an integer.
        '!device.capacity["gpu.example.com"].lanes.isInteger()',
        '2 in device.attributes["gpu.example.com"].links',
    ],
)
def test_a_selector_sees_all_of_the_device(expression: str) -> None:
    selector = selector_compiler(Features(list_type_attributes=True))(expression)
    assert selector.matches(device().view)


def test_a_list_is_no_attribute_without_its_gate() -> None:
    selector = selector_compiler(Features())("true")
    with pytest.raises(EvaluationError, match="attribute links: unsupported attribute value"):
        selector.matches(device().view)


def test_what_is_no_selector_does_not_compile() -> None:
    with pytest.raises(CompileError, match="undeclared reference to 'node'"):
        selector_compiler(Features())("node == 1")
