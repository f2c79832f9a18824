import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from podsched.telemetry.tracing import (
    DISABLED,
    NO_SPAN,
    SpanName,
    Tracer,
    configure_tracing,
)


class Recorded:
    """A tracer and what it has exported."""

    def __init__(self, ratio: float = 1.0) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = Tracer(provider, ratio)

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}


def test_an_attempt_is_one_trace_with_its_phases_recorded_afterwards() -> None:
    recorded = Recorded()
    attempt = recorded.tracer.start(SpanName.ATTEMPT, at=100.0, attributes={"pod": "a/b"})
    attempt.child(SpanName.QUEUE_WAIT, 100.0, 101.5)
    attempt.start_child(SpanName.FILTER, 101.5).end(101.75, {"nodes": 5}, "no node fits")
    attempt.end(102.0, {"result": "unschedulable"})
    spans = recorded.spans()
    root, wait, filtered = spans["scheduling attempt"], spans["queue wait"], spans["Filter"]
    assert root.parent is None
    assert root.attributes == {"pod": "a/b", "result": "unschedulable"}
    assert wait.parent is not None
    assert wait.parent.span_id == root.context.span_id
    assert wait.context.trace_id == filtered.context.trace_id == root.context.trace_id
    assert wait.start_time is not None
    assert wait.end_time is not None
    assert wait.start_time == root.start_time
    assert wait.end_time - wait.start_time == 1_500_000_000
    assert not filtered.status.is_ok
    assert filtered.status.description == "no node fits"


def test_a_trace_goes_on_at_the_other_side_of_a_call() -> None:
    here, there = Recorded(), Recorded(ratio=0)
    attempt = here.tracer.start(SpanName.ATTEMPT)
    with there.tracer.start(SpanName.SHARD_EVALUATE, parent=attempt.context):
        pass
    attempt.end()
    remote, local = there.spans()["evaluate shard"], here.spans()["scheduling attempt"]
    assert remote.parent is not None
    assert remote.parent.span_id == local.context.span_id
    assert remote.context.trace_id == local.context.trace_id


def test_the_context_is_a_w3c_traceparent() -> None:
    recorded = Recorded()
    span = recorded.tracer.start("x")
    carrier: dict[str, str] = {"traceparent": span.context}
    context = TraceContextTextMapPropagator().extract(carrier)
    assert len(context) == 1


@pytest.mark.parametrize("parent", ["nonsense", "00-" + "0" * 32 + "-" + "1" * 16 + "-01"])
def test_a_malformed_parent_begins_a_new_trace(parent: str) -> None:
    recorded = Recorded()
    recorded.tracer.start("x", parent=parent).end()
    assert recorded.spans()["x"].parent is None


def test_a_call_about_several_traces_is_a_span_in_each_of_them() -> None:
    there = Recorded(ratio=0)
    contexts = [f"00-{digit * 32}-{digit * 16}-01" for digit in "ab"]
    span = there.tracer.resume("x", ",".join([*contexts, "nonsense"]), at=1.0)
    span.child("part", 1.0, 2.0)
    span.end(3.0)
    spans = there.exporter.get_finished_spans()
    traces = sorted((span.name, f"{span.context.trace_id:032x}") for span in spans)
    assert traces == [(name, digit * 32) for name in ("part", "x") for digit in "ab"]
    assert span.context.count(",") == 1


@pytest.mark.parametrize("context", ["", "nonsense", "00-" + "1" * 32 + "-" + "1" * 16 + "-00"])
def test_what_goes_on_in_a_trace_never_begins_one(context: str) -> None:
    assert Recorded().tracer.resume("x", context) is NO_SPAN


def test_a_parent_that_is_not_sampled_is_not_continued() -> None:
    span = Recorded().tracer.start("x", parent="00-" + "1" * 32 + "-" + "1" * 16 + "-00")
    assert span is NO_SPAN


def test_an_error_that_leaves_the_block_marks_the_span() -> None:
    recorded = Recorded()
    with pytest.raises(KeyError), recorded.tracer.start("x"):
        raise KeyError("pod")
    assert recorded.spans()["x"].status.description == "KeyError: 'pod'"


@pytest.mark.parametrize(("ratio", "expected"), [(0.0, 0), (0.25, 25), (1.0, 100)])
def test_roots_are_sampled_by_ratio(ratio: float, expected: int) -> None:
    tracer = Recorded(ratio).tracer
    assert sum(tracer.start("x").recording for _ in range(100)) == expected


def test_without_an_exporter_nothing_is_recorded() -> None:
    tracer = configure_tracing("podsched-scheduler")
    span = tracer.start(SpanName.ATTEMPT, parent="00-" + "1" * 32 + "-" + "1" * 16 + "-01")
    assert not tracer.enabled
    assert not DISABLED.enabled
    assert span is NO_SPAN
    assert span.start_child("x") is NO_SPAN
    assert span.context == ""
    with span:
        span.child("x", 1, 2)
    tracer.shutdown()
