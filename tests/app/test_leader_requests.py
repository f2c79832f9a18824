"""Who could lead, and what people ask of the leader."""

from __future__ import annotations

from unittest.mock import patch

from podsched.api.objects import AnyObject, Lease, seconds_of, timestamp
from podsched.app.leader_requests import LeaderRequests, StandbyReplica, name_of, standbys
from podsched.serve.client.informer import Batch, Event, EventType

NOW = 1_700_000_000.0
LOCK = "kube-system/kube-scheduler"


def replica(name: str, *, age: float = 1.0, labelled: bool = True, **about: str) -> Lease:
    lease = Lease()
    lease.metadata.name = f"replica-{name}"
    lease.metadata.namespace = "kube-system"
    if labelled:
        lease.metadata.labels["podsched.io/component"] = "scheduler"
    lease.spec.holder_identity = f"{name}_1"
    lease.spec.renew_time.CopyFrom(timestamp(NOW - age))
    told = {"lock": LOCK, "state": "standby", "warm": "true", "priority": "0", **about}
    for key, value in told.items():
        lease.metadata.annotations[f"podsched.io/{key.replace('_', '-')}"] = value
    return lease


def test_warm_standbys_of_the_lock_are_known_the_preferred_one_first() -> None:
    leases = [
        replica("a"),
        replica("b", priority="5"),
        replica("leads", state="leading"),
        replica("cold", warm="false"),
        replica("gone", age=60),
        replica("other", lock="kube-system/batch"),
        replica("stranger", labelled=False),
        replica("c", priority="much"),
    ]
    found = standbys(leases, LOCK, lambda lease: NOW - seconds_of(lease.spec.renew_time))
    assert found == [StandbyReplica("b_1", 5), StandbyReplica("a_1", 0), StandbyReplica("c_1", 0)]


def test_a_replicas_name_is_its_identity_without_the_random_part() -> None:
    assert [name_of("scheduler-0_ab12"), name_of("host")] == ["scheduler-0", "host"]


class Asked:
    """What the requests that were heard came to."""

    def __init__(self) -> None:
        self.heard: list[object] = []
        self.requests = LeaderRequests(
            "a", LOCK, dict, pause=self.heard.append, hand_over=self.heard.append
        )

    def tell(self, key: str, old: Lease | None, new: Lease | None) -> None:
        sort = EventType.MODIFIED if old is not None and new is not None else EventType.ADDED
        self.requests.handle(Batch(7, [Event(sort, "Lease", key, old, new)]))


def test_a_pause_lasts_as_long_as_its_lease() -> None:
    """Also for a replica that starts meanwhile; that of another lock is not for us."""
    asked = Asked()
    asked.tell("kube-system/kube-scheduler-paused", None, Lease())
    asked.tell("kube-system/batch-paused", None, Lease())
    asked.tell("kube-system/kube-scheduler-paused", Lease(), None)
    assert asked.heard == [True, False]


def test_a_request_to_hand_over_is_heard_once_and_only_by_whom_it_is_for() -> None:
    """One that was there when the replica started has been answered by the process before it."""
    asked, key = Asked(), "kube-system/replica-a"
    first, second = replica("a", hand_over_to="b_1 1.0"), replica("a", hand_over_to="b_1 2.0")
    asked.tell(key, None, first)
    asked.tell(key, first, first)
    asked.tell("kube-system/replica-c", replica("c"), first)
    assert asked.heard == []
    asked.tell(key, first, second)
    assert asked.heard == ["b_1"]


class Watching:
    """Requests of a replica that sees Leases, by a clock of its own."""

    def __init__(self) -> None:
        self.clock = 100.0
        self.known: dict[str, AnyObject] = {}
        self.requests = LeaderRequests(
            "a", LOCK, lambda: self.known, pause=bool, hand_over=str, now=lambda: self.clock
        )

    def see(self, lease: Lease | None, key: str = "kube-system/replica-a") -> None:
        old = self.known.pop(key, None)
        if lease is not None:
            self.known[key] = lease
        sort = EventType.MODIFIED if old is not None and lease is not None else EventType.ADDED
        self.requests.handle(Batch(7, [Event(sort, "Lease", key, old, lease)]))


def test_a_replica_whose_own_lease_stands_still_is_cut_off() -> None:
    """What the process before it wrote, or nothing at all, says nothing."""
    watching = Watching()
    assert watching.requests.unheard("a_1", 0.0) == 0.0
    watching.see(replica("a", age=3))
    watching.see(replica("a", age=2))
    watching.clock += 12
    watching.see(replica("a", age=2, load="9"))
    assert watching.requests.unheard("a_1", 0.0) == 12.0
    assert watching.requests.unheard("a_2", 0.0) == 0.0
    watching.see(replica("a", age=1))
    assert watching.requests.unheard("a_1", 0.0) == 0.0


def test_silence_before_a_term_does_not_count() -> None:
    """Or a replica that is alone, and reaches no API server, would lead for 2 s at a time."""
    watching = Watching()
    watching.see(replica("a", age=3))
    watching.see(replica("a", age=2))
    watching.clock += 60
    assert watching.requests.unheard("a_1", since=watching.clock - 1) == 1.0


def test_a_wall_clock_that_is_set_changes_nothing() -> None:
    """Neither that of the leader, a day ahead of all that it sees, nor that of a standby."""
    watching = Watching()
    with patch("time.time", lambda: NOW + 86_400):
        for key, name, age in (("a", "a", 1), ("b", "b", 1), ("c", "c", 86_401)):
            watching.see(replica(name, age=age), f"kube-system/replica-{key}")
            watching.see(replica(name, age=age - 1), f"kube-system/replica-{key}")
        watching.clock += 5
        assert watching.requests.unheard("a_1", 0.0) == 5.0
        assert watching.requests.successor() == StandbyReplica("a_1", 0)
        watching.see(None)
        assert watching.requests.successor() == StandbyReplica("b_1", 0)
        watching.clock += 6
        watching.see(replica("c", age=0), "kube-system/replica-c")
        assert watching.requests.successor() == StandbyReplica("c_1", 0)


def test_a_replica_that_had_died_before_is_not_taken_for_a_standby() -> None:
    watching = Watching()
    with patch("time.time", lambda: NOW):
        watching.see(replica("b", age=60), "kube-system/replica-b")
        assert watching.requests.successor() is None
