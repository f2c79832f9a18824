"""Preemption for queues on a cluster in memory: victims by quota and placement together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from podsched.api.conditions import is_terminating
from podsched.api.objects import Node, Pod, PodDisruptionBudget
from podsched.decide.pod_group import PodGroupAttempt
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.pods import PodInfo
from podsched.serve.client.errors import Invalid
from podsched.term.admission import terms
from support.queues import (
    GPU,
    big_node,
    bound,
    cluster_queue,
    cohort,
    condition,
    flavor,
    gang,
    gang_and_wait,
    job,
    job_and_wait,
    message,
    one_node,
    priority_class,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime

PRIORITY = "kueue.x-k8s.io/priority-class"


def all_pods(world: TermWorld) -> list[Pod]:
    return [pod for pod in world.cluster.objects("Pod") if isinstance(pod, Pod)]


def pods(world: TermWorld) -> list[str]:
    return sorted(pod.metadata.name for pod in all_pods(world))


async def test_nothing_is_evicted_for_a_pod_that_would_not_fit_on_nodes() -> None:
    """Four nodes, each with 6 important and 2 unimportant pods of one GPU, fill the quota."""
    world = TermWorld()
    for name in ("n1", "n2", "n3", "n4"):
        big_node(world, name)
    flavor(world)
    cluster_queue(world, "team", {"gpu": 32}, within="LowerPriority")
    for node in ("n1", "n2", "n3", "n4"):
        for index in range(8):
            on = {"nodeName": node}
            job(world, f"{node}-{index}", "team", 0 if index < 2 else 10, gpu=1, spec=on)
    async with world.running():
        job(world, "wide", "team", 10, gpu=8)
        await asyncio.sleep(5)
        assert len(bound(world)) == 32
        assert usage(world, "team") == {f"default/{GPU}": 32}
        assert message(world, "wide") == (
            "couldn't assign flavors to pod set main: insufficient unused quota for "
            f"{GPU} in flavor default, 8 more needed; pod group is unschedulable, "
            "No preemption victims found for incoming preemptor"
        )
        job(world, "narrow", "team", 10, gpu=1)
        await asyncio.sleep(20)
        assert "narrow" in bound(world)
        assert len(bound(world)) == 32
        assert usage(world, "team") == {f"default/{GPU}": 32}
        world.check()


async def test_victims_free_quota_and_the_node_together() -> None:
    """The CPU is free by quota, and the GPUs are not: one pod of each kind goes, on one node."""
    world = TermWorld()
    for name in ("n1", "n2"):
        big_node(world, name)
    flavor(world)
    cluster_queue(world, "team", {"cpu": 16, "gpu": 16}, within="LowerPriority")
    for node in ("n1", "n2"):
        job(world, f"cpu-{node}", "team", cpu=5, gpu=0, spec={"nodeName": node})
        job(world, f"gpu-{node}", "team", cpu=0, gpu=8, spec={"nodeName": node})
    async with world.running():
        job(world, "standard", "team", 10, cpu=5, gpu=8)
        await asyncio.sleep(20)
        [node] = world.nodes_of("standard")
        left = {"n1": "n2", "n2": "n1"}[node]
        assert pods(world) == [f"cpu-{left}", f"gpu-{left}", "standard"]
        world.check()


async def test_what_victims_free_is_kept_for_the_unit_that_waits_for_them() -> None:
    world = one_node()
    cluster_queue(world, "a", {"gpu": 4}, cohort="all", reclaim="Any")
    cluster_queue(world, "b", {"gpu": 4}, cohort="all")
    async with world.running():
        grace = {"terminationGracePeriodSeconds": 30}
        for name in ("b1", "b2"):
            await job_and_wait(world, name, "b", gpu=4, spec=dict(grace))
        gang(world, "mine", "a", 2, gpu=2)
        await asyncio.sleep(2)
        assert condition(world, "mine")[:2] == ("False", "WaitingForPreemptedWorkloads")
        assert condition(world, "mine")[2].endswith("Pending the preemption of 1 workload(s)")
        [victim] = [pod.metadata.name for pod in all_pods(world) if is_terminating(pod)]
        [event] = world.events(victim, "Preempted")
        why = "due to reclamation within the cohort"
        assert event.endswith(f"{why}; preemptor path: /all/a; preemptee path: /all/b")
        job(world, "b3", "b", 5, gpu=4)
        await asyncio.sleep(5)
        assert bound(world) == ["b1", "b2"]
        await world.delete_and_wait(victim, seconds=15)
        assert [name for name in bound(world) if name.startswith("mine")] == ["mine-0", "mine-1"]
        assert "b3" not in bound(world)
        world.check()


async def test_a_budget_protects_a_unit_from_preemption() -> None:
    world = one_node({"gpu": 2}, within="LowerPriority")
    world.budget("keep", 0, app="kept")
    async with world.running():
        job(world, "kept", "team", 0, gpu=1, labels={"app": "kept"})
        await job_and_wait(world, "other", "team", 1, gpu=1)
        job(world, "new", "team", 10, gpu=1)
        await asyncio.sleep(15)
        assert bound(world) == ["kept", "new"]
        job(world, "newer", "team", 20, gpu=2)
        await asyncio.sleep(15)
        assert bound(world) == ["kept", "new"]


async def test_a_budget_without_a_selector_protects_no_unit_from_preemption() -> None:
    world = one_node({"gpu": 2}, within="LowerPriority")
    world.budget("of-nothing", 0)
    async with world.running():
        await job_and_wait(world, "old", "team", 0, gpu=2)
        await job_and_wait(world, "new", "team", 10, gpu=2)
        await asyncio.sleep(15)
        assert bound(world) == ["new"]


async def test_only_units_in_the_namespace_of_a_budget_are_compared_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be thousands of units, and hundreds of budgets."""
    compared, permit = list[list[str]](), terms._permit

    def noted(budgets: Any, pods: Iterable[PodInfo]) -> bool:
        found = list(pods)
        compared.append([pod.name for pod in found])
        return permit(budgets, found)

    monkeypatch.setattr(terms, "_permit", noted)
    world = one_node({"gpu": 2}, within="LowerPriority")
    budget = PodDisruptionBudget()
    budget.metadata.name, budget.metadata.namespace = "budget", "elsewhere"
    world.cluster.create(budget)
    async with world.running():
        for name, priority in (("a", 1), ("b", 0)):
            await job_and_wait(world, name, "team", priority, gpu=1)
        await job_and_wait(world, "new", "team", 10, gpu=1)
        assert compared == [["b"]]


