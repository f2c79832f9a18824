"""Units of queues within domains of a Topology, on a cluster in memory."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from podsched.decide.domain_search import DomainSearch
from podsched.lib.event_loop import Turn
from support.queues import (
    QUEUE,
    big_node,
    bound,
    cluster_queue,
    condition,
    flavor,
    gang,
    gang_and_wait,
    job,
    job_and_wait,
    message,
    topology,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
SLICES = "kueue.x-k8s.io/podset-slice-required-topology"
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
SLICE_SIZE = "kueue.x-k8s.io/podset-slice-size"


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
    async with racks().running() as world:
        await gang_and_wait(world, "g", "team", 4, cpu=4, annotations={REQUIRED: BLOCK})
        assert nodes(world, "g") in ({"a1", "a2"}, {"b1", "b2"})
        await gang_and_wait(world, "wide", "team", 5, cpu=4, annotations={REQUIRED: BLOCK})
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
        await gang_and_wait(world, "g", "team", 4, cpu=4, annotations={asked: RACK})
        assert nodes(world, "g") == found


async def test_a_gang_is_tried_again_when_a_pod_leaves_the_only_domain_of_its_flavor() -> None:
    """The first domain has no nodes of the flavor, and the other one has no room."""
    world = TermWorld()
    for block, kind in (("a", "red"), ("b", "blue")):
        big_node(world, f"{block}1", labels={BLOCK: block, "kind": kind})
    topology(world, "blocks", BLOCK, HOST)
    for name in ("red", "blue"):
        flavor(world, name, topology="blocks", kind=name)
    cluster_queue(world, "other", None, {"blue": {"cpu": 8}})
    cluster_queue(world, "team", None, {"blue": {"cpu": 8}})
    async with world.running():
        await job_and_wait(world, "first", "other", cpu=8)
        await gang_and_wait(world, "g", "team", 2, cpu=4, annotations={REQUIRED: BLOCK})
        assert nodes(world, "g") == set()
        await world.delete_and_wait("first", seconds=60)
        assert nodes(world, "g") == {"b1"}


async def test_a_domain_that_is_filled_exactly_is_preferred() -> None:
    world = racks()
    world.pod("a", cpu="4", nodeName="a1")
    async with world.running():
        await gang_and_wait(world, "g", "team", 3, cpu=4, annotations={REQUIRED: BLOCK})
        assert nodes(world, "g") == {"a1", "a2"}


async def test_a_preferred_level_is_given_up_level_by_level() -> None:
    async with racks().running() as world:
        await gang_and_wait(world, "rack", "team", 2, cpu=4, annotations={PREFERRED: RACK})
        assert len(nodes(world, "rack")) == 1
        await gang_and_wait(world, "block", "team", 4, cpu=4, annotations={PREFERRED: RACK})
        assert nodes(world, "block") in ({"a1", "a2"}, {"b1", "b2"})
        await gang_and_wait(world, "rest", "team", 2, cpu=4, annotations={PREFERRED: RACK})
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
    async with hosts(**cpus).running() as world:
        await gang_and_wait(world, "g", "team", count, cpu=1, annotations=asked)
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
    async with hosts(a1x=2, a2x=1, b1x=2).running() as world:
        await gang_and_wait(world, "g", "team", count, cpu=cpu, annotations={REQUIRED: RACK})
        _, reason, told = condition(world, "g")
        assert reason == "TopologyPlacementFailed"
        assert told.startswith(f'topology "racks" {why}')


def leader(
    world: TermWorld, name: str, cpu: int, *, workers: int, fewer: int = 0, **more: Any
) -> None:
    """A gang of a leader with so many CPUs, and of workers with one each; ``fewer`` may start."""
    gang(world, name, "team", workers, min_count=workers + 1 - fewer, cpu=1, **more)
    spec = {"schedulingGroup": {"podGroupName": name}}
    job(world, f"{name}-leader", "team", cpu=cpu, spec=spec)


@pytest.mark.parametrize(
    ("asked", "cpus", "found"),
    [
        # Only block a has room for all: workers fill the largest rack.
        (
            {REQUIRED: BLOCK},
            {"a1x": 1, "a2x": 3, "a3x": 4, "b1x": 5},
            {"a3x": 4, "a2x": 2},
        ),
        # Both blocks have room, and block b has less.
        ({REQUIRED: BLOCK}, {"a1x": 8, "b1x": 4, "b2x": 3}, {"b1x": 4, "b2x": 2}),
        # No rack has room for all, but block b has.
        ({PREFERRED: RACK}, {"a1x": 4, "b1x": 3, "b2x": 3}, {"b1x": 3, "b2x": 3}),
        # No block has room for all: workers take the one that they fill, the leader the next.
        ({PREFERRED: RACK}, {"a1x": 5, "b1x": 4, "c1x": 2}, {"b1x": 4, "c1x": 2}),
        # Without a level, room that is left over in small parts is used first.
        ({}, {"a1x": 8, "b1x": 2, "c1x": 4}, {"c1x": 4, "b1x": 2}),
    ],
)
async def test_pods_of_two_shapes_fill_few_domains(
    asked: dict[str, str], cpus: dict[str, int], found: dict[str, int]
) -> None:
    """The CPUs of a leader with two and four workers with one, by node."""
    async with hosts(**cpus).running() as world:
        leader(world, "g", 2, workers=4, annotations=asked)
        await asyncio.sleep(1)
        used = Counter[str]()
        for name in bound(world):
            used[world.stored(name).spec.node_name] += 2 if name == "g-leader" else 1
        assert used == found


async def test_a_required_domain_stays_the_same_while_nodes_are_replaced_between_two_shapes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The node for the leader goes while workers are placed; another rack gets a node."""
    fill = DomainSearch.fill

    def fill_and_replace(*args: Any) -> Any:
        found = fill(*args)
        if any(node.metadata.name == "a1y" for node in world.cluster.objects("Node")):
            world.cluster.delete("Node", "a1y")
            big_node(world, "b1y", of={"cpu": "4"}, labels={BLOCK: "b", RACK: "b1"})
        return found

    monkeypatch.setattr(DomainSearch, "fill", fill_and_replace)
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world = hosts(a1x=4, a1y=4, b1x=1)
    async with world.running():
        leader(world, "g", 4, workers=4, annotations={REQUIRED: RACK})
        await asyncio.sleep(1)
        assert len(world.cluster.objects("Node")) == 3
        assert nodes(world, "g") == set()
        world.check()


