"""The elector on the in-memory store, in virtual time and without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from podsched.config.leader_election import LeaderElectionSettings
from podsched.serve.store.errors import Unavailable
from podsched.serve.store.protocol import Compare, Put, Write
from podsched.term.election.elector import LeaderElector
from podsched.term.election.etcd_lock import EtcdLock
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from podsched.term.election.record import LockKeys
from podsched.term.election.states import Leading
from podsched.testing.memory_store import MemoryStore
from podsched.v1 import objects_pb2 as v1
from podsched.v1.api_pb2 import Fence

pytestmark = pytest.mark.looptime

KEYS = LockKeys("kube-system", "kube-scheduler")


class Replica:
    """An elector with a session of its own, and the history of its callbacks."""

    def __init__(self, store: MemoryStore, name: str, settings: LeaderElectionSettings) -> None:
        self.store = store.session()
        self.history: list[str] = []
        self.fences: list[Fence] = []
        self.renewals: list[str] = []
        callbacks = ElectionCallbacks(
            on_started_leading=self._started,
            on_stopped_leading=lambda reason: self.history.append(reason.value),
            on_new_leader=lambda leader: self.history.append(f"leader {leader}"),
            on_renewal=lambda result, seconds: self.renewals.append(result),
        )
        options = ElectionOptions(listen_host=None)
        lock = EtcdLock(self.store, settings, options.liveness_ttl)
        self.elector = LeaderElector(lock, settings, name, callbacks, options=options)
        self.task = asyncio.create_task(self.elector.run())

    @property
    def terms(self) -> list[int]:
        return [fence.term for fence in self.fences]

    def _started(self, fence: Fence) -> None:
        self.history.append("started")
        self.fences.append(fence)


class Replicas:
    def __init__(self) -> None:
        self.store = MemoryStore()
        self.all: list[Replica] = []

    def add(self, name: str, **settings: float | bool) -> Replica:
        chosen = LeaderElectionSettings(**settings)  # type: ignore[arg-type]
        self.all.append(Replica(self.store, name, chosen))
        return self.all[-1]

    def leaders(self) -> list[Replica]:
        return [r for r in self.all if r.elector.is_leader()]

    async def lease(self) -> v1.Lease:
        kv = (await self.store.get(KEYS.record)).kv
        assert kv is not None
        return v1.Lease.FromString(kv.value)


@pytest.fixture
async def replicas() -> AsyncIterator[Replicas]:
    replicas = Replicas()
    yield replicas
    for replica in replicas.all:
        replica.task.cancel()
    await asyncio.gather(*(r.task for r in replicas.all), return_exceptions=True)


async def test_one_of_three_candidates_leads_and_the_others_know_it(replicas: Replicas) -> None:
    """And it goes on leading: a minute of renewals changes no leader."""
    for name in "abc":
        replicas.add(name)
    await asyncio.sleep(60)
    (leader,) = replicas.leaders()
    assert {r.elector.state.view.announced for r in replicas.all} == {
        leader.elector.state.view.identity
    }
    assert sum(len(r.terms) for r in replicas.all) == 1


async def test_the_outcome_of_each_renewal_is_told(replicas: Replicas) -> None:
    """retryPeriod is 2 s."""
    leader, standby = replicas.add("a"), replicas.add("b")
    await asyncio.sleep(7)
    assert leader.renewals == ["renewed"] * 3
    assert standby.renewals == []


async def test_the_record_is_a_lease_with_kubernetes_fields(replicas: Replicas) -> None:
    """What a client sees; the term follows with the first renewal."""
    leader = replicas.add("a")
    await asyncio.sleep(3)
    lease = await replicas.lease()
    assert (lease.metadata.namespace, lease.metadata.name) == ("kube-system", "kube-scheduler")
    assert lease.spec.holder_identity == "a"
    assert lease.spec.lease_duration_seconds == 15
    assert lease.spec.lease_transitions == 0
    assert lease.spec.renew_time.ToDatetime() >= lease.spec.acquire_time.ToDatetime()
    assert lease.metadata.annotations["podsched.io/term"] == str(leader.terms[0])
    assert not lease.metadata.resource_version


async def test_labels_that_others_put_on_the_lease_survive_renewals(replicas: Replicas) -> None:
    """The holder owns the spec and not the object."""
    leader = replicas.add("a")
    await asyncio.sleep(3)
    lease = await replicas.lease()
    lease.metadata.labels["team"] = "blue"
    await replicas.store.write(Write([], [Put(KEYS.record, lease.SerializeToString())]))
    await asyncio.sleep(10)
    assert (await replicas.lease()).metadata.labels["team"] == "blue"
    assert leader.terms == [leader.elector.state.view.term], "and the holder went on in its term"


async def test_the_fence_of_a_released_term_is_worthless(replicas: Replicas) -> None:
    """A release deletes the term key, and a new term has another revision."""
    first = replicas.add("a")
    await asyncio.sleep(1)
    (fence,) = first.fences
    assert fence.lock == "kube-system/kube-scheduler"
    held = [Compare.mod_revision_is(KEYS.term, fence.term)]
    assert (await replicas.store.txn(held, [Put("/x", b"")])).succeeded
    second = replicas.add("b")
    await asyncio.sleep(1)
    await first.elector.stop()
    assert not (await replicas.store.txn(held, [Put("/x", b"")])).succeeded
    await asyncio.sleep(1)
    assert second.terms
    assert second.terms[0] > fence.term
    assert not (await replicas.store.txn(held, [Put("/x", b"")])).succeeded


async def test_a_stopped_leader_hands_over_at_once_and_counts_on(replicas: Replicas) -> None:
    """leaderTransitions grows across a release."""
    first, second = replicas.add("a"), replicas.add("b")
    await asyncio.sleep(5)
    if second.elector.is_leader():
        first, second = second, first
    await first.elector.stop()
    await asyncio.sleep(0.05)
    assert second.elector.is_leader()
    assert first.history[-1] == "released"
    assert second.elector.state.view.transitions == 1


async def test_a_candidate_that_dies_silently_is_replaced_when_its_liveness_key_goes(
    replicas: Replicas,
) -> None:
    """2 s of an etcd lease instead of the 15 s of the record."""
    first = replicas.add("a")
    await asyncio.sleep(5)
    second = replicas.add("b")
    await asyncio.sleep(5)
    first.task.cancel()
    await asyncio.sleep(1.4)
    assert not second.elector.is_leader()
    await asyncio.sleep(1.1)
    assert second.elector.is_leader()


async def test_a_leader_that_is_cancelled_reports_that_it_stopped(replicas: Replicas) -> None:
    """Every way out of leading is reported."""
    first = replicas.add("a")
    await asyncio.sleep(1)
    first.task.cancel()
    await asyncio.gather(first.task, return_exceptions=True)
    assert first.history == ["started", "leader a", "abandoned"]
    assert not first.elector.is_leader()


async def test_a_leader_cut_off_from_the_store_stops_at_its_renew_deadline(
    replicas: Replicas,
) -> None:
    """10 s after its last good renewal, before anybody's lease of 15 s is over."""
    leader = replicas.add("a")
    await asyncio.sleep(3)
    state = leader.elector.state
    assert isinstance(state, Leading)
    renewed_at = state.renewed_at
    leader.store.fault = Unavailable("cut off")
    await asyncio.sleep(renewed_at + 9.9 - asyncio.get_running_loop().time())
    assert leader.elector.is_leader()
    await asyncio.sleep(0.2)
    assert not leader.elector.is_leader()
    assert leader.history[-1] == "renewDeadline exceeded"
    leader.store.fault = None
    await asyncio.sleep(5)
    assert leader.elector.is_leader()
    assert leader.terms == sorted(set(leader.terms))


