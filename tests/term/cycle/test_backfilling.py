"""Units of ClusterQueues with backfill: starts that are reserved, kept, or withdrawn.

Each unit's pods have no grace period, so it is gone 5 s after its limit at the latest.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from podsched.api.objects import Node, Pod
from podsched.api.objects import PodGroup as StoredGroup
from podsched.api.queue_labels import (
    BACKFILL,
    MAX_EXEC_TIME,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
    QUEUE_PRIORITY_CLASS,
    SLICE_LEVEL,
    SLICE_SIZE,
)
from podsched.framework.pod_groups import PodGroup
from podsched.term.admission.limits import SLACK
from podsched.term.admission.reservation_text import RESERVATION
from podsched.term.cycle.pod_group_cycle import PodGroupCycle
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
    message,
    priority_class,
    topology,
    usage,
)
from support.term_world import WALL, TermWorld

pytestmark = pytest.mark.looptime

RESERVED = "podsched.io/StartReserved"


def a_world(
    policy: str = "EASY",
    nodes: int = 1,
    within: str = "Never",
    settings: dict[str, Any] | None = None,
    cohort: str = "",
    **quotas: Any,
) -> TermWorld:
    world = TermWorld(queues={"backfill": settings or {}})
    for index in range(nodes):
        big_node(world, f"n{index}")
    flavor(world)
    quotas = quotas or {"cpu": 8 * nodes}
    parts: dict[str, Any] = {"annotations": {BACKFILL: policy}, "cohort": cohort}
    cluster_queue(world, "team", quotas, within=within, **parts)
    return world


def run(world: TermWorld, name: str, cpu: int, seconds: int = 0, **more: Any) -> None:
    """A lone pod of the queue; ``seconds``: its limit, 0 for none."""
    labels = {MAX_EXEC_TIME: str(seconds)} if seconds else {}
    labels |= more.pop("labels", {})
    spec = {"terminationGracePeriodSeconds": more.pop("grace", 0), **more.pop("spec", {})}
    job(world, name, "team", cpu=cpu, labels=labels, spec=spec, **more)


def run_gang(
    world: TermWorld, name: str, count: int, cpu: int, seconds: int = 0, **more: Any
) -> None:
    labels = {MAX_EXEC_TIME: str(seconds)} if seconds else {}
    gang(world, name, "team", count, cpu=cpu, labels=labels, spec=_NO_GRACE, **more)


async def run_and_wait(world: TermWorld, *args: Any, **more: Any) -> None:
    """``run``, and a second in which the leader decides."""
    run(world, *args, **more)
    await asyncio.sleep(1)


async def run_gang_and_wait(world: TermWorld, *args: Any, **more: Any) -> None:
    """``run_gang``, and a second in which the leader decides."""
    run_gang(world, *args, **more)
    await asyncio.sleep(1)


_NO_GRACE = {"terminationGracePeriodSeconds": 0}


def promised(world: TermWorld, name: str) -> tuple[float, list[str]] | None:
    """The start of a unit's reservation, in seconds after the begin, and its nodes."""
    every = [*world.cluster.objects("PodGroup"), *world.cluster.objects("Pod")]
    found: Any = next(one for one in every if one.metadata.name == name)
    text = found.metadata.annotations.get("podsched.io/reservation", "")
    if not text:
        return None
    body = json.loads(text)
    return datetime.fromisoformat(body["start"]).timestamp() - WALL, sorted(body["nodes"])


def a_promise(world: TermWorld, name: str) -> tuple[float, list[str]]:
    """What ``promised`` returns, of a unit that is promised a start."""
    found = promised(world, name)
    assert found is not None
    return found


async def end(world: TermWorld, name: str, seconds: float = 1) -> None:
    """Let a pod succeed, and some seconds pass."""
    found = world.stored(name)
    found.status.phase = "Succeeded"
    world.cluster.update(found)
    await asyncio.sleep(seconds)


async def test_a_blocked_unit_is_promised_a_start_on_nodes() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_and_wait(world, "wide", 8, 50)
        assert bound(world) == ["long"]
        start, nodes = promised(world, "wide") or (0, [])
        assert 100 <= start <= 100 + SLACK + 2
        assert nodes == ["n0"]
        assert "at the latest, reserved on nodes n0" in message(world, "wide")
        await asyncio.sleep(start)
        assert "wide" in bound(world)
        assert promised(world, "wide") is None
        world.check()


@pytest.mark.parametrize("name", ["podsched.io/reservation", "podsched.io/flavors"])
async def test_an_annotation_that_is_nested_too_deeply_keeps_no_unit_from_starting(
    name: str,
) -> None:
    world, nested = a_world(), "[" * 100_000
    running = world.pod("running", labels={QUEUE: "team"}, on="n0")
    running.metadata.annotations[name] = nested
    world.cluster.update(running)
    async with world.running():
        await run_gang_and_wait(world, "strange", 1, 2, annotations={name: nested})
        assert bound(world) == ["running", "strange-0"]
        world.check()


@pytest.mark.parametrize("grace", [10**12, 2**63 - 1])
async def test_a_grace_period_beyond_the_year_9999_stops_no_other_unit(grace: int) -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "endless", 6, 100, grace=grace)
        await run_and_wait(world, "wide", 8, 50)
        await run_and_wait(world, "small", 2)
        assert bound(world) == ["endless", "small"]
        assert promised(world, "wide") is None
        world.check()


async def test_limits_that_add_up_to_more_than_the_year_9999_stop_no_unit() -> None:
    async with a_world("Conservative").running() as world:
        for index in range(40):
            run(world, f"long-{index}", 8, 9_999_999_999)
        await asyncio.sleep(5)
        assert bound(world) == ["long-0"]
        world.check()


async def test_a_gang_that_loses_the_pod_with_its_limit_keeps_to_it() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 100)
        await run_and_wait(world, "wide", 8, 50)
        start, _ = promised(world, "wide") or (0.0, [])
        for name, seconds in (("g-0", 20), ("g-1", 9_999_999_999)):
            labels = {QUEUE_GROUP_NAME: "g", MAX_EXEC_TIME: str(seconds)}
            spec = {"annotations": {QUEUE_GROUP_COUNT: "2"}, **_NO_GRACE}
            job(world, name, "team", cpu=2, labels=labels, spec=spec)
        await asyncio.sleep(1)
        assert bound(world) == ["g-0", "g-1", "long"]
        await world.delete_and_wait("g-0")
        assert promised(world, "wide") == (start, ["n0"])
        await asyncio.sleep(start)
        assert bound(world) == ["wide"]
        world.check()


@pytest.mark.parametrize(
    "longer",
    [
        {},
        {"activeDeadlineSeconds": 1_000},
        {"activeDeadlineSeconds": 20, "terminationGracePeriodSeconds": 1_000},
    ],
)
async def test_a_pod_that_lets_its_running_unit_end_later_waits_for_promised_starts(
    longer: dict[str, int],
) -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 100)
        await run_and_wait(world, "wide", 8, 50)
        start, _ = promised(world, "wide") or (0.0, [])
        shorter = {"activeDeadlineSeconds": 20, **_NO_GRACE}
        await gang_and_wait(world, "g", "team", 1, cpu=1, spec=shorter)
        of_group = {"schedulingGroup": {"podGroupName": "g"}}
        await job_and_wait(world, "joins", "team", cpu=1, spec={**shorter, **of_group})
        await job_and_wait(world, "longer", "team", cpu=1, spec={**_NO_GRACE, **longer, **of_group})
        assert bound(world) == ["g-0", "joins", "long"]
        await asyncio.sleep(start)
        assert "wide" in bound(world)
        world.check()


