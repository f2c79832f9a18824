"""Whom a workload preempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from podsched.queues.fair_victims import fair_search
from podsched.queues.objects import ClusterQueue, Policy, Preemption, Workload
from podsched.queues.quota import Node, Quota
from podsched.queues.snapshot import Snapshot
from podsched.queues.victims import (
    Preemptor,
    Reason,
    Search,
    Victim,
    classic_search,
    permits,
    preempted_message,
    victim_order,
    victims_by_quota,
)
from support.examples import examples
from support.queue_trees import CPU, admit, nodes, snapshots


def running(key: str, amount: int, priority: int = 0, **other: object) -> Workload:
    workload = Workload(key, uid=key, priority=priority, reserved_at=0.0, usage={CPU: amount})
    return replace(workload, **other)  # type: ignore[arg-type]


def preemptor(snapshot: Snapshot, queue: str, amount: int, priority: int = 0) -> Preemptor:
    workload = Workload("new", priority=priority, queued_at=50.0)
    return Preemptor(workload, snapshot.queues[queue], {CPU: amount}, frozenset((CPU,)))


def names(victims: list[Victim]) -> dict[str, Reason]:
    return {victim.workload.key: victim.reason for victim in victims}


LOWER = Preemption(Policy.LOWER, Policy.LOWER)


def two_queues(of_a: Preemption = LOWER) -> Snapshot:
    """Queues a and b of quota 4 each in one cohort."""
    quotas = {CPU: Quota(4)}
    return Snapshot(
        [
            ClusterQueue("a", "team", quotas=quotas, preemption=of_a),
            ClusterQueue("b", "team", quotas=quotas),
        ]
    )


def test_the_lowest_priority_goes_and_no_more_than_is_needed() -> None:
    snapshot = two_queues()
    for key, priority in (("low", 1), ("middle", 2), ("high", 3)):
        admit(snapshot, "a", running(key, 2, priority))
    admit(snapshot, "b", running("full", 2))
    assert names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 2, 9)))) == {
        "low": Reason.IN_QUEUE
    }


@pytest.mark.parametrize("search", [classic_search, fair_search])
def test_a_queue_that_never_preempts_does_not_look_through_what_it_has_admitted(
    search: Callable[[Snapshot, Preemptor], Search],
) -> None:
    class Admitted(dict[str, Workload]):
        def values(self) -> Any:
            raise AssertionError("it has been looked through")

    snapshot = two_queues(Preemption(Policy.NEVER, Policy.NEVER))
    admit(snapshot, "a", running("low", 4))
    snapshot.workloads["a"] = Admitted(snapshot.workloads["a"])
    assert victims_by_quota(search(snapshot, preemptor(snapshot, "a", 2, 9))) == []


def test_a_smaller_victim_is_put_back_if_a_later_one_is_enough() -> None:
    snapshot = two_queues()
    admit(snapshot, "a", running("small", 1, 1))
    admit(snapshot, "a", running("large", 7, 2))
    assert names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 6, 9)))) == {
        "large": Reason.IN_QUEUE
    }


def test_quota_is_reclaimed_from_a_queue_only_while_it_borrows() -> None:
    snapshot = two_queues(Preemption(reclaim=Policy.ANY))
    for key in ("b1", "b2", "b3"):
        admit(snapshot, "b", running(key, 2))
    assert names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 4)))) == {
        "b1": Reason.RECLAIM
    }
    assert not victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 6)))


def test_a_queue_that_is_back_within_its_quota_loses_no_more() -> None:
    quotas = {"a": 4, "b": 2, "c": 2}
    snapshot = Snapshot(
        [
            ClusterQueue(
                name, "team", quotas={CPU: Quota(quota)}, preemption=Preemption(reclaim=Policy.ANY)
            )
            for name, quota in quotas.items()
        ]
    )
    for name, priority in (("b", 0), ("c", 1)):
        for index in range(2):
            admit(snapshot, name, running(f"{name}{index}", 2, priority))
    chosen = names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 4))))
    assert sorted(chosen) == ["b0", "c0"]


def test_priorities_up_to_the_threshold_make_room_for_borrowing() -> None:
    snapshot = two_queues(Preemption(Policy.NEVER, Policy.LOWER, True, 0))
    admit(snapshot, "b", running("above", 3, 1))
    admit(snapshot, "b", running("below", 5, 0))
    assert names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 5, 9)))) == {
        "below": Reason.BORROWING
    }
    snapshot = two_queues(Preemption(Policy.NEVER, Policy.LOWER, True, 0))
    admit(snapshot, "b", running("above", 6, 1))
    admit(snapshot, "b", running("below", 2, 0))
    assert not victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 5, 9)))


def test_an_eviction_that_has_begun_is_counted_first() -> None:
    snapshot = two_queues()
    admit(snapshot, "a", running("low", 4, 1))
    admit(snapshot, "a", running("evicted", 4, 8, evicted=True))
    assert list(
        names(victims_by_quota(classic_search(snapshot, preemptor(snapshot, "a", 2, 9))))
    ) == ["evicted"]


def test_with_fair_sharing_the_queue_of_the_largest_share_loses() -> None:
    policy = Preemption(reclaim=Policy.ANY)
    quotas = {CPU: Quota(3)}
    snapshot = Snapshot(
        [ClusterQueue(name, "all", quotas=quotas, preemption=policy) for name in "abc"]
    )
    for name, count in (("a", 3), ("b", 5), ("c", 1)):
        for index in range(count):
            admit(snapshot, name, running(f"{name}{index}", 1))
    assert names(victims_by_quota(fair_search(snapshot, preemptor(snapshot, "a", 1)))) == {
        "b0": Reason.FAIR
    }
    # With 2 the shares would only change places.
    assert not victims_by_quota(fair_search(snapshot, preemptor(snapshot, "a", 2)))


@pytest.mark.parametrize(
    ("policy", "permitted"),
    [
        (Policy.NEVER, []),
        (Policy.LOWER, ["lower"]),
        (Policy.LOWER_OR_NEWER, ["lower", "newer"]),
        (Policy.ANY, ["lower", "newer", "older", "higher"]),
    ],
)
def test_policies_go_by_priority_and_time(policy: Policy, permitted: list[str]) -> None:
    own = Workload("own", priority=5, queued_at=10)
    others = [
        Workload("lower", priority=4, queued_at=0),
        Workload("newer", priority=5, queued_at=11),
        Workload("older", priority=5, queued_at=9),
        Workload("higher", priority=6, queued_at=11),
    ]
    assert [one.key for one in others if permits(policy, own, one)] == permitted


def test_within_a_queue_local_queues_with_more_past_usage_lose_first() -> None:
    snapshot = two_queues()
    for key, priority, usage in (("x", 1, 0.1), ("y", 9, 0.9), ("z", 5, 0.9)):
        admit(snapshot, "a", running(key, 1, priority, local_queue_usage=usage))
    ordered = victim_order(snapshot.workloads["a"].values(), "a")
    assert [one.key for one in ordered] == ["z", "y", "x"]


def test_a_message_says_unknown_for_what_is_missing() -> None:
    message = preempted_message(Workload("new"), Reason.FAIR, "/a", "/b")
    assert message == (
        "Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN) due to Fair Sharing "
        "within the cohort; preemptor path: /a; preemptee path: /b"
    )


def fill(snapshot: Snapshot, data: st.DataObject) -> Preemptor:
    """Admit workloads to queues; return one that does not fit."""
    queues = sorted(snapshot.queues)
    for index in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from(queues))
        amount = data.draw(st.integers(0, min(6, snapshot.node(name).available(CPU))))
        admit(snapshot, name, running(f"w{index}", amount, data.draw(st.integers(0, 3))))
    name = data.draw(st.sampled_from(queues))
    new = preemptor(snapshot, name, data.draw(st.integers(1, 8)), data.draw(st.integers(0, 3)))
    assume(not new.fits(snapshot, borrowing=True))
    return new


def used(snapshot: Snapshot) -> tuple[dict[Node, int], dict[str, set[str]]]:
    """What each node uses, and what is admitted to each queue."""
    workloads = {name: set(admitted) for name, admitted in snapshot.workloads.items()}
    return {node: node.usage.get(CPU, 0) for node in nodes(snapshot)}, workloads


@given(snapshots(), st.data(), st.booleans())
@examples(400)
def test_victims_make_room_and_none_of_them_can_stay(
    snapshot: Snapshot, data: st.DataObject, fair: bool
) -> None:
    """The choice changes nothing in the snapshot, and no victim is there for nothing."""
    new = fill(snapshot, data)
    before = used(snapshot)
    victims = victims_by_quota((fair_search if fair else classic_search)(snapshot, new))
    assert used(snapshot) == before

    def fits(gone: list[Workload], borrowing: bool) -> bool:
        with snapshot.without_usage(gone):
            return new.fits(snapshot, borrowing=borrowing)

    chosen = [victim.workload for victim in victims]
    assert not chosen or any(
        fits(chosen, borrowing)
        and not any(fits([one for one in chosen if one is not back], borrowing) for back in chosen)
        for borrowing in (False, True)
        if not (fair and not borrowing)
    )


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("answers", [[], [True], [True, True], [True, False]])
def test_a_search_that_is_given_up_leaves_the_snapshot_as_it_was(
    fair: bool, answers: list[bool]
) -> None:
    snapshot = two_queues(Preemption(Policy.LOWER, Policy.ANY))
    for index, amount in enumerate((1, 1, 1, 5)):
        admit(snapshot, "b", running(f"w{index}", amount, index))
    before = used(snapshot)
    search = (fair_search if fair else classic_search)(snapshot, preemptor(snapshot, "a", 4))
    next(search)
    for answer in answers:
        search.send(answer)
    search.close()
    assert used(snapshot) == before
