"""A store that is restored from a backup under its watches: they say so instead of waiting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from podsched.serve.store.embedded import EmbeddedEtcd, EmbeddedEtcdOptions
from podsched.serve.store.endpoints import Endpoints
from podsched.serve.store.errors import Restored
from podsched.serve.store.etcd import EtcdOptions, connect
from podsched.serve.store.protocol import Put, Store, WriteOp
from podsched.serve.store.snapshot import restore_snapshot, save_snapshot
from podsched.serve.store.watching import follow
from podsched.testing.memory_store import MemoryStore
from support.etcd_member import Member
from support.eventually import PATIENCE

PREFIX = "/restored/"


class Restorable(NamedTuple):
    """A store, and how a backup is taken and restored under it."""

    store: Store
    back_up: Callable[[], Awaitable[None]]
    restore: Callable[[], Awaitable[None]]


@pytest.fixture(params=["memory", pytest.param("etcd", marks=pytest.mark.integration)])
def restorable(request: pytest.FixtureRequest) -> Restorable:
    found: Restorable = request.getfixturevalue(f"{request.param}_restorable")
    return found


@pytest.fixture
async def memory_restorable() -> Restorable:
    store = MemoryStore()
    backup = store.backup()

    async def back_up() -> None:
        nonlocal backup
        backup = store.backup()

    async def restore() -> None:
        store.restore(backup)

    return Restorable(store, back_up, restore)


@pytest.fixture
async def etcd_restorable(tmp_path: Path) -> AsyncIterator[Restorable]:
    etcd = EmbeddedEtcd(EmbeddedEtcdOptions(tmp_path / "first", fsync=False))
    await etcd.start()
    port = int(etcd.endpoint.rpartition(":")[2])
    options = EtcdOptions((etcd.endpoint,))
    store = await connect(options)
    file, directory = tmp_path / "backup", tmp_path / "second"
    running = [etcd]

    async def back_up() -> None:
        await save_snapshot(options, file)

    async def restore() -> None:
        await running.pop().stop()
        await restore_snapshot(file, directory)
        other = EmbeddedEtcd(EmbeddedEtcdOptions(directory, client_port=port, fsync=False))
        await other.start()
        running.append(other)

    yield Restorable(store, back_up, restore)
    await store.close()
    await running.pop().stop()


async def write(store: Store, *ops: WriteOp) -> int:
    return (await store.txn((), ops)).revision


class Watch:
    """Reads a watch of the prefix in the background."""

    def __init__(self, store: Store, start_revision: int, until: int = 0) -> None:
        self._until = until
        self.seen = asyncio.Event()
        self.task = asyncio.create_task(self._run(store, start_revision))

    async def _run(self, store: Store, start_revision: int) -> None:
        async for batch in store.watch(PREFIX, start_revision=start_revision):
            if batch.revision >= self._until:
                self.seen.set()

    async def fails(self) -> BaseException | None:
        await asyncio.wait({self.task}, timeout=PATIENCE)
        return self.task.exception()


async def test_a_watch_that_has_come_further_than_the_backup_is_told(
    restorable: Restorable,
) -> None:
    store = restorable.store
    first = await write(store, Put(f"{PREFIX}a", b"1"))
    watch = Watch(store, first, until=first + 3)
    await restorable.back_up()
    for number in range(3):
        await write(store, Put(f"{PREFIX}a", b"%d" % number))
    async with asyncio.timeout(PATIENCE):
        await watch.seen.wait()
    await restorable.restore()
    assert isinstance(await watch.fails(), Restored)


async def test_a_watch_that_begins_in_the_future_of_the_backup_is_told(
    restorable: Restorable,
) -> None:
    """Who lists and then watches may meet the restore between the two."""
    store = restorable.store
    await write(store, Put(f"{PREFIX}a", b"1"))
    await restorable.back_up()
    last = await write(store, Put(f"{PREFIX}a", b"2"))
    await write(store, Put(f"{PREFIX}a", b"3"))
    await restorable.restore()
    assert isinstance(await Watch(store, last + 2).fails(), Restored)


async def test_elections_after_a_restore_are_noticed_though_the_raft_terms_are_lower() -> None:
    elections: list[int] = []
    member = Member()
    endpoints = Endpoints(EtcdOptions(("etcd:1",)), lambda: elections.append(member.raft_term))
    endpoints.members.connections = [member]  # type: ignore[list-item]

    async def answers(raft_term: int) -> None:
        member.raft_term = raft_term
        await endpoints.health.health("etcd:1", PATIENCE)

    await answers(50)
    member.revision = 10
    with pytest.raises(Restored):
        await anext(follow(endpoints, [PREFIX], 31))
    await answers(2)
    assert elections == []
    await answers(3)
    assert elections == [3]
