"""Pod groups, on a cluster in memory: bound as one, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from podsched.api.objects import Node, PodGroup
from podsched.decide.decision import Decision
from podsched.decide.pod_group_members import GroupDecision, GroupMembers
from podsched.framework.plugin import PermitResult
from podsched.framework.pod_groups import GroupTrial
from podsched.framework.status import SUCCESS, Code, Status, error, unschedulable
from podsched.lib.event_loop import Turn
from podsched.plugins.topology_placement_generator import TopologyPlacementGenerator
from support.term_world import TermWorld, world_of_nodes

pytestmark = pytest.mark.looptime

GRACE = 30
FELL = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def group(world: TermWorld, name: str = "g", min_count: int = 0, **spec: Any) -> None:
    """Make a PodGroup; without ``min_count`` its policy is basic."""
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = name, "default"
    policy = made.spec.scheduling_policy
    if min_count:
        policy.gang.min_count = min_count
    else:
        policy.basic.SetInParent()
    if "topology" in spec:
        made.spec.scheduling_constraints.topology.add(key=spec["topology"])
    for name in ("required", "preferred"):
        if name in spec:
            made.metadata.annotations[f"podsched.io/podset-{name}-topology"] = spec[name]
    made.spec.priority = spec.get("priority", 0)
    made.spec.disruption_mode = spec.get("mode", "Pod")
    world.cluster.create(made)


def members(world: TermWorld, *names: str, of: str = "g", **spec: Any) -> None:
    for name in names:
        world.pod(name, schedulingGroup={"podGroupName": of}, **spec)


async def members_and_wait(world: TermWorld, *names: str, seconds: float = 1, **parts: Any) -> None:
    """``members``, and some seconds in which they are decided."""
    members(world, *names, **parts)
    await asyncio.sleep(seconds)


def condition(world: TermWorld, name: str = "g") -> tuple[str, str, str] | None:
    """The group's condition PodGroupScheduled: status, reason, message."""
    found = world.cluster.object("PodGroup", f"default/{name}")
    assert isinstance(found, PodGroup)
    for one in found.status.conditions:
        if one.type == "PodGroupScheduled":
            return one.status, one.reason, one.message
    return None


def bound(world: TermWorld) -> list[str]:
    return sorted(key.partition("/")[2] for key, _ in world.cluster.bound)


def pods(world: TermWorld) -> list[str]:
    return sorted(pod.metadata.name for pod in world.cluster.objects("Pod"))


def world_in_a_hurry(
    monkeypatch: pytest.MonkeyPatch, **cpu_of_nodes: str
) -> tuple[TermWorld, list[str]]:
    """A world where every turn is over at once, and a list that grows when a decision gives way."""
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world, ways = world_of_nodes(**cpu_of_nodes), list[str]()
    others_run = world.state.after_trial.others_run

    def counted() -> Any:
        ways.append("given")
        return others_run()

    monkeypatch.setattr(world.state.after_trial, "others_run", counted)
    return world, ways


async def test_a_gang_that_fits_is_bound_as_a_whole_in_one_call() -> None:
    world = TermWorld()
    for name in ("n1", "n2"):
        world.node(name, cpu="2")
    async with world.running():
        group(world, min_count=4)
        await members_and_wait(world, "a", "b", "c", "d")
        assert bound(world) == ["a", "b", "c", "d"]
        assert condition(world) == ("True", "Scheduled", "")
        world.check()


async def test_a_gang_is_decided_again_if_a_node_of_it_goes_during_the_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add, gone = GroupMembers.add, list[str]()

    def add_and_remove_node(of: GroupMembers, trial: GroupTrial, decision: Decision) -> bool:
        if not gone:
            gone.append(decision.node_name)
            world.cluster.delete("Node", decision.node_name)
        return add(of, trial, decision)

    monkeypatch.setattr(GroupMembers, "add", add_and_remove_node)
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world = world_of_nodes(n1="1", n2="1", n3="1")
    async with world.running():
        group(world, min_count=2)
        await members_and_wait(world, "a", "b", cpu="1", seconds=5)
        assert {*world.nodes_of("a", "b"), *gone} == {"n1", "n2", "n3"}
        assert [world.events(name, "FailedScheduling") for name in "ab"] == [[], []]
        world.check()


