"""Calls to etcd's members, with a member of the test's own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aetcd.rpc import rpc_pb2

from podsched.serve.store.endpoints import LOST_AFTER, Endpoints
from podsched.serve.store.errors import MaybeApplied
from podsched.serve.store.etcd import EtcdOptions
from support.etcd_member import Member


class Writable(Member):
    """A member in Raft term 1 that answers writes when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.raft_term = 1
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def write(self, request: Any, **_: Any) -> Any:
        return await asyncio.shield(self.answer)


def endpoints_of(member: Writable) -> Endpoints:
    endpoints = Endpoints(EtcdOptions(("etcd:1",)))
    endpoints.members.connections = [member]  # type: ignore[list-item]
    return endpoints


async def read(endpoints: Endpoints) -> None:
    await endpoints.call(lambda member: member.kv.Range, None, safe=True)


def write(endpoints: Endpoints, member: Writable) -> asyncio.Task[Any]:
    return asyncio.create_task(endpoints.call(lambda _: member.write, None, safe=False))


@pytest.mark.looptime
async def test_a_write_from_before_an_election_fails_soon_after_it_if_it_has_no_answer() -> None:
    member = Writable()
    endpoints = endpoints_of(member)
    await read(endpoints)
    writing = write(endpoints, member)
    await asyncio.sleep(1)
    member.raft_term = 2
    await read(endpoints)
    elected = asyncio.get_running_loop().time()
    with pytest.raises(MaybeApplied, match="another leader was elected"):
        await asyncio.wait_for(writing, 10 * LOST_AFTER)
    assert asyncio.get_running_loop().time() - elected == pytest.approx(LOST_AFTER)


@pytest.mark.looptime
async def test_a_later_election_gives_a_write_no_more_time() -> None:
    member = Writable()
    endpoints = endpoints_of(member)
    await read(endpoints)
    writing = write(endpoints, member)
    await asyncio.sleep(0)
    for member.raft_term in (2, 3):
        await read(endpoints)
        await asyncio.sleep(LOST_AFTER * 0.7)
    assert writing.done()
    assert isinstance(writing.exception(), MaybeApplied)


@pytest.mark.looptime
async def test_a_write_after_an_election_has_all_its_time() -> None:
    member = Writable()
    endpoints = endpoints_of(member)
    for member.raft_term in (1, 2):
        await read(endpoints)
    writing = write(endpoints, member)
    await asyncio.sleep(2 * LOST_AFTER)
    member.answer.set_result(rpc_pb2.TxnResponse())
    assert await writing == rpc_pb2.TxnResponse()
