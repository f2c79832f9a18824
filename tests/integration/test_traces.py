"""Traces from the client's call to Running, from real processes, at a collector of the test's."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from podsched.api.manifest import to_manifest
from podsched.lab.bench.shapes import copies, pod_template
from support.eventually import PATIENCE, eventually
from support.real_cluster import RealCluster, real_cluster

pytestmark = pytest.mark.integration


@dataclass(frozen=True)
class Seen:
    """A span that reached the collector; times in nanoseconds since 1970."""

    service: str
    instance: str
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
                        resource["service.instance.id"],
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

    def traces(self) -> dict[str, Trace]:
        """The traces of pods, by the pod that was attempted."""
        return {
            span.attributes["pod"].string_value: Trace(
                [other for other in self.spans if other.trace == span.trace]
            )
            for span in self.spans
            if span.name == "scheduling attempt"
        }


class Trace:
    """The spans of one trace."""

    def __init__(self, spans: list[Seen]) -> None:
        self.spans = spans

    def named(self, name: str) -> Seen:
        """The only span of this name."""
        [span] = [span for span in self.spans if span.name == name]
        return span

    def below(self, parent: Seen) -> list[Seen]:
        """The children of a span, in the order of time."""
        found = [span for span in self.spans if span.parent == parent.id]
        return sorted(found, key=lambda span: (span.begin, span.end))

    def child(self, parent: Seen, name: str) -> Seen:
        """The only child of this name, which lies within its parent."""
        [span] = [span for span in self.below(parent) if span.name == name]
        assert parent.begin <= span.begin <= span.end <= parent.end, (parent, span)
        return span

    def request(self, parent: Seen, method: str) -> Seen:
        """The call to the API server that was made within a span."""
        span = self.child(parent, "API request")
        assert span.service == "podsched-apiserver"
        assert span.attributes["rpc.method"].string_value == method
        return span


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.server.stop(None).wait()


def apply(real: RealCluster, manifest: str, **environment: str) -> str:
    """Apply with --trace; return the trace's id, which the command prints."""
    command = [sys.executable, "-m", "podsched", "apply", "--trace", "-f", "-"]
    done = subprocess.run(
        [*command, "--server", real.cluster.server],
        input=manifest,
        capture_output=True,
        text=True,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "", **environment},
        timeout=PATIENCE,
        check=True,
    )
    [line] = [line for line in done.stderr.splitlines() if line.startswith("trace ")]
    return line.removeprefix("trace ")


async def test_a_pods_trace_goes_from_the_clients_call_to_running(
    collector: Collector, tmp_path: Path
) -> None:
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}",
        "OTEL_BSP_SCHEDULE_DELAY": "200",
    }
    # Processes export what is left when they end, however long that takes.
    options: dict[str, Any] = {"replicas": 1, "nodes": 3, "grace": PATIENCE}
    options["environment"] = environment
    async with real_cluster(tmp_path, scheduler_arguments=("--trace-ratio=0",), **options) as real:
        pods = list(copies(pod_template(), "pod", 2))
        manifest = yaml.safe_dump_all(map(to_manifest, pods))
        asked = await asyncio.to_thread(apply, real, manifest, **environment)
        await real.client.create_pods(list(copies(pod_template(), "other", 1)))
        await eventually("all bound", lambda: real.bound("pod") + real.bound("other") == 3)
        await eventually("the trace", lambda: _starts(collector) == 2)
        identity = real.observer.leaders[-1].identity
        # A command that exports nothing itself.
        manifest = yaml.safe_dump_all(map(to_manifest, copies(pod_template(), "logged", 1)))
        logged = await asyncio.to_thread(apply, real, manifest)
        await eventually("the lines", lambda: _lines_about("default/logged-0", logged, real) == 2)
    trace = collector.traces()["default/pod-0"]
    assert {span.trace.hex() for span in collector.spans} == {asked, logged}, (
        "others are not sampled"
    )
    command = trace.named("sched apply")
    assert command.parent == b""
    create = trace.request(command, "CreateBatch")
    stored = trace.child(create, "etcd transaction")
    attempts = [span for span in trace.below(create) if span.name == "scheduling attempt"]
    by_pod = {span.attributes["pod"].string_value: span for span in attempts}
    assert set(by_pod) == {"default/pod-0", "default/pod-1"}
    watches = [span for span in trace.below(create) if span.name == "watch"]
    starts = [span for span in trace.below(create) if span.name == "start pod"]
    assert (len(watches), len(starts)) == (2, 2)
    assert all(create.begin <= span.begin <= stored.begin <= span.end for span in watches)
    started = {span.attributes["pod"].string_value: span for span in starts}
    runs: set[tuple[str, str]] = set()
    for attempt in attempts:
        assert attempt.instance == identity
        wait, evaluate, reserve, bind = (
            trace.child(attempt, name) for name in ("queue wait", "evaluate", "Reserve", "Bind")
        )
        assert watches[0].end <= wait.begin
        assert wait.end <= evaluate.begin
        assert evaluate.end <= reserve.begin
        assert reserve.end <= bind.begin
        assert "VolumeBinding" in {span.name for span in trace.below(reserve)}
        request = trace.request(bind, "BindPods")
        trace.child(request, "etcd transaction")
        # The two may be bound in calls of their own, if the machine is busy.
        assert request.begin <= started[attempt.attributes["pod"].string_value].begin
        for point in trace.below(evaluate):
            assert point.name in ("PreFilter", "Filter", "Score")
            runs |= {(point.name, run.name) for run in trace.below(point)}
    assert ("PreFilter", "NodeAffinity") in runs
    assert ("Filter", "TaintToleration") in runs
    assert ("Score", "NodeResourcesFit") in runs
    for start in starts:
        assert start.service == "podsched-agent"
        trace.request(start, "PatchBatch")


def _lines_about(pod: str, trace: str, real: RealCluster) -> int:
    """The lines in the logs, in text, that name a pod and its trace."""
    logs = [process.log_path.read_text() for process in real.cluster.processes]
    return sum(pod in line and trace in line for log in logs for line in log.splitlines())


def _starts(collector: Collector) -> int:
    """Pods that run, as far as the trace shows it with all that is exported before."""
    names = [span.name for span in list(collector.spans)]
    return names.count("start pod") if "Bind" in names and "sched apply" in names else 0
