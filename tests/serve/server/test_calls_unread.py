"""Clients that do not read are cut off, over a real connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc._cython import cygrpc

from podsched.serve.server import calls, frames
from podsched.serve.server.fairness import intake
from podsched.serve.server.server import ApiServer
from podsched.serve.server.settings import ServerSettings
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import api_pb2 as v1
from support.api_objects import pod
from support.eventually import eventually

pytestmark = pytest.mark.integration

#: Clients take 64 KiB unread: the first response of these tests is larger.
_SMALL_WINDOW = [("grpc.http2.bdp_probe", 0)]


@asynccontextmanager
async def serving(settings: ServerSettings | None = None) -> AsyncIterator[tuple[ApiServer, Any]]:
    """A server and a way to open watches."""
    store = MemoryStore()
    server = ApiServer(settings or ServerSettings(), store)
    await server.start()
    async with grpc.aio.insecure_channel(server.address, _SMALL_WINDOW) as channel:
        yield server, channel.unary_stream("/podsched.v1.Objects/Watch")
    await server.stop(0)
    await store.close()


async def test_an_unread_watch_is_ended_and_says_to_list_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calls, "UNREAD_SECONDS", 0.5)
    async with serving() as (server, watch):
        large = [pod(f"p{number}") for number in range(60)]
        for item in large:
            item.metadata.annotations["padding"] = "x" * 200_000
        await server.core.creator.create_many(large)
        request = v1.WatchRequest(kinds=["Pod"], send_initial_events=True)
        stream = watch(request.SerializeToString())
        await eventually("the watch is served", lambda: server.core.watcher.watching == 1)
        await eventually("the watch has ended", lambda: server.core.watcher.watching == 0)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            async for _ in stream:
                pass
        assert raised.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert raised.value.details() == "the client has not read for 0.5 s: list again"


async def test_a_watch_that_is_read_slowly_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "UNREAD_SECONDS", 3.0)
    async with serving() as (_, watch):
        stream = watch(v1.WatchRequest(kinds=["Pod"]).SerializeToString())
        for _ in range(2):
            assert await stream.read()
            await asyncio.sleep(3.5)
        assert await stream.read()
        stream.cancel()


async def test_more_watches_than_a_server_is_told_to_serve_are_refused() -> None:
    async with serving(ServerSettings(max_connections=2)) as (server, watch):
        raw = v1.WatchRequest(kinds=["Pod"]).SerializeToString()
        streams = [watch(raw), watch(raw)]
        await eventually("two are served", lambda: server.core.watcher.watching == 2)
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await watch(raw).read()
        assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        streams[0].cancel()
        await eventually("one is left", lambda: server.core.watcher.watching == 1)
        assert await watch(raw).read()
        streams[1].cancel()


async def test_few_unread_lists_are_made_until_their_client_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0

    def counted(*page: Any) -> bytes:
        nonlocal made
        made += 1
        return list_response(*page)

    list_response = frames.list_response
    monkeypatch.setattr(frames, "list_response", counted)
    monkeypatch.setattr(intake, "MAX_HELD_BYTES", 10 << 20)
    async with serving() as (server, _):
        large = [pod(f"p{number}") for number in range(20)]
        for item in large:
            item.metadata.annotations["padding"] = "x" * 200_000
        await server.core.creator.create_many(large)
        request = v1.ListRequest(kind="Pod").SerializeToString()
        async with grpc.aio.insecure_channel(server.address, _SMALL_WINDOW) as channel:
            list_ = channel.stream_stream("/podsched.v1.Objects/List")
            calls_ = [list_() for _ in range(20)]
            for call in calls_:
                await call.write(request)
            await eventually("as many as may be are made", lambda: made, 3)
            (flow,) = [flow for flow in server.gate.flows if flow.intake]
            await asyncio.sleep(0.3)
            assert made == 3
        await eventually("the calls are gone", lambda: flow.intake.held, 0)


_HEADERS, _SETTINGS = 1, 4


def http2_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


_PLAIN = b"\x0f\x10\x10application/grpc\x00\x02te\x08trailers"
#: A watch of health by a client that takes no byte of it: its flow-control windows are empty.
_HEALTH_UNREAD = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + http2_frame(_SETTINGS, 0, 0, b"\x00\x04\x00\x00\x00\x00")
    # POST over http; the path, the host and two headers follow as they are.
    + http2_frame(_HEADERS, 4, 1, b"\x83\x86\x04\x1c/grpc.health.v1.Health/Watch\x01\x01a" + _PLAIN)
    + http2_frame(0, 1, 1, b"\x00\x00\x00\x00\x00")
)


async def test_a_stranger_who_does_not_read_a_watch_of_health_holds_up_no_change_of_it() -> None:
    async with serving() as (server, _):
        reader, writer = await asyncio.open_connection(*server.address.split(":"))
        writer.write(_HEALTH_UNREAD)
        kind = 0
        while kind != _HEADERS:  # those of the answer
            *length, kind, flags = (await reader.readexactly(9))[:5]
            await reader.readexactly(int.from_bytes(length))
            if (kind, flags) == (_SETTINGS, 0):
                writer.write(http2_frame(_SETTINGS, 1, 0, b""))
        async with asyncio.timeout(20):
            await server.set_serving(False)
        writer.close()


def test_an_answer_whose_client_has_gone_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A bug is: gRPC logs both by the same logger."""
    log = logging.getLogger(cygrpc.__name__)
    for error in (cygrpc.ExecuteBatchError("it has gone"), ZeroDivisionError("a bug")):
        log.error("raised by a servicer method", exc_info=error)
    assert [str(record.exc_info and record.exc_info[1]) for record in caplog.records] == ["a bug"]