async def _with_annotation(world: TermWorld, change: Callable[[dict[str, Any]], None]) -> None:
    """Promise a start to a gang of a pod, write its annotation, and make its pod again."""
    run(world, "long-0", 6, 100)
    await run_and_wait(world, "long-1", 6, 100)
    await run_gang_and_wait(world, "g", 1, 8, 50)
    await world.delete_and_wait("g-0")
    group = world.cluster.object("PodGroup", "default/g")
    assert isinstance(group, StoredGroup)
    body = json.loads(group.metadata.annotations[RESERVATION])
    change(body)
    group.metadata.annotations[RESERVATION] = json.dumps(body)
    world.cluster.update(group)
    await asyncio.sleep(1)


@pytest.mark.parametrize(
    "forged",
    [
        {"start": "9999-12-31T23:59:59-23:59"},
        {"nodes": {"\ud800": {"cpu": 1}}},
    ],
)
async def test_a_forged_reservation_stops_no_other_unit(forged: dict[str, Any]) -> None:
    async with a_world(nodes=2).running() as world:
        await _with_annotation(world, lambda body: body.update(forged))
        # More than the nodes have, so that the start that is read has to be withdrawn.
        labels, spec = {MAX_EXEC_TIME: "50"}, {"schedulingGroup": {"podGroupName": "g"}}
        await job_and_wait(world, "g-1", "team", cpu=16, labels=labels, spec=spec)
        await run_and_wait(world, "small", 2)
        assert "small" in bound(world)
        world.check()


async def test_a_forged_reservation_keeps_no_more_than_its_unit_asks_for() -> None:
    world = a_world(nodes=2)

    def forge(body: dict[str, Any]) -> None:
        body["usage"] = {"default/cpu": 1 << 60, "default/memory": 1 << 60}
        body["nodes"] = {name: {"cpu": 1 << 60, "pods": 1 << 60} for name in ("n0", "n1")}

    async with world.running():
        await _with_annotation(world, forge)
    labels, spec = {MAX_EXEC_TIME: "50"}, {"schedulingGroup": {"podGroupName": "g"}}
    job(world, "g-1", "team", cpu=8, labels=labels, spec=spec)
    # A leader that has read everything, but decided nothing.
    following = TermWorld(cluster=world.cluster)
    reading = asyncio.create_task(following.informer.run(following.handle))
    await following.informer.synced.wait()
    assert usage(following, "team") == {"default/cpu": 12_000}
    read = following.state.admission.reservations.of["default/g"]
    assert list(read.usage.values()) == [8000]
    assert read.nodes == {"n0": {"cpu": 8000, "pods": 1}}
    reading.cancel()


async def test_a_unit_that_ends_before_the_reserved_start_passes_the_blocked_one() -> None:
    async with a_world().running() as world:
        run(world, "long", 6, 100)
        await run_and_wait(world, "wide", 8, 50)
        run(world, "short", 2, 60)
        await run_and_wait(world, "late", 2, 200)
        assert bound(world) == ["long", "short"]
        assert message(world, "late") == (
            "it would delay default/pod:wide, which starts at 2027-01-15T08:01:45Z at the latest, "
            "by its use of cpu in flavor default"
        )


async def test_a_unit_without_a_limit_does_not_pass_what_it_would_delay() -> None:
    async with a_world().running() as world:
        run(world, "long", 6, 100)
        await run_and_wait(world, "wide", 8, 50)
        await run_and_wait(world, "endless", 1)
        assert bound(world) == ["long"]


async def test_a_unit_without_a_limit_passes_on_what_the_reservation_leaves_over() -> None:
    async with a_world(nodes=2).running() as world:
        run(world, "a", 6, 100)
        await run_and_wait(world, "b", 8, 100)
        await run_and_wait(world, "wide", 6, 50)
        await run_and_wait(world, "endless", 2)
        assert bound(world) == ["a", "b", "endless"]
        await asyncio.sleep(105)
        assert bound(world) == ["endless", "wide"]


async def test_nodes_are_kept_although_quota_is_left() -> None:
    async with a_world(nodes=2, cpu=100).running() as world:
        run(world, "a", 6, 100)
        await run_and_wait(world, "b", 6, 50)
        await run_and_wait(world, "wide", 8, 50)
        start, nodes = promised(world, "wide") or (0, [])
        assert 50 <= start <= 58
        await run_and_wait(world, "endless", 2)
        assert world.stored("endless").spec.node_name not in ("", *nodes)
        await asyncio.sleep(60)
        assert bound(world) == ["a", "endless", "wide"]
        world.check()


async def test_easy_reserves_for_the_first_unit_only_and_conservative_for_all() -> None:
    for policy, reserved in (("EASY", [True, False]), ("Conservative", [True, True])):
        async with a_world(policy).running() as world:
            await run_and_wait(world, "long", 6, 100)
            await run_and_wait(world, "first", 8, 50)
            await run_and_wait(world, "second", 8, 50)
            assert [promised(world, name) is not None for name in ("first", "second")] == reserved


async def test_a_start_moves_forward_when_a_unit_ends_before_its_limit() -> None:
    async with a_world("Conservative").running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_gang_and_wait(world, "first", 2, 4, 50)
        await run_and_wait(world, "second", 8, 50)
        before, _ = promised(world, "second") or (0, [])
        await end(world, "long", 2)
        assert bound(world) == ["first-0", "first-1", "long"]
        after, _ = promised(world, "second") or (0, [])
        assert after < before - 90


@pytest.mark.parametrize("lone", [False, True])
async def test_the_next_leader_keeps_a_reservation(lone: bool) -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        if lone:
            run(world, "wide", 8, 50)
        else:
            run_gang(world, "wide", 2, 4, 50)
        await asyncio.sleep(1)
        before = promised(world, "wide")
        assert lone or condition(world, "wide", RESERVED)[:2] == ("True", "Reserved")
    async with TermWorld(cluster=world.cluster).running() as after:
        run(after, "late", 2, 200)
        await asyncio.sleep(1)
        assert bound(after) == ["long"]
        assert promised(after, "wide") == before
        await asyncio.sleep(120)
        assert bound(after) == (["wide"] if lone else ["wide-0", "wide-1"])


async def test_another_pod_tells_of_a_promised_start_if_the_one_that_did_is_replaced() -> None:
    """A group without a PodGroup: an annotation of one of its pods has the reservation."""
    labels = {QUEUE_GROUP_NAME: "g", MAX_EXEC_TIME: "50"}
    spec = {"annotations": {QUEUE_GROUP_COUNT: "2"}, **_NO_GRACE}
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        for name in ("a", "b"):
            job(world, name, "team", cpu=4, labels=labels, spec=dict(spec))
        await asyncio.sleep(1)
        before = a_promise(world, "a")
        world.cluster.delete("Pod", "default/a")
        job(world, "c", "team", cpu=4, labels=labels, spec=dict(spec))
        await asyncio.sleep(1)
        assert [promised(world, name) for name in ("b", "c")] == [before, None]
        assert "at the latest" in next(
            one.message for one in world.stored("b").status.conditions if one.type == RESERVED
        )
    async with TermWorld(cluster=world.cluster).running(seconds=120) as after:
        assert bound(after) == ["b", "c"]


