"""A server that is silent or cannot use etcd is left, if another one is better."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import pytest
from grpc_health.v1 import health_pb2
from structlog.testing import capture_logs

from podsched.serve.client.server_health import (
    CONFIRM,
    ETCD,
    NOT_SERVING,
    PERIOD,
    REQUEST,
    STAY,
    leave_silent_servers,
)

pytestmark = pytest.mark.looptime
SILENCE = 0.3
#: By when a silent server has been left.
LEFT = PERIOD + SILENCE + CONFIRM + 0.01


class Servers:
    """Servers whose answers take seconds; ``wrong``: those that say that etcd cannot be used."""

    def __init__(self) -> None:
        self.endpoint = "a"
        self.endpoints: Sequence[str] = ("a", "b", "c")
        self.delay = dict.fromkeys(self.endpoints, 0.01)
        self.wrong: set[str] = set()
        self.asked: list[str] = []
        self.moves: list[tuple[str, str]] = []

    async def is_well(self, endpoint: str, timeout: float) -> bool:
        self.asked.append(endpoint)
        delay = self.delay[endpoint]
        await asyncio.sleep(min(delay, timeout))
        return delay < timeout and endpoint not in self.wrong

    async def move(self, endpoint: str, to: str) -> None:
        assert endpoint == self.endpoint
        self.moves.append((endpoint, to))
        self.endpoint = to


@asynccontextmanager
async def watched() -> AsyncIterator[Servers]:
    servers = Servers()
    task = asyncio.create_task(leave_silent_servers(servers, SILENCE))
    with capture_logs():
        yield servers
    task.cancel()


async def test_only_the_server_in_use_is_asked_while_it_answers() -> None:
    async with watched() as servers:
        await asyncio.sleep(10)
        assert set(servers.asked) == {"a"}


async def test_a_silent_server_is_left_for_one_that_answers() -> None:
    async with watched() as servers:
        servers.delay.update(a=inf, b=inf)
        await asyncio.sleep(LEFT)
        assert servers.moves == [("a", "c")]


async def test_a_server_that_cannot_use_etcd_is_left_at_once() -> None:
    async with watched() as servers:
        servers.wrong = {"a"}
        await asyncio.sleep(PERIOD + CONFIRM)
        assert servers.moves == [("a", "b")]


async def test_no_server_is_left_while_all_are_silent_or_cannot_use_etcd() -> None:
    async with watched() as servers:
        servers.delay.update(a=inf, b=inf)
        servers.wrong = {"c"}
        await asyncio.sleep(10)
        assert servers.moves == []


async def test_a_server_that_answers_again_when_all_are_asked_is_not_left() -> None:
    """Such as after a delay of the client, in which no answer could arrive."""
    async with watched() as servers:
        servers.delay["a"] = inf
        await asyncio.sleep(PERIOD + SILENCE - 0.01)
        servers.delay["a"] = 0.01
        await asyncio.sleep(10)
        assert servers.moves == []


async def test_after_a_switch_the_client_stays_for_two_seconds() -> None:
    async with watched() as servers:
        servers.delay["a"] = inf
        await asyncio.sleep(LEFT)
        servers.delay.update(a=0.01, b=inf)
        await asyncio.sleep(STAY)
        assert servers.moves == [("a", "b")]
        await asyncio.sleep(LEFT)
        assert servers.moves == [("a", "b"), ("b", "a")]


def test_the_question_and_the_answer_are_those_of_grpc_s_health_check() -> None:
    request = health_pb2.HealthCheckRequest(service=ETCD)
    no = health_pb2.HealthCheckResponse(status=health_pb2.HealthCheckResponse.NOT_SERVING)
    assert (request.SerializeToString(), no.SerializeToString()) == (REQUEST, NOT_SERVING)
