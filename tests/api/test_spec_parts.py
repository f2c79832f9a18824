"""Specs without the resources of their containers, of which more is remembered."""

from __future__ import annotations

import pytest

from podsched.api.objects import Pod, PodSpec
from podsched.api.pod_defaulting import default_pod
from podsched.api.priorities import PriorityClasses
from podsched.api.spec_parts import give_resources, take_resources
from podsched.api.validation import validate


def pod_with(requests: dict[str, str], limits: dict[str, str], name: str = "web") -> Pod:
    """A pod with a container that has these resources, and an init container that has none."""
    pod = Pod()
    pod.metadata.name = "web-0"
    container = pod.spec.containers.add(name=name, image="web:1")
    container.resources.requests.update(requests)
    container.resources.limits.update(limits)
    pod.spec.init_containers.add(name="init", image="init:1")
    default_pod(pod, now=0, uid="u", priority_classes=PriorityClasses())
    return pod


def test_what_is_taken_out_of_a_spec_can_be_put_back() -> None:
    spec = pod_with({"cpu": "1"}, {"memory": "1Gi"}).spec
    before = PodSpec()
    before.CopyFrom(spec)
    taken = take_resources(spec)
    assert not any(container.HasField("resources") for container in spec.containers)
    give_resources(spec, taken)
    assert spec == before


def test_each_pod_gets_its_own_requests_and_quality_of_service() -> None:
    first = pod_with({"cpu": "1"}, {})
    second = pod_with({}, {"cpu": "2", "memory": "1Gi"})
    assert dict(first.spec.containers[0].resources.requests) == {"cpu": "1"}
    assert dict(second.spec.containers[0].resources.requests) == {"cpu": "2", "memory": "1Gi"}
    assert first.status.qos_class == "Burstable"
    assert second.spec.containers[0].image_pull_policy == "IfNotPresent"


@pytest.mark.parametrize(
    ("requests", "limits", "name", "paths"),
    [
        ({"cpu": "1"}, {"cpu": "2"}, "web", []),
        ({"cpu": "3"}, {"cpu": "2"}, "web", ["resources.requests"]),
        ({"cpu": "-1"}, {}, "web", ["resources.requests[cpu]"]),
        ({"cpu": "one"}, {}, "web", ["resources.requests[cpu]"]),
        ({"example.com/gpu": "1"}, {}, "web", ["resources.limits"]),
        ({"cpu": "1"}, {}, "Web", ["name"]),
        ({"cpu": "-1"}, {}, "Web", ["name", "resources.requests[cpu]"]),
    ],
)
def test_a_mistake_in_either_part_is_told_with_its_path(
    requests: dict[str, str], limits: dict[str, str], name: str, paths: list[str]
) -> None:
    found = validate("Pod", pod_with(requests, limits, name))
    assert [error.path for error in found] == [f"spec.containers[0].{path}" for path in paths]
