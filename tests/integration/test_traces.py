"""One trace from the queue to the API server, from real processes, at a collector of the test's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from podsched.bench.shapes import copies, pod_template
from support.eventually import eventually
from support.real_cluster import real_cluster

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Seen:
    """A span that reached the collector; times in nanoseconds since 1970."""

    service: str
    name: str
    trace: bytes
    id: bytes
    parent: bytes
    begin: int
    end: int
    attributes: dict[str, Any]


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Takes spans by OTLP over gRPC."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.server = grpc.server(ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def Export(self, request: Any, context: Any) -> Any:
        for spans in request.resource_spans:
            resource = {item.key: item.value.string_value for item in spans.resource.attributes}
            for span in (span for scope in spans.scope_spans for span in scope.spans):
                self.spans.append(
                    Seen(
                        resource["service.name"],
                        span.name,
                        span.trace_id,
                        span.span_id,
                        span.parent_span_id,
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        {item.key: item.value for item in span.attributes},
                    )
                )
        return trace_service_pb2.ExportTraceServiceResponse()

    def attempt(self, pod: str) -> Seen | None:
        """The root of a pod's attempt."""
        for span in self.spans:
            if span.name == "scheduling attempt" and span.attributes["pod"].string_value == pod:
                return span
        return None

    def below(self, root: Seen) -> dict[str, Seen]:
        """The other spans of a trace, by name."""
        return {s.name: s for s in self.spans if s.trace == root.trace and s.id != root.id}


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.server.stop(None).wait()


async def test_an_attempt_is_one_trace_from_the_queue_to_the_api_server(
    collector: Collector, tmp_path: Path
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    async with real_cluster(
        tmp_path,
        replicas=1,
        nodes=3,
        environment=environment,
        scheduler_arguments=("--trace-ratio=1",),
    ) as real:
        await real.client.create_pods(list(copies(pod_template(), "pod", 3)))
        await eventually("all bound", lambda: real.bound("pod") == 3)
        await eventually(
            "the trace", lambda: _complete(collector, [f"default/pod-{i}" for i in range(3)])
        )
    roots = [collector.attempt(f"default/pod-{i}") for i in range(3)]
    for root in roots:
        assert root is not None
        assert root.service == "podsched-scheduler"
        assert root.parent == b""
        parts = collector.below(root)
        wait, evaluate, bind = (parts[name] for name in ("queue wait", "evaluate", "Bind"))
        assert {part.parent for part in (wait, evaluate, bind)} == {root.id}
        assert root.begin <= wait.begin <= wait.end <= evaluate.end <= bind.end
        assert evaluate.begin <= evaluate.end <= bind.begin
        assert parts["Reserve"].parent == root.id
        first, second = parts["Filter"], parts["Score"]
        assert first.parent == second.parent == evaluate.id
        assert evaluate.begin <= first.begin <= first.end <= second.begin <= second.end
    # A batch of bindings is one call: it belongs to the trace of the first of its pods.
    calls = [s for s in collector.spans if s.service == "podsched-apiserver"]
    joined = [c for c in calls if any(root and c.trace == root.trace for root in roots)]
    assert joined, f"no call of the API server's joined an attempt: {calls}"
    for call in joined:
        assert call.name == "API request"
        assert call.parent in {root.id for root in roots if root}
        assert "BindPods" in str(call.attributes)
    assert len({root.trace for root in roots if root}) == 3


def _complete(collector: Collector, pods: list[str]) -> bool:
    roots = [collector.attempt(pod) for pod in pods]
    joined = any(
        s.service == "podsched-apiserver" and s.trace in {r.trace for r in roots if r}
        for s in collector.spans
    )
    return joined and all(root and "Bind" in collector.below(root) for root in roots)