async def test_a_gang_does_not_start_with_a_member_whose_deletion_begins_during_the_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add, going = GroupMembers.add, list[str]()

    def add_and_delete(of: GroupMembers, trial: GroupTrial, decision: Decision) -> bool:
        if not going:
            going.append(decision.queued.info.name)
            world.change(going[0], lambda pod: pod.metadata.deletion_timestamp.FromSeconds(1))
        return add(of, trial, decision)

    monkeypatch.setattr(GroupMembers, "add", add_and_delete)
    monkeypatch.setattr(Turn, "has_lasted", lambda turn, seconds: True)
    world = world_of_nodes(n1="4")
    async with world.running():
        group(world, min_count=2)
        await members_and_wait(world, "a", "b", seconds=5)
        assert pods(world) == ["a", "b"]
        assert bound(world) == []
        world.check()


async def test_members_wait_untried_for_their_group_and_for_min_count_of_them() -> None:
    async with world_of_nodes(n1="4").running() as world:
        await members_and_wait(world, "a", "b")
        assert [world.place(name) for name in "ab"] == ["gated"] * 2
        group(world, min_count=3)
        await asyncio.sleep(1)
        assert [world.place(name) for name in "ab"] == ["gated"] * 2
        assert condition(world) is None
        await members_and_wait(world, "c")
        assert bound(world) == ["a", "b", "c"]
        world.check()


async def test_of_a_gang_that_does_not_fit_no_pod_is_bound_and_nothing_is_reserved() -> None:
    async with world_of_nodes(n1="4").running() as world:
        group(world, min_count=3)
        await members_and_wait(world, "a", "b", "c", cpu="2")
        assert bound(world) == []
        assert world.scheduled("a").message == FELL
        assert world.scheduled("c").message.startswith(
            "0/1 nodes are available: 1 Insufficient cpu."
        )
        assert world.events("a", "FailedScheduling") == [FELL]
        found = condition(world)
        assert found is not None
        assert found[:2] == ("False", "Unschedulable")
        assert found[2].startswith(
            "0/1 placements are available, first placement status: pod group is unschedulable"
        )
        await world.pod_and_wait("single", cpu="4")
        assert bound(world) == ["single"]
        world.check()


async def test_other_tasks_run_while_many_members_that_found_a_node_are_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = 100
    world, ways = world_in_a_hurry(monkeypatch, n1="100")
    async with world.running():
        group(world, min_count=many + 1)
        names = [f"p{number}" for number in range(many + 1)]
        await members_and_wait(world, *names, seconds=5)
        assert bound(world) == []
        # Once for each when it is decided, and once when it is taken back.
        assert len(ways) >= 2 * many
        world.check()


async def test_a_waiting_gang_is_tried_again_only_when_an_event_may_help() -> None:
    async with world_of_nodes(n1="4").running() as world:
        group(world, min_count=3)
        await members_and_wait(world, "a", "b", "c", cpu="2", seconds=100)
        assert world.state.queue.pending.get("uid-a").attempts == 1
        world.node("n2", cpu="1")
        await asyncio.sleep(20)
        assert world.state.queue.pending.get("uid-a").attempts == 1
        world.node("n3", cpu="2")
        await asyncio.sleep(20)
        assert bound(world) == ["a", "b", "c"]
        assert condition(world) == ("True", "Scheduled", "")
        world.check()


