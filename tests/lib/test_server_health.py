"""A server that is silent or unable is left, if another one is better."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from math import inf

import pytest
from structlog.testing import capture_logs

from podsched.lib.server_health import (
    CONFIRM,
    LATE,
    PERIOD,
    STAY,
    Health,
    leave_silent_servers,
)

pytestmark = pytest.mark.looptime
SILENCE = 0.3
#: By when a silent server has been left.
LEFT = PERIOD + SILENCE + 0.01


class Servers:
    """Servers whose answers take seconds; ``wrong``: those that say that they are unable."""

    def __init__(self) -> None:
        self.endpoint = "a"
        self.endpoints: Sequence[str] = ("a", "b", "c")
        self.delay = dict.fromkeys(self.endpoints, 0.01)
        self.wrong: set[str] = set()
        self.with_streams: set[str] = set()
        self.asked: list[str] = []
        self.moves: list[tuple[str, str]] = []
        self.reports: list[bool] = []

    @property
    def in_use(self) -> set[str]:
        return {self.endpoint, *self.with_streams}

    async def health(self, endpoint: str, timeout: float) -> Health:
        self.asked.append(endpoint)
        delay = self.delay[endpoint]
        await asyncio.sleep(min(delay, timeout))
        if delay >= timeout:
            return Health.SILENT
        return Health.UNABLE if endpoint in self.wrong else Health.WELL

    def reached(self, reached: bool) -> None:
        if self.reports[-1:] != [reached]:
            self.reports.append(reached)

    async def move(self, endpoint: str, to: str) -> None:
        self.moves.append((endpoint, to))
        self.with_streams.discard(endpoint)
        self.endpoint = to if endpoint == self.endpoint else self.endpoint


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
        await asyncio.sleep(PERIOD + SILENCE - CONFIRM - 0.01)
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


async def test_a_client_that_a_failed_call_sends_back_to_a_silent_server_leaves_it_again() -> None:
    async with watched() as servers:
        servers.delay["a"] = inf
        await asyncio.sleep(LEFT)
        servers.endpoint = "a"
        await asyncio.sleep(LEFT)
        assert servers.moves == [("a", "b"), ("a", "b")]


async def test_the_streams_of_a_silent_server_are_ended_though_calls_use_another_one() -> None:
    async with watched() as servers:
        servers.with_streams = {"b"}
        servers.delay["b"] = inf
        await asyncio.sleep(LEFT)
        assert servers.moves == [("b", "a")]
        assert servers.endpoint == "a"


async def test_it_is_reported_when_no_server_answers_and_when_one_does_again() -> None:
    async with watched() as servers:
        servers.wrong = {"a", "b", "c"}
        await asyncio.sleep(1)
        assert servers.reports == [True], "they answer, if only that they cannot use etcd"
        servers.delay = dict.fromkeys(servers.endpoints, inf)
        await asyncio.sleep(LEFT + SILENCE)
        assert servers.reports == [True, False]
        servers.delay["b"] = 0.01
        await asyncio.sleep(LEFT + SILENCE)
        assert servers.reports == [True, False, True]


class Process:
    """The process that asks; ``blocked``: seconds in which its event loop did nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        loop = asyncio.get_running_loop()
        clock, self.blocked = loop.time, 0.0
        monkeypatch.setattr(loop, "time", lambda: clock() + self.blocked)

    async def is_busy(self) -> None:
        """Be late in every turn of the event loop."""
        while True:
            self.blocked += 2 * LATE
            await asyncio.sleep(0.001)


async def test_a_delay_within_the_time_to_answer_is_no_silence_of_the_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, clock = Process(monkeypatch), asyncio.get_running_loop().time

    class Delayed(Servers):
        async def health(self, endpoint: str, timeout: float) -> Health:
            until = clock() + timeout
            await asyncio.sleep(0)  # The next turn sends the question.
            if endpoint == "a":
                process.blocked += CONFIRM - 0.01
            return await super().health(endpoint, until - clock())

    servers = Delayed()
    servers.delay.update(a=inf, b=0.02, c=0.02)
    task = asyncio.create_task(leave_silent_servers(servers, SILENCE))
    with capture_logs():
        await asyncio.sleep(1)
    assert servers.moves == [("a", "b")]
    assert servers.reports == [True]
    task.cancel()


async def test_silence_is_reported_once_the_process_is_late_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = Servers()
    servers.delay = dict.fromkeys(servers.endpoints, inf)
    tasks = [
        asyncio.create_task(Process(monkeypatch).is_busy()),
        asyncio.create_task(leave_silent_servers(servers, SILENCE)),
    ]
    await asyncio.sleep(5)
    assert servers.reports == []
    tasks[0].cancel()
    await asyncio.sleep(CONFIRM + 0.01)
    assert servers.reports == [False]
    tasks[1].cancel()


async def test_small_delays_of_the_process_do_not_lengthen_the_time_to_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = Process(monkeypatch)

    async def is_a_little_late() -> None:
        while True:
            process.blocked += 0.9 * LATE
            await asyncio.sleep(0.001)

    servers = Servers()
    servers.delay = dict.fromkeys(servers.endpoints, inf)
    late = asyncio.create_task(is_a_little_late())
    task = asyncio.create_task(leave_silent_servers(servers, SILENCE))
    await asyncio.sleep(PERIOD + SILENCE + 4 * LATE)
    assert servers.reports == [False]
    late.cancel()
    task.cancel()
