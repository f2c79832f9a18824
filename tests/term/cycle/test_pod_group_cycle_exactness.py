"""Gangs of different members start whenever they can: compared with a plain search by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.api.objects import PodGroup
from support.engine_world import node
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Machine:
    """A node; ``gpu``: whether it has the label that some members ask for."""

    cpu: int
    pods: int
    zone: str
    gpu: bool


@dataclass(frozen=True)
class Shape:
    """A kind of members: ``away`` from pods of this app on a node, ``near`` ones in its zone."""

    app: str
    cpu: int
    gpu: bool = False
    port: bool = False
    away: str = ""
    near: str = ""


APPS = ("x", "y")
machines = st.builds(
    Machine, st.integers(1, 4), st.integers(1, 3), st.sampled_from("ab"), st.booleans()
)
shapes = st.builds(
    Shape,
    st.sampled_from(APPS),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(("", "", *APPS)),
    st.sampled_from(("", "", "", *APPS)),
)

Placed = frozenset[tuple[int, int]]
"""Pairs of a member and a node, by their numbers."""


def may_start(nodes: list[Machine], members: list[Shape], needed: int) -> bool:
    """Whether some order of members and choice of nodes places enough of them."""
    seen: set[Placed] = set()
    waiting: list[Placed] = [frozenset()]
    while waiting:
        placed = waiting.pop()
        if len(placed) == needed:
            return True
        for after in _next(nodes, members, placed):
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    return False


def _next(nodes: list[Machine], members: list[Shape], placed: Placed) -> Iterator[Placed]:
    there = {member for member, _ in placed}
    for member in range(len(members)):
        for where in range(len(nodes)):
            if member not in there and _fits(nodes, members, placed, member, where):
                yield placed | {(member, where)}


def _fits(
    nodes: list[Machine], members: list[Shape], placed: Placed, member: int, where: int
) -> bool:
    one, machine = members[member], nodes[where]
    beside = [members[other] for other, place in placed if place == where]
    if one.gpu and not machine.gpu:
        return False
    if len(beside) + 1 > machine.pods or one.cpu + sum(b.cpu for b in beside) > machine.cpu:
        return False
    if one.port and any(other.port for other in beside):
        return False
    if any(one.away == other.app or other.away == one.app for other in beside):
        return False
    if not one.near:
        return True
    matching = [place for other, place in placed if members[other].app == one.near]
    if not matching:
        return one.app == one.near  # the first of them has no pod to be near
    return any(nodes[place].zone == machine.zone for place in matching)


def spec(shape: Shape) -> dict[str, Any]:
    """The pod's fields."""
    terms: dict[str, Any] = {}
    for field, app, key in (
        ("podAntiAffinity", shape.away, "kubernetes.io/hostname"),
        ("podAffinity", shape.near, "topology.kubernetes.io/zone"),
    ):
        if app:
            selector = {"matchLabels": {"app": app}}
            term = {"labelSelector": selector, "topologyKey": key}
            terms[field] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    container: dict[str, Any] = {
        "name": "c",
        "image": "x",
        "resources": {"requests": {"cpu": str(shape.cpu)}},
    }
    if shape.port:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return {
        "affinity": terms,
        "containers": [container],
        "nodeSelector": {"gpu": "yes"} if shape.gpu else {},
        "labels": {"app": shape.app},
        "schedulingGroup": {"podGroupName": "g"},
    }


async def outcome(nodes: list[Machine], members: list[Shape], needed: int) -> tuple[int, str]:
    """How many members are bound, and what the group's condition says."""
    world = TermWorld()
    for number, machine in enumerate(nodes):
        labels = {"topology.kubernetes.io/zone": machine.zone, "gpu": "yes" if machine.gpu else ""}
        labels["kubernetes.io/hostname"] = f"n{number}"
        allocatable = {"cpu": str(machine.cpu), "memory": "32Gi", "pods": str(machine.pods)}
        world.cluster.create(node(f"n{number}", allocatable=allocatable, labels=labels))
    async with world.running():
        group = PodGroup()
        group.metadata.name, group.metadata.namespace = "g", "default"
        group.spec.scheduling_policy.gang.min_count = needed
        group.spec.disruption_mode = "Pod"
        world.cluster.create(group)
        for number, member in enumerate(members):
            world.pod(f"m{number}", **spec(member))
        await asyncio.sleep(1)
        world.check()
        found = world.cluster.object("PodGroup", "default/g")
        assert isinstance(found, PodGroup)
        [condition] = found.status.conditions
        return len(world.cluster.bound), condition.message


@given(data=st.data())
def test_a_gang_of_different_members_starts_exactly_when_it_can(data: st.DataObject) -> None:
    nodes = data.draw(st.lists(machines, min_size=1, max_size=4), "nodes")
    members = data.draw(st.lists(shapes, min_size=2, max_size=5), "members")
    needed = data.draw(st.integers(2, len(members)), "needed")
    with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
        bound, message = runner.run(outcome(nodes, members, needed))
    if may_start(nodes, members, needed):
        assert bound >= needed, message
    else:
        assert bound == 0
        assert "no placement exists" in message
