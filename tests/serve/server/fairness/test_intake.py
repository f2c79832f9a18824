"""Requests of one flow that are read and handled."""

from __future__ import annotations

import asyncio

import pytest

from podsched.serve.server.access.identity import Authentication, Identity
from podsched.serve.server.errors import ApiError
from podsched.serve.server.fairness.gate import Gate
from podsched.serve.server.fairness.intake import MAX_HELD_BYTES, MAX_READING, READ_SECONDS, Intake

pytestmark = pytest.mark.looptime


class Sender:
    """Sends requests when it is told to, and knows how many the server is reading."""

    def __init__(self) -> None:
        self.reading = 0
        self.sends = asyncio.Event()

    async def read(self) -> bytes:
        self.reading += 1
        try:
            await self.sends.wait()
            return b"request"
        finally:
            self.reading -= 1


async def test_of_many_requests_of_one_client_few_are_read_at_a_time() -> None:
    intake, sender = Intake(), Sender()
    reads = [asyncio.create_task(intake.read(sender.read)) for _ in range(50)]
    await asyncio.sleep(1)
    assert sender.reading == MAX_READING
    sender.sends.set()
    assert await asyncio.gather(*reads) == [b"request"] * 50
    assert intake.held == 50 * len(b"request")


async def test_nothing_is_read_while_too_much_is_being_handled() -> None:
    intake = Intake()

    async def large() -> bytes:
        return bytes(MAX_HELD_BYTES + 1)

    first = await intake.read(large)
    second = asyncio.create_task(intake.read(large))
    await asyncio.sleep(1)
    assert not second.done()
    intake.release(len(first))
    await second


async def test_a_request_that_does_not_come_ends_its_call() -> None:
    intake, sender = Intake(), Sender()
    began = asyncio.get_running_loop().time()
    with pytest.raises(ApiError, match="has not come within 30 s"):
        await intake.read(sender.read)
    assert asyncio.get_running_loop().time() - began == pytest.approx(READ_SECONDS)
    sender.sends.set()
    assert await intake.read(sender.read) == b"request"


async def test_requests_behind_those_that_do_not_come_wait_no_longer_than_they() -> None:
    intake, sender = Intake(), Sender()
    began = asyncio.get_running_loop().time()
    reads = [asyncio.create_task(intake.read(sender.read)) for _ in range(50)]
    answers = await asyncio.gather(*reads, return_exceptions=True)
    assert all(isinstance(answer, ApiError) for answer in answers)
    assert asyncio.get_running_loop().time() - began <= 2 * READ_SECONDS


async def test_one_client_does_not_keep_the_server_from_reading_anothers_requests() -> None:
    gate, slow, fast = Gate(), Sender(), Sender()
    alice = Identity("alice", frozenset(), Authentication.CERTIFICATE)
    bob = Identity("bob", frozenset(), Authentication.CERTIFICATE)
    stuck = [
        asyncio.create_task(gate.receive(alice, "peer", "Create", slow.read)) for _ in range(9)
    ]
    fast.sends.set()
    raw, _ = await gate.receive(bob, "peer", "Create", fast.read)
    assert raw == b"request"
    for task in stuck:
        task.cancel()
    await asyncio.gather(*stuck, return_exceptions=True)
