"""What a process says of itself."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from podsched.lib.listening import Connection, Listener
from podsched.telemetry.http import (
    Component,
    change_verbosity,
    flags_text,
    metrics_page,
    status_text,
)
from podsched.telemetry.http_protocol import protocols
from podsched.telemetry.http_server import in_turns
from podsched.telemetry.instruments import MetricRegistry
from support.kube_client import MemoryTransport


def test_it_says_since_when_it_runs_what_it_is_and_what_it_serves() -> None:
    agent = Component("podsched-agent", "1.2.3")
    text = status_text(agent, 0.0, 3 * 3600 + 5 * 60 + 7.9, ["/metrics", "/livez"])
    lines = text.splitlines()
    assert lines[1] == "podsched-agent statusz"
    assert "Started: Thu Jan  1 00:00:00 UTC 1970" in lines
    assert "Up: 3 hr 05 min 07 sec" in lines
    assert "Binary version: 1.2.3" in lines
    assert lines[-1] == "Paths: /livez /metrics"


def test_a_clock_that_was_set_back_does_not_make_it_younger_than_new() -> None:
    assert "Up: 0 hr 00 min 00 sec" in status_text(Component(), 100.0, 50.0, [])


def test_options_are_listed_by_name_each_on_a_line() -> None:
    text = flags_text(Component("podsched-scheduler"), {"--v": "4", "--config": "a\nb"})
    assert text.splitlines()[1] == "podsched-scheduler flags"
    assert text.splitlines()[-2:] == [r"--config=a\nb", "--v=4"]


@pytest.mark.looptime
async def test_metrics_are_made_once_for_all_who_ask_before_and_anew_for_those_after() -> None:
    """Otherwise the texts for many clients hold up the event loop."""
    made: list[str] = []
    registry = MetricRegistry()
    registry.before_collect(lambda: made.append("text"))
    handle = metrics_page(registry)
    await asyncio.gather(*(handle(make_mocked_request("GET", "/metrics")) for _ in range(20)))
    assert made == ["text"]
    await asyncio.sleep(0.01)
    await handle(make_mocked_request("GET", "/metrics"))
    assert made == ["text", "text"]


@pytest.mark.looptime
async def test_a_client_that_does_not_send_its_body_is_answered_all_the_same() -> None:
    """Its connection would be in use for ever, and take the place of others."""
    server = web.Server(in_turns(change_verbosity))  # type: ignore[arg-type]
    connection = Connection(Listener(protocols(server, {}), 1, None, 90.0))
    transport = MemoryTransport(connection)
    connection.connection_made(transport)
    connection.data_received(b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n")
    await asyncio.sleep(9)
    assert not transport.sent
    await asyncio.sleep(2)
    assert transport.sent.startswith(b"HTTP/1.1 408 ")
