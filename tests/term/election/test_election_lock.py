"""What the election relies on of every lock: of the keys in etcd, and of a Lease of Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing

import pytest

from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.term.election.election_lock import ElectionLock
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.events import Release, Renew, TryAcquire
from podsched.term.election.lease_lock import LeaseLock
from podsched.term.election.record import NO_REVISION, NO_TERM, LeaderElectionRecord
from podsched.testing.memory_store import MemoryStore
from support.kube_server import KubeStore, MemoryHttp

pytestmark = pytest.mark.looptime

Locks = Sequence[ElectionLock]
SETTINGS = LeaderElectionSettings()


def record(holder: str, transitions: int = 0) -> LeaderElectionRecord:
    return LeaderElectionRecord(
        holder_identity=holder, lease_duration_seconds=15, leader_transitions=transitions
    )


@pytest.fixture(params=["etcd", "Lease"])
async def locks(request: pytest.FixtureRequest) -> AsyncIterator[Locks]:
    """The same lock, as two candidates use it."""
    if request.param == "Lease":
        http = MemoryHttp(KubeStore())
        yield [LeaseLock(http, SETTINGS, follows_holder=False) for _ in range(2)]
        await http.close()
        return
    store = MemoryStore()
    yield [EtcdLock(store, SETTINGS, 0) for _ in range(2)]
    await store.close()


async def acquired(lock: ElectionLock, holder: str = "a") -> Revision:
    """Claim a lock that nobody has; return the revision of the record, which is the term."""
    won = await lock.write(TryAcquire(1, NO_REVISION, record(holder)))
    assert won is not None
    return won[0]


async def test_a_lock_that_nobody_had_has_no_record_and_no_term(locks: Locks) -> None:
    seen = await locks[0].read()
    assert (seen.record, seen.record_revision, seen.term) == (None, NO_REVISION, NO_TERM)


async def test_the_revision_of_an_acquisition_is_the_term(locks: Locks) -> None:
    won = await acquired(locks[0])
    seen = await locks[0].read()
    assert (seen.holder, seen.record_revision, seen.term) == ("a", won, won)
    assert seen.revision >= won


async def test_only_one_of_two_claims_gets_the_lock(locks: Locks) -> None:
    await acquired(locks[0])
    assert await locks[1].write(TryAcquire(1, NO_REVISION, record("b"))) is None
    assert (await locks[1].read()).holder == "a"


async def test_a_renewal_keeps_the_term_and_the_time_of_the_acquisition(locks: Locks) -> None:
    won = await acquired(locks[0])
    before = await locks[0].read()
    assert before.record is not None
    await asyncio.sleep(2)
    renewed = await locks[0].write(Renew(2, won, Term(won), before.record))
    assert renewed is not None
    after = await locks[0].read()
    assert (after.term, after.record_revision) == (won, renewed[0])
    assert renewed[0] > won
    assert after.record is not None
    assert after.record.acquire_time == before.record.acquire_time


async def test_a_write_for_an_earlier_record_is_refused(locks: Locks) -> None:
    won = await acquired(locks[0])
    assert await locks[0].write(Renew(2, won, Term(won), record("a"))) is not None
    assert await locks[0].write(Renew(3, won, Term(won), record("a"))) is None
    assert await locks[0].write(Release(4, won, Term(won), record(""))) is None
    assert (await locks[0].read()).holder == "a"


async def test_another_candidate_that_takes_the_lock_begins_a_later_term(locks: Locks) -> None:
    won = await acquired(locks[0])
    before = await locks[1].read()
    taken = await locks[1].write(TryAcquire(1, before.record_revision, record("b", 1)))
    assert taken is not None
    seen = await locks[0].read()
    assert seen.holder == "b"
    assert seen.term > won
    assert await locks[0].write(Renew(2, won, Term(won), record("a"))) is None


async def test_a_released_lock_has_a_record_without_a_holder_and_no_term(locks: Locks) -> None:
    won = await acquired(locks[0])
    assert await locks[0].write(Release(2, won, Term(won), record("", 3))) is not None
    seen = await locks[1].read()
    assert (seen.holder, seen.term) == ("", NO_TERM)
    assert seen.record is not None
    assert seen.record.leader_transitions == 3
    again = await locks[1].write(TryAcquire(1, seen.record_revision, record("b", 4)))
    assert again is not None


async def test_a_watch_tells_of_the_changes_of_other_candidates(locks: Locks) -> None:
    won = await acquired(locks[0])
    await locks[1].read()
    (changes,) = (watch() for watch in locks[1].watches().values())
    told = asyncio.Event()

    async def follow() -> None:
        async with aclosing(changes):  # type: ignore[type-var]
            async for _ in changes:
                told.set()

    following = asyncio.create_task(follow())
    await asyncio.sleep(0.01)
    told.clear()
    assert await locks[0].write(Renew(2, won, Term(won), record("a"))) is not None
    await asyncio.sleep(0.01)
    assert told.is_set()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
