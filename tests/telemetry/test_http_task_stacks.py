"""/debug/pprof/goroutine and /debug/flags/v on a real socket."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import aiohttp
import pytest

from podsched.telemetry.health import HealthChecks
from podsched.telemetry.http import Pages, serve_health
from podsched.telemetry.http_server import HttpServer
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.log_output import configure_logging
from podsched.telemetry.logs import get_logger

pytestmark = pytest.mark.integration


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = await serve_health(HealthChecks(), MetricRegistry(), pages=Pages(profiling=True))
    yield running
    await running.stop()


async def get(server: HttpServer, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as response:
        return response.status, await response.text()


async def put(server: HttpServer, text: str) -> tuple[int, str]:
    url = f"{server.url}/debug/flags/v"
    async with aiohttp.ClientSession() as session, session.put(url, data=text) as response:
        return response.status, await response.text()


async def outer(event: asyncio.Event) -> None:
    await inner(event)


async def inner(event: asyncio.Event) -> None:
    await event.wait()


async def test_a_task_shows_all_that_it_awaits_and_a_thread_its_stack(server: HttpServer) -> None:
    event = asyncio.Event()
    tasks = [asyncio.create_task(outer(event), name=name) for name in ("one", "two")]
    await asyncio.sleep(0)
    try:
        _, each = await get(server, "/debug/pprof/goroutine?debug=2")
        _, together = await get(server, "/debug/pprof/goroutine")
    finally:
        event.set()
        await asyncio.gather(*tasks)
    lines = each.splitlines()
    at = lines.index("task one:")
    functions = [line.split("\t")[1] for line in lines[at + 1 : at + 4]]
    assert functions == ["Event.wait", "inner", "outer"]
    assert "thread MainThread:" in lines
    assert "2 @" in together.splitlines()


async def test_verbosity_is_changed_while_loggers_are_in_use(server: HttpServer) -> None:
    out = io.StringIO()
    configure_logging("text", "info", out)
    log = get_logger("x")
    log.debug("Before")
    assert await put(server, "4") == (200, "successfully set klog.logging.verbosity to 4")
    log.debug("Between")
    assert (await put(server, "2"))[0] == 200
    log.debug("After")
    assert [word for word in ("Before", "Between", "After") if word in out.getvalue()] == [
        "Between"
    ]
    for wrong in ("x", "-1", "101", ""):
        assert (await put(server, wrong))[0] == 400


async def test_nothing_of_it_is_there_unless_it_is_asked_for() -> None:
    running = await serve_health(HealthChecks(), MetricRegistry())
    try:
        assert (await get(running, "/debug/pprof/goroutine"))[0] == 404
        assert (await put(running, "4"))[0] == 404
    finally:
        await running.stop()
