"""LimitRanges: types, resources, and bounds that fit together."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.validation import validate


def problems(*items: dict[str, Any]) -> list[str]:
    manifest = {"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": list(items)}}
    message = from_manifest({**manifest, "metadata": {"name": "l", "namespace": "n"}}).message
    return [str(error) for error in validate("LimitRange", message)]


def test_the_usual_one_is_valid() -> None:
    container = {
        "type": "Container",
        "min": {"cpu": "100m"},
        "max": {"cpu": "2"},
        "defaultRequest": {"cpu": "200m"},
        "default": {"cpu": "1"},
        "maxLimitRequestRatio": {"cpu": "10"},
    }
    claims = {"type": "PersistentVolumeClaim", "max": {"storage": "1Ti"}}
    assert problems(container, {"type": "Pod", "max": {"memory": "1Gi"}}, claims) == []


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({"type": "Node"}, 'type: Invalid value: "Node": must be a standard limit type or fully'),
        ({"type": "Pod", "default": {"cpu": "1"}}, "default: Forbidden: may not be specified"),
        ({"type": "Pod", "max": {"gpus": "1"}}, "max[gpus]: Invalid value: "),
        ({"type": "Pod", "max": {"cpu": "many"}}, "max[cpu]: Invalid value: "),
        (
            {"type": "PersistentVolumeClaim"},
            "limits: Required value: either minimum or maximum storage value is required",
        ),
        (
            {"type": "PersistentVolumeClaim", "min": {"storage": "1", "gpus": "1"}},
            'min[gpus]: Invalid value: "gpus": must be a standard resource type',
        ),
        (
            {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}},
            'min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
        ),
        (
            {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
            'defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request '
            "value 1",
        ),
        (
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "2"}},
            'defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than '
            "default limit value 1",
        ),
        (
            {"type": "Container", "default": {"cpu": "3"}, "max": {"cpu": "2"}},
            'default[cpu]: Invalid value: "2": default value 3 is greater than max value 2',
        ),
        (
            {"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}},
            'maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
        ),
        (
            {
                "type": "Container",
                "min": {"cpu": "1"},
                "max": {"cpu": "2"},
                "maxLimitRequestRatio": {"cpu": "3"},
            },
            'maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = '
            "2.000000",
        ),
        (
            {
                "type": "Container",
                "default": {"example.com/gpu": "2"},
                "defaultRequest": {"example.com/gpu": "1"},
            },
            'defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to '
            "defaultRequest value 1 in example.com/gpu",
        ),
    ],
)
def test_a_mistake_is_told_with_its_path(item: dict[str, Any], problem: str) -> None:
    found = problems(item)
    assert len(found) == 1
    assert found[0].startswith(f"spec.limits[0].{problem}")


def test_a_ratio_beyond_all_floats_is_told_too() -> None:
    item = {"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "8e400"}}
    [found] = problems({**item, "maxLimitRequestRatio": {"cpu": "9e400"}})
    assert found.endswith(f"max/min = 8{400 * '0'}.000000")


def test_a_type_comes_once() -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}}
    assert problems(item, item) == ['spec.limits[1].type: Duplicate value: "Pod"']
