"""Where lowered requests are taken from."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.resources import requests_in_units
from podsched.ask.explain.changes.requests import with_requests
from podsched.v1 import objects_pb2 as v1
from support.engine_world import pod


def asking(name: str, cpu: str, **parts: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}, **parts}


def cpu_of(changed: v1.Pod | None) -> dict[str, str]:
    assert changed is not None
    containers = (*changed.spec.init_containers, *changed.spec.containers)
    return {c.name: c.resources.requests["cpu"] for c in containers}


def test_the_container_that_asks_for_most_gives_up_first() -> None:
    both = pod("p", {"containers": [asking("big", "3"), asking("small", "500m")]})
    assert cpu_of(with_requests(both, {"cpu": 2000})) == {"big": "1500m", "small": "500m"}
    assert cpu_of(with_requests(both, {"cpu": 300})) == {"big": "0", "small": "300m"}


def test_init_containers_are_capped_beside_the_sidecars_that_run_by_then() -> None:
    spec = {
        "initContainers": [
            asking("side", "200m", restartPolicy="Always"),
            asking("init", "2"),
        ],
        "containers": [asking("main", "1")],
    }
    lowered = with_requests(pod("p", spec), {"cpu": 1000})
    assert cpu_of(lowered) == {"side": "200m", "init": "800m", "main": "800m"}


def test_overhead_stays_and_sets_a_floor() -> None:
    heavy = pod("p", {"containers": [asking("c", "1")], "overhead": {"cpu": "250m"}})
    assert cpu_of(with_requests(heavy, {"cpu": 1000})) == {"c": "750m"}
    assert with_requests(heavy, {"cpu": 200}) is None


def test_requests_of_the_pod_as_a_whole_are_lowered_with_those_of_its_containers() -> None:
    whole = pod("p", {"containers": [asking("c", "2")], "resources": {"requests": {"cpu": "3"}}})
    lowered = with_requests(whole, {"cpu": 1000})
    assert lowered is not None
    assert lowered.spec.resources.requests["cpu"] == "1"
    assert cpu_of(lowered) == {"c": "1"}


@pytest.mark.parametrize("resource", ["example.com/gpu", "hugepages-2Mi"])
def test_limits_follow_where_they_must_equal_requests(resource: str) -> None:
    both = {"requests": {resource: "4"}, "limits": {resource: "4"}}
    lowered = with_requests(
        pod("p", {"containers": [{"name": "c", "resources": both}]}), {resource: 1}
    )
    assert lowered is not None
    assert lowered.spec.containers[0].resources.limits[resource] == "1"
    assert requests_in_units(lowered) == {resource: 1}
