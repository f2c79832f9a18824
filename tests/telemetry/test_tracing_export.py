"""Export of traces to a collector, over a real gRPC connection."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from podsched.telemetry.tracing import SpanName, configure_tracing
from support.eventually import PATIENCE

pytestmark = pytest.mark.integration


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.requests: list[trace_service_pb2.ExportTraceServiceRequest] = []
        self.server = grpc.server(ThreadPoolExecutor(1))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def Export(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.server.stop(None).wait()


def test_spans_reach_the_collector_at_the_latest_when_the_process_stops(
    collector: Collector,
) -> None:
    tracer = configure_tracing(
        "podsched-scheduler", f"http://127.0.0.1:{collector.port}", instance="replica-1"
    )
    with tracer.start(SpanName.ATTEMPT, attributes={"pod": "default/a"}):
        pass
    tracer.shutdown()
    (spans,) = [item for request in collector.requests for item in request.resource_spans]
    resource = {item.key: item.value.string_value for item in spans.resource.attributes}
    assert resource["service.name"] == "podsched-scheduler"
    assert resource["service.instance.id"] == "replica-1"
    (span,) = spans.scope_spans[0].spans
    assert span.name == "scheduling attempt"


def test_a_collector_that_does_not_answer_holds_up_a_stop_for_seconds_only() -> None:
    tracer = configure_tracing("podsched-scheduler", "http://127.0.0.1:9")
    tracer.start(SpanName.ATTEMPT).end()
    begin = time.monotonic()
    tracer.shutdown()
    assert time.monotonic() - begin < PATIENCE
