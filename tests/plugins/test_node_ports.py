"""NodePorts: which host ports conflict."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.objects import Pod
from podsched.framework.events import ActionType, QueueingHint, Resource
from podsched.framework.status import Code
from podsched.plugins.node_ports import REASON, NodePorts
from support.engine_world import node, pod
from support.plugin_world import cluster, filtered, hinted, pre_filtered

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def port(number: int, ip: str = "", protocol: str = "") -> dict[str, Any]:
    return {"containerPort": 1, "hostPort": number, "hostIP": ip, "protocol": protocol}


def using(name: str, *ports: dict[str, Any], node_name: str = "", kind: str = "containers") -> Pod:
    spec: dict[str, Any] = {"containers": [{"name": "c"}], "nodeName": node_name}
    spec[kind] = [{"name": "x", "ports": list(ports)}]
    if kind == "sidecars":
        spec["initContainers"] = [{**spec.pop(kind)[0], "restartPolicy": "Always"}]
    return pod(name, spec)


@pytest.mark.parametrize(
    ("used", "wanted", "fits"),
    [
        (port(80), port(80), False),
        (port(80), port(81), True),
        (port(80), port(80, protocol="UDP"), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.2"), True),
        (port(80, "127.0.0.1"), port(80, "127.0.0.1"), False),
        (port(80, "127.0.0.1"), port(80), False),
        (port(80), port(80, "127.0.0.1"), False),
        (port(80, "0.0.0.0"), port(80, "10.0.0.1"), False),
        (port(80), port(80, protocol="TCP"), False),
    ],
)
def test_ports_conflict_by_number_protocol_and_address(
    used: dict[str, Any], wanted: dict[str, Any], fits: bool
) -> None:
    state = cluster(node("n"), node("free"), pods=[using("there", used, node_name="n")])
    said = filtered(NodePorts(), using("p", wanted), state)
    assert said["free"].ok
    assert said["n"].ok is fits
    if not fits:
        assert (said["n"].code, said["n"].reasons) == (Code.UNSCHEDULABLE, (REASON,))


@pytest.mark.parametrize(("kind", "fits"), [("initContainers", True), ("sidecars", False)])
def test_of_init_containers_only_sidecars_hold_ports(kind: str, fits: bool) -> None:
    there = using("there", port(80), node_name="n", kind=kind)
    state = cluster(node("n"), pods=[there])
    assert filtered(NodePorts(), using("p", port(80)), state)["n"].ok is fits


def test_a_pod_without_host_ports_is_skipped() -> None:
    assert pre_filtered(NodePorts(), using("p", port(0)), cluster()).status.skipped


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        (using("o", port(80), node_name="n"), QUEUE),
        (using("o", port(80, "127.0.0.1"), node_name="n"), QUEUE),
        (using("o", port(81), node_name="n"), SKIP),
        (using("o", node_name="n"), SKIP),
        (using("o", port(80)), SKIP),
    ],
)
def test_a_deleted_pod_wakes_those_that_want_its_ports(gone: Pod, hint: QueueingHint) -> None:
    event = (Resource.ASSIGNED_POD, ActionType.DELETE)
    assert hinted(NodePorts(), using("p", port(80)), event, gone, None) is hint


def test_a_new_node_wakes_the_pod() -> None:
    event = (Resource.NODE, ActionType.ADD)
    assert hinted(NodePorts(), using("p", port(80)), event, None, node("n")) is QUEUE