async def test_no_one_takes_the_quota_that_the_first_of_two_victims_frees() -> None:
    world = one_node()
    cluster_queue(world, "a", {"gpu": 8}, cohort="all", reclaim="Any")
    cluster_queue(world, "b", {"gpu": 0}, cohort="all")
    async with world.running():
        for name in ("b1", "b2"):
            job(world, name, "b", gpu=4, spec={"terminationGracePeriodSeconds": 30})
        await asyncio.sleep(1)
        await job_and_wait(world, "mine", "a", gpu=8)
        on_nodes = [pod for pod in all_pods(world) if pod.spec.node_name]
        assert [is_terminating(pod) for pod in on_nodes] == [True, True]
        world.cluster.delete("Pod", "default/b1")
        job(world, "b3", "b", 100, gpu=4)
        await asyncio.sleep(10)
        assert bound(world) == ["b2"]
        await world.delete_and_wait("b2", seconds=10)
        assert bound(world) == ["mine"]
        assert len(world.events("b1", "Preempted")) == 1
        world.check()


async def test_what_victims_free_is_kept_from_later_heads_of_the_same_cycle() -> None:
    world = TermWorld()
    big_node(world, "n1", of={GPU: "20"})
    flavor(world)
    cluster_queue(world, "a", {"gpu": 10}, cohort="all", within="LowerPriority")
    cluster_queue(world, "b", {"gpu": 0}, cohort="all")
    async with world.running():
        await job_and_wait(world, "victim", "a", gpu=5, spec={"terminationGracePeriodSeconds": 30})
        job(world, "mine", "a", 1, gpu=10)
        job(world, "borrower", "b", gpu=5)
        await asyncio.sleep(2)
        assert bound(world) == ["victim"]
        await world.delete_and_wait("victim", seconds=10)
        assert bound(world) == ["mine"]
        world.check()