async def test_a_pod_group_that_is_made_again_tells_of_the_promised_start_of_its_pods() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_gang_and_wait(world, "g", 2, 4, 50)
        before = a_promise(world, "g")
        world.cluster.delete("PodGroup", "default/g")
        gang(world, "g", "team", 0, min_count=2)
        await asyncio.sleep(1)
        assert promised(world, "g") == before
    async with TermWorld(cluster=world.cluster).running(seconds=120) as after:
        assert bound(after) == ["g-0", "g-1"]


async def test_a_start_that_a_user_writes_into_an_annotation_is_not_promised() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 8, 100)
        await run_and_wait(world, "first", 8, 50)
        before = promised(world, "first")
    assert before is not None
    forge(world, before[0])
    async with TermWorld(cluster=world.cluster).running(seconds=1) as after:
        assert promised(after, "first") == before
        await asyncio.sleep(before[0])
        assert "first" in bound(after)


def forge(world: TermWorld, start: float) -> None:
    """Create a pod that claims the start of another one, in an annotation."""
    at = datetime.fromtimestamp(start - 1 + WALL, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    nodes = {"n0": {"cpu": 8000, "pods": 1}}
    claim = {"start": at, "usage": {"default/cpu": 8000}, "nodes": nodes}
    made = Pod()
    first = world.stored("first")
    made.CopyFrom(first)
    made.ClearField("status")
    made.metadata.name, made.metadata.uid = "forged", "uid-forged"
    made.metadata.labels[MAX_EXEC_TIME] = "1000"
    made.metadata.annotations[RESERVATION] = json.dumps(claim)
    world.cluster.create(made)


async def test_a_start_is_withdrawn_loudly_when_its_node_is_gone() -> None:
    async with a_world(nodes=2, cpu=100).running() as world:
        run(world, "a", 8, 100)
        await run_and_wait(world, "b", 8, 50)
        await run_gang_and_wait(world, "wide", 1, 8, 50)
        _, nodes = promised(world, "wide") or (0, [])
        node = world.cluster.object("Node", nodes[0])
        node.spec.unschedulable = True
        world.cluster.update(node)
        await asyncio.sleep(2)
        assert condition(world, "wide", RESERVED)[1] == "NodeGone"
        assert "unschedulable" in condition(world, "wide", RESERVED)[2]
        later, nodes_later = promised(world, "wide") or (0, [])
        assert later >= 100
        assert nodes_later != nodes


async def test_a_pod_without_a_queue_that_takes_reserved_room_is_named() -> None:
    """And not ``endless``, which runs beside the promised start."""
    async with a_world(nodes=2, cpu=100).running() as world:
        run(world, "a", 6, 50)
        await run_and_wait(world, "b", 8, 200)
        await run_gang_and_wait(world, "wide", 1, 6, 50)
        _, [node] = promised(world, "wide") or (0, [""])
        await run_and_wait(world, "endless", 2)
        world.pod("stray", on=node)
        await end(world, "a", 2)
        assert (
            condition(world, "wide", RESERVED)[2]
            .partition(". It ")[0]
            .endswith(
                f"is withdrawn: pod default/stray, which is in no queue, takes room of node {node}"
            )
        )


async def test_a_pod_without_a_queue_is_named_that_is_in_the_way_only_of_a_later_start() -> None:
    """From 155 s on, node n0 is full with ``first`` and ``second``, and ``stray`` is too much."""
    async with a_world("Conservative", cpu=100).running() as world:
        run(world, "a", 6, 50)
        await run_and_wait(world, "b", 1, 150)
        await run_gang_and_wait(world, "first", 1, 6, 200)
        await run_and_wait(world, "second", 2, 50)
        world.pod("stray", on="n0")
        await end(world, "a", 2)
        [said] = world.events("first-0", "StartWithdrawn")
        assert "is withdrawn: pod default/stray, which is in no queue" in said


@pytest.mark.parametrize(
    ("count", "quota", "is_promised"), [(3, 8, False), (4, 8, True), (4, 6, False)]
)
async def test_a_gang_whose_last_slice_has_fewer_pods_is_promised_no_start(
    count: int, quota: int, is_promised: bool
) -> None:
    """That slice needs room for two pods, and a reservation keeps that of one."""
    world, zone = TermWorld(queues={}), "topology.kubernetes.io/zone"
    topology(world, "zones", zone, "kubernetes.io/hostname")
    flavor(world, topology="zones")
    for index in range(2):
        big_node(world, f"n{index}", labels={zone: f"z{index}"})
    cluster_queue(world, "team", {"cpu": 16})
    cluster_queue(world, "other", {"cpu": quota}, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_gang_and_wait(world, "long", 2, 7, 100)
        slices = {SLICE_LEVEL: zone, SLICE_SIZE: "2"}
        gang(world, "sliced", "other", count, 2, cpu=2, annotations=slices, spec=_NO_GRACE)
        await asyncio.sleep(1)
        assert (promised(world, "sliced") is not None) == is_promised
        await asyncio.sleep(120)
        assert "sliced-1" in bound(world)


async def test_a_higher_priority_takes_a_reserved_start_and_says_so() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 8, 100)
        await run_gang_and_wait(world, "wide", 1, 8, 50)
        before, _ = promised(world, "wide") or (0, [])
        run(world, "urgent", 8, 70, priority=10)
        await asyncio.sleep(2)
        assert (promised(world, "urgent") or (0, []))[0] == before
        assert condition(world, "wide", RESERVED)[1] == "Overtaken"


async def test_a_unit_that_overtakes_is_not_said_to_exceed_its_limit() -> None:
    async with a_world(nodes=2).running() as world:
        run(world, "long", 6, 100)
        await run_and_wait(world, "other", 6, 60)
        await run_gang_and_wait(world, "wide", 2, 8, 50)
        run(world, "urgent", 2, 101, priority=10)
        await asyncio.sleep(40)
        await end(world, "other", 2)
        assert "urgent" in bound(world)
        [said] = world.events("wide-0", "StartWithdrawn")
        assert "default/pod:urgent takes what was reserved" in said


async def test_a_unit_that_is_still_there_after_its_limit_is_named() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100, grace=30)
        await run_gang_and_wait(world, "wide", 1, 8, 50)
        start, _ = promised(world, "wide") or (0, [])
        # No kubelet removes the pod, which was evicted after its limit.
        await asyncio.sleep(start + 5)
        assert bound(world) == ["long"]
        said = world.events("wide-0", "StartWithdrawn")[0]
        assert "default/pod:long runs for longer than its limit" in said


async def test_a_start_is_promised_on_another_flavor_if_the_first_has_no_room_on_nodes() -> None:
    world = TermWorld()
    big_node(world, "small", of={"cpu": "4"}, labels={"kind": "blue"})
    big_node(world, "large", labels={"kind": "red"})
    for name in ("blue", "red"):
        flavor(world, name, kind=name)
    quotas = {name: {"cpu": 99} for name in ("blue", "red")}
    cluster_queue(world, "team", None, quotas, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "long", 6, 100)
        await run_and_wait(world, "wide", 8, 50)
        assert promised(world, "wide") == (105, ["large"])
        await asyncio.sleep(60)
        await run_and_wait(world, "other", 1, 10)
        assert promised(world, "wide") == (105, ["large"])


async def test_a_start_is_withdrawn_loudly_when_its_queue_is_stopped() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_gang_and_wait(world, "wide", 1, 8, 50)
        queue = world.cluster.object("ClusterQueue", "team")
        queue.spec.stop_policy = "Hold"
        world.cluster.update(queue)
        await asyncio.sleep(2)
        status, reason, text = condition(world, "wide", RESERVED)
        assert (status, reason) == ("False", "Suspended")
        assert text.endswith("is withdrawn: ClusterQueue team is stopped")
        assert promised(world, "wide") is None


