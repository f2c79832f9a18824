"""/debug/pprof/ and /debug/flags/v on a real socket."""

from __future__ import annotations

import gzip
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
from podsched.v1.pprof_pb2 import Profile

pytestmark = pytest.mark.integration


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = await serve_health(HealthChecks(), MetricRegistry(), pages=Pages(profiling=True))
    yield running
    await running.stop()


async def get(server: HttpServer, path: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as session, session.get(server.url + path) as response:
        return response.status, await response.read()


async def put(server: HttpServer, text: str) -> tuple[int, str]:
    url = f"{server.url}/debug/flags/v"
    async with aiohttp.ClientSession() as session, session.put(url, data=text) as response:
        return response.status, await response.text()


async def test_every_profile_of_the_index_is_served(server: HttpServer) -> None:
    status, text = await get(server, "/debug/pprof/")
    assert status == 200
    assert b"profile" in text
    for path in ("profile?seconds=0.1", "heap?seconds=0.1", "goroutine"):
        status, content = await get(server, f"/debug/pprof/{path}")
        assert status == 200
        assert Profile.FromString(gzip.decompress(content)).sample_type
    assert b"task " in (await get(server, "/debug/pprof/goroutine?debug=2"))[1]
    assert (await get(server, "/debug/pprof/cmdline"))[0] == 200


@pytest.mark.parametrize("seconds", ["0", "301", "nan", "x", "-1"])
async def test_the_time_of_a_profile_is_bounded(server: HttpServer, seconds: str) -> None:
    status, text = await get(server, f"/debug/pprof/profile?seconds={seconds}")
    assert (status, text) == (400, b"seconds must be above 0 and at most 300\n")


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
        assert (await get(running, "/debug/pprof/"))[0] == 404
        assert (await put(running, "4"))[0] == 404
    finally:
        await running.stop()
