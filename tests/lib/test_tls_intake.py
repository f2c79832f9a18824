"""Turns of TLS connections whose bytes cost much, in virtual time."""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable

import pytest

from podsched.lib.tls_intake import (
    MAX_ANSWERS,
    MAX_HANDSHAKE,
    TURN_SECONDS,
    TlsIntake,
    TlsTurns,
)

pytestmark = pytest.mark.looptime


class Work:
    """A clock of work, and work that costs seconds of it."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.done: list[str] = []

    def costing(self, name: str, seconds: float = 0.001) -> Callable[[], None]:
        def work() -> None:
            self.seconds += seconds
            self.done.append(name)

        return work


class Tls(asyncio.BufferedProtocol):
    """Takes bytes that cost each as much."""

    def __init__(self, work: Work, cost: float) -> None:
        self._work, self._cost = work, cost
        self._buffer = bytearray(1 << 16)
        self.taken = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)

    def buffer_updated(self, nbytes: int) -> None:
        self._work.seconds += nbytes * self._cost
        self.taken += nbytes


class Socket(asyncio.Transport):
    """A transport that says whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self._aborted = False

    def abort(self) -> None:
        self._aborted = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        pass

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self._aborted


def intake_of(tls: Tls, turns: TlsTurns) -> tuple[TlsIntake, Socket]:
    """An intake whose handshake is complete, and its socket."""
    socket = Socket()
    intake = TlsIntake(socket, "a", lambda _: None, lambda: None, turns)
    intake.data_received(b"hello")
    intake.set_protocol(tls)
    intake.secured(lambda: 0)
    intake.resume_reading()
    return intake, socket


async def test_handshakes_leave_most_of_the_loop_to_others() -> None:
    work = Work()
    turns = TlsTurns(lambda: work.seconds)
    for number in range(1000):
        turns.take(f"{number % 7}", work.costing("handshake"), handshake=True)
    await asyncio.sleep(1)
    assert 240 <= len(work.done) <= 260


async def test_a_handshake_alone_does_not_wait() -> None:
    work = Work()
    turns = TlsTurns(lambda: work.seconds)
    turns.take("a", work.costing("first half"), handshake=True)
    turns.take("a", work.costing("second half"), handshake=True)
    assert work.done == ["first half", "second half"]


@pytest.mark.parametrize(("address", "handshake"), [("b", True), ("a", False)])
async def test_a_client_does_not_wait_for_all_handshakes_of_another(
    address: str, handshake: bool
) -> None:
    """Neither one of another address, nor one that is connected already."""
    work = Work()
    turns = TlsTurns(lambda: work.seconds)
    for _ in range(100):
        turns.take("a", work.costing("flood"), handshake=True)
    begun = len(work.done)
    turns.take(address, work.costing("ordinary"), handshake=handshake)
    await asyncio.sleep(1)
    assert work.done.index("ordinary") <= begun + 1


async def test_bytes_that_cost_little_are_passed_on_at_once() -> None:
    work = Work()
    tls = Tls(work, 0.0)
    intake, socket = intake_of(tls, TlsTurns(lambda: work.seconds))
    intake.data_received(bytes(1 << 18))
    assert tls.taken == (1 << 18) + len(b"hello")
    assert socket.reading


async def test_requests_at_an_ordinary_rate_never_wait() -> None:
    """Even while all turns are taken for seconds."""
    work = Work()
    turns = TlsTurns(lambda: work.seconds)
    tls = Tls(work, 1e-6)
    intake, _ = intake_of(tls, turns)
    taken = tls.taken
    for _ in range(1000):
        turns.take("b", work.costing("flood"), handshake=False)
    for _ in range(100):
        intake.data_received(bytes(200))
        taken += 200
        assert tls.taken == taken
        await asyncio.sleep(0.02)


async def test_bytes_that_cost_much_leave_most_of_the_loop_to_others() -> None:
    """As do changes of keys, which need no request."""
    work = Work()
    tls = Tls(work, 1e-6)
    intake, socket = intake_of(tls, TlsTurns(lambda: work.seconds))
    intake.data_received(bytes(1 << 18))
    assert not socket.reading
    await asyncio.sleep(0.1)
    assert TURN_SECONDS < work.seconds < 0.04
    await asyncio.sleep(2)
    assert tls.taken == (1 << 18) + len(b"hello")
    assert socket.reading


async def test_tls_begins_with_the_first_bytes() -> None:
    """A connection that says nothing has none of its buffers."""
    begun: list[TlsIntake] = []
    socket = Socket()
    intake = TlsIntake(socket, "a", begun.append, lambda: None)
    assert begun == []
    intake.data_received(b"h")
    assert begun == [intake]
    assert not socket.reading


async def test_a_connection_that_ends_before_is_given_up() -> None:
    lost: list[bool] = []
    intake = TlsIntake(Socket(), "a", lambda _: None, lambda: lost.append(True))
    intake.connection_lost(None)
    assert lost == [True]


async def test_a_handshake_of_many_bytes_ends_the_connection() -> None:
    """OpenSSL would take 105 ms for a long chain of certificates."""
    work = Work()
    socket = Socket()
    intake = TlsIntake(socket, "a", lambda _: None, lambda: None, TlsTurns(lambda: work.seconds))
    intake.data_received(bytes(2 * MAX_HANDSHAKE))
    tls = Tls(work, 0.0)
    intake.set_protocol(tls)
    intake.resume_reading()
    await asyncio.sleep(1)
    assert socket.is_closing()
    assert tls.taken < 1.1 * MAX_HANDSHAKE


async def test_a_long_request_right_behind_the_handshake_is_taken() -> None:
    work = Work()
    socket = Socket()
    intake = TlsIntake(socket, "a", lambda _: None, lambda: None, TlsTurns(lambda: work.seconds))
    intake.data_received(bytes(2 * MAX_HANDSHAKE))
    tls = Tls(work, 0.0)
    intake.set_protocol(tls)
    intake.resume_reading()
    intake.secured(lambda: 0)
    await asyncio.sleep(1)
    assert tls.taken == 2 * MAX_HANDSHAKE


async def test_what_arrives_while_tls_has_paused_waits() -> None:
    work = Work()
    tls = Tls(work, 0.0)
    intake, socket = intake_of(tls, TlsTurns(lambda: work.seconds))
    intake.pause_reading()
    intake.data_received(b"more")
    assert tls.taken == len(b"hello")
    assert not socket.reading
    intake.resume_reading()
    assert tls.taken == len(b"hellomore")
    assert socket.reading


@pytest.mark.parametrize("reads", [True, False])
async def test_a_client_that_asks_for_changes_of_keys_must_read_the_answers(reads: bool) -> None:
    work = Work()
    tls = Tls(work, 0.0)
    intake, socket = intake_of(tls, TlsTurns(lambda: work.seconds))
    intake.secured(lambda: tls.taken)  # each byte is answered with another one
    for _ in range(4):
        intake.data_received(bytes(MAX_ANSWERS // 2))
        if reads:
            intake.resume_writing()
    assert socket.is_closing() is not reads


async def test_a_tls_connection_has_a_small_buffer() -> None:
    loop = asyncio.get_running_loop()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls = SSLProtocol(loop, asyncio.Protocol(), context, loop.create_future(), server_side=True)
    tls.connection_lost(None)
    assert len(tls.get_buffer(-1)) <= 64 << 10
