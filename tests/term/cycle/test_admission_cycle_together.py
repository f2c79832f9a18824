"""Heads of several queues are decided about together, and get what each would get alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import looptime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.pod_groups_together import TogetherAttempt
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.term.cycle.admission_cycle import AdmissionCycle
from podsched.term.cycle.pod_group_cycle import PodGroupCycle
from podsched.term.cycle.unit_reports import UnitReports
from support.engine_world import node
from support.queues import (
    bound,
    cluster_queue,
    condition,
    flavor,
    gang,
    job,
    one_node,
    usage,
)
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


@dataclass(frozen=True)
class Gang:
    """``least``: how many of its pods have to start."""

    queue: int
    pods: int
    least: int
    cpu: int
    priority: int


gangs = st.builds(
    Gang,
    st.integers(0, 2),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 2),
)


async def outcome(
    sizes: list[int], quotas: list[int], wanted: list[Gang]
) -> tuple[dict[str, str], list[dict[str, int]]]:
    """The node of each pod that has one, and what the queues use."""
    world = TermWorld()
    for number, cpu in enumerate(sizes):
        allocatable = {"cpu": str(cpu), "memory": "32Gi", "pods": "110"}
        world.cluster.create(node(f"n{number}", allocatable=allocatable))
    flavor(world)
    for number, quota in enumerate(quotas):
        cluster_queue(world, f"q{number}", {"cpu": quota}, cohort="all")
    for number, one in enumerate(wanted):
        least = min(one.least, one.pods)
        gang(world, f"g{number}", f"q{one.queue}", one.pods, least, one.priority, cpu=one.cpu)
    async with world.running(seconds=5):
        world.check()
        placed = {name: world.stored(name).spec.node_name for name in bound(world)}
        return placed, [usage(world, f"q{number}") for number in range(len(quotas))]


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=4),
    st.lists(st.integers(0, 8), min_size=3, max_size=3),
    st.lists(gangs, min_size=1, max_size=6),
)
def test_heads_get_the_nodes_and_the_quota_that_each_would_get_alone(
    sizes: list[int], quotas: list[int], wanted: list[Gang]
) -> None:
    def run() -> Any:
        with asyncio.Runner(loop_factory=looptime.new_event_loop) as runner:
            return runner.run(outcome(sizes, quotas, wanted))

    together = run()
    with pytest.MonkeyPatch.context() as alone:
        alone.setattr(AdmissionCycle, "_joins", lambda self, entry: None)
        assert run() == together


async def test_heads_that_all_fit_are_decided_about_in_one_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    together = PodGroupCycle.admit_together
    counts = []

    def counting(self: PodGroupCycle, units: Any, nodes: Any, now: float) -> Any:
        counts.append(len(units))
        return together(self, units, nodes, now)

    monkeypatch.setattr(PodGroupCycle, "admit_together", counting)
    world = one_node()
    for name in ("a", "b", "c"):
        cluster_queue(world, name, {"cpu": 4})
        gang(world, f"of-{name}", name, 2, cpu=1)
    async with world.running(seconds=1):
        assert counts == [3]
        assert len(bound(world)) == 6
        assert condition(world, "of-a")[:2] == ("True", "QuotaReserved")
        assert usage(world, "a") == {"default/cpu": 2000}


async def test_if_one_head_fits_no_node_the_others_start() -> None:
    world = one_node()
    for name, cpu in (("a", 2), ("b", 9), ("c", 3)):
        cluster_queue(world, name, {"cpu": 16})
        gang(world, f"of-{name}", name, 1, cpu=cpu)
    async with world.running(seconds=1):
        assert bound(world) == ["of-a-0", "of-c-0"]
        assert condition(world, "of-b")[:2] == ("False", "TopologyPlacementFailed")
        assert usage(world, "b") == {}
        world.check()


async def test_what_a_head_without_nodes_does_not_take_is_left_to_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = []
    monkeypatch.setattr(UnitReports, "waits", lambda self, key, *_, **__: said.append(key))
    world = one_node()
    cluster_queue(world, "a", {"cpu": 10}, cohort="all")
    cluster_queue(world, "b", {"cpu": 0}, cohort="all")
    gang(world, "large", "a", 1, cpu=9)
    gang(world, "small", "b", 1, cpu=2)
    async with world.running(seconds=1):
        assert bound(world) == ["small-0"]
        assert set(said) == {"default/large"}


async def test_an_error_on_a_pod_of_one_head_fails_only_this_head() -> None:
    world = one_node()

    def reserve(pod: PodInfo) -> Status:
        if pod.name == "b":
            raise ValueError("refused")
        return SUCCESS

    world.script.on_reserve = reserve
    for name in ("a", "b", "c"):
        cluster_queue(world, name, {"cpu": 4})
        job(world, name, name, cpu=1)
    async with world.running(seconds=1):
        assert bound(world) == ["a", "c"]
        assert usage(world, "b") == {}


async def test_after_a_bug_in_deciding_together_each_head_is_decided_about_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(self: TogetherAttempt, *_: Any) -> Any:
        raise ValueError("a bug")

    monkeypatch.setattr(TogetherAttempt, "run", broken)
    world = one_node()
    for name in ("a", "b"):
        cluster_queue(world, name, {"cpu": 4})
        job(world, name, name, cpu=1)
    async with world.running(seconds=1):
        assert bound(world) == ["a", "b"]
        world.check()
