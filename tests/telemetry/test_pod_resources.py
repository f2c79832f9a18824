"""/metrics/resources."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from prometheus_client.parser import text_string_to_metric_families

from podsched.api.manifest import from_manifest
from podsched.api.objects import Pod
from podsched.lib.listening import Connection, Listener
from podsched.telemetry import pod_resources as module
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.http import Pages, serve_health
from podsched.telemetry.http_protocol import protocols
from podsched.telemetry.http_server import in_turns
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.pod_resources import pod_resources, resource_lines
from support.kube_client import MemoryTransport


def pod(name: str, spec: dict[str, object], phase: str = "Pending") -> Pod:
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"schedulerName": "default-scheduler", "priority": 5, **spec},
        "status": {"phase": phase},
    }
    found = from_manifest(manifest).message
    assert isinstance(found, Pod)
    return found


def container(**resources: dict[str, str]) -> dict[str, object]:
    return {"name": "c", "image": "i", "resources": resources}


def series(*pods: Pod) -> dict[tuple[str, str, str], float]:
    """Values by the name of the metric, the resource and the unit."""
    text = "".join(resource_lines(pods))
    return {
        (sample.name, sample.labels["resource"], sample.labels["unit"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.integration
async def test_only_the_headers_answer_head() -> None:
    known = [pod("a", {"containers": [container(requests={"cpu": "1"})]})]
    routes = {"/metrics/resources": pod_resources(lambda: known, lambda: True)}
    server = await serve_health(HealthChecks(), MetricRegistry(), pages=Pages(routes=routes))
    reader, writer = await asyncio.open_connection(server.host, server.port)
    for method, has_text in (("HEAD", False), ("GET", True)):
        writer.write(f"{method} /metrics/resources HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), "the response before had a text"
        assert (b"\r\nTransfer-Encoding: chunked" in head) is has_text
    writer.close()
    await server.stop()


async def test_the_answers_to_many_clients_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes some milliseconds: all at once they would hold up the event loop."""
    made = 0

    def lines(_: object) -> Iterator[str]:
        nonlocal made
        for _part in range(5):
            made += 1
            yield "" if made % 2 else "kube_pod_resource_request 1\n"

    monkeypatch.setattr(module, "resource_lines", lines)
    handle = pod_resources(list, lambda: True)
    clients = [asyncio.ensure_future(handle(make_mocked_request("GET", "/"))) for _ in range(20)]
    most = 0
    while not all(client.done() for client in clients):
        before = made
        await asyncio.sleep(0)
        most = max(most, made - before)
    assert (made, most) == (100, 1)


@pytest.mark.looptime
async def test_an_answer_that_its_client_does_not_read_keeps_no_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "resource_lines", lambda _: iter(["x" * 200_000] * 5))
    server = web.Server(in_turns(pod_resources(list, lambda: True)))  # type: ignore[arg-type]
    connection = Connection(Listener(protocols(server, {}), 1, None, 90.0))
    transport = MemoryTransport(connection)
    connection.connection_made(transport)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    connection.pause_writing()
    await asyncio.sleep(29)
    assert not transport.closed.is_set()
    await asyncio.sleep(2)
    assert transport.closed.is_set()


def test_requests_and_limits_are_added_up_with_overhead_where_there_is_a_limit() -> None:
    first = container(requests={"cpu": "500m", "memory": "1Gi"}, limits={"cpu": "1"})
    other = {**container(requests={"cpu": "250m", "x/gpu": "2"}), "name": "d"}
    init = {**container(requests={"memory": "3Gi", "hugepages-2Mi": "4Mi"}), "name": "i"}
    spec = {
        "containers": [first, other],
        "initContainers": [init],
        "overhead": {"cpu": "250m", "memory": "1Gi"},
    }
    request, limit = "kube_pod_resource_request", "kube_pod_resource_limit"
    assert series(pod("a", spec)) == {
        (request, "cpu", "cores"): 1.0,
        (request, "memory", "bytes"): 4.0 * 2**30,
        (request, "hugepages-2Mi", "bytes"): 4.0 * 2**20,
        (request, "x/gpu", ""): 2.0,
        (limit, "cpu", "cores"): 1.25,
    }


def test_limits_of_the_pod_as_a_whole_replace_those_of_its_containers() -> None:
    spec = {
        "containers": [container(limits={"cpu": "1", "x/gpu": "1"})],
        "resources": {"limits": {"cpu": "3"}},
    }
    assert series(pod("a", spec)) == {
        ("kube_pod_resource_limit", "cpu", "cores"): 3.0,
        ("kube_pod_resource_limit", "x/gpu", ""): 1.0,
    }


def test_a_series_names_its_pod_and_a_finished_pod_has_none() -> None:
    spec: dict[str, object] = {
        "nodeName": "n",
        "containers": [container(requests={"cpu": "1", "memory": "0"})],
    }
    text = "".join(resource_lines([pod("a", spec, "Running"), pod("b", spec, "Succeeded")]))
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'kube_pod_resource_request{namespace="ns",pod="a",node="n",scheduler="default-scheduler",'
        'priority="5",resource="cpu",unit="cores"} 1.0'
    ]


def test_an_amount_beyond_all_numbers_is_the_largest_of_kubernetes() -> None:
    found = series(pod("a", {"containers": [container(requests={"memory": "1e400"})]}))
    assert found["kube_pod_resource_request", "memory", "bytes"] == 2.0**63
