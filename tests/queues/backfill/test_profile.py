"""What is free of quota over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.backfill.profile import Profile
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Cohort, Quota
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, snapshots


def one_queue(quota: int) -> Profile:
    return Profile(0.0, Snapshot([ClusterQueue("q", quotas={CPU: Quota(quota)})]).forest)


def test_a_unit_can_start_once_enough_quota_is_free_for_as_long_as_it_runs() -> None:
    profile = one_queue(4)
    profile.occupy("q", {CPU: 3}, 0.0, 10.0)
    profile.occupy("q", {CPU: 2}, 20.0, 30.0)
    assert profile.starts("q", {CPU: 3}, 10.0) == [10.0, 30.0]
    assert profile.starts("q", {CPU: 3}, 11.0) == [30.0]
    assert profile.starts("q", {CPU: 1}, np.inf) == [0.0, 10.0, 20.0, 30.0]


def test_behind_a_unit_without_an_end_nothing_is_planned() -> None:
    profile = one_queue(4)
    profile.occupy("q", {CPU: 2}, 0.0, np.inf)
    assert profile.starts("q", {CPU: 3}, 1.0) == []
    assert profile.starts("q", {CPU: 2}, np.inf) == [0.0]


def test_in_a_queue_that_is_gone_nothing_starts() -> None:
    profile = one_queue(4)
    profile.occupy("gone", {CPU: 2}, 0.0, 5.0)
    assert profile.starts("gone", {}, 1.0) == []


def test_what_is_released_is_as_if_it_had_not_been_taken() -> None:
    profile = one_queue(4)
    profile.occupy("q", {CPU: 4}, 3.0, 7.0)
    assert profile.starts("q", {CPU: 1}, 4.0) == [7.0]
    profile.release("q", {CPU: 4}, 3.0, 7.0)
    assert profile.starts("q", {CPU: 4}, np.inf) == [0.0, 3.0, 7.0]


def test_a_tree_of_cohorts_may_have_any_depth() -> None:
    depth = 2000
    cohorts = [Cohort(f"c{i}", f"c{i + 1}" if i + 1 < depth else None) for i in range(depth)]
    queue = ClusterQueue("q", quotas={CPU: Quota(4)}, cohort="c0")
    profile = Profile(0.0, Snapshot([queue], cohorts).forest)
    profile.occupy("q", {CPU: 3}, 0.0, 10.0)
    assert profile.available("q", CPU).tolist() == [1, 4]


@pytest.mark.parametrize("limit", [None, 2**63 - 1])
def test_quota_without_a_limit_does_not_overflow(limit: int | None) -> None:
    unlimited = Quota(2**63 - 1, borrowing_limit=limit)
    queues = [ClusterQueue(name, quotas={CPU: unlimited}, cohort="c") for name in "abc"]
    profile = Profile(0.0, Snapshot(queues).forest)
    for name in "abc":
        profile.occupy(name, {CPU: 5}, 0.0, 10.0)
    assert profile.starts("a", {CPU: 2**50}, 5.0) == [0.0, 10.0]


@given(snapshots(preempting=False), st.data())
@examples(100)
def test_quota_at_each_time_is_what_the_tree_says(snapshot: Snapshot, data: st.DataObject) -> None:
    queues = st.sampled_from(sorted(snapshot.queues))
    spans = st.tuples(queues, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
    taken = data.draw(st.lists(spans, max_size=8))
    profile = Profile(0.0, snapshot.forest)
    for queue, amount, start, length in taken:
        profile.available(queue, CPU)  # What is kept of it must follow what changes.
        profile.occupy(queue, {CPU: amount}, start, start + length)
    for slot, at in enumerate(profile.times.tolist()):
        for queue, amount, start, length in taken:
            if start <= at < start + length:
                snapshot.add_usage(queue, {CPU: amount})
        for name in snapshot.queues:
            assert profile.available(name, CPU)[slot] == snapshot.node(name).available(CPU)
        for queue, amount, start, length in taken:
            if start <= at < start + length:
                snapshot.remove_usage(queue, {CPU: amount})
