"""RuntimeClasses: handler, overhead, scheduling."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest, to_manifest
from podsched.api.objects import RuntimeClass
from podsched.api.validation import validate

KATA: dict[str, Any] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}]},
}


def runtime_class(**fields: Any) -> RuntimeClass:
    message = from_manifest({**KATA, **fields}).message
    assert isinstance(message, RuntimeClass)
    return message


def test_manifests_are_read_and_printed_back() -> None:
    assert validate("RuntimeClass", runtime_class()) == []
    assert to_manifest(runtime_class()) == KATA


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"handler": "Not A Label"}, "handler"),
        ({"handler": ""}, "handler"),
        ({"overhead": {"podFixed": {"cpu": "-1"}}}, "overhead.limits[cpu]"),
        ({"overhead": {"podFixed": {"disks": "1"}}}, "overhead.limits[disks]"),
        ({"scheduling": {"nodeSelector": {"a b": "c"}}}, "scheduling.nodeSelector"),
        ({"scheduling": {"tolerations": [{"effect": "No"}]}}, "scheduling.tolerations[0]"),
    ],
)
def test_a_mistake_is_told_with_its_path(fields: dict[str, Any], path: str) -> None:
    found = validate("RuntimeClass", runtime_class(**fields))
    assert found and all(error.path.startswith(path) for error in found)


def test_the_handler_stays() -> None:
    found = validate("RuntimeClass", runtime_class(handler="runc"), runtime_class())
    assert [str(e) for e in found] == ['handler: Invalid value: "runc": field is immutable']
