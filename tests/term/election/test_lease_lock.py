"""The election on a Lease of Kubernetes, with client-go's rules. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from podsched.config.leader_election import LeaderElectionSettings
from podsched.term.election.elector import LeaderElector
from podsched.term.election.lease_lock import LeaseLock
from podsched.term.election.options import ElectionCallbacks, ElectionOptions
from support.kube_server import Answer, KubeStore, MemoryHttp, refusal

pytestmark = pytest.mark.looptime

LEASE = "kube-system/kube-scheduler"


class SlowHttp(MemoryHttp):
    """A client of a server that takes ``delay`` seconds for each request."""

    delay = 0.0

    async def _once(self, method: str, path: str, *arguments: Any) -> bytes:
        await asyncio.sleep(self.delay)
        return await super()._once(method, path, *arguments)


class Candidate:
    """An elector, and the history of its callbacks."""

    def __init__(self, store: KubeStore, name: str) -> None:
        self.history: list[str] = []
        self.terms: list[int] = []
        settings = LeaderElectionSettings()
        self.http = SlowHttp(store, timeout=5.0)
        clock = asyncio.get_running_loop().time
        self.lock = LeaseLock(
            self.http, settings, follows_holder=False, wall=lambda: 1.7e9 + clock()
        )
        self.elector = LeaderElector(
            self.lock,
            settings,
            name,
            ElectionCallbacks(
                on_started_leading=lambda fence: self.terms.append(fence.term),
                on_stopped_leading=lambda reason: self.history.append(reason.value),
            ),
            options=ElectionOptions(listen_host=None, liveness_ttl=0),
        )
        self.task = asyncio.create_task(self.elector.run())


class World:
    def __init__(self) -> None:
        self.store = KubeStore()
        self.candidates: list[Candidate] = []

    def add(self, name: str) -> Candidate:
        self.candidates.append(Candidate(self.store, name))
        return self.candidates[-1]

    @property
    def lease(self) -> dict[str, Any]:
        return self.store.objects["leases"][LEASE]

    def held_by(self, holder: str, **metadata: Any) -> None:
        """Write the record as another implementation of client-go's rules does."""
        time = "2024-01-02T03:04:05.000000Z"
        spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 3}
        name = {"name": "kube-scheduler", "namespace": "kube-system"}
        content = {"metadata": {**name, **metadata}, "spec": spec}
        content["spec"] = {**spec, "acquireTime": time, "renewTime": time}
        content["spec"] |= {"strategy": "OldestEmulationVersion", "preferredHolder": "c"}
        self.store.put("leases", content)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    for candidate in world.candidates:
        candidate.task.cancel()
    await asyncio.gather(*(c.task for c in world.candidates), return_exceptions=True)


async def test_one_of_two_leads_and_renews(world: World) -> None:
    first, second = world.add("a"), world.add("b")
    await asyncio.sleep(30)
    assert [c.elector.is_leader() for c in (first, second)].count(True) == 1
    assert world.lease["spec"]["leaseTransitions"] == 0
    assert len(world.store.writes("PUT", "/leases/")) == pytest.approx(15, abs=1)


async def test_a_released_lease_is_taken_at_once(world: World) -> None:
    first = world.add("a")
    await asyncio.sleep(1)
    second = world.add("b")
    await asyncio.sleep(1)
    await first.elector.stop()
    await asyncio.sleep(0.1)
    assert second.elector.is_leader()
    assert world.lease["spec"]["leaseTransitions"] == 1


async def test_a_new_process_has_a_higher_term_than_one_that_stood_by_for_long(
    world: World,
) -> None:
    """Ray actors follow no leader with a lower term."""
    first = world.add("a")
    await asyncio.sleep(1)
    second = world.add("b")
    await asyncio.sleep(3600)
    await first.elector.stop()
    await asyncio.sleep(1)
    third = world.add("c")
    await asyncio.sleep(1)
    await second.elector.stop()
    await asyncio.sleep(1)
    terms = [*first.terms, *second.terms, *third.terms]
    assert len(terms) == 3
    assert terms == sorted(terms)


async def test_a_kube_scheduler_that_is_gone_is_followed_after_its_lease(world: World) -> None:
    """What a coordinator has set is cleared as by client-go; labels are kept."""
    world.held_by("kube-scheduler-1", labels={"team": "red"})
    candidate = world.add("a")
    await asyncio.sleep(14.5)
    assert not candidate.elector.is_leader()
    await asyncio.sleep(5)
    assert candidate.elector.is_leader()
    assert world.lease["metadata"]["labels"] == {"team": "red"}
    assert world.lease["spec"]["leaseTransitions"] == 4
    assert not {"strategy", "preferredHolder"} & world.lease["spec"].keys()


async def test_a_holder_that_renews_stays(world: World) -> None:
    world.held_by("kube-scheduler-1")
    candidate = world.add("a")
    for _ in range(20):
        await asyncio.sleep(2)
        world.store.put("leases", dict(world.lease))
    assert not candidate.elector.is_leader()


