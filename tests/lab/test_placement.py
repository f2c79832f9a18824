"""The simple rules by which results are checked."""

from __future__ import annotations

from podsched.api.objects import Container, Pod
from podsched.lab.placement import port_conflict


def with_port(*, sidecar: bool = False, runs_once: bool = False) -> Pod:
    pod = Pod()
    containers = pod.spec.init_containers if sidecar or runs_once else pod.spec.containers
    container: Container = containers.add(name="c")
    container.ports.add(host_port=80, container_port=80)
    if sidecar:
        container.restart_policy = "Always"
    return pod


def test_a_port_of_a_sidecar_is_in_use_as_long_as_those_of_containers() -> None:
    pods = {"d/a": with_port(), "d/b": with_port(sidecar=True)}
    assert port_conflict(pods) == "d/a and d/b share 80/TCP"
    assert not port_conflict({**pods, "d/b": with_port(runs_once=True)})