async def test_pods_that_cannot_fill_domains_are_tried_in_one_domain_after_another() -> None:
    async with hosts(a1x=4, b1x=2, b1y=2).running() as world:
        apart = {"labelSelector": {"matchLabels": {QUEUE: "team"}}, "topologyKey": HOST}
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        spec = {"affinity": {"podAntiAffinity": {required: [apart]}}}
        await gang_and_wait(world, "g", "team", 2, cpu=1, annotations={REQUIRED: RACK}, spec=spec)
        assert nodes(world, "g") == {"b1x", "b1y"}


async def test_the_annotation_may_be_on_the_pods_and_a_lone_pod_stays_in_the_topology() -> None:
    async with racks().running() as world:
        for index in range(2):
            job(world, f"p{index}", "team", cpu=8)
        await asyncio.sleep(1)
        assert "outside" not in nodes(world, "p")
        await gang_and_wait(world, "g", "team", 2, cpu=8)
        assert len(nodes(world, "g")) == 2
        await job_and_wait(world, "none", "team", cpu=1)
        assert nodes(world, "none") == set()


@pytest.mark.parametrize(
    ("asked", "count", "cpus", "found"),
    [
        # Rack a1 has room for one slice only, and the rest of it stays free.
        ({REQUIRED: BLOCK}, 4, {"a1x": 3, "a2x": 3, "b1x": 3}, {"a1x": 2, "a2x": 2}),
        # Both blocks have room for four pods; block a has it in odd parts.
        ({PREFERRED: BLOCK}, 4, {"a1x": 3, "a2x": 1, "b1x": 2, "b2x": 2}, {"b1x": 2, "b2x": 2}),
        # A slice may be on several hosts of a rack.
        ({}, 2, {"a1x": 1, "b1x": 1, "b1y": 1}, {"b1x": 1, "b1y": 1}),
        # The room of block a for four pods is in parts of one, and of three.
        ({REQUIRED: BLOCK}, 4, {"a1x": 3, "a2x": 1}, {}),
    ],
)
async def test_the_pods_of_a_slice_are_in_one_domain(
    asked: dict[str, str], count: int, cpus: dict[str, int], found: dict[str, int]
) -> None:
    async with hosts(**cpus).running() as world:
        annotations = {**asked, SLICES: RACK, SLICE_SIZE: "2"}
        await gang_and_wait(world, "g", "team", count, cpu=1, annotations=annotations)
        assert Counter(world.stored(name).spec.node_name for name in bound(world)) == found


