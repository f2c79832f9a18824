"""How often etcd is asked by a watch whose streams end. Virtual time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Container
from contextlib import aclosing
from functools import partial
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from aetcd.rpc import rpc_pb2

from podsched.lib.backoff import Backoff
from podsched.serve.silent_server import failing
from podsched.serve.store.endpoints import RETRY_FIRST, RETRY_MOST
from podsched.serve.store.errors import Closed, Unauthorized
from podsched.serve.store.watching import follow

pytestmark = pytest.mark.looptime


class Stream:
    """Is created, says how far it has come, and ends after a while."""

    def __init__(self, etcd: Etcd) -> None:
        header = rpc_pb2.ResponseHeader(revision=etcd.asked)
        refused = {"canceled": True, "cancel_reason": "permission denied"}
        is_refused = etcd.asked in etcd.refused
        self._lasting = etcd.lasting
        self._responses = [
            rpc_pb2.WatchResponse(header=header, created=True),
            rpc_pb2.WatchResponse(header=header, **(refused if is_refused else {})),
        ]
        if is_refused:
            self._responses.insert(1, rpc_pb2.WatchResponse(header=header))

    async def write(self, request: Any) -> None:
        await asyncio.sleep(0)

    async def read(self) -> Any:
        if self._responses:
            return self._responses.pop(0)
        await asyncio.sleep(self._lasting)
        return grpc.aio.EOF

    def cancel(self) -> None:
        pass


class Token:
    """One that can be got again, as ``AuthToken`` has it."""

    def __init__(self, cancelled: int = 0) -> None:
        """``cancelled``: how many requests for a token end because their channel is closed."""
        self._cancelled = cancelled

    async def metadata(self, connection: Any) -> Any:
        if self._cancelled:
            self._cancelled -= 1
            raise asyncio.CancelledError
        return ()

    def forget(self) -> bool:
        return True


class Etcd:
    """Three members, as ``Endpoints`` has them."""

    closed = False
    options = SimpleNamespace(request_timeout=5.0)

    def __init__(
        self, lasting: float = 0.0, *, refused: Container[int] = (), cancelled: int = 0
    ) -> None:
        """``refused``: the numbers of the watches that are, as by a token that is forgotten."""
        self.token = Token(cancelled)
        self.lasting = lasting
        self.refused = refused
        self.asked = 0

    def backoff(self) -> Backoff:
        return Backoff(RETRY_FIRST, RETRY_MOST, random.Random(1).random, immediate=2)

    async def connected(self) -> Any:
        self.asked += 1
        if self.asked > 5000:
            await asyncio.Event().wait()
        kv = SimpleNamespace(Range=self._range)
        watch = SimpleNamespace(Watch=lambda metadata: Stream(self))
        return SimpleNamespace(
            watch=watch,
            kv=kv,
            failing=partial(failing, lambda: not self.closed),
            watches=set(),
            write_first=lambda stream, request: stream.write(request),
        )

    async def _range(self, request: Any, *, timeout: float, metadata: Any) -> Any:
        return rpc_pb2.RangeResponse(header=rpc_pb2.ResponseHeader(revision=self.asked))

    @property
    def members(self) -> Etcd:
        return self

    def leave(self, connection: Any) -> None:
        pass


async def asked_within(seconds: float, etcd: Etcd) -> int:
    try:
        async with asyncio.timeout(seconds):
            async for _ in follow(etcd, ["/a/"], 1):  # type: ignore[arg-type]
                pass
    except (TimeoutError, Unauthorized):
        pass
    return etcd.asked


async def test_members_that_end_each_watch_at_once_are_asked_ever_less_often() -> None:
    assert await asked_within(60, Etcd()) < 100


async def test_a_watch_that_has_lasted_is_begun_again_soon() -> None:
    assert await asked_within(301, Etcd(30.0)) == 11


async def test_a_watch_that_is_refused_again_and_again_ends() -> None:
    assert await asked_within(60, Etcd(refused=range(99))) == 2


async def test_each_etcd_that_forgets_the_token_as_it_starts_again_is_shown_another() -> None:
    assert await asked_within(100, Etcd(30.0, refused={2, 4})) == 6


@pytest.mark.parametrize("position", [0, 1])
async def test_a_member_that_is_left_while_it_authenticates_a_watch_does_not_end_it(
    position: int,
) -> None:
    async with aclosing(follow(Etcd(30.0, cancelled=1), ["/a/"], position)) as batches:  # type: ignore[arg-type]
        assert (await anext(batches)).revision == 2


@pytest.mark.parametrize("position", [0, 1])
async def test_a_watch_that_is_being_opened_ends_with_the_store(position: int) -> None:
    etcd = Etcd(cancelled=1)
    etcd.closed = True
    with pytest.raises(Closed):
        await anext(follow(etcd, ["/a/"], position))  # type: ignore[arg-type]
