"""The indexes of node and port events name every pod that the hint wakes, and hardly another."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from podsched.api.objects import Node, Pod
from podsched.framework.events import ClusterEventWithHint, QueueingHint, Resource
from podsched.plugins.node_affinity import NodeAffinity
from podsched.plugins.node_ports import NodePorts
from podsched.plugins.node_unschedulable import NodeUnschedulable
from podsched.plugins.taint_toleration import TaintToleration
from support.engine_world import node, pod
from support.plugin_world import info, made

OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist", "Gt"]
VALUES = {"In": ["1", "2"], "NotIn": ["1"], "Gt": ["1"]}


def candidates_and_woken(
    registered: ClusterEventWithHint, waiting: list[Pod], old: Any, new: Any
) -> tuple[set[str], set[str]]:
    """The names of those the index names, and of those the hint wakes."""
    assert registered.index is not None and registered.hint is not None
    index = registered.index()
    infos = {one.metadata.name: info(one) for one in waiting}
    for name, one in infos.items():
        index.add(name, one)
    named = index.candidates(old, new)
    woken = {n for n, one in infos.items() if registered.hint(one, old, new) is QueueingHint.QUEUE}
    return (set(infos) if named is None else {str(name) for name in named}), woken


def node_event(plugin: Any) -> ClusterEventWithHint:
    found = [e for e in plugin.events_to_register() if e.event.resource is Resource.NODE]
    registered: ClusterEventWithHint = found[0]
    return registered


def random_node(random: Random) -> Node:
    labels = {key: random.choice("123") for key in "abc" if random.random() < 0.6}
    effects = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
    taints = [
        {"key": key, "value": "x", "effect": random.choice(effects)}
        for key in "st"
        if random.random() < 0.4
    ]
    return node("n", labels=labels, taints=taints, unschedulable=random.random() < 0.5)


def random_requirement(random: Random) -> dict[str, Any]:
    operator = random.choice(OPERATORS)
    return {"key": random.choice("abc"), "operator": operator, "values": VALUES.get(operator, [])}


def random_term(random: Random) -> dict[str, Any]:
    term: dict[str, Any] = {
        "matchExpressions": [random_requirement(random) for _ in range(random.randrange(3))]
    }
    if random.random() < 0.3:
        operator = random.choice(["In", "NotIn"])
        field = {"key": "metadata.name", "operator": operator, "values": [random.choice("mn")]}
        term["matchFields"] = [field]
    return term


def random_pod(random: Random, name: str) -> Pod:
    spec: dict[str, Any] = {}
    if random.random() < 0.4:
        spec["nodeSelector"] = {random.choice("abc"): random.choice("12")}
    if random.random() < 0.6:
        terms = [random_term(random) for _ in range(random.randrange(1, 3))]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    tolerations = [{"key": key, "operator": "Exists"} for key in "st" if random.random() < 0.4]
    if random.random() < 0.1:
        tolerations.append({"operator": "Exists"})
    spec["tolerations"] = tolerations
    return pod(name, spec)


@pytest.mark.parametrize("plugin", [made(NodeAffinity), TaintToleration(), NodeUnschedulable()])
@pytest.mark.parametrize("seed", range(25))
def test_no_pod_that_a_node_event_wakes_is_left_out(plugin: Any, seed: int) -> None:
    random = Random(seed)
    waiting = [random_pod(random, f"w{n}") for n in range(40)]
    old = random_node(random) if random.random() < 0.5 else None
    named, woken = candidates_and_woken(node_event(plugin), waiting, old, random_node(random))
    assert woken <= named


def test_pods_that_select_other_labels_are_not_asked_about_a_node() -> None:
    waiting = [pod(f"w{n}", {"nodeSelector": {"disk": f"d{n}"}}) for n in range(50)]
    event = node_event(made(NodeAffinity))
    assert candidates_and_woken(event, waiting, None, node("n", labels={"disk": "d7"}))[0] == {"w7"}


def test_pods_that_tolerate_other_taints_are_not_asked_about_a_node() -> None:
    waiting = [
        pod(f"w{n}", {"tolerations": [{"key": f"t{n}", "operator": "Exists"}]}) for n in range(50)
    ]
    tainted = node("n", taints=[{"key": "t7", "effect": "NoSchedule"}])
    event = node_event(TaintToleration())
    assert candidates_and_woken(event, waiting, None, tainted)[0] == {"w7"}


def test_a_node_that_stays_cordoned_wakes_no_pod() -> None:
    event = node_event(NodeUnschedulable())
    cordoned = node("n", unschedulable=True)
    assert candidates_and_woken(event, [pod("w")], None, cordoned) == (set(), set())
    assert candidates_and_woken(event, [pod("w")], cordoned, node("n")) == ({"w"}, {"w"})


def using(name: str, port: int, address: str = "", node_name: str = "") -> Pod:
    ports = [{"hostPort": port, "containerPort": port, "hostIP": address}]
    containers = [{"name": "c", "image": "i", "ports": ports}]
    return pod(name, {"containers": containers, "nodeName": node_name})


def test_a_deleted_pod_concerns_those_that_wait_for_its_ports() -> None:
    waiting = [using(f"w{n}", 8000 + n) for n in range(50)] + [using("local", 8007, "127.0.0.1")]
    event = NodePorts().events_to_register()[0]
    named, woken = candidates_and_woken(event, waiting, using("gone", 8007, "", "n"), None)
    assert named == woken == {"w7", "local"}