async def test_members_that_find_no_node_are_tried_first_in_a_second_order() -> None:
    """The small member is tried first, and the only place of the big one is the best for it."""
    world = TermWorld()
    world.node("n1", cpu="4", labels={"disk": "ssd"})
    world.node("n2", cpu="1")
    async with world.running():
        group(world, min_count=2)
        members(world, "small", cpu="1", priority=5)
        await members_and_wait(world, "big", cpu="4", nodeSelector={"disk": "ssd"})
        assert world.nodes_of("small", "big") == ["n2", "n1"]
        world.check()


async def test_other_tasks_run_while_a_search_looks_at_many_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nodes = 100
    world, ways = world_in_a_hurry(monkeypatch)
    for number in range(nodes):
        world.node(f"n{number}", labels={"zone": "z"})
    term = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    async with world.running():
        group(world, min_count=2)
        members(world, "follower", priority=5, affinity=near)
        await members_and_wait(world, "leader", labels={"app": "leader"}, seconds=5)
        assert bound(world) == ["follower", "leader"]
        assert len(ways) > nodes
        world.check()


async def test_room_that_helps_only_a_member_that_fits_already_wakes_the_gang() -> None:
    """The small member took the only place of the big one; room for the small one frees it."""
    world = TermWorld()
    world.node("n1", cpu="2", labels={"disk": "ssd"})
    async with world.running():
        group(world, min_count=2)
        members(world, "small", cpu="1", priority=5)
        await members_and_wait(world, "big", cpu="2", nodeSelector={"disk": "ssd"})
        assert bound(world) == []
        world.node("n2", cpu="1")
        world.node("n3", cpu="4")
        await asyncio.sleep(20)
        assert world.nodes_of("small")[0] in ("n2", "n3")
        assert world.nodes_of("big") == ["n1"]


async def test_the_plugins_that_rejected_members_are_read_once_for_all_members_that_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads, read = list[str](), vars(GroupDecision)["rejecting"].fget

    def counted(decision: GroupDecision) -> set[str]:
        reads.append("read")
        found: set[str] = read(decision)
        return found

    monkeypatch.setattr(GroupDecision, "rejecting", property(counted))
    async with world_of_nodes(n1="8").running() as world:
        group(world, min_count=9)
        members(world, *"abcdefgh", cpu="1")
        await members_and_wait(world, "large", cpu="9")
        assert bound(world) == []
        assert len(reads) == 1
        world.check()


async def test_members_beyond_min_count_may_stay_behind_and_are_bound_later() -> None:
    async with world_of_nodes(n1="2").running() as world:
        group(world, min_count=2)
        members(world, "low", priority=1)
        await members_and_wait(world, "a", "b", priority=5)
        assert bound(world) == ["a", "b"]
        assert "Insufficient cpu" in world.scheduled("low").message
        world.node("n2", cpu="1")
        await asyncio.sleep(20)
        assert bound(world) == ["a", "b", "low"]
        world.check()


async def test_members_that_run_count_for_one_that_comes_late() -> None:
    async with world_of_nodes(n1="4").running() as world:
        group(world, min_count=2)
        await members_and_wait(world, "a", "b")
        await members_and_wait(world, "late")
        assert bound(world) == ["a", "b", "late"]


async def test_a_basic_group_starts_with_the_members_that_fit() -> None:
    async with world_of_nodes(n1="2").running() as world:
        group(world)
        await members_and_wait(world, "a", "b", "c")
        assert bound(world) == ["a", "b"]
        assert condition(world) == ("True", "Scheduled", "")


async def test_a_gang_that_lost_a_member_waits_for_another_one() -> None:
    async with world_of_nodes(n1="2").running() as world:
        group(world, min_count=3)
        await members_and_wait(world, "a", "b", "c")
        world.cluster.delete("Pod", "default/b")
        world.node("n2", cpu="2")
        await asyncio.sleep(30)
        assert bound(world) == []
        await members_and_wait(world, "d", seconds=20)
        assert bound(world) == ["a", "c", "d"]
        world.check()


