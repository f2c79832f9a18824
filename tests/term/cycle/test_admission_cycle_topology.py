"""Units of queues within domains of a Topology, on a cluster in memory."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from support.queues import (
    QUEUE,
    big_node,
    bound,
    cluster_queue,
    condition,
    flavor,
    gang,
    job,
    message,
    topology,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"


def racks() -> TermWorld:
    """Two blocks of two racks of one node; a node outside; a flavor with their Topology."""
    world = TermWorld()
    for block in ("a", "b"):
        for rack in ("1", "2"):
            name = f"{block}{rack}"
            big_node(world, name, labels={BLOCK: block, RACK: name})
    big_node(world, "outside", of={"cpu": "100"})
    topology(world, "racks", BLOCK, RACK, HOST)
    flavor(world, "default", topology="racks")
    cluster_queue(world, "team", {"cpu": 100})
    return world


def nodes(world: TermWorld, name: str) -> set[str]:
    return {world.stored(one).spec.node_name for one in bound(world) if one.startswith(name)}


async def test_a_required_level_keeps_all_pods_in_one_domain() -> None:
    world = racks()
    async with world.running():
        gang(world, "g", "team", 4, cpu=4, annotations={REQUIRED: BLOCK})
        await asyncio.sleep(1)
        assert nodes(world, "g") in ({"a1", "a2"}, {"b1", "b2"})
        gang(world, "wide", "team", 5, cpu=4, annotations={REQUIRED: BLOCK})
        await asyncio.sleep(1)
        assert nodes(world, "wide") == set()
        assert condition(world, "wide")[:2] == ("False", "TopologyPlacementFailed")
        assert usage(world, "team") == {"default/cpu": 16000}


async def test_a_domain_counts_only_the_nodes_that_the_pods_node_selector_permits() -> None:
    """Block b has room for all pods, but only one of its racks is permitted."""
    world = racks()
    only = {"nodeSelector": {RACK: "b1"}}
    async with world.running():
        gang(world, "wide", "team", 4, cpu=4, annotations={REQUIRED: BLOCK}, spec=only)
        await asyncio.sleep(1)
        assert nodes(world, "wide") == set()
        assert usage(world, "team") == {}
        gang(world, "narrow", "team", 2, cpu=4, annotations={REQUIRED: BLOCK}, spec=only)
        await asyncio.sleep(1)
        assert nodes(world, "narrow") == {"b1"}


@pytest.mark.parametrize(("asked", "found"), [(REQUIRED, set()), (PREFERRED, {"b1", "b2"})])
async def test_racks_of_one_name_in_two_blocks_are_two_domains(asked: str, found: set[str]) -> None:
    """No rack has room for all pods, only block b has."""
    world = TermWorld()
    for block, rack in (("a", "1"), ("b", "1"), ("b", "2")):
        big_node(world, f"{block}{rack}", labels={BLOCK: block, RACK: rack})
    topology(world, "racks", BLOCK, RACK)
    flavor(world, "default", topology="racks")
    cluster_queue(world, "team", {"cpu": 100})
    async with world.running():
        gang(world, "g", "team", 4, cpu=4, annotations={asked: RACK})
        await asyncio.sleep(1)
        assert nodes(world, "g") == found


async def test_a_domain_that_is_filled_exactly_is_preferred() -> None:
    world = racks()
    world.pod("a", cpu="4", nodeName="a1")
    async with world.running():
        gang(world, "g", "team", 3, cpu=4, annotations={REQUIRED: BLOCK})
        await asyncio.sleep(1)
        assert nodes(world, "g") == {"a1", "a2"}


async def test_a_preferred_level_is_given_up_level_by_level() -> None:
    world = racks()
    async with world.running():
        gang(world, "rack", "team", 2, cpu=4, annotations={PREFERRED: RACK})
        await asyncio.sleep(1)
        assert len(nodes(world, "rack")) == 1
        gang(world, "block", "team", 4, cpu=4, annotations={PREFERRED: RACK})
        await asyncio.sleep(1)
        assert nodes(world, "block") in ({"a1", "a2"}, {"b1", "b2"})
        gang(world, "rest", "team", 2, cpu=4, annotations={PREFERRED: RACK})
        await asyncio.sleep(1)
        assert len(nodes(world, "rest")) == 1


def hosts(**cpus: int) -> TermWorld:
    """Hosts with so many CPUs; the first two letters of a name are its block and rack."""
    world = TermWorld()
    for name, cpu in cpus.items():
        big_node(world, name, of={"cpu": str(cpu)}, labels={BLOCK: name[0], RACK: name[:2]})
    topology(world, "racks", BLOCK, RACK, HOST)
    flavor(world, "default", topology="racks")
    cluster_queue(world, "team", {"cpu": 100})
    return world


@pytest.mark.parametrize(
    ("asked", "cpus", "count", "found"),
    [
        # Block b is smaller, and has room.
        ({REQUIRED: BLOCK}, {"a1x": 7, "b1x": 3, "b2x": 3}, 4, {"b1x": 3, "b2x": 1}),
        # Rack a1 has the larger rooms, though not the largest host.
        ({REQUIRED: BLOCK}, {"a1x": 2, "a1y": 2, "a2x": 3}, 4, {"a1x": 2, "a1y": 2}),
        # No block has room for all: the largest is filled, then the smallest that is large enough.
        ({PREFERRED: RACK}, {"a1x": 4, "b1x": 3, "c1x": 1}, 5, {"a1x": 4, "c1x": 1}),
        # Without a level, room that is left over in small parts is used first.
        ({}, {"a1x": 4, "b1x": 1, "c1x": 2}, 2, {"c1x": 2}),
        ({}, {"a1x": 4, "b1x": 1, "c1x": 2}, 5, {"b1x": 1, "c1x": 2, "a1x": 2}),
    ],
)
async def test_pods_fill_few_domains(
    asked: dict[str, str], cpus: dict[str, int], count: int, found: dict[str, int]
) -> None:
    world = hosts(**cpus)
    async with world.running():
        gang(world, "g", "team", count, cpu=1, annotations=asked)
        await asyncio.sleep(1)
        on = Counter(world.stored(name).spec.node_name for name in bound(world))
        assert on == found


@pytest.mark.parametrize(
    ("count", "cpu", "why"),
    [
        (3, 1, "allows to fit only 2 out of 3 pod(s)"),
        (1, 3, "doesn't allow to fit any of 1 pod(s)"),
    ],
)
async def test_how_many_pods_one_domain_has_room_for_is_told(
    count: int, cpu: int, why: str
) -> None:
    world = hosts(a1x=2, a2x=1, b1x=2)
    async with world.running():
        gang(world, "g", "team", count, cpu=cpu, annotations={REQUIRED: RACK})
        await asyncio.sleep(1)
        _, reason, told = condition(world, "g")
        assert reason == "TopologyPlacementFailed"
        assert told.startswith(f'topology "racks" {why}')


async def test_pods_that_cannot_fill_domains_are_tried_in_one_domain_after_another() -> None:
    world = hosts(a1x=4, b1x=2, b1y=2)
    async with world.running():
        apart = {"labelSelector": {"matchLabels": {QUEUE: "team"}}, "topologyKey": HOST}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        spec = {"affinity": {"podAntiAffinity": {required: [apart]}}}
        gang(world, "g", "team", 2, cpu=1, annotations={REQUIRED: RACK}, spec=spec)
        await asyncio.sleep(1)
        assert nodes(world, "g") == {"b1x", "b1y"}


async def test_the_annotation_may_be_on_the_pods_and_a_lone_pod_stays_in_the_topology() -> None:
    world = racks()
    async with world.running():
        for index in range(2):
            job(world, f"p{index}", "team", cpu=8)
        await asyncio.sleep(1)
        assert "outside" not in nodes(world, "p")
        gang(world, "g", "team", 2, cpu=8)
        await asyncio.sleep(1)
        assert len(nodes(world, "g")) == 2
        job(world, "none", "team", cpu=1)
        await asyncio.sleep(1)
        assert nodes(world, "none") == set()


@pytest.mark.parametrize(
    ("level", "why"),
    [
        ("example.com/row", 'Flavor "default" does not contain the requested level'),
        (RACK, 'Flavor "plain" does not support TopologyAwareScheduling'),
    ],
)
async def test_a_flavor_without_the_level_is_not_used(level: str, why: str) -> None:
    world = racks()
    flavor(world, "plain")
    cluster_queue(world, "other", None, {"plain": {"cpu": 8}})
    async with world.running():
        queue = "other" if level == RACK else "team"
        gang(world, "g", queue, 1, cpu=1, annotations={REQUIRED: level})
        await asyncio.sleep(1)
        assert bound(world) == []
        assert condition(world, "g") == (
            "False",
            "NoMatchingFlavor",
            f"couldn't assign flavors to pod set main: {why}",
        )


async def test_pods_that_ask_for_any_level_use_no_flavor_without_a_topology() -> None:
    world = racks()
    flavor(world, "plain")
    cluster_queue(world, "both", None, {"plain": {"cpu": 8}, "default": {"cpu": 8}})
    unconstrained = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
    async with world.running():
        gang(world, "g", "both", 2, cpu=4, annotations=unconstrained)
        await asyncio.sleep(1)
        assert usage(world, "both") == {"default/cpu": 8000}


async def test_a_queue_whose_topology_is_missing_admits_nothing_until_it_is_there() -> None:
    world = TermWorld()
    big_node(world, "n1", labels={BLOCK: "a"})
    flavor(world, "default", topology="racks")
    cluster_queue(world, "team", {"cpu": 8})
    async with world.running():
        job(world, "p", "team", cpu=1)
        await asyncio.sleep(1)
        assert message(world, "p") == "ClusterQueue team is inactive"
        topology(world, "racks", BLOCK)
        await asyncio.sleep(1)
        assert bound(world) == ["p"]
