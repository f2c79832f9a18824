"""The metrics of the plugins, through a whole term."""

from __future__ import annotations

import asyncio
import re

import pytest

from podsched.config.plugins import ExtensionPoint
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.plugin_metrics import (
    SAMPLE_EVERY,
    EvaluationCost,
    PluginRuns,
    ProfileMeters,
)
from podsched.framework.status import Code
from podsched.telemetry.instruments import CounterCell, MetricRegistry
from podsched.telemetry.metrics import EvaluationMetrics, SchedulerMetrics
from support.term_world import TermWorld

pytestmark = pytest.mark.looptime


def samples(registry: MetricRegistry, name: str) -> dict[str, float]:
    """The values of a series by its labels as text."""
    text = registry.render()[0].decode()
    found = re.findall(rf"^{name}{{([^}}]*)}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def fail() -> None:
    raise ValueError("no")


def test_every_tenth_run_of_a_plugin_is_timed_and_every_run_counted() -> None:
    total, timed = CounterCell(), list[str]()
    runs = PluginRuns(total, lambda status, seconds: timed.append(status))
    for _ in range(SAMPLE_EVERY + 1):
        assert runs.call("P", "running {}", lambda: 7) == 7
    assert total.value == SAMPLE_EVERY + 1
    assert timed == ["Success", "Success"]


def test_a_run_that_fails_is_timed_as_an_error() -> None:
    timed: list[str] = []
    runs = PluginRuns(CounterCell(), lambda status, seconds: timed.append(status))
    with pytest.raises(PluginFailure, match="running P: no"):
        runs.call("P", "running {}", fail)
    assert timed == ["Error"]


def test_the_time_of_a_refresh_is_split_at_the_points_it_comes_to() -> None:
    times = iter([10.0, 11.0, 13.0, 13.5, 14.0, 17.0])
    cost = EvaluationCost(lambda: next(times))
    cost.begin()
    cost.pre_filter_done()
    cost.filter_done()
    cost.time_pre_score(lambda: None)
    cost.end(feasible=True)
    assert (cost.pre_filter, cost.filter, cost.pre_score, cost.score) == (1.0, 2.0, 0.5, 4.0)
    assert cost.reached is ExtensionPoint.SCORE
    assert cost.phases == (10.0, 11.0, 13.0, 17.0)


def test_a_refresh_that_ends_in_pre_filter_costs_no_other_point_anything() -> None:
    times = iter([10.0, 12.0])
    cost = EvaluationCost(lambda: next(times))
    cost.begin()
    cost.end(feasible=True)
    assert (cost.pre_filter, cost.filter, cost.score) == (2.0, 0.0, 0.0)
    assert cost.reached is ExtensionPoint.PRE_FILTER


def test_without_a_clock_an_evaluation_still_tells_how_far_it_came() -> None:
    cost = EvaluationCost()
    cost.begin()
    cost.pre_filter_done()
    cost.filter_done()
    cost.end(feasible=False)
    assert cost.reached is ExtensionPoint.FILTER


def test_a_pod_is_charged_its_share_of_its_batch() -> None:
    registry = MetricRegistry()
    meter = ProfileMeters(SchedulerMetrics(registry), EvaluationMetrics(registry)).of("p")
    meter.passed(ExtensionPoint.BIND, Code.SUCCESS, 0.02, pods=10)
    name = "scheduler_framework_extension_point_duration_seconds"
    labels = 'extension_point="Bind",profile="p",status="Success"'
    assert samples(registry, f"{name}_count")[labels] == 10
    assert samples(registry, f"{name}_bucket")[labels.replace(",", ',le="0.0032",', 1)] == 10
    assert samples(registry, f"{name}_sum")[labels] == pytest.approx(0.02)


async def test_each_extension_point_that_a_pod_passes_is_timed() -> None:
    async with TermWorld().running() as world:
        world.node("n1")
        await world.pod_and_wait("a")
    counts = samples(world.registry, "scheduler_framework_extension_point_duration_seconds_count")
    points = ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "Bind", "PostBind")
    for point in points:
        labels = f'extension_point="{point}",profile="default-scheduler",status="Success"'
        assert counts[labels] == 1, point
    runs = samples(world.registry, "scheduler_plugin_evaluation_total")
    labels = 'extension_point="Filter",plugin="NodeResourcesFit",profile="default-scheduler"'
    assert runs[labels] >= 1
    assert samples(world.registry, "podsched_bind_duration_seconds_count") == {'result="ok"': 1}
    assert samples(world.registry, "podsched_evaluated_rows_total")['kind="full"'] == 1


