"""Pods over a stream: gathered, bounded, answered in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from podsched.api.kinds import KINDS
from podsched.api.reasons import StatusReason
from podsched.serve.server import errors, submission
from podsched.serve.server.errors import ApiError
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.api_world import World
from support.eventually import PATIENCE
from support.lost_errors import no_lost_errors


def request(name: str) -> bytes:
    return v1.SubmitPodsRequest(pod=pod(name)).SerializeToString()


async def sent(requests: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Return a client that sends these as fast as they are read, and closes its side."""
    for raw in requests:
        yield raw


async def forever(requests: Iterable[bytes]) -> AsyncIterator[bytes]:
    """Return a client that sends these and keeps the stream open."""
    for raw in requests:
        yield raw
    await asyncio.Event().wait()


async def results(world: World, requests: AsyncIterator[bytes]) -> list[v1.BatchResult]:
    found: list[v1.BatchResult] = []
    async for raw in world.core.submission.submit(requests):
        found += v1.SubmitPodsResponse.FromString(raw).results
    return found


async def test_each_pod_is_answered_in_order_and_a_bad_one_ends_nothing(world: World) -> None:
    requests = [request("a"), request("Not_A_Name"), b"\xff", request("a"), request("b")]
    found = await results(world, sent(requests))
    reasons = [StatusReason.INVALID, StatusReason.BAD_REQUEST, StatusReason.ALREADY_EXISTS]
    assert [result.reason for result in found] == ["", *reasons, ""]
    await world.core.reflector.wait_until_fresh()
    stored = world.core.cache.objects(KINDS["Pod"])
    assert sorted(stored) == ["default/a", "default/b"]
    assert found[0].resource_version == stored["default/a"].revision


async def test_a_request_that_is_too_large_is_refused_and_not_kept(world: World) -> None:
    large, buffer = b"x" * (8 << 20), submission._Buffer()
    async with asyncio.timeout(PATIENCE):
        await buffer.fill(sent([large]))
    assert [len(kept) < 2 << 20 for kept in await buffer.take()] == [True]
    found = await results(world, sent([large, request("a")]))
    assert [result.reason for result in found] == [StatusReason.TOO_LARGE, ""]


async def test_what_comes_together_is_stored_together(world: World) -> None:
    responses = [
        v1.SubmitPodsResponse.FromString(raw)
        async for raw in world.core.submission.submit(sent(request(f"p{n}") for n in range(100)))
    ]
    assert sum(len(response.results) for response in responses) == 100
    assert len(responses) < 20


async def test_no_more_is_read_than_there_is_room_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_WAITING", 10)
    read = 0

    async def client() -> AsyncIterator[bytes]:
        nonlocal read
        for number in range(50):
            read += 1
            yield request(f"p{number}")

    stream = world.core.submission.submit(client())
    await anext(stream)  # and nothing more is taken
    for _ in range(100):
        await asyncio.sleep(0)
    assert read <= 22  # one room that was taken, one that is full, and the requests in between
    answered = [raw async for raw in stream]
    assert answered
    assert read == 50


async def test_a_server_that_drains_answers_what_it_has_read(world: World) -> None:
    stream = world.core.submission.submit(forever([request("a")]))
    first = v1.SubmitPodsResponse.FromString(await anext(stream))
    assert [result.code for result in first.results] == [0]
    world.core.submission.close()
    with pytest.raises(ApiError) as ended:
        await anext(stream)
    assert ended.value.reason == StatusReason.SHUTTING_DOWN
    with pytest.raises(ApiError):
        await anext(world.core.submission.submit(sent([request("b")])))


async def test_streams_beyond_the_bound_are_refused_and_make_room_when_they_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MAX_STREAMS", 1)
    stream = world.core.submission.submit(forever([request("a")]))
    await anext(stream)
    with pytest.raises(ApiError, match="overloaded: 1 streams"):
        await results(world, sent([request("b")]))
    await stream.aclose()
    assert [result.code for result in await results(world, sent([request("b")]))] == [0]


async def test_a_stream_that_breaks_as_it_is_closed_leaves_no_error_to_log(world: World) -> None:
    async def breaking() -> AsyncIterator[bytes]:
        yield request("a")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise errors.bad_request("the stream broke") from None

    async with no_lost_errors():
        stream = world.core.submission.submit(breaking())
        await anext(stream)
        await stream.aclose()


async def test_a_stream_that_has_just_begun_ends_when_the_server_closes(world: World) -> None:
    first = asyncio.create_task(anext(world.core.submission.submit(forever([]))))
    await asyncio.sleep(0)
    world.core.submission.close()
    done, _ = await asyncio.wait([first], timeout=PATIENCE)
    assert done and isinstance(first.exception(), ApiError)
