"""Several members of etcd on this machine, and what an operator does to one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from podsched.lab.chaos.system import EtcdMembers
from podsched.serve.store import embedded
from podsched.serve.store.connection import EtcdOptions
from podsched.serve.store.errors import MaybeApplied, NoSpace
from podsched.serve.store.etcd import EtcdStore, connect
from podsched.serve.store.protocol import Delete, Put, Write, WriteResult
from support.eventually import eventually

pytestmark = pytest.mark.integration


@asynccontextmanager
async def three(directory: Path) -> AsyncIterator[tuple[EtcdMembers, EtcdStore]]:
    etcd = EtcdMembers(directory, 3)
    try:
        await etcd.start()
        store = await connect(EtcdOptions(endpoints=etcd.endpoints))
        try:
            yield etcd, store
        finally:
            await store.close()
    finally:
        await etcd.stop()


async def leader_of(etcd: EtcdMembers) -> int | None:
    """The member that leads; None between two leaders."""
    try:
        return await etcd.leader()
    except LookupError:
        return None


async def wrote(store: EtcdStore, value: bytes) -> bool:
    try:
        await store.txn([], [Put("/a", value)])
    except (NoSpace, MaybeApplied):
        return False
    return True


async def test_a_member_can_be_killed_hand_over_be_compacted_and_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No member takes over by itself from one that a busy machine holds up. It is also how long the
    # first election may take, or the next one if that fails.
    monkeypatch.setattr(embedded, "MEMBERS_ELECTION_TIMEOUT", 3_000)
    async with three(tmp_path) as (etcd, store):
        revision = (await store.txn([], [Put("/a", b"1")])).revision
        leader = await etcd.leader()
        to = (leader + 1) % 3
        member, _ = await etcd.control(to).ids()
        await etcd.control(leader).move_leader(member)
        await eventually("the other leads", lambda: leader_of(etcd), to)
        await store.compact(revision)
        for index in range(3):
            await etcd.control(index).defragment()
        await etcd.control(leader).raise_no_space()
        with pytest.raises(NoSpace):
            await store.txn([], [Put("/a", b"2")])
        with pytest.raises(NoSpace):
            await store.lease_grant(60)
        put, delete = await store.write_many(
            [Write((), [Put("/b", b"")]), Write((), [Delete("/a")])]
        )
        assert isinstance(put, NoSpace)
        assert isinstance(delete, WriteResult)
        assert (await store.get("/a")).kv is None
        await etcd.control(to).disarm()
        # Each member hears of it in its own time.
        await eventually("writes again", lambda: wrote(store, b"2"))
        await etcd.members[leader].kill()
        with pytest.raises(LookupError):
            etcd.pid(leader)
        # A call may be under way to the killed member before its connection is known to be lost.
        await eventually("the others take writes", lambda: wrote(store, b"3"))
        await etcd.start([leader])
        found = (await store.get("/a")).kv
        assert found is not None
        assert found.value == b"3"