async def test_members_that_name_different_schedulers_all_fail() -> None:
    world = TermWorld([{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}])
    world.node("n1")
    async with world.running():
        group(world, min_count=2)
        members(world, "a")
        await members_and_wait(world, "b", schedulerName="other", seconds=0.5)
        assert bound(world) == []
        assert world.scheduled("a").reason == "SchedulerError"
        assert world.scheduled("a").message == (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "other" and "default-scheduler"'
        )


async def test_a_member_that_reserve_turns_down_takes_the_gang_along() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_reserve = lambda pod: unschedulable("no") if pod.name == "b" else SUCCESS
    async with world.running():
        group(world, min_count=2)
        await members_and_wait(world, "a", "b", seconds=0.5)
        assert bound(world) == []
        assert "Script.unreserve a" in world.log
        assert world.scheduled("b").message == "0/1 nodes are available: 1 no."
        assert world.scheduled("a").message == FELL
        assert len(world.state.cache.assumed) == 0
        world.check()


async def test_an_error_of_one_member_is_the_error_of_all_also_of_those_that_fit_nowhere() -> None:
    world = world_of_nodes(n1="2")
    world.script.on_reserve = lambda pod: error("no answer")
    async with world.running():
        group(world, min_count=2)
        members(world, "large", cpu="8")
        await members_and_wait(world, "small", cpu="1", seconds=0.5)
        broken = 'running Reserve plugin "Script": no answer'
        assert world.scheduled("small").message == broken
        assert world.scheduled("large").reason == "SchedulerError"
        assert world.scheduled("large").message == (
            f"failed to schedule other pod from a pod group: {broken}"
        )


async def test_a_bug_in_the_middle_of_a_group_takes_back_what_was_done_for_it() -> None:
    world = world_of_nodes(n1="4")
    decide, calls = world.decider.decide, 0

    def decide_one_then_fail(trial: Any, runtime: Any, batch: Any, **more: Any) -> list[Decision]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("a bug")
        return decide(trial, runtime, batch[:1], **more)

    world.decider.decide = decide_one_then_fail  # type: ignore[method-assign]
    async with world.running():
        group(world, min_count=2)
        await members_and_wait(world, "a", "b", seconds=0.5)
        assert "Script.unreserve a" in world.log
        assert len(world.state.cache.assumed) == 0
        assert [world.scheduled(name).reason for name in "ab"] == ["SchedulerError"] * 2
        await asyncio.sleep(5)
        assert bound(world) == ["a", "b"]
        world.check()


async def test_members_that_a_permit_plugin_holds_are_bound_when_it_lets_them_go() -> None:
    world = world_of_nodes(n1="4")
    world.script.on_permit = lambda pod: PermitResult(Status(Code.WAIT), timeout=60.0)
    async with world.running():
        group(world, min_count=2)
        await members_and_wait(world, "a", "b", seconds=0.5)
        assert bound(world) == []
        for waiting in world.state.waiting:
            waiting.allow("Script")
        await asyncio.sleep(0.5)
        assert bound(world) == ["a", "b"]
        world.check()


# ---------------------------------------------------------------------- groups by label

BY_LABEL = ({"pluginConfig": [{"name": "GangScheduling", "args": {"labelGroups": True}}]},)


@pytest.mark.parametrize(
    "key", ["pod-group.scheduling.sigs.k8s.io/name", "scheduling.k8s.io/group-name"]
)
async def test_pods_that_a_label_groups_start_together_if_an_argument_says_so(key: str) -> None:
    labels = {key: "g", "pod-group.scheduling.sigs.k8s.io/min-available": "3"}
    world = TermWorld(BY_LABEL)
    world.node("n1", cpu="2")
    async with world.running():
        for name in "ab":
            world.pod(name, labels=labels)
        await asyncio.sleep(1)
        assert [world.place(name) for name in "ab"] == ["gated", "gated"]
        await world.pod_and_wait("c", labels=labels)
        assert bound(world) == []
        world.node("n2", cpu="2")
        await asyncio.sleep(20)
        assert bound(world) == ["a", "b", "c"]
        world.check()