async def test_a_leader_whose_write_was_refused_stops_before_its_next_renewal(
    replicas: Replicas,
) -> None:
    """It is cut off from the store, so that nothing else tells it that another one leads."""
    former = replicas.add("a")
    await asyncio.sleep(1)
    former.store.fault = Unavailable("cut off")
    former.elector.term_is_over(former.terms[0] - 1)
    await asyncio.sleep(0.1)
    assert former.elector.is_leader(), "it was a write of an earlier term"
    former.elector.term_is_over(former.terms[0])
    await asyncio.sleep(0.01)
    assert not former.elector.is_leader()
    assert former.history[-1] == "deposed"


async def test_a_callback_that_fails_ends_the_elector_loudly(replicas: Replicas) -> None:
    """Leadership that its owner cannot act on is no leadership."""

    def fail(_: object) -> None:
        raise RuntimeError("no")

    elector = LeaderElector(
        EtcdLock(replicas.store, LeaderElectionSettings(), 2),
        LeaderElectionSettings(),
        "a",
        ElectionCallbacks(on_started_leading=fail),
        options=ElectionOptions(listen_host=None),
    )
    with pytest.raises(RuntimeError, match=r"^no"):
        await elector.run()
    assert not elector.is_leader()


async def test_a_callback_that_is_cancelled_ends_the_elector(replicas: Replicas) -> None:
    def cancelled(_: object) -> None:
        raise asyncio.CancelledError

    elector = LeaderElector(
        EtcdLock(replicas.store, LeaderElectionSettings(), 2),
        LeaderElectionSettings(),
        "a",
        ElectionCallbacks(on_started_leading=cancelled),
        options=ElectionOptions(listen_host=None),
    )
    async with asyncio.timeout(60):
        await elector.run()
    assert not elector.is_leader()


async def test_a_change_of_leadership_is_one_line_with_its_component(replicas: Replicas) -> None:
    """As the documents promise of every line."""
    with capture_logs() as lines:
        leader = replicas.add("a")
        await asyncio.sleep(1)
        await leader.elector.stop()
    changes = [line for line in lines if line["log_level"] == "info"]
    assert [line["event"] for line in changes] == [
        "Claiming the lock",
        "Started leading",
        "New leader",
        "Stopped leading",
    ]
    assert {line["component"] for line in changes} == {"election"}


async def test_a_leader_that_renews_is_healthy(replicas: Replicas) -> None:
    """And so is a standby."""
    replicas.add("a")
    replicas.add("b")
    await asyncio.sleep(60)
    assert [replica.elector.check_health() for replica in replicas.all] == [None, None]


async def test_without_release_the_record_keeps_its_holder(replicas: Replicas) -> None:
    """releaseOnCancel false: the others wait for the liveness key or the lease."""
    leader = replicas.add("a", release_on_cancel=False)
    await asyncio.sleep(1)
    await leader.elector.stop()
    assert (await replicas.lease()).spec.holder_identity == "a"


async def test_a_store_that_is_restored_from_a_backup_has_a_leader_again(
    replicas: Replicas,
) -> None:
    """Though its revisions are less than those that the candidates have seen."""
    for name in "abc":
        replicas.add(name)
    await asyncio.sleep(10)
    backup = replicas.store.backup()
    await asyncio.sleep(300)
    (leader,) = replicas.leaders()
    replicas.store.restore(backup)
    await asyncio.sleep(1)
    assert not replicas.leaders()
    await asyncio.sleep(20)
    (now,) = replicas.leaders()
    assert "deposed" in leader.history
    assert sum(len(r.terms) for r in replicas.all) == 2
    kv = (await replicas.store.get(KEYS.term)).kv
    assert kv is not None and now.terms[-1] == kv.mod_revision