async def test_a_unit_for_which_no_later_start_is_found_is_not_tried_without_end() -> None:
    async with a_world(cpu=16, within="LowerPriority").running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_gang_and_wait(world, "never", 2, 8, 50)
        assert promised(world, "never") is None
        assert condition(world, "never")[1] == "WaitingForQuota"


async def test_nothing_is_evicted_for_a_unit_that_would_then_delay_a_promised_start() -> None:
    """Until its victim is gone, 65 s pass, and it would end after the promised start."""
    async with a_world(within="LowerPriority").running() as world:
        run(world, "low", 4, 300, grace=60)
        await run_and_wait(world, "long", 4, 100, priority=5)
        await run_and_wait(world, "wide", 8, 50, priority=1)
        start, _ = promised(world, "wide") or (0, [])
        assert start > 350
        await run_and_wait(world, "late", 4, int(start) - 40, priority=1)
        assert not is_evicted(world, "low")


async def test_a_unit_that_waits_for_its_victims_is_planned_to_end() -> None:
    world = a_world(within="LowerPriority")
    cluster_queue(world, "other", {"cpu": 8}, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "low", 8, 300, grace=30)
        await run_and_wait(world, "high", 8, 50, priority=1)
        await job_and_wait(world, "next", "other", cpu=8)
        start, _ = promised(world, "next") or (0, [])
        assert 85 <= start <= 98


async def test_a_running_gang_whose_new_pod_waits_for_its_victim_is_planned_to_end_as_a_whole() -> (
    None
):
    world = a_world(nodes=2, within="LowerPriority")
    cluster_queue(world, "other", {"cpu": 16}, annotations={BACKFILL: "EASY"})
    labels = {MAX_EXEC_TIME: "100"}
    async with world.running():
        gang(world, "g", "team", 1, 1, 1, cpu=8, labels=labels, spec=_NO_GRACE)
        run(world, "low", 8, 300, grace=30)
        await asyncio.sleep(30)
        of_group = {"schedulingGroup": {"podGroupName": "g"}, **_NO_GRACE}
        await job_and_wait(world, "g-1", "team", 1, cpu=8, labels=labels, spec=of_group)
        assert is_evicted(world, "low")
        await gang_and_wait(world, "wide", "other", 2, cpu=8, spec=_NO_GRACE)
        assert 100 <= (promised(world, "wide") or (0, []))[0] <= 112


async def test_a_promised_start_is_kept_with_fewer_pods_though_quota_has_room_for_more() -> None:
    """More pods would delay another unit that was promised a later start."""
    world = a_world("Conservative", nodes=2, cpu=10)
    cluster_queue(world, "other", {"cpu": 8})
    big_node(world, "special", labels={"kind": "special"})
    only = {"nodeSelector": {"kind": "special"}}
    async with world.running():
        labels = {MAX_EXEC_TIME: "90"}
        job(world, "first", "other", cpu=8, labels=labels, spec={**only, **_NO_GRACE})
        run(world, "a", 4, 90)
        await run_and_wait(world, "b", 6, 45)
        await run_gang_and_wait(world, "g", 5, 2, 200, min_count=3)
        await run_and_wait(world, "later", 4, 50, spec=only)
        start, _ = promised(world, "g") or (0, [])
        assert 45 <= start <= 52
        assert (promised(world, "later") or (0, []))[0] > start
        await end(world, "a")
        assert promised(world, "g") is not None
        assert (promised(world, "g") or (0, []))[0] <= start
        await asyncio.sleep(start)
        assert [name for name in bound(world) if name.startswith("g-")] == ["g-0", "g-1", "g-2"]
        world.check()


async def test_a_promised_unit_starts_in_time_although_its_queue_waits_for_victims() -> None:
    async with a_world(nodes=2, within="LowerPriority").running() as world:
        await run_and_wait(world, "low", 8, 300, grace=60)
        await run_and_wait(world, "short", 8, 60, priority=5)
        run(world, "wide", 8, 50)
        await asyncio.sleep(40)
        start, nodes = promised(world, "wide") or (0, [])
        await run_and_wait(world, "high", 8, 50, priority=1)
        assert is_evicted(world, "low")
        await asyncio.sleep(start - world.clock())
        await asyncio.sleep(1)
        assert "low" in bound(world)
        assert "wide" in bound(world)
        assert nodes == ["n1"]


async def test_a_unit_keeps_the_quota_of_its_victims_once_they_are_gone() -> None:
    """Until then ``low`` uses it; afterwards ``high`` does, for 200 s."""
    world = a_world(nodes=3, within="LowerPriority", cohort="all", cpu=8)
    more = {"annotations": {BACKFILL: "EASY"}, "cohort": "all"}
    cluster_queue(world, "other", {"cpu": 0}, **more)
    async with world.running():
        run(world, "low", 4, 100, grace=20)
        await run_and_wait(world, "short", 4, 30, priority=5)
        await run_and_wait(world, "high", 4, 200, priority=1)
        assert is_evicted(world, "low")
        await job_and_wait(world, "next", "other", cpu=8, labels={MAX_EXEC_TIME: "50"})
        start, _ = promised(world, "next") or (0, [])
        assert start >= 200


async def test_room_of_victims_is_not_counted_on_for_a_promised_start_as_well() -> None:
    """The promised start counts on the end of ``low``, which ``late`` would preempt."""
    async with a_world(within="LowerPriority", cpu=99).running() as world:
        await run_and_wait(world, "low", 8, 100)
        cluster_queue(world, "other", {"cpu": 8}, annotations={BACKFILL: "EASY"})
        await job_and_wait(world, "wide", "other", cpu=8, priority=2)
        assert promised(world, "wide") is not None
        await run_and_wait(world, "late", 8, 300, priority=1)
        assert not is_evicted(world, "low")


@pytest.mark.parametrize(("limit", "cpu", "planned"), [(100, 4, 125), (0, 5, 35)])
async def test_a_unit_that_waits_for_its_victim_delays_no_promised_start(
    limit: int, cpu: int, planned: int
) -> None:
    """``high`` is counted once: neither beside its own promised start, nor beside its victim."""
    world = a_world(within="LowerPriority", cohort="all", cpu=99)
    more = {"annotations": {BACKFILL: "EASY"}, "cohort": "all"}
    cluster_queue(world, "other", {"cpu": 8}, **more)
    async with world.running():
        world.budget("low", 0, **{QUEUE: "team"})
        run(world, "low", 4, limit, grace=20)
        run(world, "short", 3, 30, priority=5)
        await run_and_wait(world, "small", 1, 30, priority=5)
        await run_and_wait(world, "high", cpu, 200, priority=1)
        job(world, "wide", "other", priority=1, cpu=8 - cpu, labels={MAX_EXEC_TIME: "50"})
        await asyncio.sleep(1)
        start, _ = promised(world, "wide") or (0, [])
        assert planned <= start <= planned + 10
        world.cluster.delete("PodDisruptionBudget", "default/low")
        await end(world, "small", 2)
        assert is_evicted(world, "low")
        assert not world.events("wide", "StartWithdrawn")


def is_evicted(world: TermWorld, name: str) -> bool:
    found = world.cluster.object("Pod", f"default/{name}")
    return found is None or found.metadata.HasField("deletion_timestamp")