async def test_a_group_by_label_is_tried_again_once_fewer_members_have_to_start() -> None:
    least = "pod-group.scheduling.sigs.k8s.io/min-available"
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "g", least: "3"}
    world = TermWorld(BY_LABEL)
    world.node("n1", cpu="2")
    async with world.running():
        for name in "abc":
            world.pod(name, labels=labels)
        await asyncio.sleep(30)
        assert bound(world) == []
        for name in "abc":
            world.change(name, lambda pod: pod.metadata.labels.update({least: "2"}))
        await asyncio.sleep(20)
        assert len(bound(world)) == 2
        world.check()


async def test_without_the_argument_labels_make_no_groups() -> None:
    labels = {"pod-group.scheduling.sigs.k8s.io/name": "g"}
    async with world_of_nodes(n1="2").running() as world:
        world.pod("a", labels={**labels, "pod-group.scheduling.sigs.k8s.io/min-available": "3"})
        await asyncio.sleep(1)
        assert bound(world) == ["a"]


# ---------------------------------------------------------------------- topology


async def test_a_gang_with_a_topology_constraint_stays_within_one_domain() -> None:
    world = TermWorld()
    for name in ("a0", "a1", "b0", "b1"):
        world.node(name, cpu="4", labels={"zone": name[0]})
    async with world.running():
        group(world, min_count=4, topology="zone")
        await members_and_wait(world, "p", "q", "r", "s")
        assert len({name[0] for name in world.nodes_of(*"pqrs")}) == 1
        await members_and_wait(world, "t")
        assert len({name[0] for name in world.nodes_of(*"pqrst")}) == 1
        world.check()


async def test_a_gang_that_fits_no_domain_says_how_many_were_tried() -> None:
    world = TermWorld()
    for name in ("a0", "b0"):
        world.node(name, cpu="2", labels={"zone": name[0]})
    async with world.running():
        group(world, min_count=4, topology="zone")
        await members_and_wait(world, "p", "q", "r", "s")
        assert bound(world) == []
        found = condition(world)
        assert found is not None
        assert found[2].startswith(
            "0/2 placements are available, first placement status: pod group is unschedulable"
        )
        world.node("b1", cpu="2", labels={"zone": "b"})
        await asyncio.sleep(20)
        assert {name[0] for name in world.nodes_of(*"pqrs")} == {"b"}
        # What was restricted for the group is so no more.
        await world.pod_and_wait("single", cpu="2")
        assert world.nodes_of("single") == ["a0"]


async def test_other_tasks_run_while_domains_are_ruled_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = 100
    world, ways = world_in_a_hurry(monkeypatch)
    for number in range(hosts):
        world.node(f"n{number}", cpu="1", labels={"host": f"{number}"})
    async with world.running():
        group(world, min_count=2, topology="host")
        members(world, "small", cpu="1")
        await members_and_wait(world, "large", cpu="2", seconds=5)
        found = condition(world)
        assert found is not None
        assert found[2].startswith(f"0/{hosts} placements are available")
        # In each of two orders, and in the search for any placement.
        assert len(ways) > 3 * hosts
        world.check()


async def test_without_any_domain_the_group_is_unschedulable_until_a_node_has_the_label() -> None:
    async with world_of_nodes(n1="4").running() as world:
        group(world, min_count=1, topology="zone")
        await members_and_wait(world, "a")
        assert condition(world) == ("False", "Unschedulable", "no feasible placements found")
        found = world.scheduled("a")
        assert (found.reason, found.message) == ("Unschedulable", "no feasible placements found")
        world.pod("other")
        await asyncio.sleep(20)
        queued = world.state.queue.pending.get("uid-a")
        assert queued is not None
        assert queued.attempts == 1
        world.node("n2", labels={"zone": "a"})
        await asyncio.sleep(20)
        assert world.nodes_of("a") == ["n2"]
        world.check()


