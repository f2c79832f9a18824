"""Groups of nodes rejected for the same reasons, and by how much they miss."""

from __future__ import annotations

import pytest

from podsched.ask.explain.explanation import MAX_GROUPS
from podsched.v1.scheduling_pb2 import NodeGroup, Shortfall
from support.explain_world import ExplainWorld


def cpus(world: ExplainWorld, **of_node: str) -> None:
    """Nodes with so much cpu each."""
    for name, cpu in of_node.items():
        world.node(name, allocatable={"cpu": cpu, "memory": "8Gi", "pods": "10"})


def only_group(world: ExplainWorld, name: str) -> NodeGroup:
    [group] = world.explain(name).groups
    return group


def amounts(short: Shortfall) -> list[tuple[str, int, int, int]]:
    return [(s.node, s.wanted, s.available, s.lacks) for s in (short.least, short.most)]


def test_nodes_that_lack_the_same_are_one_group_with_the_nearest_first() -> None:
    world = ExplainWorld()
    cpus(world, a="8", b="8", c="8", d="8", e="8", f="8", g="8")
    for name, used in zip("abcdefg", ("7", "6", "5", "6500m", "7", "5", "7500m"), strict=True):
        world.pod(f"on-{name}", used, on=name)
    world.pod("web", "3500m")
    group = only_group(world, "web")
    assert (group.nodes, group.plugin, group.code) == (7, "NodeResourcesFit", "Unschedulable")
    assert list(group.examples) == ["c", "f", "b", "d", "a"]
    [cpu] = group.shortfalls
    assert (cpu.what, cpu.unit, cpu.nodes) == ("cpu", "m", 7)
    assert amounts(cpu) == [("c", 3500, 3000, 500), ("g", 3500, 500, 3000)]


def test_what_can_never_fit_is_a_group_of_its_own() -> None:
    world = ExplainWorld()
    cpus(world, small="1", large="4")
    world.pod("there", "3", on="large")
    world.pod("web", "2")
    found = {(g.code, *g.examples) for g in world.explain("web").groups}
    assert found == {("UnschedulableAndUnresolvable", "small"), ("Unschedulable", "large")}


def test_every_resource_that_is_short_is_told_and_pods_count_as_one() -> None:
    world = ExplainWorld()
    world.node("a", allocatable={"cpu": "1", "memory": "1Gi", "pods": "1"})
    world.pod("there", on="a")
    spec = {"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1536Mi"}}}
    world.pod("web", containers=[spec])
    found = {s.what: (s.unit, s.least.lacks) for s in only_group(world, "web").shortfalls}
    assert found == {"cpu": ("m", 1100), "memory": ("bytes", 512 << 20), "pods": ("", 1)}


@pytest.mark.parametrize(("more", "told"), [
    (1, "Not listed: 1 node in 1 more group."), (2, "Not listed: 2 nodes in 2 more groups."),
])  # fmt: skip
def test_groups_beyond_those_that_are_listed_are_counted(more: int, told: str) -> None:
    world = ExplainWorld()
    wanted = {f"example.com/r{number}": "1" for number in range(MAX_GROUPS + more)}
    for name in wanted:
        offered = {other: "1" for other in wanted if other != name}
        world.node(name.partition("/")[2], allocatable={"cpu": "1", "pods": "9", **offered})
    world.pod("web", containers=[{"name": "c", "resources": {"requests": wanted}}])
    found = world.explain("web")
    assert (len(found.groups), list(found.notes)) == (MAX_GROUPS, [told])


def test_ports_that_are_taken_are_named() -> None:
    world = ExplainWorld()
    cpus(world, a="4")
    ports = [{"containerPort": 80, "hostPort": number} for number in (80, 81)]
    world.pod("there", on="a", containers=[{"name": "c", "ports": ports[:1]}])
    world.pod("web", containers=[{"name": "c", "ports": ports}])
    assert [s.what for s in only_group(world, "web").shortfalls] == ["host port 80/TCP"]


def test_taints_and_labels_in_the_way_are_named() -> None:
    world = ExplainWorld()
    taint = {"key": "dedicated", "value": "db", "effect": "NoSchedule"}
    world.node("a", taints=[taint])
    world.node("b", labels={"disk": "hdd"})
    term = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.pod("web", nodeSelector={"disk": "ssd"}, affinity={"nodeAffinity": required})
    found = {g.plugin: [s.what for s in g.shortfalls] for g in world.explain("web").groups}
    assert found == {
        "TaintToleration": ["toleration of dedicated=db:NoSchedule"],
        "NodeAffinity": ["label disk=ssd", "label gen>3"],
    }


def test_nodes_that_the_pod_does_not_name_are_told_which_it_names() -> None:
    world = ExplainWorld()
    cpus(world, a="4", b="1")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    world.pod("web", "2", affinity={"nodeAffinity": required})
    explained = world.explain("web", "a")
    found = {tuple(g.examples): [s.what for s in g.shortfalls] for g in explained.groups}
    assert found == {("a",): ["metadata.name in (b)"], ("b",): ["cpu"]}
    assert [s.what for s in explained.node_verdicts[0].shortfalls] == ["metadata.name in (b)"]


def test_a_skew_is_told_with_what_is_allowed() -> None:
    world = ExplainWorld()
    for name, zone in (("a", "x"), ("b", "y")):
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
        world.node(name, labels=labels, unschedulable=name == "b")
    for number in range(3):
        world.pod(f"web-{number}", on="a", labels={"app": "web"})
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    world.pod("web", labels={"app": "web"}, topologySpreadConstraints=[spread])
    groups = {group.plugin: group for group in world.explain("web").groups}
    [skew] = groups["PodTopologySpread"].shortfalls
    assert skew.what == "skew of topology.kubernetes.io/zone"
    assert amounts(skew)[0] == ("a", 4, 1, 3)


def test_what_nominated_pods_take_is_missed_as_well() -> None:
    world = ExplainWorld()
    cpus(world, a="4")
    world.pod("large", "3", priority=10)
    large = world.state.cache.cluster.pods["default/large"]
    world.state.cache.nominate(large, "a")
    world.pod("web", "2")
    [cpu] = only_group(world, "web").shortfalls
    assert amounts(cpu)[0] == ("a", 2000, 1000, 1000)


def test_nodes_asked_for_are_told_one_by_one() -> None:
    world = ExplainWorld()
    cpus(world, a="1", b="4")
    world.pod("web", "3")
    found = world.explain("web", "b", "a", "nowhere").node_verdicts
    assert [(v.node, v.code) for v in found] == [
        ("b", "Success"),
        ("a", "UnschedulableAndUnresolvable"),
        ("nowhere", "NotFound"),
    ]
    assert found[0].score.rank == 1
    assert found[1].shortfalls[0].least.lacks == 2000