async def test_a_leader_whose_lease_another_takes_stops_at_once(world: World) -> None:
    """It watches the Lease: the window is that of one event."""
    candidate = world.add("a")
    await asyncio.sleep(5)
    world.held_by("b")
    await asyncio.sleep(0.01)
    assert candidate.history == ["deposed"]


async def test_without_the_right_to_watch_the_next_renewal_tells(world: World) -> None:
    """kube-scheduler's own ClusterRole permits to watch only the Lease kube-scheduler."""
    world.store.may_watch = False
    candidate = world.add("a")
    await asyncio.sleep(5)
    assert candidate.elector.is_leader()
    world.held_by("b")
    await asyncio.sleep(2.1)
    assert candidate.history == ["deposed"]


async def test_a_leader_that_cannot_renew_stops_before_its_lease_is_over(world: World) -> None:
    candidate = world.add("a")
    await asyncio.sleep(5)
    world.store.down = True
    world.store.break_watches()
    await asyncio.sleep(10.1)
    assert candidate.history == ["renewDeadline exceeded"]
    world.store.down = False
    await asyncio.sleep(20)
    assert candidate.elector.is_leader()
    assert candidate.terms == sorted(set(candidate.terms))


async def test_a_leader_whose_api_server_answers_slowly_goes_on(world: World) -> None:
    """As in client-go: an answer may take half of renewDeadline."""
    candidate = world.add("a")
    await asyncio.sleep(5)
    candidate.http.delay = 3.5
    await asyncio.sleep(120)
    assert candidate.elector.is_leader()
    assert candidate.history == []


async def test_a_deleted_lease_deposes_and_is_made_anew(world: World) -> None:
    candidate = world.add("a")
    await asyncio.sleep(5)
    world.store.remove("leases", LEASE)
    await asyncio.sleep(10)
    assert candidate.history == ["deposed"]
    assert candidate.elector.is_leader()


async def test_a_conflict_is_a_lost_race_and_no_fault(world: World) -> None:
    world.store.fail(refusal(409, "AlreadyExists", "exists"), method="POST", path="/leases")
    candidate = world.add("a")
    await asyncio.sleep(10)
    assert candidate.elector.is_leader()


async def test_a_lease_whose_namespace_is_missing_is_tried_at_leisure_and_told(
    world: World,
) -> None:
    missing = refusal(404, "NotFound", 'namespaces "kube-system" not found')
    world.store.fail(missing, method="POST", times=10**6)
    with capture_logs() as logs:
        world.add("a")
        await asyncio.sleep(30)
    claims = [line for line in logs if line["event"] == "Claiming the lock"]
    assert 5 <= len(claims) <= 15
    assert any("not found" in str(line.get("error")) for line in logs)


async def test_a_conflict_though_nothing_has_changed_is_tried_at_leisure(world: World) -> None:
    """A webhook may answer it. Without a pause there were a hundred claims a second."""
    denied = refusal(409, "Conflict", "denied by a webhook")
    world.store.fail(denied, method="POST", times=10**6)
    with capture_logs() as logs:
        world.add("a")
        await asyncio.sleep(30)
    claims = [line for line in logs if line["event"] == "Claiming the lock"]
    assert 5 <= len(claims) <= 17


@pytest.mark.parametrize(
    "body", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": "x"}, "spec": []}]
)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
async def test_an_answer_that_is_no_lease_is_a_failed_request(
    world: World, method: str, body: dict[str, Any]
) -> None:
    """A proxy before the API server may answer so; it must not end the replica."""
    if method == "GET":
        world.held_by("kube-scheduler-1")
    world.store.fail(Answer(200, body), method=method, path="/leases", times=5)
    candidate = world.add("a")
    await asyncio.sleep(60)
    assert not candidate.task.done()
    assert candidate.elector.is_leader()


async def test_an_event_tells_who_holds_the_lease_before_it_is_read(world: World) -> None:
    """Another holder's write is known here although the read that it causes is not answered."""
    candidate = world.add("a")
    await asyncio.sleep(1)
    assert candidate.lock.holder == "a"
    world.store.fail(refusal(500, "", "no"), method="GET", path="/leases/", times=10**6)
    world.held_by("b")
    await asyncio.sleep(0.01)
    assert candidate.lock.holder == "b"


async def test_a_late_event_tells_nothing(world: World) -> None:
    """One of before this candidate's acquisition comes after the answer to it."""
    world.held_by("old")
    old = dict(world.lease)
    world.store.objects["leases"].clear()
    candidate = world.add("a")
    await asyncio.sleep(1)
    world.store.fail(refusal(500, "", "no"), method="GET", path="/leases/", times=10**6)
    world.store.replay("MODIFIED", "leases", old)
    await asyncio.sleep(0.01)
    assert candidate.lock.holder == "a"
    assert candidate.elector.is_leader()
