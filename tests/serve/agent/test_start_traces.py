from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from podsched.api.objects import Pod
from podsched.api.reasons import StatusCode
from podsched.api.trace_context import annotate
from podsched.serve.agent.start_traces import StartTraces
from podsched.telemetry.tracing import Tracer
from podsched.v1.api_pb2 import PatchRequest

KEY, PATCH = "default/a", PatchRequest(namespace="default", name="a")


class World:
    def __init__(self, *, context: str = f"00-{'a' * 32}-{'b' * 16}-01") -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.now = 5.0
        self.traces = StartTraces(Tracer(provider), lambda: self.now)
        self.pod = Pod()
        self.pod.spec.node_name = "n"
        if context:
            annotate(self.pod.metadata.annotations, context, 0)
        self.traces.seen(KEY, self.pod)


def test_a_pods_start_lasts_from_when_it_is_first_seen_until_its_status_is_written() -> None:
    world = World()
    world.now = 6.0
    world.traces.seen(KEY, world.pod)
    assert "a" * 32 in world.traces.contexts([PATCH])
    world.traces.answered(KEY, world.pod, StatusCode.ABORTED)
    assert not world.exporter.get_finished_spans()
    world.now = 7.0
    world.traces.answered(KEY, world.pod, StatusCode.OK)
    [span] = world.exporter.get_finished_spans()
    assert span.start_time is not None and span.end_time is not None
    assert round((span.end_time - span.start_time) / 1e9, 6) == 2.0
    assert world.traces.contexts([PATCH]) == ""


def test_a_pod_that_is_deleted_before_it_runs_ends_its_trace() -> None:
    world = World()
    world.traces.gone(KEY)
    [span] = world.exporter.get_finished_spans()
    assert span.status.description == "gone"


def test_a_pod_without_a_context_is_not_traced() -> None:
    world = World(context="")
    assert world.traces.contexts([PATCH]) == ""
    world.traces.answered(KEY, world.pod, StatusCode.OK)
    assert not world.exporter.get_finished_spans()