async def test_nothing_is_evicted_that_leaves_only_after_a_promised_start_on_its_node() -> None:
    """Its room would be taken twice until then: by itself, and by the unit it is evicted for."""
    world = a_world(within="LowerPriority", cpu=99)
    cluster_queue(world, "other", {"cpu": 8}, annotations={BACKFILL: "EASY"})
    async with world.running():
        run(world, "low", 4, 100, grace=60)
        await run_and_wait(world, "short", 4, 30, priority=5)
        await job_and_wait(world, "waits", "other", cpu=4, priority=1)
        start, _ = promised(world, "waits") or (0, [])
        assert 30 <= start <= 40
        await run_and_wait(world, "late", 4, 300, priority=1)
        assert not is_evicted(world, "low")
        await asyncio.sleep(start)
        assert "waits" in bound(world)


async def test_nothing_is_evicted_that_leaves_only_after_the_promised_start_of_the_unit() -> None:
    async with a_world(nodes=2, within="LowerPriority").running() as world:
        await run_and_wait(world, "low", 8, 1000, grace=300)
        run(world, "long", 7, 50, priority=5)
        await run_and_wait(world, "small", 1, 50, priority=5)
        world.budget("low", 0, **{QUEUE: "team"})
        await asyncio.sleep(1)
        await run_and_wait(world, "high", 8, 100, priority=1)
        start, _ = promised(world, "high") or (0, [])
        assert 50 <= start <= 60
        world.cluster.delete("PodDisruptionBudget", "default/low")
        await end(world, "small")
        assert not is_evicted(world, "low")
        await asyncio.sleep(start)
        assert "high" in bound(world)


async def test_the_limit_of_a_gang_that_has_grown_counts_from_its_admission() -> None:
    """A promised start does not move when the first of its pods ends."""
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 40)
        labels = {MAX_EXEC_TIME: "100"}
        gang(world, "grows", "team", 2, 1, cpu=4, labels=labels, spec=_NO_GRACE)
        await asyncio.sleep(60)
        assert bound(world) == ["grows-0", "grows-1"]
        await run_and_wait(world, "wide", 8, 50)
        before = a_promise(world, "wide")
        assert 100 <= before[0] <= 110
        await end(world, "grows-0")
        assert promised(world, "wide") == before
        await asyncio.sleep(before[0] - 62)
        assert "wide" in bound(world)


async def test_a_member_joins_its_gang_before_a_promised_start_that_waits_for_the_gangs_end() -> (
    None
):
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 100)
        labels = {MAX_EXEC_TIME: "100"}
        await gang_and_wait(world, "grows", "team", 2, 1, cpu=4, labels=labels, spec=_NO_GRACE)
        run(world, "wide", 8, 50)
        await asyncio.sleep(58)
        before = a_promise(world, "wide")
        await end(world, "long")
        assert bound(world) == ["grows-0", "grows-1", "long"]
        assert promised(world, "wide") == before


async def test_a_promised_start_is_kept_when_only_some_of_many_later_times_are_tried() -> None:
    world = TermWorld()
    big_node(world, "other", of={"cpu": "3"})
    flavor(world)
    cluster_queue(world, "team", {"cpu": 133}, annotations={BACKFILL: "EASY"})
    async with world.running():
        for index in range(3):
            run(world, f"other-{index}", 1, 5000 + index)
        await asyncio.sleep(1)
        big_node(world, "n0", of={"cpu": "130", "pods": "200"})
        for index in range(130):
            run(world, f"r{index}", 1, 1000 + 10 * index)
        await asyncio.sleep(1)
        await run_and_wait(world, "wide", 65, 50)
        starts = [promised(world, "wide")]
        for index in range(3):
            await end(world, f"other-{index}", 2)
            starts.append(promised(world, "wide"))
        assert None not in starts
        assert starts == sorted(starts, key=str, reverse=True)


async def test_settings_say_which_units_are_promised_a_start() -> None:
    for settings, reserved in (
        ({"startsPerQueue": 2}, [True, True]),
        ({"minPriority": 1}, [False, False]),
        ({"minAge": "10s"}, [False, False]),
        ({"window": "100s"}, [False, False]),
        ({"window": "150s"}, [True, False]),
    ):
        async with a_world(settings=settings).running() as world:
            await run_and_wait(world, "long", 6, 100)
            await run_and_wait(world, "first", 8, 50)
            await run_and_wait(world, "second", 8, 50)
            assert [promised(world, name) is not None for name in ("first", "second")] == reserved
            await asyncio.sleep(9)
            if "minAge" in settings:
                assert promised(world, "first") is not None


async def test_a_unit_that_reaches_min_age_in_an_absent_queue_stops_no_other_unit() -> None:
    async with a_world(settings={"minAge": "10s"}).running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_and_wait(world, "first", 8, 50)
        world.change("first", lambda pod: pod.metadata.labels.update({QUEUE: "absent"}))
        await asyncio.sleep(10)
        await run_and_wait(world, "small", 1, 50)
        assert "small" in bound(world)


async def test_a_promised_unit_starts_although_one_of_its_shape_before_it_is_promised_nothing() -> (
    None
):
    world = a_world()
    gates = {"schedulingGates": [{"name": "example.com/wait"}], **_NO_GRACE}
    async with world.running():
        run(world, "long", 6, 100)
        limit = {MAX_EXEC_TIME: "50"}
        await job_and_wait(world, "gated", "team", cpu=8, labels=limit, spec=gates)
        await run_and_wait(world, "promised", 8, 50)
        start, _ = promised(world, "promised") or (0, [])
        world.change("gated", lambda pod: pod.spec.ClearField("scheduling_gates"))
        await asyncio.sleep(1)
        # EASY promises one start in a queue, and the head is refused first whenever it is tried.
        assert promised(world, "gated") is None
        await asyncio.sleep(start)
        assert "promised" in bound(world)


async def test_a_queue_with_many_units_leaves_promised_starts_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("podsched.term.admission.eligibility._MOST_RESERVED", 4)
    world = a_world("Conservative")
    cluster_queue(world, "other", {"cpu": 8}, annotations={BACKFILL: "Conservative"})
    names = [f"p{index}" for index in range(6)]
    limit: dict[str, Any] = {"labels": {MAX_EXEC_TIME: "50"}, "spec": _NO_GRACE}
    async with world.running():
        await run_and_wait(world, "long", 8, 100)
        for name in names:
            run(world, name, 8, 50)
        await asyncio.sleep(5)
        assert [name for name in names if promised(world, name)] == names[:2]
        for name in ("o0", "o1", "o2"):
            job(world, name, "other", cpu=8, **limit)
        await asyncio.sleep(5)
        assert [name for name in ("o0", "o1", "o2") if promised(world, name)] == ["o0", "o1"]
        await end(world, "long", 5)
        # ``p0`` has started, so one more of the queue is promised a start.
        assert [name for name in names[1:] if promised(world, name)] == names[1:3]


async def test_of_units_that_may_be_promised_nothing_a_release_tries_one_of_each_shape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []
    admit = PodGroupCycle.admit

    def counted(cycle: PodGroupCycle, group: PodGroup, *more: Any, **options: Any) -> Any:
        tried.append(group.key)
        return admit(cycle, group, *more, **options)

    monkeypatch.setattr(PodGroupCycle, "admit", counted)
    async with a_world("Conservative", cpu=1000, settings={"minPriority": 1}).running() as world:
        run(world, "long", 6, 100)
        run(world, "short", 1, 50)
        for index in range(20):
            run(world, f"p{index}", 4 + index % 2, 100)
        await asyncio.sleep(1)
        tried.clear()
        await end(world, "short", 5)
        assert set(tried) == {"default/pod:p0", "default/pod:p1"}


