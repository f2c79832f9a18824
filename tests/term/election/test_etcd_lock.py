"""What the lock in etcd keeps of the Lease that it replaces."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.events import Renew, TryAcquire
from podsched.term.election.record import NO_REVISION, LeaderElectionRecord, LockKeys, Snapshot
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import objects_pb2 as v1

KEYS = LockKeys("kube-system", "kube-scheduler")


def record(holder: str) -> LeaderElectionRecord:
    return LeaderElectionRecord(holder_identity=holder, lease_duration_seconds=15, liveness_ttl=2)


async def uid(store: MemoryStore) -> str:
    found, _ = await store.get(KEYS.record)
    assert found is not None
    return v1.Lease.FromString(found.value).metadata.uid


async def test_a_read_that_is_answered_late_does_not_give_the_lease_another_uid() -> None:
    """It began before the lock was there, and a watch has shown the lock meanwhile."""
    store = MemoryStore()
    first, second = (EtcdLock(store, LeaderElectionSettings(), 2) for _ in range(2))
    answered, get = asyncio.Event(), store.get

    async def slow(key: str, **options: Any) -> Any:
        if key == KEYS.term:
            await answered.wait()
        return await get(key, **options)

    store.get = slow  # type: ignore[method-assign]
    reading = asyncio.create_task(second.read())
    changes = second.watches()["record"]()
    async with aclosing(changes):  # type: ignore[type-var]
        watching = asyncio.create_task(anext(changes))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        won = await first.write(TryAcquire(1, NO_REVISION, record("a")))
        assert won is not None
        before = await uid(store)
        renewed = await first.write(Renew(2, won[0], Term(won[0]), record("a")))
        assert renewed is not None
        seen = await watching
        while seen is None:
            seen = await anext(changes)
    answered.set()
    assert (await reading).record is None

    taken = await second.write(TryAcquire(3, Revision(seen.record_revision), record("b")))

    assert taken is not None
    assert await uid(store) == before
    for lock in (first, second):
        await lock.revoke()
    await store.close()


async def test_a_renewal_is_seen_without_a_read_and_an_expired_liveness_key_asks_for_one() -> None:
    store = MemoryStore()
    lock = EtcdLock(store, LeaderElectionSettings(), 2)
    seen: dict[str, list[Snapshot | None]] = {"record": [], "liveness": []}

    async def follow(name: str) -> None:
        changes = lock.watches()[name]()
        async with aclosing(changes):  # type: ignore[type-var]
            async for snapshot in changes:
                seen[name].append(snapshot)

    watching = [asyncio.create_task(follow(name)) for name in seen]
    await asyncio.sleep(0)
    won = await lock.write(TryAcquire(1, NO_REVISION, record("a")))
    assert won is not None
    await _settle()
    for of_key in seen.values():
        of_key.clear()

    renewed = await lock.write(Renew(2, won[0], Term(won[0]), record("a")))
    await _settle()

    assert renewed is not None
    assert [snapshot and snapshot.record_revision for snapshot in seen["record"]] == [renewed[0]]
    assert seen["liveness"] == []

    await lock.revoke()
    await _settle()

    assert seen["liveness"] == [None]
    for task in watching:
        task.cancel()
    await asyncio.gather(*watching, return_exceptions=True)
    await store.close()


async def _settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_read_shows_the_raft_term_of_etcd() -> None:
    store = MemoryStore()
    store.raft_term = 7
    assert (await EtcdLock(store, LeaderElectionSettings(), 2).read()).raft_term == 7
    await store.close()