async def test_nothing_is_scored_where_nothing_fits() -> None:
    async with TermWorld().running() as world:
        world.node("n1", cpu="1")
        await world.pod_and_wait("a", cpu="2")
    counts = samples(world.registry, "scheduler_framework_extension_point_duration_seconds_count")
    points = {re.search(r'point="(\w+)"', labels)[1] for labels in counts}  # type: ignore[index]
    assert points == {"PreFilter", "Filter", "PostFilter"}


async def test_runs_are_counted_at_the_points_at_which_kube_scheduler_counts_them() -> None:
    async with TermWorld().running() as world:
        world.node("n1", cpu="1")
        world.pod("a", cpu="1")
        await world.pod_and_wait("b", cpu="2")
    counts = samples(world.registry, "scheduler_plugin_evaluation_total")
    points = {re.search(r'point="(\w+)"', labels)[1] for labels in counts}  # type: ignore[index]
    assert points == {"PreFilter", "Filter", "PreScore", "Score"}


async def test_a_preemption_attempt_counts_even_if_it_finds_no_victims() -> None:
    async with TermWorld().running() as world:
        world.node("n1", cpu="1")
        await world.pod_and_wait("a", cpu="2")
    assert world.meter.scheduler.preemption_attempts_total.labels().value == 1


async def test_events_and_a_sample_of_the_hints_are_timed() -> None:
    async with TermWorld().running() as world:
        world.node("n1", cpu="1")
        await world.pod_and_wait("a", cpu="2")
        world.node("n2", cpu="4")
        await asyncio.sleep(1)
    events = samples(world.registry, "scheduler_event_handling_duration_seconds_count")
    assert events['event="NodeAdd"'] == 2
    assert events['event="PodAdd"'] == 1
    hints = samples(world.registry, "scheduler_queueing_hint_execution_duration_seconds_count")
    assert hints['event="NodeAdd",hint="Queue",plugin="NodeResourcesFit"'] == 1


async def test_a_plugin_that_rejects_no_pod_any_more_is_exported_as_zero() -> None:
    world = TermWorld()
    labels = 'plugin="NodeResourcesFit",profile="default-scheduler"'
    async with world.running():
        world.node("n1", cpu="1")
        await world.pod_and_wait("a", cpu="2")
        world.meter.gauges(world.state.queue, world.state.cache, world.term.binding.under_way, {})
        assert samples(world.registry, "scheduler_unschedulable_pods") == {labels: 1}
        world.node("n2", cpu="4")
        await asyncio.sleep(2)
        world.meter.gauges(world.state.queue, world.state.cache, world.term.binding.under_way, {})
    assert samples(world.registry, "scheduler_unschedulable_pods") == {labels: 0}


def test_errors_of_volumes_are_counted_by_what_the_plugin_was_doing_and_no_others() -> None:
    registry = MetricRegistry()
    meter = ProfileMeters(SchedulerMetrics(registry), EvaluationMetrics(registry)).of("p")
    for point in ExtensionPoint:
        meter.runs(point, "VolumeBinding", binds_volumes=True).failed()
        meter.runs(point, "NodeVolumeLimits").failed()
    name = "scheduler_volume_scheduling_stage_error_total"
    assert samples(registry, name) == {
        f'operation="{operation}"': 1.0 for operation in ("predicate", "assume", "bind")
    }