async def test_a_group_for_which_a_plugin_finds_no_placement_is_unschedulable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(TopologyPlacementGenerator, "generate_placements", lambda *_: [])
    async with world_of_nodes(n1="4").running() as world:
        group(world, min_count=1)
        await members_and_wait(world, "a")
        assert condition(world) == ("False", "Unschedulable", "no feasible placements found")


@pytest.mark.parametrize("label", ["zone", "of-no-node"])
async def test_a_gang_is_tried_again_once_its_annotation_asks_for_no_domain(label: str) -> None:
    world = TermWorld()
    for name in ("a0", "b0"):
        world.node(name, cpu="1", labels={"zone": name})
    async with world.running():
        group(world, min_count=2, required=label)
        await members_and_wait(world, "p", "q")
        assert bound(world) == []
        changed = world.cluster.object("PodGroup", "default/g")
        assert isinstance(changed, PodGroup)
        changed.metadata.annotations.clear()
        world.cluster.update(changed)
        await asyncio.sleep(20)
        assert bound(world) == ["p", "q"]
        world.check()


async def test_a_gang_may_use_other_domains_once_its_last_member_with_a_node_is_gone() -> None:
    world = TermWorld()
    world.node("a0", cpu="1", labels={"zone": "a"})
    async with world.running():
        group(world, min_count=1, topology="zone")
        await members_and_wait(world, "old")
        world.node("b0", cpu="2", labels={"zone": "b"})
        await members_and_wait(world, "new", cpu="2")
        assert world.nodes_of("old", "new") == ["a0", ""]
        await world.delete_and_wait("old", seconds=20)
        assert world.nodes_of("new") == ["b0"]
        world.check()


async def test_members_that_are_being_deleted_do_not_keep_a_gang_in_their_domain() -> None:
    world = TermWorld()
    world.node("a0", cpu="2", labels={"zone": "a"})
    async with world.running():
        group(world, min_count=2, topology="zone")
        await members_and_wait(world, "p", "q")
        for name in "pq":
            world.change(name, lambda pod: pod.metadata.deletion_timestamp.GetCurrentTime())
        world.node("b0", cpu="2", labels={"zone": "b"})
        await members_and_wait(world, "r", "s")
        assert world.nodes_of("p", "q", "r", "s") == ["a0", "a0", "b0", "b0"]
        world.check()


async def test_the_domain_with_most_members_wins_then_the_fullest_one() -> None:
    world = TermWorld()
    world.node("a0", cpu="2", labels={"zone": "a"})
    world.node("b0", cpu="8", labels={"zone": "b"})
    world.node("c0", cpu="6", labels={"zone": "c"})
    async with world.running():
        group(world, min_count=2, topology="zone")
        await members_and_wait(world, "p", "q", "r")
        assert world.nodes_of("p", "q", "r") == ["c0"] * 3


async def racks(world: TermWorld, cpu: dict[str, str]) -> None:
    """Nodes such as "ax0": node 0 of rack x of zone a."""
    for name, amount in cpu.items():
        world.node(name, cpu=amount, labels={"zone": name[0], "rack": name[:2]})


async def test_a_gang_gets_the_narrowest_preferred_domain_though_others_hold_more() -> None:
    world = TermWorld()
    await racks(world, {"ax0": "2", "bx0": "2", "by0": "2"})
    async with world.running():
        group(world, min_count=2, preferred="rack, zone")
        await members_and_wait(world, "p", "q", "r")
        [name] = set(world.nodes_of(*"pqr")) - {""}
        assert world.nodes_of(*"pqr").count(name) == 2
        world.check()


async def test_a_gang_that_no_rack_holds_gets_a_zone_and_else_all_nodes() -> None:
    world = TermWorld()
    await racks(world, {"ax0": "1", "ay0": "2", "bx0": "2", "by0": "2"})
    async with world.running():
        group(world, min_count=4, preferred="rack,zone")
        await members_and_wait(world, "p", "q", "r", "s")
        assert set(world.nodes_of(*"pqrs")) == {"bx0", "by0"}
        world.node("cx0", cpu="2")
        group(world, "h", min_count=5, preferred="rack,zone")
        await members_and_wait(world, "1", "2", "3", "4", "5", of="h")
        assert set(world.nodes_of("1", "2", "3", "4", "5")) == {"ax0", "ay0", "cx0"}


