"""Who leads, as the replicas' Leases have it."""

from __future__ import annotations

from collections.abc import Collection

from podsched.api.objects import AnyObject, Lease, timestamp
from podsched.app.page_leadership import LeasedLeadership

NOW = 1_700_000_000.0
LOCK = "kube-system/kube-scheduler"


class Leases:
    """A ``Source`` of Leases. read: those that were looked at."""

    def __init__(self, *leases: Lease) -> None:
        self._leases = {f"{o.metadata.namespace}/{o.metadata.name}": o for o in leases}
        self.read: set[str] = set()

    def follow(self) -> None: ...

    def unfollow(self) -> None: ...

    def keys(self, kind: str) -> list[str]:
        return list(self._leases)

    def get(self, kind: str, key: str) -> AnyObject | None:
        self.read.add(key)
        return self._leases.get(key)

    def changed(self) -> Collection[tuple[str, str]] | None:
        return None


def lease(name: str, holder: str, *, age: float = 1.0, namespace: str = "kube-system") -> Lease:
    made = Lease()
    made.metadata.namespace, made.metadata.name = namespace, name
    made.spec.holder_identity = holder
    made.spec.renew_time.CopyFrom(timestamp(NOW - age))
    made.spec.acquire_time.CopyFrom(timestamp(NOW - 100))
    return made


def replica(name: str, state: str, *, age: float = 1.0, **about: str) -> Lease:
    made = lease(f"replica-{name}", f"{name}_1", age=age)
    made.metadata.labels["podsched.io/component"] = "scheduler"
    for key, value in {"lock": LOCK, "state": state, **about}.items():
        made.metadata.annotations[f"podsched.io/{key}"] = value
    return made


def test_the_leader_and_the_replicas_are_those_of_the_lock() -> None:
    source = Leases(
        lease("kube-scheduler", "a_1"),
        replica("a", "leading", term="812", page="http://127.0.0.1:1/"),
        replica("b", "standby"),
        replica("other", "leading", lock="kube-system/batch"),
    )
    found = LeasedLeadership(source)(NOW)
    assert (found.lock, found.leader, found.since) == (LOCK, "a_1", NOW - 100)
    assert [(r.identity, r.state, r.term, r.page) for r in found.replicas] == [
        ("a_1", "leading", 812, "http://127.0.0.1:1/"),
        ("b_1", "standby", 0, ""),
    ]
    assert found.leading is not None and found.leading.identity == "a_1"


def test_a_replica_that_is_silent_is_gone_and_one_that_was_deposed_does_not_lead() -> None:
    source = Leases(
        lease("kube-scheduler", "b_1"),
        replica("a", "leading", term="812"),
        replica("b", "leading", term="977"),
        replica("c", "standby", age=60),
    )
    states = {r.identity: (r.state, r.term) for r in LeasedLeadership(source)(NOW).replicas}
    assert states == {"a_1": ("deposed", 0), "b_1": ("leading", 977), "c_1": ("gone", 0)}


def test_a_pause_says_by_whom_and_why() -> None:
    pause = lease("kube-scheduler-paused", "sam")
    pause.metadata.annotations["podsched.io/reason"] = "upgrade"
    assert LeasedLeadership(Leases(pause, replica("a", "leading")))(NOW).paused == "sam: upgrade"


def test_heartbeats_of_nodes_are_not_read() -> None:
    beats = [lease(f"node-{n}", "node", namespace="kube-node-lease") for n in range(50)]
    source = Leases(*beats, lease("kube-scheduler", "a_1"), replica("a", "leading"))
    LeasedLeadership(source)(NOW)
    assert not [key for key in source.read if key.startswith("kube-node-lease")]


def test_without_any_lease_there_is_no_leader() -> None:
    found = LeasedLeadership(Leases())(NOW)
    assert (found.leader, found.replicas, found.leading) == ("", (), None)


def test_who_led_last_is_known_when_all_replicas_have_left() -> None:
    assert LeasedLeadership(Leases(lease("kube-scheduler", "a_1")))(NOW).leader == "a_1"


def test_a_replica_knows_its_own_lock() -> None:
    source = Leases(lease("batch", "x_1"), replica("x", "leading", lock="kube-system/batch"))
    assert LeasedLeadership(source, "kube-system/batch")(NOW).leader == "x_1"
    assert LeasedLeadership(source)(NOW).leader == "x_1", "the only one"


def test_a_link_that_leads_to_no_web_page_is_left_out() -> None:
    """Whoever may write Leases could otherwise place a script behind it."""
    pages = ("https://a:1/", "javascript:alert(1)", "data:text/html,x", "//b/")
    leases = [replica(f"r{at}", "standby", page=page) for at, page in enumerate(pages)]
    found = LeasedLeadership(Leases(lease("kube-scheduler", "a_1"), *leases))(NOW)
    assert [replica.page for replica in found.replicas] == ["https://a:1/", "", "", ""]
