"""What of an attempt is recorded, at an exporter in memory."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podsched.api import trace_context
from podsched.decide.decision import Decision
from podsched.decide.runtime.run_log import PluginRun, RunLog
from podsched.framework.plugin import CycleState
from podsched.telemetry.tracing import SpanName, Tracer
from podsched.term.cycle.attempt_traces import MOST_ASKED, AttemptTraces
from support.engine_pods import assignment

CONTEXT = f"00-{'a' * 32}-{'b' * 16}-01"


class World:
    """An attempt at one pod."""

    def __init__(self, ratio: float = 0.0, **annotations: str) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = Tracer(provider, ratio)
        self.log = RunLog()
        self.traces = AttemptTraces(self.tracer, self.log)
        self.assignment = assignment("a", "n")
        self.queued = self.assignment.queued
        self.queued.timestamp, self.queued.attempts = 10.0, 1
        self.queued.info.pod.metadata.annotations.update(annotations)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


def traced(admitted: float | None = None) -> World:
    """A pod whose creator has traced it."""
    world = World()
    annotations = world.queued.info.pod.metadata.annotations
    at = world.tracer.wall_nanoseconds(admitted) if admitted is not None else 0
    trace_context.annotate(annotations, CONTEXT, at)
    return world


@pytest.mark.parametrize(("admitted", "seconds"), [(7.0, 3.0), (12.0, 0.0)])
def test_the_watch_lasts_from_admission_to_the_queue_whatever_the_clocks_say(
    admitted: float, seconds: float
) -> None:
    world = traced(admitted)
    world.traces.popped([world.queued], 11.0)
    watch = world.spans()["watch"]
    assert watch.start_time is not None and watch.end_time is not None
    assert (watch.end_time - watch.start_time) / 1e9 == pytest.approx(seconds, abs=1e-6)
    assert watch.parent is not None and f"{watch.parent.span_id:x}" == "b" * 16


def test_a_second_attempt_is_not_watched_for_again() -> None:
    world = traced(7.0)
    world.queued.attempts = 2
    world.traces.popped([world.queued], 11.0)
    assert "watch" not in world.spans()


def test_the_call_that_binds_is_a_part_of_bind_which_ends_with_the_attempt() -> None:
    world = traced()
    world.traces.popped([world.queued], 11.0)
    world.traces.phase(world.queued, SpanName.RESERVE, 12.0, 13.0)
    world.traces.binding([world.assignment], 13.0)
    context = world.assignment.traceparent
    world.traces.bound(world.assignment, 14.0)
    spans = world.spans()
    bind, reserve, attempt = (spans[name] for name in ("Bind", "Reserve", "scheduling attempt"))
    assert f"{bind.context.span_id:016x}" in context
    assert bind.parent is not None and bind.parent.span_id == attempt.context.span_id
    assert reserve.end_time == bind.start_time
    assert bind.end_time == attempt.end_time
    assert attempt.attributes is not None and attempt.attributes["node"] == "n"


def test_runs_of_plugins_are_grouped_by_their_extension_points() -> None:
    world = traced()
    world.traces.popped([world.queued], 11.0)
    world.traces.follow([world.queued])
    for at, (plugin, point) in enumerate(
        [("A", "PreFilter"), ("A", "Filter"), ("B", "Filter"), ("B", "PreScore"), ("C", "Score")]
    ):
        world.log.add(plugin, point, 12.0 + at, 12.5 + at, "Success")
    decision = Decision(world.queued, CycleState(), "n")
    world.traces.decided("p", [decision], 11.0, 20.0)
    spans = world.exporter.get_finished_spans()
    names = {span.context.span_id: span.name for span in spans}
    above = [(names[s.parent.span_id], s.name) for s in spans if s.parent and s.name in "ABC"]
    assert above == [
        ("PreFilter", "A"), ("Filter", "A"), ("Filter", "B"), ("Score", "B"), ("Score", "C")
    ]  # fmt: skip
    assert world.log.runs is None


def test_nothing_is_followed_for_pods_that_are_not_traced() -> None:
    world = World()
    world.traces.popped([world.queued], 11.0)
    world.traces.follow([world.queued])
    assert world.log.runs is None
    world.traces.binding([world.assignment], 13.0)
    world.traces.bound(world.assignment, 14.0)
    assert world.spans() == {}
    assert world.assignment.traceparent == ""


def test_creators_can_have_a_bounded_number_of_attempts_recorded_in_a_second() -> None:
    world = traced()
    world.traces.popped([world.queued] * (MOST_ASKED + 5), 11.5)
    waits = [s for s in world.exporter.get_finished_spans() if s.name == "queue wait"]
    assert len(waits) == MOST_ASKED
    world.traces.popped([world.queued], 12.0)
    assert len(world.exporter.get_finished_spans()) > MOST_ASKED


def test_an_attempt_that_is_sampled_here_begins_a_trace() -> None:
    world = World(ratio=1.0)
    world.traces.popped([world.queued], 11.0)
    world.traces.end(world.queued, "unschedulable", 12.0)
    attempt = world.spans()["scheduling attempt"]
    assert attempt.parent is None
    assert attempt.status.description == "unschedulable"


def test_runs_of_bind_plugins_are_parts_of_bind_and_post_bind_is_within_the_attempt() -> None:
    world = traced()
    world.traces.popped([world.queued], 11.0)
    waited = PluginRun("VolumeBinding", "PreBind", 11.0, 12.0, "Success")
    world.traces.phase(world.queued, SpanName.PRE_BIND, 11.0, 12.0, runs=[waited])
    world.traces.binding([world.assignment], 12.0)
    world.traces.follow([world.queued])
    world.log.add("Picky", "Bind", 12.0, 12.5, "Skip")
    world.traces.bind_plugins_ran(world.queued)
    world.traces.follow([world.queued])
    world.log.add("Tidy", "PostBind", 14.0, 14.5, "Success")
    world.traces.phase(world.queued, SpanName.POST_BIND, 14.0, 15.0)
    world.traces.bound(world.assignment, 14.0)
    spans = world.spans()
    parents = {
        name: next(other.name for other in spans.values() if _is_child(span, other))
        for name, span in spans.items()
        if name not in ("scheduling attempt", "queue wait")
    }
    assert parents == {
        "PreBind": "scheduling attempt",
        "VolumeBinding": "PreBind",
        "Bind": "scheduling attempt",
        "Picky": "Bind",
        "PostBind": "scheduling attempt",
        "Tidy": "PostBind",
    }
    assert spans["scheduling attempt"].end_time == spans["PostBind"].end_time
    assert spans["Bind"].end_time == spans["PostBind"].start_time


def _is_child(span: ReadableSpan, other: ReadableSpan) -> bool:
    return span.parent is not None and span.parent.span_id == other.context.span_id