async def test_a_unit_that_is_tried_before_its_victims_are_gone_keeps_its_quota() -> None:
    """An event may help ``big``; ``other`` borrows less, so it would be decided first."""
    world = TermWorld()
    big_node(world, "n1")
    big_node(world, "n2")
    flavor(world)
    low = "LowerPriority"
    cluster_queue(world, "a", {"cpu": 4}, cohort="all", within=low, reclaim=low, borrow=low)
    cluster_queue(world, "b", {"cpu": 4}, cohort="all")
    async with world.running():
        await job_and_wait(world, "low", "a", cpu=3, spec={"terminationGracePeriodSeconds": 30})
        job(world, "big", "a", 5, cpu=7)
        await asyncio.sleep(5)
        job(world, "other", "b", cpu=2)
        await asyncio.sleep(5)
        world.state.admission.turns.note_helped("default/pod:big")
        big_node(world, "n3")
        await asyncio.sleep(5)
        assert bound(world) == ["low"]
        await world.delete_and_wait("low", seconds=5)
        assert bound(world) == ["big"]
        world.check()


async def test_a_nomination_for_one_flavor_does_not_lead_to_its_node_on_another() -> None:
    world = TermWorld()
    for name in ("blue", "red"):
        flavor(world, name, kind=name)
        big_node(world, f"n-{name}", labels={"kind": name}, unschedulable=name == "red")
    quotas = {"blue": {"gpu": 8}, "red": {"gpu": 8}}
    team = cluster_queue(world, "team", None, quotas, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "old", "team", gpu=8, spec={"terminationGracePeriodSeconds": 30})
        await job_and_wait(world, "new", "team", 10, gpu=8)
        assert world.stored("new").status.nominated_node_name == "n-blue"
        team.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "0"
        world.cluster.update(team)
        red = world.cluster.object("Node", "n-red")
        assert isinstance(red, Node)
        red.spec.unschedulable = False
        world.cluster.update(red)
        await world.delete_and_wait("old", seconds=20)
        assert world.nodes_of("new") == ["n-red"]
        assert usage(world, "team") == {f"red/{GPU}": 8}


async def test_a_unit_that_can_preempt_no_more_keeps_no_node_from_others() -> None:
    world = one_node()
    team = cluster_queue(world, "team", {"gpu": 8}, within="LowerPriority")
    cluster_queue(world, "other", {"gpu": 8})
    async with world.running():
        await job_and_wait(world, "old", "team", gpu=8, spec={"terminationGracePeriodSeconds": 30})
        job(world, "important", "team", 10, gpu=8)
        await job_and_wait(world, "patient", "other", 5, gpu=8)
        assert world.stored("important").status.nominated_node_name == "n1"
        team.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "0"
        world.cluster.update(team)
        await world.delete_and_wait("old", seconds=20)
        assert bound(world) == ["patient"]
        assert world.stored("important").status.nominated_node_name == ""


