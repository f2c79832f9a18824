from __future__ import annotations

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.objects import Node
from podsched.config.settings import AgentSettings
from podsched.serve.agent import heartbeats
from podsched.serve.agent.heartbeats import RenewalSchedule, new_lease
from podsched.serve.agent.nodes import (
    BadNode,
    nodes_of_manifests,
    nodes_of_settings,
    registration,
    repair,
    repaired_conditions,
)

NOW = 1_700_000_000.0


def node(name: str, **annotations: str) -> Node:
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": {"disk": "ssd"}},
        "status": {"allocatable": {"cpu": "8"}},
    }
    message = from_manifest(manifest).message
    assert isinstance(message, Node)
    return message


def with_condition(status: str, **others: str) -> Node:
    item = node("n1")
    for type_, value in {"Ready": status, **others}.items():
        item.status.conditions.add(type=type_, status=value)
    return item


def test_nodes_of_a_shape_are_numbered_and_share_the_zones() -> None:
    settings = AgentSettings(nodes=3, node_cpu="2", zones=("a", "b"))
    nodes = nodes_of_settings(settings)
    assert [n.metadata.name for n in nodes] == ["node-0000", "node-0001", "node-0002"]
    zones = [n.metadata.labels["topology.kubernetes.io/zone"] for n in nodes]
    assert zones == ["a", "b", "a"]
    assert dict(nodes[0].status.capacity) == {"cpu": "2", "memory": "32Gi", "pods": "110"}


def test_a_manifest_makes_as_many_nodes_as_its_annotation_says() -> None:
    one, *copies = nodes_of_manifests([node("one"), node("zone", **{"podsched.io/count": "2"})])
    assert one.metadata.name == "one"
    assert [n.metadata.name for n in copies] == ["zone-0", "zone-1"]
    assert [n.metadata.labels["kubernetes.io/hostname"] for n in copies] == ["zone-0", "zone-1"]
    assert all(n.metadata.labels["disk"] == "ssd" for n in copies)
    assert not copies[0].metadata.annotations


@pytest.mark.parametrize("count", ["many", "-1", "1.5", ""])
def test_a_count_is_a_number(count: str) -> None:
    with pytest.raises(BadNode, match="must be a number"):
        nodes_of_manifests([node("zone", **{"podsched.io/count": count})])


def test_a_name_is_there_once() -> None:
    with pytest.raises(BadNode, match="twice"):
        nodes_of_manifests([node("zone-0"), node("zone", **{"podsched.io/count": "1"})])


def test_a_node_registers_ready_with_its_labels() -> None:
    new = registration(node("n1"), NOW)
    assert new.metadata.labels["kubernetes.io/hostname"] == "n1"
    assert new.metadata.labels["kubernetes.io/os"] == "linux"
    assert new.metadata.labels["beta.kubernetes.io/os"] == "linux"
    assert new.metadata.labels["beta.kubernetes.io/arch"] == "amd64"
    assert new.status.capacity["cpu"] == "8"
    conditions = {c.type: c.status for c in new.status.conditions}
    pressures = dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "False")
    assert conditions == {"Ready": "True", **pressures}


def test_a_node_registers_as_hollow() -> None:
    new = registration(node("n1"), NOW)
    assert new.metadata.labels["podsched.io/hollow"] == "true"
    assert new.status.node_info.kubelet_version.startswith("hollow-")
    (ready,) = (c for c in new.status.conditions if c.type == "Ready")
    assert ready.message == "hollow node of sched agent: nothing runs on it"


def test_a_node_that_is_adopted_is_marked_as_hollow_once() -> None:
    adopted = with_condition("True")
    assert repair(adopted, NOW) == {"metadata": {"labels": {"podsched.io/hollow": "true"}}}
    assert repair(registration(adopted, NOW), NOW) == {}


def test_conditions_that_a_manifest_gives_are_kept() -> None:
    new = registration(with_condition("False", MemoryPressure="True"), NOW)
    conditions = {c.type: c.status for c in new.status.conditions}
    assert conditions["Ready"] == "False"
    assert conditions["MemoryPressure"] == "True"


@pytest.mark.parametrize(
    ("item", "resumed", "expected"),
    [
        (with_condition("True", MemoryPressure="True"), False, {}),
        (with_condition("False"), False, {}),
        (with_condition("False"), True, {"Ready": "True"}),
        (with_condition("Unknown"), False, {"Ready": "True"}),
        (node("n1"), False, {"Ready": "True"}),
        (
            with_condition("Unknown", MemoryPressure="Unknown", Own="Unknown"),
            True,
            {"Ready": "True", "MemoryPressure": "False", "Own": "Unknown"},
        ),
    ],
    ids=["well", "not ready by somebody", "resumed", "unknown", "no condition", "pressures"],
)
def test_a_condition_is_repaired_only_if_unknown_missing_or_from_before_a_resume(
    item: Node, resumed: bool, expected: dict[str, str]
) -> None:
    repaired = repaired_conditions(item, NOW, resumed=resumed)
    assert {c.type: c.status for c in repaired} == expected


def test_renewals_are_spread_evenly_and_each_node_has_one_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(heartbeats, "SLOTS", 4)
    wheel = RenewalSchedule()
    names = [f"n{index}" for index in range(10)]
    for name in names:
        wheel.add(name)
    wheel.add("n0")
    turns = [wheel.turn() for _ in range(4)]
    assert sorted(len(turn) for turn in turns) == [2, 2, 3, 3]
    assert sorted(name for turn in turns for name in turn) == sorted(names)
    wheel.remove("n3")
    wheel.remove("n3")
    assert "n3" not in [name for _ in range(4) for name in wheel.turn()]


def test_a_lease_belongs_to_its_node() -> None:
    item = node("n1")
    item.metadata.uid = "u1"
    lease = new_lease(item, NOW)
    assert (lease.metadata.namespace, lease.metadata.name) == ("kube-node-lease", "n1")
    assert lease.metadata.owner_references[0].uid == "u1"
    assert lease.spec.renew_time.ToNanoseconds() == NOW * 1e9


@pytest.mark.parametrize("count", ["100001", "1000000000", "9" * 5000])
def test_a_count_is_bounded(count: str) -> None:
    with pytest.raises(BadNode, match="must be at most 100000"):
        nodes_of_manifests([node("zone", **{"podsched.io/count": count})])
