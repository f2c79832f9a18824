"""Who could lead, and what people ask of the leader."""

from __future__ import annotations

from podsched.api.objects import AnyObject, Lease, timestamp
from podsched.app.leader_requests import LeaderRequests, StandbyReplica, name_of, standbys
from podsched.client.informer import Batch, Event, EventType

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
    found = standbys(leases, LOCK, NOW)
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


def test_a_replica_whose_own_lease_stands_still_is_cut_off() -> None:
    """What the process before it wrote, or nothing at all, says nothing."""
    known: dict[str, AnyObject] = {}
    requests = LeaderRequests("a", LOCK, lambda: known, pause=bool, hand_over=str)
    assert requests.unheard("a_1", NOW) == 0.0
    known["kube-system/replica-a"] = replica("a", age=12)
    assert requests.unheard("a_1", NOW) == 12.0
    assert requests.unheard("a_2", NOW) == 0.0