async def test_the_rest_of_a_gang_that_cannot_start_any_more_keeps_no_node_from_others() -> None:
    world = one_node({"gpu": 8}, within="LowerPriority", strategy="StrictFIFO")
    cluster_queue(world, "other", {"gpu": 8})
    async with world.running():
        await job_and_wait(world, "old", "team", gpu=4, spec={"terminationGracePeriodSeconds": 30})
        await gang_and_wait(world, "g", "team", 2, 2, 10, gpu=2)
        job(world, "g-2", "team", 10, gpu=2, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(1)
        assert bound(world) == ["g-0", "g-1", "old"]
        assert world.stored("g-2").status.nominated_node_name == "n1"
        await job_and_wait(world, "patient", "other", gpu=8)
        for name in ("g-0", "g-1", "old"):
            world.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(20)
        assert bound(world) == ["patient"]
        assert world.stored("g-2").status.nominated_node_name == ""


async def test_victims_that_cannot_be_evicted_are_tried_again_once_a_second() -> None:
    world = one_node({"gpu": 8}, within="LowerPriority")
    evict_pods, calls = world.cluster.evict_pods, 0

    async def unwilling(requests: Any, *, fence: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < 4:
            raise Invalid("not this one")
        return await evict_pods(requests, fence=fence)

    world.cluster.evict_pods = unwilling  # type: ignore[method-assign]
    async with world.running():
        await job_and_wait(world, "old", "team", gpu=8)
        job(world, "new", "team", 10, gpu=8)
        await asyncio.sleep(2.5)
        assert calls == 3
        await asyncio.sleep(20)
        assert bound(world) == ["new"]


async def test_a_unit_is_a_candidate_again_when_that_which_waited_for_it_is_gone() -> None:
    """Also if a queue changes at the same time, so that everything is read anew."""
    world = one_node()
    team = cluster_queue(world, "team", {"gpu": 8}, within="LowerPriority")
    evict_pods = world.cluster.evict_pods

    async def unwilling(requests: Any, *, fence: Any) -> Any:
        raise Invalid("not now")

    world.cluster.evict_pods = unwilling  # type: ignore[method-assign]
    async with world.running():
        await job_and_wait(world, "old", "team", gpu=8)
        job(world, "new", "team", 10, gpu=8)
        await asyncio.sleep(0.5)
        world.cluster.delete("Pod", "default/new")
        team.spec.resource_groups[0].flavors[0].resources[0].nominal_quota = "9"
        world.cluster.update(team)
        world.cluster.evict_pods = evict_pods  # type: ignore[method-assign]
        await asyncio.sleep(1)
        job(world, "newer", "team", 10, gpu=8)
        await asyncio.sleep(2)
        assert bound(world) == ["newer"]


async def test_what_all_victims_have_freed_goes_to_the_unit_that_waited_for_them() -> None:
    """The other would come first in a cycle: it is more important."""
    world = one_node()
    lower = "LowerPriority"
    cluster_queue(world, "a", {"gpu": 4}, cohort="all", reclaim=lower, borrow=lower)
    cluster_queue(world, "b", {"gpu": 0}, cohort="all")
    cohort(world, "all", default={"gpu": 4})
    async with world.running():
        for name in ("b1", "b2"):
            grace = {"terminationGracePeriodSeconds": 30}
            job(world, name, "b", -1, gpu=4, spec=grace)
        await asyncio.sleep(1)
        await job_and_wait(world, "mine", "a", gpu=8)
        await job_and_wait(world, "b3", "b", 100, gpu=4)
        for name in ("b1", "b2"):
            assert is_terminating(world.stored(name))
            world.cluster.delete("Pod", f"default/{name}")
        await asyncio.sleep(10)
        assert bound(world) == ["mine"]


async def test_a_gang_that_is_evicted_in_part_does_not_grow_until_all_of_it_is_gone() -> None:
    world = TermWorld()
    for name in ("n1", "n2", "n3"):
        big_node(world, name)
    flavor(world)
    cluster_queue(world, "a", {"gpu": 8}, cohort="all", reclaim="Any")
    cluster_queue(world, "b", {"gpu": 8}, cohort="all")
    async with world.running():
        grace = {"terminationGracePeriodSeconds": 30}
        await gang_and_wait(world, "g", "b", 3, min_count=1, gpu=8, spec=grace)
        assert bound(world) == ["g-0", "g-1"]
        await job_and_wait(world, "new", "a", gpu=8)
        assert all(is_terminating(world.stored(name)) for name in ("g-0", "g-1"))
        await world.delete_and_wait("g-0", seconds=5)
        assert bound(world) == ["g-1"]
        await world.delete_and_wait("g-1", seconds=15)
        assert bound(world) == ["g-2", "new"]
        world.check()


async def test_a_gang_does_not_grow_in_the_cycle_in_which_it_becomes_a_victim() -> None:
    world = one_node()
    cluster_queue(world, "owner", {"cpu": 4, "gpu": 8}, cohort="all", reclaim="Any")
    cluster_queue(world, "borrower", {"cpu": 4, "gpu": 0}, cohort="all")
    async with world.running():
        spec = {"terminationGracePeriodSeconds": 30}
        await gang_and_wait(world, "low", "borrower", 1, gpu=8, spec=spec)
        job(world, "high", "owner", 10, gpu=8)
        job(world, "low-1", "borrower", cpu=1, spec={"schedulingGroup": {"podGroupName": "low"}})
        await asyncio.sleep(2)
        assert bound(world) == ["low-0"]
        await world.delete_and_wait("low-0")
        assert bound(world) == ["high", "low-1"]


async def test_what_victims_have_freed_is_not_kept_once_another_unit_blocks_the_queue() -> None:
    """In a strict queue, a more important unit may come while another waits for its victims."""
    world = one_node()
    cluster_queue(world, "a", {"gpu": 4}, cohort="all", reclaim="Any", strategy="StrictFIFO")
    cluster_queue(world, "b", {"gpu": 4}, cohort="all")
    async with world.running():
        for name in ("b1", "b2"):
            await job_and_wait(world, name, "b", gpu=4, spec={"terminationGracePeriodSeconds": 30})
        await job_and_wait(world, "mine", "a", gpu=4)
        job(world, "huge", "a", 10, gpu=8)
        await job_and_wait(world, "b3", "b", gpu=4)
        [victim] = [pod.metadata.name for pod in all_pods(world) if is_terminating(pod)]
        assert "b3" not in bound(world)
        await world.delete_and_wait(victim, seconds=10)
        assert "b3" in bound(world)
        world.check()


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
async def test_a_flavor_without_victims_is_followed_by_the_next_one(strategy: str) -> None:
    """The search stops at the first one: CPU alone could be reclaimed, but not while borrowing."""
    world = TermWorld()
    for name in ("blue", "red"):
        flavor(world, name, kind=name)
        big_node(world, f"n-{name}", labels={"kind": name})
    quotas = {"blue": {"cpu": 4, "gpu": 1}, "red": {"cpu": 4, "gpu": 4}}
    stop = {"reclaim": "Any", "when_can_preempt": "MayStopSearch", "strategy": strategy}
    cluster_queue(world, "a", None, quotas, cohort="all", **stop)
    lent = {"blue": {"cpu": 0, "gpu": 4}, "red": {"cpu": 0, "gpu": 0}}
    cluster_queue(world, "b", None, lent, cohort="all")
    async with world.running():
        await job_and_wait(world, "borrower", "b", cpu=2, gpu=0)
        job(world, "new", "a", cpu=4, gpu=2)
        await asyncio.sleep(5)
        assert world.nodes_of("borrower", "new") == ["n-blue", "n-red"]


@pytest.mark.parametrize(
    ("quota", "fungibility"),
    [
        (4, {"when_can_preempt": "MayStopSearch"}),
        # The second flavor would have to be borrowed.
        (0, {"when_can_borrow": "TryNextFlavor", "preference": "PreemptionOverBorrowing"}),
    ],
)
async def test_victims_on_a_flavor_come_before_room_on_the_next_if_the_queue_says_so(
    quota: int, fungibility: dict[str, str]
) -> None:
    world = TermWorld()
    for name in ("blue", "red"):
        flavor(world, name, kind=name)
        big_node(world, f"n-{name}", labels={"kind": name})
    quotas = {"blue": {"cpu": (4, 0)}, "red": {"cpu": quota}}
    cluster_queue(world, "a", None, quotas, cohort="all", within="LowerPriority", **fungibility)
    cluster_queue(world, "lender", None, {"red": {"cpu": 4}}, cohort="all")
    async with world.running():
        await job_and_wait(world, "low", "a", cpu=4)
        job(world, "high", "a", 10, cpu=4)
        await asyncio.sleep(5)
        assert world.nodes_of("high") == ["n-blue"]
        assert "low" not in bound(world)


async def test_victims_on_a_flavor_with_quota_come_before_those_on_one_without() -> None:
    world = TermWorld()
    for name in ("blue", "red"):
        flavor(world, name, kind=name)
        big_node(world, f"n-{name}", labels={"kind": name})
    quotas = {"blue": {"cpu": 4}, "red": {"cpu": 8}}
    cluster_queue(world, "a", None, quotas, within="LowerPriority")
    world.pod("outside", cpu="4", on="n-red")
    async with world.running():
        for name in ("low-blue", "low-red"):
            await job_and_wait(world, name, "a", cpu=4)
        assert world.nodes_of("low-blue", "low-red") == ["n-blue", "n-red"]
        job(world, "high", "a", 10, cpu=4)
        await asyncio.sleep(5)
        assert world.nodes_of("low-blue", "high") == ["n-blue", "n-red"]


async def test_a_gang_evicts_for_all_of_its_pods_before_it_starts_with_fewer() -> None:
    async with one_node({"cpu": 4}, within="LowerPriority").running() as world:
        await job_and_wait(world, "low", "team", cpu=2, spec={"terminationGracePeriodSeconds": 30})
        gang(world, "g", "team", 4, 1, priority=10, cpu=1)
        await asyncio.sleep(5)
        assert is_terminating(world.stored("low"))
        assert bound(world) == ["low"]


async def test_a_gang_that_nodes_hold_only_a_part_of_evicts_for_that_part() -> None:
    world = TermWorld()
    flavor(world)
    cluster_queue(world, "team", {"cpu": 8}, within="LowerPriority")
    only = {}
    for name, cpu in (("n1", 3), ("n2", 5)):
        big_node(world, name, of={"cpu": str(cpu)})
        only[name] = {"nodeSelector": {"kubernetes.io/hostname": name}}
    async with world.running():
        job(world, "low", "team", 0, cpu=3, spec=only["n1"])
        await job_and_wait(world, "mid", "team", 1, cpu=5, spec=only["n2"])
        gang(world, "g", "team", 4, 2, priority=2, cpu=1, spec=only["n1"])
        await asyncio.sleep(5)
        assert bound(world) == ["g-0", "g-1", "g-2", "mid"]


async def test_a_gang_that_has_grown_counts_as_admitted_when_it_started() -> None:
    """Of victims of equal priority, those that were admitted later go first."""
    async with one_node({"cpu": 8}, within="LowerPriority").running() as world:
        gang(world, "g", "team", 2, cpu=2)
        await asyncio.sleep(5)
        job(world, "later", "team", cpu=2)
        await asyncio.sleep(5)
        job(world, "g-2", "team", cpu=2, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(5)
        assert bound(world) == ["g-0", "g-1", "g-2", "later"]
        job(world, "new", "team", 1, cpu=2)
        await asyncio.sleep(5)
        assert bound(world) == ["g-0", "g-1", "g-2", "new"]


@pytest.mark.parametrize("size", [(), (1,)])
async def test_the_leader_that_admitted_units_evicts_the_one_first_that_it_admitted_last(
    size: tuple[int, ...],
) -> None:
    make = gang if size else job
    async with one_node({"cpu": 2}, within="LowerPriority").running() as world:
        for name in ("first", "second"):
            make(world, name, "team", *size, cpu=1)
            await asyncio.sleep(5)
        first, _ = bound(world)
        make(world, "new", "team", *size, priority=1, cpu=1)
        await asyncio.sleep(5)
        assert first in bound(world)
        assert len(bound(world)) == 2


async def test_two_heads_of_a_cycle_may_have_the_same_victims_in_mind() -> None:
    """The second one looks again, without the victims that the first one has by then."""
    world = one_node()
    cohort(world, "all", default={"gpu": 0})
    for name in ("a", "b"):
        cluster_queue(world, name, {"gpu": 4}, cohort="all", reclaim="Any")
    cluster_queue(world, "c", {"gpu": 0}, cohort="all")
    async with world.running():
        await job_and_wait(world, "big", "c", gpu=8, spec={"terminationGracePeriodSeconds": 5})
        for name in ("a", "b"):
            job(world, f"of-{name}", name, gpu=4)
        await asyncio.sleep(1)
        assert len(world.events("big", "Preempted")) == 1
        await world.delete_and_wait("big", seconds=15)
        assert bound(world) == ["of-a", "of-b"]


@pytest.mark.parametrize("fault", [PluginFailure("Mine", "a fault"), ValueError("a bug")])
async def test_a_fault_in_a_try_without_victims_admits_nothing_beyond_the_quota(
    monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    place = PodGroupAttempt._place

    def broken(self: PodGroupAttempt, *args: Any, keep: bool, **other: Any) -> Any:
        if not keep:  # The tries without victims are those that are never kept.
            raise fault
        return place(self, *args, keep=keep, **other)

    monkeypatch.setattr(PodGroupAttempt, "_place", broken)
    async with one_node({"cpu": 4}, within="LowerPriority").running() as world:
        await job_and_wait(world, "low", "team", cpu=4)
        job(world, "high", "team", 10, cpu=4)
        await asyncio.sleep(9)
        assert bound(world) == ["low"]
        assert usage(world, "team") == {"default/cpu": 4000}


async def test_units_without_a_priority_class_have_the_one_called_default_if_it_exists() -> None:
    async with one_node({"cpu": 4}).running() as world:
        await job_and_wait(world, "first", "team", cpu=4)
        priority_class(world, "default", 50)
        priority_class(world, "low", 1)
        job(world, "low", "team", cpu=4, labels={PRIORITY: "low"})
        await job_and_wait(world, "silent", "team", cpu=4)
        await world.delete_and_wait("first", seconds=2)
        assert bound(world) == ["silent"]


async def test_a_gang_of_higher_workload_priority_is_tried_although_an_equal_was_refused() -> None:
    world = one_node()
    priority_class(world, "low", 1)
    priority_class(world, "high", 100)
    cluster_queue(world, "team", {"cpu": 8}, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "old", "team", 10, cpu=8)
        for name in ("low", "high"):
            await gang_and_wait(world, name, "team", 2, cpu=4, group_labels={PRIORITY: name})
        assert len(world.events("old", "Preempted")) == 1
        assert condition(world, "low")[1] == "WaitingForQuota"


async def test_the_message_on_a_victim_names_the_job_that_it_makes_room_for() -> None:
    async with one_node({"cpu": 4}, within="LowerPriority").running() as world:
        await job_and_wait(world, "low", "team", cpu=4)
        owner = {"api_version": "batch/v1", "kind": "Job", "name": "sum", "uid": "uid-of-sum"}
        job(world, "of-job", "team", 5, cpu=4)
        world.change(
            "of-job", lambda pod: pod.metadata.owner_references.add(**owner, controller=True)
        )
        await asyncio.sleep(1)
        [told] = world.events("low", "Preempted")
        assert f"(UID: {world.stored('of-job').metadata.uid}, JobUID: uid-of-sum)" in told
        await job_and_wait(world, "alone", "team", 9, cpu=4)
        [told] = world.events("of-job", "Preempted")
        uid = world.stored("alone").metadata.uid
        assert f"(UID: {uid}, JobUID: {uid})" in told


async def test_a_gang_does_not_preempt_itself_for_a_more_important_pod_that_joins_it() -> None:
    async with one_node({"cpu": 2}, within="LowerPriority").running() as world:
        await gang_and_wait(world, "g", "team", 2, cpu=1)
        job(world, "late", "team", 5, cpu=1, spec={"schedulingGroup": {"podGroupName": "g"}})
        await asyncio.sleep(5)
        assert bound(world) == ["g-0", "g-1"]


async def test_a_unit_is_a_candidate_for_another_queue_when_that_which_waited_for_it_is_gone() -> (
    None
):
    world = one_node()
    for name, quota in (("a", 4), ("b", 0), ("c", 4)):
        cluster_queue(world, name, {"gpu": quota}, cohort="all", reclaim="Any")
    evict_pods = world.cluster.evict_pods

    async def unwilling(requests: Any, *, fence: Any) -> Any:
        raise Invalid("not now")

    world.cluster.evict_pods = unwilling  # type: ignore[method-assign]
    async with world.running():
        await job_and_wait(world, "old", "b", gpu=8)
        job(world, "a", "a", gpu=4)
        await asyncio.sleep(0.5)
        await job_and_wait(world, "c", "c", gpu=4)
        world.cluster.delete("Pod", "default/a")
        world.cluster.evict_pods = evict_pods  # type: ignore[method-assign]
        await asyncio.sleep(5)
        assert bound(world) == ["c"]


async def test_a_new_node_helps_a_unit_that_needs_victims_and_had_no_room_without_them() -> None:
    world = one_node({"cpu": 16, "gpu": 8}, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "low", "team", gpu=4)
        await world.pod_and_wait("other", cpu="5")
        await job_and_wait(world, "wide", "team", 10, cpu=8, gpu=8)
        assert bound(world) == ["low", "other"]
        big_node(world, "n2")
        await asyncio.sleep(15)
        assert bound(world) == ["other", "wide"]


async def test_the_end_of_a_pod_that_it_could_not_preempt_helps_a_unit_that_needs_victims() -> None:
    world = one_node({"cpu": 16, "gpu": 8}, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "low", "team", gpu=4)
        await world.pod_and_wait("other", cpu="5")
        await job_and_wait(world, "wide", "team", 10, cpu=8, gpu=8)
        assert bound(world) == ["low", "other"]
        await world.delete_and_wait("other", seconds=15)
        assert bound(world) == ["wide"]


async def test_a_unit_is_preempted_once_it_has_become_less_important_than_one_that_waits() -> None:
    world = one_node({"cpu": 2}, within="LowerPriority")
    for name, value in (("high", 10), ("low", -10)):
        priority_class(world, name, value)
    async with world.running():
        await job_and_wait(world, "old", "team", cpu=2, labels={PRIORITY: "high"})
        await job_and_wait(world, "new", "team", cpu=2)
        assert bound(world) == ["old"]
        world.change("old", lambda pod: pod.metadata.labels.update({PRIORITY: "low"}))
        await asyncio.sleep(5)
        assert bound(world) == ["new"]


async def test_a_pod_that_is_tried_while_its_gang_is_bound_preempts_once_that_is_done() -> None:
    world = TermWorld()
    for name in ("n1", "n2"):
        big_node(world, name)
    flavor(world)
    cluster_queue(world, "team", {"cpu": 40}, within="LowerPriority")
    async with world.running():
        await job_and_wait(world, "low", "team", cpu=8)
        await gang_and_wait(world, "g", "team", 3, min_count=2, priority=5, cpu=4)
        await asyncio.sleep(5)
        assert bound(world) == ["g-0", "g-1", "g-2"]
        assert usage(world, "team") == {"default/cpu": 12000}
