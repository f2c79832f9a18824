"""Calls to etcd's members, with a member of the test's own."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from aetcd.rpc import rpc_pb2

from podsched.serve.store.endpoints import LOST_AFTER, Endpoints
from podsched.serve.store.errors import MaybeApplied
from podsched.serve.store.etcd import EtcdOptions


class Member:
    """A connection to a member that answers reads with its Raft term, and writes when told to."""

    failing = nullcontext

    def __init__(self) -> None:
        self.raft_term = 1
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def ready(self, timeout: float) -> bool:
        return True

    async def read(self, request: Any, **_: Any) -> Any:
        return rpc_pb2.RangeResponse(header=rpc_pb2.ResponseHeader(raft_term=self.raft_term))

    async def write(self, request: Any, **_: Any) -> Any:
        return await asyncio.shield(self.answer)


def endpoints_of(member: Member) -> Endpoints:
    endpoints = Endpoints(EtcdOptions(("etcd:1",)))
    endpoints.members.connections = [member]  # type: ignore[list-item]
    return endpoints


async def read(endpoints: Endpoints, member: Member) -> None:
    await endpoints.call(lambda _: member.read, None, safe=True)


def write(endpoints: Endpoints, member: Member) -> asyncio.Task[Any]:
    return asyncio.create_task(endpoints.call(lambda _: member.write, None, safe=False))


@pytest.mark.looptime
async def test_a_write_from_before_an_election_fails_soon_after_it_if_it_has_no_answer() -> None:
    member = Member()
    endpoints = endpoints_of(member)
    await read(endpoints, member)
    writing = write(endpoints, member)
    await asyncio.sleep(1)
    member.raft_term = 2
    await read(endpoints, member)
    elected = asyncio.get_running_loop().time()
    with pytest.raises(MaybeApplied, match="another leader was elected"):
        await asyncio.wait_for(writing, 10 * LOST_AFTER)
    assert asyncio.get_running_loop().time() - elected == pytest.approx(LOST_AFTER)


@pytest.mark.looptime
async def test_a_later_election_gives_a_write_no_more_time() -> None:
    member = Member()
    endpoints = endpoints_of(member)
    await read(endpoints, member)
    writing = write(endpoints, member)
    await asyncio.sleep(0)
    for member.raft_term in (2, 3):
        await read(endpoints, member)
        await asyncio.sleep(LOST_AFTER * 0.7)
    assert writing.done()
    assert isinstance(writing.exception(), MaybeApplied)


@pytest.mark.looptime
async def test_a_write_after_an_election_has_all_its_time() -> None:
    member = Member()
    endpoints = endpoints_of(member)
    for member.raft_term in (1, 2):
        await read(endpoints, member)
    writing = write(endpoints, member)
    await asyncio.sleep(2 * LOST_AFTER)
    member.answer.set_result(rpc_pb2.TxnResponse())
    assert await writing == rpc_pb2.TxnResponse()
