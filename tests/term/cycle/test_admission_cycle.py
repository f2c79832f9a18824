"""Admission to queues on a cluster in memory: quota and placement in one decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.objects import Node
from podsched.api.reasons import StatusCode
from podsched.ask.live_explanation import Clock, explain_live
from podsched.decide.decision import Decision
from podsched.decide.pod_group_members import GroupMembers
from podsched.framework.pod_groups import GroupTrial
from podsched.framework.pods import QueuedPodInfo
from podsched.lib.event_loop import Turn
from podsched.queues.cycle import nominate
from podsched.serve.client.errors import Unavailable
from podsched.v1.api_pb2 import BatchResult, EvictRequest
from podsched.v1.scheduling_pb2 import ExplainRequest
from support.dying_binder import DyingBinder
from support.engine_world import container, pod
from support.queues import (
    GPU,
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
    local_queue,
    message,
    one_node,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


async def test_a_pod_of_a_queue_starts_within_its_quota_and_the_next_waits_for_a_release() -> None:
    async with one_node({"cpu": 4}).running() as world:
        await job_and_wait(world, "a", "team", cpu=3)
        await job_and_wait(world, "b", "team", cpu=3)
        assert bound(world) == ["a"]
        assert usage(world, "team") == {"default/cpu": 3000}
        assert message(world, "b") == (
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
            "default, 2 more needed"
        )
        await world.delete_and_wait("a")
        assert bound(world) == ["b"]
        world.check()


async def test_a_unit_is_not_tried_after_a_release_of_something_else_than_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[str] = []

    def counted(snapshot: Any, queue: Any, workload: Any, *rest: Any) -> Any:
        tried.append(workload.key)
        return nominate(snapshot, queue, workload, *rest)

    monkeypatch.setattr("podsched.queues.cycle.nominate", counted)
    async with one_node({"cpu": 6, "gpu": 1}).running() as world:
        job(world, "ends", "team", cpu=2)
        job(world, "gpu", "team", gpu=1)
        await job_and_wait(world, "waits", "team", cpu=1, gpu=1)
        assert bound(world) == ["ends", "gpu"]
        tried.clear()
        await world.delete_and_wait("ends")
        assert not tried
        await world.delete_and_wait("gpu")
        assert bound(world) == ["waits"]


async def test_an_attempt_of_a_unit_that_waits_for_its_victims_is_no_error() -> None:
    async with one_node({"cpu": 4}, within="LowerPriority").running() as world:
        await job_and_wait(world, "low", "team", cpu=3, spec={"terminationGracePeriodSeconds": 30})
        await job_and_wait(world, "high", "team", 5, cpu=3)
        request = ExplainRequest(namespace="default", name="high")
        answer = explain_live(world.state, request, Clock(world.clock(), world.clock()))
        assert answer is not None
        assert [one.outcome for one in answer.attempts] == ["Unschedulable"]


async def test_pods_without_a_queue_are_outside_of_all_quota() -> None:
    async with one_node({"cpu": 0}).running() as world:
        await world.pod_and_wait("free", cpu="2")
        assert bound(world) == ["free"]
        assert usage(world, "team") == {}


@pytest.mark.parametrize("required", [["default"], ["other", "*"]])
async def test_a_namespace_may_require_that_its_pods_are_in_queues(required: list[str]) -> None:
    world = TermWorld(queues={"requireQueue": required})
    big_node(world, "n1")
    async with world.running():
        world.pod("free")
        await job_and_wait(world, "queued", "team", cpu=1)
        assert bound(world) == []
        assert message(world, "free") == (
            "pods of namespace default have to be in a queue: set the label "
            "kueue.x-k8s.io/queue-name"
        )
        flavor(world)
        cluster_queue(world, "team", {"cpu": 4})
        await asyncio.sleep(1)
        assert bound(world) == ["queued"]
        world.change("free", lambda pod: pod.metadata.labels.update({QUEUE: "team"}))
        await asyncio.sleep(1)
        assert bound(world) == ["free", "queued"]


async def test_other_namespaces_need_no_queue_and_neither_does_the_systems() -> None:
    for required in (["other"], ["*"]):
        world = TermWorld(queues={"requireQueue": required})
        big_node(world, "n1")
        made = pod("free", {"schedulerName": "default-scheduler"})
        made.metadata.namespace = "kube-system" if required == ["*"] else "default"
        world.cluster.create(made)
        async with world.running(seconds=1):
            assert bound(world) == ["free"]


async def test_without_any_queue_the_label_means_nothing() -> None:
    world = TermWorld()
    big_node(world, "n1")
    async with world.running():
        await job_and_wait(world, "a", "team", cpu=1)
        assert bound(world) == ["a"]


async def test_a_namespace_can_have_a_default_queue() -> None:
    world = one_node({"cpu": 1})
    local_queue(world, "default", "team")
    async with world.running():
        for name in ("a", "b"):
            world.pod(name, cpu="1")
        await asyncio.sleep(1)
        assert bound(world) == ["a"]


async def test_a_gang_is_admitted_as_a_whole_or_not_at_all() -> None:
    async with one_node({"cpu": 4}).running() as world:
        await gang_and_wait(world, "small", "team", 3, cpu=1)
        await gang_and_wait(world, "large", "team", 2, cpu=1)
        assert bound(world) == ["small-0", "small-1", "small-2"]
        assert condition(world, "small") == (
            "True",
            "QuotaReserved",
            "Quota reserved in ClusterQueue team",
        )
        assert condition(world, "small", "Admitted")[:2] == ("True", "Admitted")
        assert condition(world, "large") == (
            "False",
            "WaitingForQuota",
            "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor "
            "default, 1 more needed",
        )
        assert condition(world, "large", "Admitted")[:2] == ("False", "NoReservation")
        world.check()


async def test_a_gang_with_a_minimum_is_admitted_in_part_and_the_rest_follows() -> None:
    async with one_node({"cpu": 3}).running() as world:
        await job_and_wait(world, "first", "team", cpu=1)
        await gang_and_wait(world, "g", "team", 3, min_count=1, cpu=1)
        assert bound(world) == ["first", "g-0", "g-1"]
        await world.delete_and_wait("first")
        assert bound(world) == ["g-0", "g-1", "g-2"]
        world.check()


async def test_a_gang_of_two_shapes_needs_quota_for_all_its_pods_in_spite_of_its_minimum() -> None:
    async with one_node({"cpu": 3}).running() as world:
        gang(world, "g", "team", 2, min_count=1, cpu=1)
        job(world, "g-2", "team", cpu=2, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(1)
        assert bound(world) == []
        await world.delete_and_wait("g-1")
        assert bound(world) == ["g-0", "g-2"]
        world.check()


async def test_a_gang_that_runs_grows_as_far_as_quota_allows_and_shrinks_at_once() -> None:
    async with one_node({"cpu": 4}).running() as world:
        await gang_and_wait(world, "g", "team", 2, cpu=1)
        more = {"schedulingGroup": {"podGroupName": "g"}}
        for name in ("g-2", "g-3", "g-4"):
            job(world, name, "team", cpu=1, spec=dict(more))
        await asyncio.sleep(1)
        assert bound(world) == ["g-0", "g-1", "g-2", "g-3"]
        assert condition(world, "g", "Admitted")[0] == "True"
        assert condition(world, "g")[0] == "True"
        assert "insufficient unused quota for cpu" in message(world, "g-4")
        await job_and_wait(world, "other", "team", 1, cpu=2)
        for name in ("g-3", "g-4"):
            world.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(1)
        assert usage(world, "team") == {"default/cpu": 3000}
        await world.delete_and_wait("g-2")
        assert bound(world) == ["g-0", "g-1", "other"]
        assert usage(world, "team") == {"default/cpu": 4000}
        world.check()


async def test_a_gang_whose_pods_all_terminate_starts_anew_once_they_are_gone() -> None:
    async with one_node({"cpu": 8}).running() as world:
        spec = {"terminationGracePeriodSeconds": 30, "schedulingGroup": {"podGroupName": "g"}}
        await gang_and_wait(world, "g", "team", 2, cpu=1, spec=dict(spec))
        old = [EvictRequest(namespace="default", name=name) for name in ("g-0", "g-1")]
        await world.cluster.evict_pods(old, fence=world.fence)
        for name in ("g-2", "g-3"):
            job(world, name, "team", cpu=1, spec=dict(spec))
        await asyncio.sleep(5)
        await world.delete_and_wait("g-0", seconds=5)
        assert bound(world) == ["g-1"]
        await world.delete_and_wait("g-1", seconds=5)
        assert bound(world) == ["g-2", "g-3"]
        world.check()


async def test_of_a_queue_the_first_of_the_highest_priority_comes_first() -> None:
    async with one_node({"cpu": 1}).running() as world:
        job(world, "running", "team", cpu=1)
        await asyncio.sleep(2)
        for name, priority in (("low", 1), ("high", 2), ("later", 2)):
            job(world, name, "team", priority, cpu=1)
            await asyncio.sleep(2)
        order = []
        for name in ("running", "high", "later"):
            await world.delete_and_wait(name, seconds=2)
            order += bound(world)
        assert order == ["high", "later", "low"]


async def test_the_priority_of_a_group_without_a_class_is_that_of_its_pods() -> None:
    async with one_node({"cpu": 1}).running() as world:
        job(world, "running", "team", cpu=1)
        await asyncio.sleep(2)
        gang(world, "g", "team", 1, pod_priority=-1, cpu=1)
        await asyncio.sleep(2)
        job(world, "later", "team", cpu=1)
        await asyncio.sleep(2)
        await world.delete_and_wait("running", seconds=2)
        assert bound(world) == ["later"]


@pytest.mark.parametrize(("strategy", "expected"), [("StrictFIFO", []), ("BestEffortFIFO", ["b"])])
async def test_a_head_that_does_not_fit_blocks_its_queue_only_if_it_is_strict(
    strategy: str, expected: list[str]
) -> None:
    async with one_node({"cpu": 2}, strategy=strategy).running() as world:
        job(world, "a", "team", cpu=3)
        await asyncio.sleep(2)
        job(world, "b", "team", cpu=1)
        await asyncio.sleep(2)
        assert bound(world) == expected


async def test_a_unit_is_tried_again_without_what_another_head_kept_in_one_cycle() -> None:
    """``hopeless`` finds no victims, and keeps two GPUs of its quota from ``fits``, but only once.

    The first flavor of ``fits`` has quota, and no nodes; its second is short of those two.
    """
    world = TermWorld()
    big_node(world, "b1", labels={"kind": "blue"})
    flavor(world, "red", kind="red")
    flavor(world, "blue", kind="blue")
    own = {"blue": {"gpu": (4, 0)}}
    cluster_queue(world, "a", None, own, cohort="all", within="LowerPriority")
    both = {"red": {"gpu": 0}, "blue": {"gpu": 4}}
    cluster_queue(world, "b", None, both, cohort="all", strategy="StrictFIFO")
    cluster_queue(world, "lender", None, {"red": {"gpu": 6}}, cohort="all")
    async with world.running():
        job(world, "holder", "a", 5, gpu=2)
        await asyncio.sleep(2)
    job(world, "hopeless", "a", 5, gpu=4)
    job(world, "fits", "b", gpu=6)
    async with TermWorld(cluster=world.cluster).running(seconds=2) as world:
        assert bound(world) == ["fits", "holder"]


async def test_a_unit_gets_a_flavor_that_another_head_kept_when_it_was_first_tried() -> None:
    """``hopeless`` keeps five GPUs of ``red`` for one cycle, and of ``blue`` there are too few."""
    world = TermWorld()
    big_node(world, "n", of={GPU: "20"})
    flavor(world, "red")
    flavor(world, "blue")
    cluster_queue(world, "a", None, {"red": {"gpu": 10}}, cohort="all")
    both = {"red": {"gpu": 0}, "blue": {"gpu": 1}}
    cluster_queue(world, "b", None, both, cohort="all")
    async with world.running():
        await job_and_wait(world, "holder", "a", gpu=5)
    job(world, "hopeless", "a", 1, gpu=8)
    job(world, "fits", "b", gpu=4)
    async with TermWorld(cluster=world.cluster).running(seconds=2) as world:
        assert bound(world) == ["fits", "holder"]


async def test_a_gang_starts_with_fewer_pods_where_evictions_would_free_quota_but_no_nodes() -> (
    None
):
    async with one_node({"gpu": 8}, within="LowerPriority").running() as world:
        job(world, "low", "team", gpu=4)
        await asyncio.sleep(2)
        big_node(world, "n2", of={"example.com/gpu": "4"})
        cordoned = world.cluster.object("Node", "n1")
        assert isinstance(cordoned, Node)
        cordoned.spec.unschedulable = True
        world.cluster.update(cordoned)
        await asyncio.sleep(2)
        gang(world, "g", "team", 2, 1, priority=5, gpu=4)
        await asyncio.sleep(2)
        assert bound(world) == ["g-0", "low"]


@pytest.mark.parametrize(("strategy", "second"), [("StrictFIFO", []), ("BestEffortFIFO", ["b2"])])
async def test_a_strict_head_without_victims_keeps_its_nominal_quota_from_borrowers_that_come_later(
    strategy: str, second: list[str]
) -> None:
    """Otherwise borrowers that come one after another would starve it."""
    world = TermWorld()
    big_node(world, "n1")
    big_node(world, "n2")
    flavor(world)
    cluster_queue(world, "owner", {"gpu": 8}, cohort="all", strategy=strategy)
    cluster_queue(world, "borrower", {"gpu": 0}, cohort="all")
    async with world.running():
        job(world, "b1", "borrower", gpu=4)
        await asyncio.sleep(2)
        job(world, "head", "owner", gpu=8)
        await asyncio.sleep(2)
        job(world, "b2", "borrower", gpu=4)
        await asyncio.sleep(2)
        assert bound(world) == ["b1", *second]
        await world.delete_and_wait("b1", seconds=2)
        assert bound(world) == (second or ["head"])


async def test_a_flavor_gets_only_pods_that_fit_on_its_nodes() -> None:
    """The first flavor has quota, but its node is full: the next one is tried at once."""
    world = TermWorld()
    big_node(world, "s1", of={"cpu": "1"}, labels={"kind": "spot"})
    big_node(world, "d1", labels={"kind": "demand"})
    flavor(world, "spot", kind="spot")
    flavor(world, "demand", kind="demand")
    cluster_queue(world, "team", None, {"spot": {"cpu": 8}, "demand": {"cpu": 8}})
    async with world.running():
        for name in ("a", "b"):
            await job_and_wait(world, name, "team", cpu=1)
        assert world.nodes_of("a", "b") == ["s1", "d1"]
        assert usage(world, "team") == {"spot/cpu": 1000, "demand/cpu": 1000}
        written = world.stored("b").metadata.annotations["podsched.io/flavors"]
        assert written == '{"cpu":"demand"}'


@pytest.mark.parametrize(
    ("annotations", "used"),
    [
        ({}, {"spot/cpu": 1000, "demand/cpu": 6000}),
        ({"kueue.x-k8s.io/podset-group-name": "all"}, {"demand/cpu": 7000}),
    ],
)
async def test_pod_sets_of_one_group_get_the_same_flavors(
    annotations: dict[str, str], used: dict[str, int]
) -> None:
    world = TermWorld()
    big_node(world, "n1")
    flavor(world, "spot")
    flavor(world, "demand")
    cluster_queue(world, "team", None, {"spot": {"cpu": 4}, "demand": {"cpu": 8}})
    async with world.running():
        gang(world, "g", "team", 0, 3)
        for name, cpu in (("leader", "1"), ("w-0", "3"), ("w-1", "3")):
            spec = {
                "schedulerName": "default-scheduler",
                "schedulingGroup": {"podGroupName": "g"},
                "containers": [container({"cpu": cpu})],
            }
            world.cluster.create(pod(name, spec, annotations=annotations))
        await asyncio.sleep(2)
        assert usage(world, "team") == used


async def test_pods_of_two_shapes_share_a_flavor_if_nodes_of_the_preferred_ones_have_no_room() -> (
    None
):
    """Quota prefers ``red`` for the second shape, which would borrow ``blue``."""
    world = TermWorld()
    big_node(world, "n1", labels={"kind": "blue"})
    for kind in ("blue", "red"):
        flavor(world, kind, kind=kind)
    quotas = {"blue": {"cpu": 3}, "red": {"cpu": 3}}
    cluster_queue(world, "team", None, quotas, cohort="all", when_can_borrow="TryNextFlavor")
    cluster_queue(world, "lender", None, {"blue": {"cpu": 9}}, cohort="all")
    async with world.running():
        gang(world, "g", "team", 1, 2, cpu=3)
        job(world, "g-1", "team", cpu=2, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(1)
        assert bound(world) == ["g-0", "g-1"]
        world.check()


async def test_a_later_pod_of_a_group_of_pod_sets_waits_for_the_flavor_of_those_that_run() -> None:
    world = TermWorld()
    big_node(world, "n1")
    flavor(world, "spot")
    flavor(world, "demand")
    cluster_queue(world, "team", None, {"spot": {"cpu": 4}, "demand": {"cpu": 8}})

    def member(name: str, cpu: str) -> None:
        spec = {
            "schedulerName": "default-scheduler",
            "schedulingGroup": {"podGroupName": "g"},
            "containers": [container({"cpu": cpu})],
        }
        annotations = {"kueue.x-k8s.io/podset-group-name": "all"}
        world.cluster.create(pod(name, spec, annotations=annotations))

    async with world.running():
        gang(world, "g", "team", 0, 1)
        member("leader", "3")
        await asyncio.sleep(2)
        member("worker", "2")
        await asyncio.sleep(2)
        assert bound(world) == ["leader"]
        assert "could not assign demand flavor" in message(world, "worker")
        world.cluster.delete("Pod", "default/worker")
        member("small", "1")
        await asyncio.sleep(2)
        assert usage(world, "team") == {"spot/cpu": 4000}


async def test_a_queue_with_an_unreadable_quota_stops_nothing_else() -> None:
    world = TermWorld()
    big_node(world, "n0")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 4})
    cluster_queue(world, "broken", {"cpu": "much"})
    async with world.running():
        job(world, "a", "team", cpu=1)
        job(world, "b", "broken", cpu=1)
        await world.pod_and_wait("c")
        assert bound(world) == ["a", "c"]


async def test_pods_get_the_tolerations_of_their_flavor_before_they_are_bound() -> None:
    world = TermWorld()
    taint = {"key": "spot", "value": "yes", "effect": "NoExecute"}
    big_node(world, "s1", taints=[taint], labels={"kind": "spot"})
    tolerated = {"key": "spot", "operator": "Exists", "effect": "NoExecute"}
    flavor(world, "spot", [tolerated], kind="spot")
    cluster_queue(world, "team", None, {"spot": {"cpu": 8}})
    async with world.running():
        own = {"key": "other", "operator": "Exists"}
        job(world, "a", "team", cpu=1, spec={"tolerations": [own]})
        world.pod("free")
        await asyncio.sleep(2)
        assert bound(world) == ["a"]
        keys = [one.key for one in world.stored("a").spec.tolerations]
        assert keys == ["other", "spot"]
        world.check()


@pytest.mark.parametrize("members", [1, 2])
async def test_a_unit_whose_binding_fails_backs_off(members: int) -> None:
    world = TermWorld()
    big_node(world, "n0")
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8})
    binder = DyingBinder(world)
    async with world.running():
        binder.refused |= {"a", "a-0", "a-1"}
        if members == 1:
            job(world, "a", "team", cpu=1)
        else:
            gang(world, "a", "team", members, cpu=1)
        await asyncio.sleep(10)
        assert 2 <= binder.calls <= 9
        binder.refused.clear()
        await asyncio.sleep(10)
        assert len(bound(world)) == members


@pytest.mark.parametrize("by_conflict", [False, True])
async def test_a_pod_whose_tolerations_cannot_be_written_is_not_bound_and_tried_again(
    by_conflict: bool,
) -> None:
    world = TermWorld()
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    big_node(world, "s1", taints=[taint], labels={"kind": "spot"})
    flavor(world, "spot", [{"key": "spot", "operator": "Exists"}], kind="spot")
    cluster_queue(world, "team", None, {"spot": {"cpu": 8}})
    refused = 0
    patch_many = world.cluster.patch_many

    async def once(patches: Any, *, fence: Any = None) -> Any:
        nonlocal refused
        if not refused and any(patch.kind == "Pod" for patch in patches):
            refused += 1
            if by_conflict:
                return [BatchResult(code=StatusCode.ABORTED, message="another uid")]
            raise Unavailable("not now")
        return await patch_many(patches, fence=fence)

    world.cluster.patch_many = once  # type: ignore[method-assign]
    async with world.running():
        job(world, "a", "team", cpu=1)
        await asyncio.sleep(30)
        assert refused == 1
        assert bound(world) == ["a"]
        assert [one.key for one in world.stored("a").spec.tolerations] == ["spot"]
        world.check()


async def test_flavors_keep_their_nodes_in_a_profile_without_topology_placements() -> None:
    disabled = {"placementGenerate": {"disabled": [{"name": "TopologyPlacementGenerator"}]}}
    world = TermWorld([{"plugins": disabled}])
    big_node(world, "s1", labels={"kind": "spot"})
    big_node(world, "d1", of={"cpu": "100"}, labels={"kind": "demand"})
    flavor(world, "spot", kind="spot")
    cluster_queue(world, "team", None, {"spot": {"cpu": 80}})
    async with world.running():
        await gang_and_wait(world, "g", "team", 9, min_count=1, cpu=1)
        nodes = {pod.spec.node_name for name in bound(world) if (pod := world.stored(name))}
        assert nodes == {"s1"}


async def test_room_on_the_nodes_of_a_later_flavor_is_noticed() -> None:
    world = TermWorld()
    big_node(world, "s1", labels={"kind": "spot"}, unschedulable=True)
    big_node(world, "d1", labels={"kind": "demand"})
    flavor(world, "spot", kind="spot")
    flavor(world, "demand", kind="demand")
    cluster_queue(world, "team", None, {"spot": {"cpu": 8}, "demand": {"cpu": 8}})
    async with world.running():
        world.pod("outside", cpu="8", nodeName="d1")
        await gang_and_wait(world, "g", "team", 2, cpu=1)
        assert bound(world) == ["outside"]
        await world.delete_and_wait("outside", seconds=15)
        assert world.nodes_of("g-0", "g-1") == ["d1", "d1"]


async def test_quota_without_room_on_nodes_is_not_reserved() -> None:
    world = TermWorld()
    big_node(world, "n1", of={"cpu": "2"})
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8})
    async with world.running():
        await gang_and_wait(world, "g", "team", 3, cpu=1)
        assert bound(world) == []
        assert usage(world, "team") == {}
        assert condition(world, "g")[:2] == ("False", "TopologyPlacementFailed")
        big_node(world, "n2")
        await asyncio.sleep(15)
        assert bound(world) == ["g-0", "g-1", "g-2"]


async def test_a_unit_that_came_before_the_first_node_is_admitted_once_there_is_one() -> None:
    world = TermWorld()
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8})
    async with world.running():
        await job_and_wait(world, "early", "team", cpu=1)
        assert bound(world) == []
        big_node(world, "n1")
        await asyncio.sleep(15)
        assert bound(world) == ["early"]


async def test_an_event_that_helps_a_unit_during_its_attempt_is_not_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add, added = GroupMembers.add, list[str]()

    def add_and_make_node(of: GroupMembers, trial: GroupTrial, decision: Decision) -> bool:
        if not added:
            added.append(decision.queued.info.name)
            big_node(world, "n2", of={"cpu": "9"})
        return add(of, trial, decision)

    monkeypatch.setattr(GroupMembers, "add", add_and_make_node)
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world = TermWorld()
    big_node(world, "n1", of={"cpu": "1"})
    flavor(world)
    cluster_queue(world, "team", {"cpu": 9})
    async with world.running():
        gang(world, "g", "team", 3, cpu=3)
        await asyncio.sleep(20)
        assert world.nodes_of("g-0", "g-1", "g-2") == ["n2", "n2", "n2"]
        world.check()


async def test_a_new_leader_counts_what_runs_by_the_flavors_that_were_written() -> None:
    world = TermWorld()
    big_node(world, "n1")
    for name in ("one", "two"):
        flavor(world, name)
    cluster_queue(world, "team", None, {"one": {"cpu": 1}, "two": {"cpu": 1}})
    async with world.running():
        for name in ("a", "b", "c"):
            await job_and_wait(world, name, "team", cpu=1)
    world.cluster.delete("Pod", "default/a")
    async with TermWorld(cluster=world.cluster).running(seconds=1) as after:
        assert bound(after) == ["b", "c"]
        assert usage(after, "team") == {"one/cpu": 1000, "two/cpu": 1000}
        assert after.stored("c").metadata.annotations["podsched.io/flavors"] == '{"cpu":"one"}'


async def test_queues_that_come_later_gate_what_waits_and_let_it_go_when_they_leave() -> None:
    async with TermWorld().running() as world:
        await job_and_wait(world, "a", "team", cpu=1)
        flavor(world)
        cluster_queue(world, "team", {"cpu": 0})
        big_node(world, "n1")
        await asyncio.sleep(20)
        assert bound(world) == []
        world.cluster.delete("LocalQueue", "default/team")
        world.cluster.delete("ClusterQueue", "team")
        await asyncio.sleep(20)
        assert bound(world) == ["a"]


@pytest.mark.parametrize(
    ("queue", "reason"),
    [("missing", "LocalQueue missing doesn't exist"), ("held", "ClusterQueue held is stopped")],
)
async def test_a_pod_whose_queue_cannot_admit_says_so(queue: str, reason: str) -> None:
    world = one_node()
    cluster_queue(world, "held", {"cpu": 4}, stop="Hold")
    async with world.running():
        await job_and_wait(world, "a", queue, cpu=1)
        assert bound(world) == []
        assert message(world, "a") == reason


async def test_the_queue_of_a_group_is_that_of_its_label() -> None:
    async with one_node({"cpu": 4}).running() as world:
        await gang_and_wait(world, "g", "team", 2, cpu=1, labels={QUEUE: "other"})
        assert bound(world) == ["g-0", "g-1"]
        assert usage(world, "team") == {"default/cpu": 2000}


# ---------------------------------------------------------------- failures of two brains


async def test_a_node_is_not_given_twice_in_a_cycle() -> None:
    """Two queues of a cohort, and both heads need its last node."""
    world = one_node()
    for name in ("one", "two"):
        cluster_queue(world, name, {"gpu": 4}, cohort="all")
        job(world, f"of-{name}", name, gpu=8)
    async with world.running(seconds=1):
        assert bound(world) == ["of-one"]
        assert world.events("of-two", "FailedScheduling")[0] == (
            "Workload no longer fits after processing another workload"
        )
        assert usage(world, "two") == {}


async def test_of_two_heads_with_quota_one_gets_the_last_node_and_the_other_no_quota() -> None:
    world = one_node()
    for name in ("one", "two"):
        cluster_queue(world, name, {"gpu": 8}, cohort="all")
        job(world, f"of-{name}", name, gpu=8)
    async with world.running(seconds=1):
        assert bound(world) == ["of-one"]
        assert usage(world, "two") == {}
        assert f"Insufficient {GPU}" in message(world, "of-two")


async def test_a_terminating_pod_uses_its_quota_and_node_until_it_is_gone() -> None:
    async with one_node({"gpu": 8}).running() as world:
        await job_and_wait(world, "old", "team", gpu=8, spec={"terminationGracePeriodSeconds": 30})
        job(world, "new", "team", gpu=8)
        request = EvictRequest(namespace="default", name="old")
        await world.cluster.evict_pods([request], fence=world.fence)
        await asyncio.sleep(5)
        assert bound(world) == ["old"]
        assert usage(world, "team") == {f"default/{GPU}": 8}
        assert message(world, "new").endswith("8 more needed; 1 terminating pod(s) still use quota")
        await world.delete_and_wait("old")
        assert bound(world) == ["new"]


_TERM = {
    "labelSelector": {"matchLabels": {QUEUE: "team"}},
    "topologyKey": "kubernetes.io/hostname",
}
_APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}}


@pytest.mark.parametrize("apart", [{"spec": {"affinity": _APART}}, {"port": 8080}])
async def test_a_gang_that_only_affinity_or_ports_keep_apart_gets_no_quota(
    apart: dict[str, Any],
) -> None:
    """Two members have to be on two nodes, and one is free."""
    async with one_node({"cpu": 8}).running() as world:
        await gang_and_wait(world, "g", "team", 2, cpu=1, **apart)
        assert bound(world) == []
        assert usage(world, "team") == {}
        assert condition(world, "g")[:2] == ("False", "TopologyPlacementFailed")
        big_node(world, "n2")
        await asyncio.sleep(15)
        assert bound(world) == ["g-0", "g-1"]


async def test_pods_with_kueues_group_label_are_one_unit() -> None:
    world = one_node({"cpu": 2})
    group = "kueue.x-k8s.io/pod-group-"
    labels = {f"{group}name": "train", f"{group}total-count": "3"}
    async with world.running():
        for name in ("a", "b", "c"):
            job(world, name, "team", cpu=1, labels=labels)
        await asyncio.sleep(3)
        assert bound(world) == [] and usage(world, "team") == {}


async def test_a_unit_whose_pods_cannot_be_popped_does_not_keep_passing_the_gate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = one_node({"cpu": 4})
    passing: list[str] = []

    def failing(uids: object, now: float) -> list[QueuedPodInfo]:
        passing.append(world.state.admission.gate._passing)
        raise IndexError("a bug")

    monkeypatch.setattr(world.state.queue.attempts, "pop_members", failing)
    with pytest.raises(IndexError):
        async with world.running():
            await job_and_wait(world, "a", "team", cpu=3)
    assert passing == ["default/pod:a"]
    assert world.state.admission.gate._passing == ""
