"""The health server on a real socket of the loopback interface."""

import json
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from podsched.lib.network import free_port
from podsched.telemetry.health import HealthChecks
from podsched.telemetry.http import Pages, serve_health
from podsched.telemetry.http_server import HttpServer, HttpServerError
from podsched.telemetry.instruments import Counter, MetricRegistry
from support.eventually import PATIENCE

pytestmark = pytest.mark.integration


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    checks = HealthChecks()
    checks.add("etcd", lambda: "no connection")
    registry = MetricRegistry()
    registry.add(Counter("scheduler_x_total", "X.")).inc()

    async def hello(_: web.Request) -> web.Response:
        return web.Response(text="hello")

    running = await serve_health(
        checks,
        registry,
        pages=Pages(flags={"--v": "4"}, config=lambda: {"a": 1}, routes={"/debug/hello": hello}),
    )
    yield running
    await running.stop()


async def get(server: HttpServer, path: str) -> tuple[int, str, str]:
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as response:
        return response.status, await response.text(), response.content_type


async def test_probes_answer_with_the_state_of_their_checks(server: HttpServer) -> None:
    status, text, _ = await get(server, "/readyz")
    assert status == 500
    assert "[-]etcd failed: no connection" in text
    assert await get(server, "/readyz?exclude=etcd") == (200, "ok", "text/plain")
    assert (await get(server, "/livez?exclude=etcd&verbose"))[1].endswith("livez check passed\n")
    assert (await get(server, "/healthz/ping"))[:2] == (200, "ok")
    assert (await get(server, "/healthz/etcd"))[0] == 500
    assert (await get(server, "/healthz/none"))[0] == 404


async def test_metrics_configuration_and_extra_routes_are_served(server: HttpServer) -> None:
    status, text, content_type = await get(server, "/metrics")
    assert (status, content_type) == (200, "text/plain")
    assert "\nscheduler_x_total 1.0\n" in text
    _, text, content_type = await get(server, "/configz")
    assert (json.loads(text), content_type) == ({"componentconfig": {"a": 1}}, "application/json")
    assert "\n--v=4\n" in (await get(server, "/flagz"))[1]
    assert (await get(server, "/debug/hello"))[1] == "hello"


async def test_results_of_checks_are_counted_for_availability(server: HttpServer) -> None:
    await get(server, "/readyz")
    await get(server, "/readyz")
    status, text, content_type = await get(server, "/metrics/slis")
    assert (status, content_type) == (200, "text/plain")
    for line in (
        'kubernetes_healthcheck{name="etcd",type="readyz"} 0.0',
        'kubernetes_healthcheck{name="ping",type="readyz"} 1.0',
        'kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 2.0',
    ):
        assert line in text.splitlines()
    assert "scheduler_x_total" not in text


async def test_a_process_says_what_it_is_and_what_it_serves(server: HttpServer) -> None:
    status, text, _ = await get(server, "/statusz")
    assert status == 200
    assert text.splitlines()[1] == "podsched statusz"
    assert " /metrics /metrics/slis " in text


async def test_nothing_can_be_written(server: HttpServer) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.url + "/configz", data="x") as response,
    ):
        assert response.status == 405


async def test_it_listens_on_loopback_unless_told_otherwise(server: HttpServer) -> None:
    assert server.host == "127.0.0.1"


async def test_a_taken_port_is_named_in_the_error(server: HttpServer) -> None:
    with pytest.raises(HttpServerError, match=rf"127\.0\.0\.1:{server.port}: .*in use"):
        await serve_health(HealthChecks(), MetricRegistry(), port=server.port)


async def test_nothing_listens_after_a_stop() -> None:
    running = await serve_health(HealthChecks(), MetricRegistry(), port=free_port())
    await running.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((running.host, running.port), timeout=PATIENCE)
