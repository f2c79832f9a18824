"""Quantities in messages, and the comparison of messages by their amounts."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.api.quantity_fields import are_same, by_amount


def pod(cpu: str, memory: str = "1Gi", **spec: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
    metadata = {"name": "web", "namespace": "default"}
    found = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], **spec},
        }
    ).message
    assert isinstance(found, Pod)
    return found


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("1", "1Gi"), id="written alike"),
        pytest.param(pod("1000m", "1024Mi"), id="another suffix"),
        pytest.param(pod("1.0", "1073741824"), id="another family of suffixes"),
    ],
)
def test_objects_with_equal_amounts_are_the_same(other: Pod) -> None:
    assert are_same(pod("1", "1Gi"), other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod("2"), id="another amount"),
        pytest.param(pod("1000m", nodeName="n1"), id="another field"),
        pytest.param(pod("much"), id="no quantity"),
        pytest.param(None, id="nothing"),
    ],
)
def test_objects_that_differ_in_more_than_writing_are_not_the_same(other: Pod | None) -> None:
    assert not are_same(pod("1"), other)


def test_the_objects_that_are_compared_stay_as_they_are_written() -> None:
    written = pod("1000m")
    assert by_amount(written) != written == pod("1000m")
