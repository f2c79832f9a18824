"""What nodes have room for, in the explanation of a unit that waits in its queue."""

from __future__ import annotations

import asyncio

import pytest

from podsched.api.objects import AnyObject
from podsched.api.queue_labels import REQUIRED_LEVEL, SLICE_LEVEL, SLICE_SIZE
from podsched.ask.offline_explanation import explain_offline
from podsched.config.load import default_config
from podsched.framework.pod_groups import PREFERRED_TOPOLOGY
from podsched.registry import factories
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation, QueueAdmission
from support.queues import big_node, cluster_queue, flavor, gang, job, topology
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

KINDS = ("Node", "Topology", "ResourceFlavor", "ClusterQueue", "LocalQueue", "PodGroup", "Pod")


def world_with(*nodes: str, **quotas: int) -> TermWorld:
    made = TermWorld()
    for name in nodes:
        big_node(made, name)
    flavor(made)
    for queue, cpu in quotas.items():
        cluster_queue(made, queue, {"cpu": cpu}, within="LowerPriority")
    return made


async def asked(world: TermWorld, name: str, *, group: bool = False) -> QueueAdmission:
    return (await explained(world, name, group=group)).admission


async def explained(world: TermWorld, name: str, *, group: bool = False) -> Explanation:
    await asyncio.sleep(2)
    objects: list[AnyObject] = [one for kind in KINDS for one in world.cluster.objects(kind)]
    kind = "PodGroup" if group else "Pod"
    request = ExplainRequest(kind=kind, namespace="default", name=name, changes=group)
    found = explain_offline(objects, default_config(), factories(), request)
    assert found is not None
    return found


async def test_a_unit_with_quota_says_what_nodes_lack() -> None:
    async with world_with("n1", team=40).running() as world:
        job(world, "wide", "team", cpu=9)
        found = await asked(world, "wide")
        assert found.nodes.startswith("0/1 nodes are available: 1 Insufficient cpu")
        assert found.sentence.startswith("Its quota suffices, so it waits for nodes: 0/1 nodes")


async def test_a_gang_says_how_many_of_its_pods_nodes_hold() -> None:
    async with world_with("n1", "n2", team=40).running() as world:
        gang(world, "train", "team", 3, cpu=7)
        found = await asked(world, "train", group=True)
        assert found.nodes.startswith("all nodes together hold 2 of its pods, 1 too few (0/2")


async def test_a_unit_that_lacks_quota_says_that_nodes_have_room() -> None:
    async with world_with("n1", team=2).running() as world:
        job(world, "big", "team", cpu=3)
        assert (await asked(world, "big")).nodes == "room for all of it now"


async def test_a_gang_that_nodes_have_room_for_would_not_start_without_quota() -> None:
    async with world_with("n1", team=2).running() as world:
        gang(world, "train", "team", 3, cpu=1)
        found = await explained(world, "train", group=True)
        assert found.admission.nodes == "room for all of it now"
        assert not found.pod_group.fits


async def test_a_gang_that_has_to_be_in_one_domain_says_how_many_of_its_pods_a_domain_holds() -> (
    None
):
    made = TermWorld()
    for rack in ("r1", "r2"):
        big_node(made, rack, labels={"rack": rack})
    topology(made, "racks", "rack")
    flavor(made, "default", topology="racks")
    cluster_queue(made, "team", {"cpu": 40})
    async with made.running():
        gang(made, "train", "team", 3, cpu=4, annotations={REQUIRED_LEVEL: "rack"})
        found = await explained(made, "train", group=True)
        assert not found.pod_group.fits
        assert found.pod_group.topology_key == "rack"
        assert found.admission.nodes.startswith("r1 holds 2 of its pods, 1 too few")


async def test_a_gang_whose_slices_would_be_split_says_so_and_what_would_help() -> None:
    """Each rack has room for three of six pods, and for one slice of two."""
    made = TermWorld()
    for rack in ("r1", "r2"):
        big_node(made, rack, labels={"rack": rack}, of={"cpu": "3"})
    topology(made, "racks", "rack")
    flavor(made, "default", topology="racks")
    cluster_queue(made, "team", {"cpu": 40})
    slices = {SLICE_LEVEL: "rack", SLICE_SIZE: "2"}
    async with made.running():
        gang(made, "train", "team", 6, cpu=1, annotations=slices)
        found = await explained(made, "train", group=True)
        assert not found.pod_group.fits
        why = 'topology "racks" allows to fit only 2 out of 3 slice(s)'
        assert found.admission.nodes == why
        assert found.admission.sentence == f"Its quota suffices, so it waits for nodes: {why}."
        assert [change.description for change in found.changes] == ["add a node like r1"]


async def test_a_gang_whose_slices_and_preferred_label_go_not_together_says_so() -> None:
    made = TermWorld()
    big_node(made, "n1", labels={"rack": "r1", "zone": "z1"})
    topology(made, "racks", "rack")
    flavor(made, "default", topology="racks")
    cluster_queue(made, "team", {"cpu": 40})
    asked_for = {SLICE_LEVEL: "rack", SLICE_SIZE: "2", PREFERRED_TOPOLOGY: "zone"}
    async with made.running():
        gang(made, "train", "team", 4, cpu=1, annotations=asked_for)
        found = await explained(made, "train", group=True)
        assert not found.pod_group.fits
        assert found.admission.nodes.startswith("slices need the levels of one Topology")


async def test_a_gang_that_is_kept_out_of_its_queue_would_not_start() -> None:
    world = world_with("n1")
    cluster_queue(world, "team", {"cpu": 8}, stop="Hold")
    async with world.running():
        gang(world, "train", "team", 3, cpu=1)
        found = await explained(world, "train", group=True)
        assert found.admission.sentence.startswith("It is kept out of its queue")
        assert not found.pod_group.fits


async def test_a_unit_whose_victims_would_make_no_room_says_that_none_is_evicted() -> None:
    async with world_with("n1", "n2", team=9).running() as world:
        job(world, "low", "team", cpu=2)
        job(world, "rest", "", cpu=5, spec={"nodeSelector": {"kubernetes.io/hostname": "n2"}})
        await asyncio.sleep(1)
        job(world, "high", "team", priority=5, cpu=9)
        found = await asked(world, "high")
        assert list(found.victims) == ["default/pod:low"]
        assert found.nodes.endswith("; without those it would preempt, no room, so none is evicted")


async def test_a_unit_whose_victims_make_room_says_so() -> None:
    async with world_with("n1", team=9).running() as world:
        job(world, "low", "team", cpu=2)
        await asyncio.sleep(1)
        job(world, "high", "team", priority=5, cpu=8)
        objects = [one for kind in KINDS for one in world.cluster.objects(kind)]
        request = ExplainRequest(namespace="default", name="high")
        found = explain_offline(objects, default_config(), factories(), request)
        assert found is not None
        assert found.admission.nodes.endswith("; without those it would preempt, room")
