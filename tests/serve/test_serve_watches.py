"""What those who list and watch promise to the server that they watch. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from podsched.api.kinds import KINDS
from podsched.serve.client import errors as client
from podsched.serve.client.informer import Informer
from podsched.serve.client.object_watch import watch_objects
from podsched.serve.kube.reflector import Reflector
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.watchcache import WatchCache
from podsched.serve.store import errors as store
from podsched.serve.store.protocol import WatchBatch
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchResponse

pytestmark = pytest.mark.looptime


class Server:
    """Lists nothing, says on each watch how far it has come, and ends it after some seconds."""

    def __init__(self, lasting: float, end: Exception | None) -> None:
        self.lasting = lasting
        self.end = end
        self.asked = 0
        self.open = 0

    async def _watch(self, say: Callable[[int], Any]) -> AsyncGenerator[Any, None]:
        self.asked += 1
        self.open += 1
        if self.asked > 5000:
            await asyncio.Event().wait()
        try:
            await asyncio.sleep(0)
            yield say(self.asked + 1)
            await asyncio.sleep(self.lasting)
            if self.end is not None:
                raise self.end
        finally:
            self.open -= 1

    def watch_stream(self, request: v1.WatchRequest) -> AsyncGenerator[RawWatchResponse, None]:
        initial = request.send_initial_events
        return self._watch(lambda at: RawWatchResponse(revision=at, initial_events_end=initial))

    async def range(self, prefix: str, **options: Any) -> Any:
        return SimpleNamespace(revision=self.asked, kvs=[], more=False)

    def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        return self._watch(lambda at: WatchBatch(at, ()))

    async def request(self, method: str, path: str, *more: Any, **options: Any) -> Any:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def lines(self, path: str, params: Any) -> AsyncGenerator[list[bytes], None]:
        if "sendInitialEvents" not in params:
            async with aclosing(self._watch(_bookmark)) as lines:
                async for line in lines:
                    yield [line]


def _bookmark(at: int) -> bytes:
    metadata = {"resourceVersion": str(at)}
    return orjson.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}})


class Nowhere:
    """A ``Sink`` that keeps nothing."""

    async def listed(self, *_: Any) -> None:
        pass

    def changed(self, *_: Any) -> None:
        pass


def cache(etcd: Any) -> Awaitable[None]:
    return CacheReflector(etcd, WatchCache(max_events=10, max_bytes=1000)).run()


def inform(server: Server) -> Awaitable[None]:
    return Informer(server, ["Pod"]).run(lambda batch: None)


async def print_pods(server: Server) -> None:
    async for _ in watch_objects(server, ["po"]):
        pass


def reflect(server: Server) -> Awaitable[None]:
    return Reflector(server, KINDS["Node"], Nowhere()).run()


@pytest.fixture(
    params=[
        (cache, store.Compacted(5)),
        (cache, store.Unavailable("gone")),
        (inform, client.Compacted("too old")),
        (inform, None),
        (print_pods, client.Unavailable("gone")),
        (print_pods, None),
        (reflect, client.Compacted("too old")),
        (reflect, None),
    ],
    ids=lambda param: f"{param[0].__name__}-{param[1] or 'ended'}",
)
def watched(request: pytest.FixtureRequest) -> Any:
    """How a server looks whose watches last so long, after it was watched for some seconds."""
    follow, end = request.param

    async def watched_for(seconds: float, lasting: float) -> Server:
        server = Server(lasting, end)
        following = asyncio.ensure_future(follow(server))
        await asyncio.sleep(seconds)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
        return server

    return watched_for


async def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often(watched: Any) -> None:
    assert (await watched(60, 0.0)).asked < 110


async def test_a_watch_that_has_lasted_is_begun_again_soon(watched: Any) -> None:
    assert (await watched(301, 30.0)).asked == 11


async def test_who_is_cancelled_leaves_no_watch_open(watched: Any) -> None:
    assert (await watched(10, 30.0)).open == 0