async def test_a_preferred_rack_lies_within_the_required_zone() -> None:
    world = TermWorld()
    await racks(world, {"ax0": "2", "ay0": "3", "bx0": "4"})
    async with world.running():
        group(world, min_count=5, required="zone", preferred="rack")
        await members_and_wait(world, "p", "q", "r", "s", "t")
        assert set(world.nodes_of(*"pqrst")) == {"ax0", "ay0"}
        group(world, "h", min_count=5, required="zone")
        await members_and_wait(world, "1", "2", "3", "4", "5", of="h")
        assert bound(world) == ["p", "q", "r", "s", "t"]


# ---------------------------------------------------------------------- preemption


async def test_a_gang_of_higher_priority_evicts_lower_pods_on_several_nodes() -> None:
    world = TermWorld()
    for node in ("n1", "n2"):
        world.node(node, cpu="2")
        world.pod(f"low-{node}", cpu="2", on=node)
    async with world.running():
        group(world, min_count=4, priority=10)
        await members_and_wait(world, "a", "b", "c", "d", priority=10, seconds=3)
        assert bound(world) == ["a", "b", "c", "d"]
        assert pods(world) == ["a", "b", "c", "d"]
        [note] = world.events("low-n1", "Preempted")
        uid = world.cluster.object("PodGroup", "default/g").metadata.uid
        assert note == f"Preempted by podgroup {uid} on node cluster"
        related = world.related("low-n1", "Preempted")
        assert related == "scheduling.k8s.io/v1alpha2 PodGroup default/g"
        world.check()


async def test_a_member_beyond_min_count_preempts_after_its_gang_has_started() -> None:
    world = world_of_nodes(n1="2", n2="1")
    world.pod("low", on="n2")
    async with world.running():
        group(world, min_count=2, priority=10)
        await members_and_wait(world, "a", "b", "c", priority=10, seconds=0.5)
        assert len(bound(world)) == 2
        await asyncio.sleep(5)
        assert bound(world) == ["a", "b", "c"]
        assert pods(world) == ["a", "b", "c"]
        world.check()


async def test_no_pod_is_evicted_for_a_gang_that_would_not_fit_even_then() -> None:
    world = world_of_nodes(n1="2")
    world.pod("low", cpu="2", on="n1")
    async with world.running():
        group(world, min_count=3, priority=10)
        await members_and_wait(world, "a", "b", "c", priority=10, seconds=3)
        assert world.nodes_of("low") == ["n1"]
        assert (
            "preemption: not eligible due to workload aware preemption enabled"
            in world.scheduled("a").message
        )
        found = condition(world)
        assert found is not None
        assert "pod group is unschedulable" in found[2]


async def test_other_tasks_run_while_many_pods_are_removed_for_a_try_and_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low = 100
    world, ways = world_in_a_hurry(monkeypatch, n1="100")
    for number in range(low):
        world.pod(f"low-{number}", on="n1")
    async with world.running():
        group(world, min_count=2, priority=10)
        await members_and_wait(world, "a", "b", cpu="60", priority=10, seconds=5)
        assert len(ways) > 2 * low
        assert len(pods(world)) == low + 2
        world.check()


async def test_no_more_is_evicted_than_needed_and_the_least_important_goes() -> None:
    world = TermWorld()
    for number, priority in ((1, 5), (2, 1), (3, 1)):
        world.node(f"n{number}", cpu="2")
        world.pod(f"low-{number}", cpu="2", on=f"n{number}", priority=priority)
    async with world.running():
        group(world, min_count=4, priority=10)
        await members_and_wait(world, "a", "b", "c", "d", priority=10, seconds=3)
        assert bound(world) == ["a", "b", "c", "d"]
        assert world.nodes_of("low-1") == ["n1"]