async def test_a_withdrawal_is_told_although_another_start_was_promised_at_once() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_and_wait(world, "wide", 8, 50)
        reservations, key = world.state.admission.reservations, "default/pod:wide"
        made = reservations.of[key]
        reservations.withdraw(key, "NodeGone", "node x is gone")
        reservations.reserve(key, replace(made, start=made.start + 100))
        reservations.reserve(key, replace(made, start=made.start + 99))
        news = reservations.changes[key]
        assert (news.withdrawn, news.reason) == (True, "NodeGone")
        assert "is withdrawn: node x is gone. It starts at 2027-01-15T08:03:24Z" in news.message


async def test_a_start_is_kept_until_the_last_moment_at_which_a_unit_may_end() -> None:
    async with a_world().running() as world:
        run(world, "long", 6, 30, grace=20)
        await run_and_wait(world, "short", 2, 51)
        await run_gang_and_wait(world, "wide", 1, 8, 50)
        assert promised(world, "wide") == (56, ["n0"])
        await asyncio.sleep(50.5)
        assert bound(world) == ["long"]  # ``short`` has ended shortly before the promised start.
        start, _ = promised(world, "wide") or (0, [])
        assert start == 55


async def test_host_ports_of_a_promised_start_are_kept() -> None:
    async with a_world().running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_and_wait(world, "wide", 4, 50, port=80)
        start, _ = promised(world, "wide") or (0, [])
        run(world, "same", 1, port=80)
        await run_and_wait(world, "other", 1, port=81)
        assert bound(world) == ["long", "other"]
        assert "node n0 is kept for default/pod:wide" in message(world, "same")
        await asyncio.sleep(start)
        assert "wide" in bound(world)


async def test_units_with_the_same_host_port_are_promised_starts_after_each_other() -> None:
    async with a_world("Conservative").running() as world:
        await run_and_wait(world, "long", 6, 100)
        for name in ("first", "second"):
            run(world, name, 3, 50, port=80)
        await asyncio.sleep(1)
        starts = [promised(world, name) or (0, []) for name in ("first", "second")]
        assert starts[0][0] + 50 <= starts[1][0]


async def test_a_pod_without_a_queue_that_takes_a_promised_host_port_is_named() -> None:
    async with a_world(cpu=100).running() as world:
        await run_and_wait(world, "long", 6, 100)
        await run_gang_and_wait(world, "wide", 1, 4, 50, port=80)
        ports = [{"containerPort": 80, "hostPort": 80}]
        container = {"name": "c", "image": "x", "ports": ports}
        world.pod("stray", cpu="", containers=[container], on="n0")
        await asyncio.sleep(120)
        why = "pod default/stray, which is in no queue, takes room of node n0"
        assert f"is withdrawn: {why}" in condition(world, "wide", RESERVED)[2]


def apart_from(app: str) -> dict[str, Any]:
    """The affinity of a pod that must not be beside pods of an app."""
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    term = {**selector, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


async def test_what_is_not_kept_is_said_with_a_promise_and_named_when_it_is_withdrawn() -> None:
    """``stray``, which is in no queue, starts on what the promised start leaves."""
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 100)
        await run_and_wait(world, "apart", 6, 50, spec={"affinity": apart_from("other")})
        assert ", unless other pods prevent its affinity" in message(world, "apart")
        world.pod("stray", cpu="", labels={"app": "other"}, on="n0")
        await asyncio.sleep(120)
        assert bound(world) == ["stray"]
        [said] = world.events("apart", "StartWithdrawn")
        assert "is withdrawn: node n0: node(s) didn't match pod anti-affinity rules" in said


@pytest.mark.parametrize("who", ["promised", "new"])
async def test_a_pod_that_anti_affinity_forbids_beside_a_promised_one_waits_unless_it_ends_before(
    who: str,
) -> None:
    world = a_world()
    apart, other = {"app": "apart"}, {"app": "other"}
    of_promised = {"affinity": apart_from("other")} if who == "promised" else {}
    of_new = {"affinity": apart_from("apart")} if who == "new" else {}
    async with world.running():
        await run_and_wait(world, "long", 4, 100)
        await run_and_wait(world, "apart", 6, 50, labels=apart, spec=of_promised)
        run(world, "short", 2, 30, labels=other, spec=of_new)
        run(world, "beside", 2, labels=other, spec=of_new)
        await asyncio.sleep(2)
        assert bound(world) == ["long", "short"]
        said = "anti-affinity counts on node n0 as if default/pod:apart, which starts at "
        assert said in message(world, "beside")
        await asyncio.sleep(120)
        assert bound(world) == ["apart"]
        assert world.events("apart", "StartWithdrawn") == []
        await asyncio.sleep(60)
        assert bound(world) == ["beside"]


