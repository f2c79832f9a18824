"""The election's term key and the fence that API servers compare are the same key."""

from __future__ import annotations

import pytest

from podsched.api.reasons import StatusReason
from podsched.config.leader_election import LeaderElectionSettings
from podsched.lib.ids import Revision, Term
from podsched.serve.server.core import ServerCore
from podsched.serve.server.errors import ApiError
from podsched.serve.server.settings import ServerSettings
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.events import TryAcquire
from podsched.term.election.record import NO_REVISION, LeaderElectionRecord, LockKeys
from podsched.testing.memory_store import MemoryStore
from podsched.v1.api_pb2 import Fence
from support.api_objects import pod

KEYS = LockKeys("kube-system", "kube-scheduler")


async def acquired(lock: EtcdLock, holder: str, expected: Revision) -> tuple[Fence, Revision]:
    """Take the lock as the election does; the fence of the term, and the record's revision."""
    record = LeaderElectionRecord(holder_identity=holder, lease_duration_seconds=15)
    won = await lock.write(TryAcquire(1, expected, record))
    assert won is not None
    revision, _ = won
    return Fence(lock=KEYS.lock, term=Term(revision)), revision


async def test_the_server_takes_writes_of_the_term_that_holds_the_lock_and_of_no_other() -> None:
    store = MemoryStore()
    core = ServerCore(ServerSettings(), store)
    await core.start()
    lock = EtcdLock(store, LeaderElectionSettings(), 2)

    first, revision = await acquired(lock, "a", NO_REVISION)
    await core.creator.create(pod("of-the-first-term"), first)
    second, _ = await acquired(lock, "b", revision)
    await core.creator.create(pod("of-the-second-term"), second)
    with pytest.raises(ApiError) as refused:
        await core.creator.create(pod("too-late"), first)

    assert refused.value.reason is StatusReason.FENCE_LOST
    await core.stop()
    await store.close()