async def test_a_group_that_is_evicted_whole_goes_as_one() -> None:
    async with world_of_nodes(n1="2", n2="2").running() as world:
        group(world, "v", min_count=4, priority=1, mode="PodGroup")
        await members_and_wait(world, "w", "x", "y", "z", of="v", priority=1)
        assert len(bound(world)) == 4
        group(world, min_count=1, priority=10)
        await members_and_wait(world, "a", priority=10, seconds=3)
        assert "a" in bound(world)
        assert pods(world) == ["a"]


async def test_while_victims_terminate_all_members_keep_their_nodes_and_evict_no_others() -> None:
    world = TermWorld()
    for number in (1, 2):
        world.node(f"n{number}", cpu="2")
        world.pod(f"low-{number}", cpu="2", on=f"n{number}", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        group(world, min_count=2, priority=10)
        await members_and_wait(world, "a", "b", priority=10, cpu="1", seconds=0.5)
        terminating = [
            name
            for name in ("low-1", "low-2")
            if world.stored(name).metadata.HasField("deletion_timestamp")
        ]
        assert len(terminating) == 1
        nominated = {world.stored(name).status.nominated_node_name for name in "ab"}
        assert nominated == {f"n{terminating[0][-1]}"}
        # Another event has the gang tried again: nothing else is evicted.
        world.node("n3", cpu="0")
        world.pod("thief", cpu="2", priority=5)
        await asyncio.sleep(15)
        assert {world.stored(name).status.nominated_node_name for name in "ab"} == nominated
        await world.delete_and_wait(terminating[0], seconds=15)
        assert bound(world) == ["a", "b"]
        assert world.nodes_of("thief") == [""]
        world.check()


async def test_a_gang_that_becomes_too_small_while_its_victims_terminate_keeps_no_room() -> None:
    world = world_of_nodes(n1="2")
    world.pod("low", cpu="2", on="n1", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        group(world, min_count=2, priority=10)
        await members_and_wait(world, "a", "b", priority=10)
        assert world.stored("a").status.nominated_node_name == "n1"
        await world.delete_and_wait("b")
        world.pod("other", cpu="2")
        await world.delete_and_wait("low", seconds=15)
        assert world.nodes_of("other") == ["n1"]
        world.check()


async def test_a_gang_whose_nominated_node_is_cordoned_evicts_pods_elsewhere() -> None:
    world = TermWorld()
    for number in (1, 2):
        world.node(f"n{number}", cpu="2", labels={"disk": "fast"})
        world.pod(f"low-{number}", cpu="2", on=f"n{number}", terminationGracePeriodSeconds=GRACE)
    async with world.running():
        group(world, min_count=2, priority=10)
        await members_and_wait(world, "a", "b", priority=10, nodeSelector={"disk": "fast"})
        first = world.cluster.object("Node", world.stored("a").status.nominated_node_name)
        assert isinstance(first, Node)
        first.spec.unschedulable = True
        world.cluster.update(first)
        world.node("n3")  # They do not fit there, but are tried again.
        await asyncio.sleep(15)
        nominated = {world.stored(name).status.nominated_node_name for name in "ab"}
        assert nominated == {"n1", "n2"} - {first.metadata.name}
        world.check()


async def test_a_member_that_never_preempts_keeps_the_gang_from_it() -> None:
    world = world_of_nodes(n1="2")
    world.pod("low", cpu="2", on="n1")
    async with world.running():
        group(world, min_count=2, priority=10)
        members(world, "a", priority=10)
        await members_and_wait(world, "b", priority=10, preemptionPolicy="Never", seconds=3)
        assert world.nodes_of("low") == ["n1"]
        found = condition(world)
        assert found is not None
        assert "not eligible due to preemptionPolicy=Never." in found[2]