async def test_a_promised_pod_does_not_count_for_the_affinity_of_others_before_it_starts() -> None:
    world = a_world(nodes=2)
    near = {"labelSelector": {"matchLabels": {"app": "later"}}}
    term = {**near, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with world.running():
        for name in ("l0", "l1"):
            run(world, name, 4, 100)
        await asyncio.sleep(1)
        await run_and_wait(world, "later", 6, 50, labels={"app": "later"})
        run(world, "near", 1, spec={"affinity": affinity | apart_from("none")})
        await asyncio.sleep(2)
        assert bound(world) == ["l0", "l1"]


async def test_a_head_that_finds_no_victims_keeps_its_quota_only_from_starts_now() -> None:
    """It is decided before the promised unit, in the same cycle, and could not start later."""
    world = a_world(nodes=2, cohort="all", cpu=4)
    cluster_queue(world, "lender", {"cpu": 6}, cohort="all")
    async with world.running():
        run(world, "long", 5, 100)
        await run_and_wait(world, "small", 3, 100)
        await job_and_wait(world, "head", "lender", cpu=6)
        await run_and_wait(world, "wide", 8, 50)
        before = a_promise(world, "wide")
        assert 100 <= before[0] <= 110
        await end(world, "small")
        assert promised(world, "wide") == before


async def test_a_unit_is_decided_at_its_promised_start_before_a_head_that_finds_no_victims() -> (
    None
):
    """Otherwise the quota that is kept for the head would be missing in every cycle."""
    world = a_world(nodes=2, cohort="all", cpu=4)
    cluster_queue(world, "lender", {"cpu": (6, 0)}, cohort="all", strategy="StrictFIFO")
    async with world.running():
        job(world, "own", "lender", cpu=2)
        await run_and_wait(world, "long", 5, 100)
        await run_and_wait(world, "wide", 8, 50)
        start, _ = promised(world, "wide") or (0, [])
        assert 100 <= start <= 110
        job(world, "head", "lender", cpu=6, priority=1)
        await asyncio.sleep(start)
        assert "insufficient unused quota" in message(world, "head")
        assert bound(world) == ["own", "wide"]


async def test_a_promised_unit_starts_early_after_a_head_that_finds_no_victims() -> None:
    """The head keeps quota from it only in the cycle in which both are decided."""
    world = a_world(nodes=2, cohort="all", cpu=4)
    cluster_queue(world, "lender", {"cpu": (6, 0)}, cohort="all")
    async with world.running():
        job(world, "own", "lender", cpu=2)
        await run_and_wait(world, "long", 5, 100)
        await run_and_wait(world, "wide", 8, 50)
        assert promised(world, "wide") is not None
        await job_and_wait(world, "head", "lender", cpu=6, priority=1)
        await end(world, "long")
        assert bound(world) == ["long", "own", "wide"]


async def test_a_unit_that_moves_to_another_queue_loses_its_promised_start_and_says_so() -> None:
    """What was promised to units of that queue before is kept."""
    world = a_world("Conservative", nodes=2, cpu=8)
    cluster_queue(world, "other", {"cpu": 8}, annotations={BACKFILL: "Conservative"})
    async with world.running():
        run(world, "long", 8, 100)
        for name, cpu in (("longer", 7), ("small", 1)):
            job(world, name, "other", cpu=cpu, labels={MAX_EXEC_TIME: "100"}, spec=_NO_GRACE)
        await asyncio.sleep(1)
        await job_and_wait(world, "stays", "other", cpu=8, labels={MAX_EXEC_TIME: "50"})
        await run_and_wait(world, "moves", 8, 50)
        before = a_promise(world, "stays")
        assert promised(world, "moves") is not None
        world.change("moves", lambda pod: pod.metadata.labels.update({QUEUE: "other"}))
        await end(world, "small")
        [said] = world.events("moves", "StartWithdrawn")
        assert "is withdrawn: it has moved to ClusterQueue other" in said
        assert promised(world, "stays") == before


async def test_a_unit_whose_limit_grows_loses_its_promised_start_and_says_so() -> None:
    """Other starts may be promised from the end of its old limit on."""
    async with a_world().running() as world:
        await run_and_wait(world, "long", 8, 100)
        await run_and_wait(world, "grows", 8, 50)
        assert promised(world, "grows") is not None
        world.change("grows", lambda pod: pod.metadata.labels.update({MAX_EXEC_TIME: "500"}))
        await asyncio.sleep(1)
        [said] = world.events("grows", "StartWithdrawn")
        assert "is withdrawn: it may run for longer than before" in said


async def test_a_unit_that_is_resized_gets_no_more_than_its_quota_at_its_promised_start() -> None:
    async with a_world(cpu=4).running() as world:
        await run_and_wait(world, "long", 3, 100)
        await run_and_wait(world, "grows", 2, 50)
        assert promised(world, "grows") is not None

        def resize(pod: Pod) -> None:
            pod.spec.containers[0].resources.requests["cpu"] = "5"

        world.change("grows", resize)
        await asyncio.sleep(1)
        await end(world, "long", 120)
        assert bound(world) == ["long"]
        assert "maximum capacity" in message(world, "grows")


async def test_a_gang_of_two_shapes_keeps_its_start_on_the_flavors_that_it_was_promised() -> None:
    """Once ``holder`` has ended, quota has room for another choice, but nodes have none for it."""
    world = TermWorld()
    for name, kind, cpu, gpu in (("b0", "blue", 8, 0), ("b1", "blue", 1, 4), ("r0", "red", 8, 4)):
        big_node(world, name, of={"cpu": str(cpu), GPU: str(gpu)}, labels={"kind": kind})
    for kind in ("blue", "red"):
        flavor(world, kind, kind=kind)
    quotas = {"blue": {"cpu": 9, "gpu": 4}, "red": {"cpu": 16, "gpu": 4}}
    cluster_queue(world, "team", None, quotas, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "holder", 1, gpu=4)
        for name in ("long", "longer"):
            run(world, name, 8, 100)
        await asyncio.sleep(1)
        labels = {MAX_EXEC_TIME: "50"}
        gang(world, "g", "team", 1, 2, cpu=4, gpu=4, labels=labels, spec=_NO_GRACE)
        member = {"schedulingGroup": {"podGroupName": "g"}, **_NO_GRACE}
        await job_and_wait(world, "g-1", "team", cpu=8, labels=labels, spec=member)
        before = a_promise(world, "g")
        assert before[1] == ["b0", "r0"]
        await end(world, "holder")
        assert promised(world, "g") == before
        await asyncio.sleep(before[0])
        assert {"g-0", "g-1"} <= set(bound(world))


async def test_a_gang_of_two_shapes_keeps_its_start_beside_a_later_promise_in_any_order() -> None:
    """``g-0`` would rather be alone, on the only node on which ``wide`` leaves room for ``g-1``."""
    world = a_world("Conservative", nodes=2, cpu=17)
    big_node(world, "other", of={"cpu": "1"})
    async with world.running():
        for name, cpu, seconds in (("long", 8, 100), ("longer", 8, 100), ("other", 1, 200)):
            run(world, name, cpu, seconds)
        await asyncio.sleep(1)
        labels = {MAX_EXEC_TIME: "50", "app": "g"}
        spec = {"affinity": apart_from("g"), **_NO_GRACE}
        gang(world, "g", "team", 1, 2, cpu=1, labels=labels, spec=spec)
        member = {"schedulingGroup": {"podGroupName": "g"}, **spec}
        await job_and_wait(world, "g-1", "team", cpu=3, labels=labels, spec=member)
        before = promised(world, "g")
        await run_and_wait(world, "wide", 6, 50)
        assert before is not None
        assert (promised(world, "wide") or (0, []))[0] == before[0]
        await end(world, "other")
        assert promised(world, "g") == before
        await asyncio.sleep(before[0])
        assert {"g-0", "g-1", "wide"} <= set(bound(world))


async def test_a_withdrawal_does_not_give_a_nodes_flavor_as_its_reason() -> None:
    """The unit is tried on ``blue``, which has quota, and was promised a node of ``red``."""
    world = TermWorld()
    for kind in ("blue", "red"):
        flavor(world, kind, kind=kind)
        big_node(world, kind, of={"cpu": "9"}, labels={"kind": kind})
    quotas = {"blue": {"cpu": 99}, "red": {"cpu": 9}}
    cluster_queue(world, "team", None, quotas, annotations={BACKFILL: "EASY"})
    async with world.running():
        run(world, "endless", 8)
        await run_and_wait(world, "small", 1)
        await run_and_wait(world, "long", 8, 100)
        await run_and_wait(world, "wide", 8, 50)
        assert (promised(world, "wide") or (0, []))[1] == ["red"]
        red = world.cluster.object("Node", "red")
        assert isinstance(red, Node)
        red.spec.taints.add(key="broken", effect="NoSchedule")
        world.cluster.update(red)
        await end(world, "small")
        [said] = world.events("wide", "StartWithdrawn")
        assert "withdrawn: its nodes have no room any more" in said


@pytest.mark.parametrize("gone", [False, True])
async def test_a_gang_of_many_shapes_keeps_its_start_on_the_flavors_that_it_was_promised(
    gone: bool,
) -> None:
    """There are 512 choices of flavors, also with what is left when one of its pods is ``gone``."""
    world = TermWorld()
    for name, kind, cpu, gpu in (("b0", "blue", 9, 0), ("b1", "blue", 1, 4), ("r0", "red", 8, 4)):
        big_node(world, name, of={"cpu": str(cpu), GPU: str(gpu)}, labels={"kind": kind})
    for kind in ("blue", "red"):
        flavor(world, kind, kind=kind)
    quotas = {"blue": {"cpu": 10, "gpu": 4}, "red": {"cpu": 16, "gpu": 4}}
    cluster_queue(world, "team", None, quotas, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "holder", 1, gpu=4)
        for name in ("long", "longer"):
            run(world, name, 8, 100)
        await asyncio.sleep(1)
        labels = {MAX_EXEC_TIME: "50"}
        gang(world, "g", "team", 1, 9 - gone, cpu=4, gpu=4, labels=labels, spec=_NO_GRACE)
        member = {"schedulingGroup": {"podGroupName": "g"}, **_NO_GRACE}
        job(world, "g-1", "team", cpu=8, labels=labels, spec=member)
        for index in range(2, 9):
            job(world, f"g-{index}", "team", cpu=f"{index}m", labels=labels, spec=member)
        await asyncio.sleep(1)
        before = a_promise(world, "g")
        assert before[1] == ["b0", "r0"]
        if gone:
            world.cluster.delete("Pod", "default/g-8")
        await end(world, "holder")
        assert (promised(world, "g") or (0, []))[0] == before[0]
        await asyncio.sleep(before[0])
        assert {f"g-{index}" for index in range(9 - gone)} <= set(bound(world))


async def test_a_unit_keeps_its_start_on_the_flavors_of_two_groups_that_it_was_promised() -> None:
    """Once ``holder`` has ended, quota has room for ``blue``, which has no node with 8 CPUs."""
    world = TermWorld()
    for name, kind, cpu, gpu in (("b0", "blue", 1, 4), ("r0", "red", 8, 4), ("other", "", 8, 0)):
        big_node(world, name, of={"cpu": str(cpu), GPU: str(gpu)}, labels={"kind": kind})
    for kind in ("blue", "red"):
        flavor(world, kind, kind=kind)
    flavor(world, "first")
    flavor(world, "second")
    cpus = {"first": {"cpu": 9}, "second": {"cpu": 8}}
    gpus = {"blue": {"gpu": 4}, "red": {"gpu": 4}}
    cluster_queue(world, "team", None, cpus, gpus, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "holder", 1, gpu=4)
        await run_and_wait(world, "long", 8, 100, spec={"nodeSelector": {"kind": "red"}})
        await run_and_wait(world, "endless", 8)
        await run_and_wait(world, "wide", 8, 50, gpu=4)
        before = a_promise(world, "wide")
        assert before[1] == ["r0"]
        await end(world, "holder")
        assert promised(world, "wide") == before
        await asyncio.sleep(before[0])
        assert "wide" in bound(world)


async def test_a_unit_that_would_end_just_after_a_promised_start_waits_for_it() -> None:
    """It comes when the plan is some seconds old, but still valid."""
    async with a_world(nodes=2, cpu=8).running() as world:
        await run_and_wait(world, "long", 6, 100)
        run(world, "wide", 8, 50)
        await asyncio.sleep(4.5)
        before = promised(world, "wide") or (0, [])
        await run_and_wait(world, "short", 2, int(before[0] - SLACK) - 2)
        assert bound(world) == ["long"]
        assert promised(world, "wide") == before


async def test_a_start_behind_a_unit_that_waits_for_its_victim_does_not_move_while_it_waits() -> (
    None
):
    world = a_world(within="LowerPriority", nodes=4, cpu=9, cohort="all")
    more = {"annotations": {BACKFILL: "EASY"}, "cohort": "all"}
    cluster_queue(world, "other", {"cpu": 0}, **more)
    async with world.running():
        run(world, "low", 8, 300, grace=2)
        await run_and_wait(world, "small", 1, 1000, priority=5)
        await run_and_wait(world, "high", 8, 200, priority=1)
        assert is_evicted(world, "low")
        job(world, "next", "other", cpu=8, labels={MAX_EXEC_TIME: "50"}, spec=_NO_GRACE)
        await asyncio.sleep(1)
        before = a_promise(world, "next")
        assert 207 <= before[0] <= 216
        await asyncio.sleep(2)
        await end(world, "small")
        assert not world.events("next", "StartWithdrawn")
        assert (promised(world, "next") or (0, []))[0] == before[0]


async def test_a_unit_that_is_tried_again_waits_on_for_its_victim_before_a_promised_start() -> None:
    """The victim is as good as gone: no eviction of a whole grace period is to be counted again."""
    world = a_world(within="LowerPriority", cpu=99)
    cluster_queue(world, "other", {"cpu": 99}, annotations={BACKFILL: "EASY"})
    async with world.running():
        await run_and_wait(world, "low", 8, 300, grace=30)
        await run_and_wait(world, "high", 8, 200, priority=1)
        assert is_evicted(world, "low")
        job(world, "next", "other", cpu=8, labels={MAX_EXEC_TIME: "50"}, spec=_NO_GRACE)
        await asyncio.sleep(10)
        before = a_promise(world, "next")
        big_node(world, "new")
        world.pod("other", cpu="8", on="new")
        await asyncio.sleep(2)
        assert "Pending the preemption of 1 workload(s)" in message(world, "high")
        assert promised(world, "next") == before
        await world.delete_and_wait("low")
        assert bound(world) == ["high", "other"]


async def test_a_pod_that_replaces_one_of_a_group_without_a_podgroup_delays_no_promised_start() -> (
    None
):
    """The group's limit counts from the first of its pods that is left."""
    async with a_world().running() as world:
        await run_and_wait(world, "long", 4, 100)
        await run_and_wait(world, "wide", 8, 50)
        before = promised(world, "wide") or (0.0, [])
        labels = {QUEUE_GROUP_NAME: "g", MAX_EXEC_TIME: "70"}
        spec = {"annotations": {QUEUE_GROUP_COUNT: "2"}, **_NO_GRACE}
        for name in ("g-0", "g-1"):
            job(world, name, "team", cpu=2, labels=labels, spec=spec)
        await asyncio.sleep(48)
        assert bound(world) == ["g-0", "g-1", "long"]
        await world.delete_and_wait("g-0")
        await job_and_wait(world, "g-2", "team", cpu=2, labels=labels, spec=spec)
        assert promised(world, "wide") == before
        await world.delete_and_wait("g-1")
        assert promised(world, "wide") == before
        await asyncio.sleep(before[0] - world.clock())
        assert "wide" in bound(world)
        world.check()


async def test_a_promised_start_is_kept_from_units_that_are_less_important_since_a_change() -> None:
    world = a_world(nodes=2, cpu=8)
    for name, value in (("low", 0), ("high", 10)):
        priority_class(world, name, value)
    async with world.running():
        await run_and_wait(world, "long", 6, 100, priority=20)
        await run_and_wait(world, "wide", 8, 50, labels={QUEUE_PRIORITY_CLASS: "low"})
        before = a_promise(world, "wide")
        labels = {QUEUE_PRIORITY_CLASS: "high"}
        world.change("wide", lambda pod: pod.metadata.labels.update(labels))
        await asyncio.sleep(1)
        await run_and_wait(world, "less", 2, 300, priority=5)
        assert bound(world) == ["long"]
        assert promised(world, "wide") == before


async def test_promised_starts_follow_each_other_although_a_leader_comes_a_little_late() -> None:
    async with a_world("Conservative").running() as world:
        await run_and_wait(world, "long", 8, 100)
        for name in ("first", "second"):
            await run_and_wait(world, name, 8, 50)
        (first, _), (second, _) = (promised(world, name) or (0, []) for name in ("first", "second"))
    await asyncio.sleep(first + 0.5 - world.clock())
    world.cluster.delete("Pod", "default/long")
    async with TermWorld(cluster=world.cluster, queues={"backfill": {}}).running() as later:
        await asyncio.sleep(0.1)
        assert bound(later) == ["first"]
        run(later, "other", 8, 50)
        await asyncio.sleep(0.1)
        assert first < (promised(later, "second") or (0, []))[0] <= second