def layers(*of: tuple[str, int]) -> str:
    """Levels and sizes of slices within slices, as an annotation."""
    return json.dumps([{"topology": level, "size": size} for level, size in of])


async def test_slices_of_several_layers_are_each_in_one_domain() -> None:
    """Block a has room for four pods, but its hosts have it in odd parts."""
    async with hosts(a1x=3, a1y=1, b1x=3, b1y=2).running() as world:
        annotations = {LAYERS: layers((RACK, 4), (HOST, 2))}
        await gang_and_wait(world, "g", "team", 4, cpu=1, annotations=annotations)
        on = Counter(world.stored(name).spec.node_name for name in bound(world))
        assert on == {"b1x": 2, "b1y": 2}


async def test_slices_that_have_no_room_wait_until_a_pod_is_gone() -> None:
    """Four pods have room, but one slice would be split."""
    world = hosts(a1x=3, a2x=2)
    world.pod("other", cpu="1", nodeName="a2x")
    async with world.running():
        annotations = {REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"}
        await gang_and_wait(world, "g", "team", 4, cpu=1, annotations=annotations)
        why = 'topology "racks" allows to fit only 1 out of 2 slice(s)'
        assert condition(world, "g") == ("False", "TopologyPlacementFailed", why)
        await world.delete_and_wait("other", seconds=60)
        assert nodes(world, "g") == {"a1x", "a2x"}


async def test_slices_wait_until_a_node_is_there() -> None:
    async with hosts(a1x=3, a2x=1).running() as world:
        annotations = {REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"}
        await gang_and_wait(world, "g", "team", 4, cpu=1, annotations=annotations)
        assert nodes(world, "g") == set()
        big_node(world, "a2y", of={"cpu": "1"}, labels={BLOCK: "a", RACK: "a2"})
        await asyncio.sleep(60)
        assert nodes(world, "g") == {"a1x", "a2x", "a2y"}


async def test_a_pod_that_is_made_again_completes_its_slice() -> None:
    """Rack a1 has the least room, so the pod would go there if it were of no slice."""
    async with hosts(a1x=2, a2x=2, b1x=1).running() as world:
        annotations = {SLICES: RACK, SLICE_SIZE: "2"}
        await gang_and_wait(world, "g", "team", 4, cpu=1, annotations=annotations)
        left = world.stored("g-0").spec.node_name
        world.cluster.delete("Pod", "default/g-0")
        spec = {"schedulingGroup": {"podGroupName": "g"}}
        job(world, "g-4", "team", cpu=1, spec=spec)
        await asyncio.sleep(60)
        assert world.stored("g-4").spec.node_name == left


@pytest.mark.parametrize(
    ("cpus", "found"),
    [
        # The leader is no part of the workers' slices: rack a1 has room for one of these beside it.
        ({"a1x": 4, "a2x": 3}, {"a1x": 4, "a2x": 2}),
        # Five of six CPUs of a rack would be enough for workers that may be anywhere.
        ({"a1x": 3, "a2x": 3}, {}),
    ],
)
async def test_workers_beside_a_leader_are_in_slices(
    cpus: dict[str, int], found: dict[str, int]
) -> None:
    async with hosts(**cpus).running() as world:
        annotations = {REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"}
        leader(world, "g", 2, workers=4, annotations=annotations)
        await asyncio.sleep(1)
        used = Counter[str]()
        for name in bound(world):
            used[world.stored(name).spec.node_name] += 2 if name == "g-leader" else 1
        assert used == found


@pytest.mark.parametrize(
    ("cpus", "found"),
    [
        # Block b has room for both slices of the workers, block a only for one.
        ({"a1x": 2, "a2x": 1, "b1x": 3, "b2x": 3}, {"b1x": 2, "b2x": 2}),
        # Only one slice has room in each of the blocks, in block c with the leader.
        ({"a1x": 3, "b1x": 3, "c1x": 2, "c2x": 3}, {"c1x": 2, "c2x": 2}),
        # All of it has room, in the smaller block.
        ({"a1x": 9, "b1x": 4, "b2x": 2}, {"b1x": 4, "b2x": 2}),
        # A slice has room in each block, but that is less than the minimum.
        ({"a1x": 3, "b1x": 3}, {}),
    ],
)
async def test_of_two_shapes_as_many_start_in_slices_as_a_block_has_room_for(
    cpus: dict[str, int], found: dict[str, int]
) -> None:
    """Three of five pods are enough."""
    async with hosts(**cpus).running() as world:
        annotations = {REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"}
        leader(world, "g", 2, workers=4, fewer=2, annotations=annotations)
        await asyncio.sleep(1)
        used = Counter[str]()
        for name in bound(world):
            used[world.stored(name).spec.node_name] += 2 if name == "g-leader" else 1
        assert used == found


async def test_a_domain_for_more_members_comes_before_a_smaller_one_for_the_minimum() -> None:
    async with hosts(a1x=3, b1x=4).running() as world:
        annotations = {REQUIRED: BLOCK, SLICES: RACK, SLICE_SIZE: "2"}
        leader(world, "g", 2, workers=4, fewer=3, annotations=annotations)
        await asyncio.sleep(1)
        assert bound(world) == [f"g-{index}" for index in range(4)]


async def test_a_worker_that_is_made_again_completes_the_slice_of_another_worker() -> None:
    """Beside the leader is room, too, and it comes first by name."""
    async with hosts(a1x=3, b1x=2).running() as world:
        leader(world, "g", 2, workers=2, annotations={SLICES: RACK, SLICE_SIZE: "2"})
        await asyncio.sleep(1)
        assert world.stored("g-leader").spec.node_name == "a1x"
        world.cluster.delete("Pod", "default/g-0")
        job(world, "g-2", "team", cpu=1, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(60)
        assert world.stored("g-2").spec.node_name == "b1x"


async def test_members_beyond_whole_slices_wait() -> None:
    """Two of four pods are enough; the third has room, but not its slice."""
    async with hosts(a1x=3).running() as world:
        annotations = {REQUIRED: RACK, SLICES: RACK, SLICE_SIZE: "2"}
        await gang_and_wait(world, "g", "team", 4, min_count=2, cpu=1, annotations=annotations)
        assert len(bound(world)) == 2


@pytest.mark.parametrize(
    ("annotations", "why"),
    [
        ({LAYERS: "[{}]"}, "slice topology requested, but slice size not provided"),
        (
            {LAYERS: layers((BLOCK, 4), (RACK, 3))},
            "additional slice layer size 3 must evenly divide parent layer size 4",
        ),
        ({SLICES: RACK}, "slice topology requested, but slice size not provided"),
        (
            {REQUIRED: RACK, SLICES: BLOCK, SLICE_SIZE: "2"},
            f"podset slice topology {BLOCK} is above the podset topology {RACK}",
        ),
    ],
)
async def test_slices_that_cannot_be_placed_wait_and_say_why(
    annotations: dict[str, str], why: str
) -> None:
    async with hosts(a1x=4).running() as world:
        await gang_and_wait(world, "g", "team", 2, cpu=1, annotations=annotations)
        assert bound(world) == []
        assert condition(world, "g") == ("False", "TopologyPlacementFailed", why)


async def test_a_flavor_without_the_level_of_slices_is_not_used() -> None:
    world = racks()
    annotations = {REQUIRED: BLOCK, SLICES: "example.com/row", SLICE_SIZE: "2"}
    async with world.running():
        await gang_and_wait(world, "g", "team", 2, cpu=1, annotations=annotations)
        assert bound(world) == []
        assert "does not contain the requested level" in condition(world, "g")[2]


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
        await gang_and_wait(world, "g", queue, 1, cpu=1, annotations={REQUIRED: level})
        assert bound(world) == []
        assert condition(world, "g") == (
            "False",
            "NoMatchingFlavor",
            f"couldn't assign flavors to pod set main: {why}",
        )


async def test_the_number_of_pods_needs_no_flavor_with_a_topology() -> None:
    world = racks()
    flavor(world, "plain")
    cluster_queue(world, "both", None, {"default": {"cpu": 16}}, {"plain": {"pods": 9}})
    async with world.running():
        gang(world, "g", "both", 2, cpu=4, annotations={REQUIRED: RACK})
        await gang_and_wait(world, "small", "both", 2, annotations={REQUIRED: RACK})
        assert len(nodes(world, "g")) == 1
        assert usage(world, "both") == {"default/cpu": 8000, "plain/pods": 2}
        assert "the pods ask for a Topology" in condition(world, "small")[2]


async def test_pods_that_ask_for_any_level_use_no_flavor_without_a_topology() -> None:
    world = racks()
    flavor(world, "plain")
    cluster_queue(world, "both", None, {"plain": {"cpu": 8}, "default": {"cpu": 8}})
    unconstrained = {"kueue.x-k8s.io/podset-unconstrained-topology": "True"}
    async with world.running():
        await gang_and_wait(world, "g", "both", 2, cpu=4, annotations=unconstrained)
        assert usage(world, "both") == {"default/cpu": 8000}


async def test_a_queue_whose_topology_is_missing_admits_nothing_until_it_is_there() -> None:
    world = TermWorld()
    big_node(world, "n1", labels={BLOCK: "a"})
    flavor(world, "default", topology="racks")
    cluster_queue(world, "team", {"cpu": 8})
    async with world.running():
        await job_and_wait(world, "p", "team", cpu=1)
        assert message(world, "p") == "ClusterQueue team is inactive"
        topology(world, "racks", BLOCK)
        await asyncio.sleep(1)
        assert bound(world) == ["p"]


async def test_pods_made_again_are_tried_each_in_the_domain_of_their_gang() -> None:
    """Two gangs that are alike run in two racks, and one of these has no room any more."""
    async with racks().running() as world:
        for name in ("g", "h"):
            required = {REQUIRED: RACK}
            await gang_and_wait(world, name, "team", 2, 1, cpu=3, annotations=required)
        [full], [other] = nodes(world, "g"), nodes(world, "h")
        assert full != other
        for name in ("g", "h"):
            await world.delete_and_wait(f"{name}-1")
        world.pod("stray", cpu="5", on=full)
        for name in ("g", "h"):
            spec = {"schedulingGroup": {"podGroupName": name}}
            await job_and_wait(world, f"{name}-2", "team", cpu=3, spec=spec)
        assert bound(world) == ["g-0", "h-0", "h-2", "stray"]
