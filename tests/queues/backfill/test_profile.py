"""What is free over time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.backfill.profile import Demand, Occupation, Profile
from podsched.queues.objects import ClusterQueue
from podsched.queues.quota import Quota
from podsched.queues.snapshot import Snapshot
from support.examples import examples
from support.queue_trees import CPU, snapshots

NOTHING = np.zeros((0, 1), dtype=np.int64)
NO_ROWS = np.zeros(0, dtype=np.int64)


def uses(queue: str, amount: int) -> Occupation:
    return Occupation(queue, {CPU: amount}, NO_ROWS, NOTHING)


def pods(count: int, amount: int, *rows: bool) -> Demand:
    return Demand(count, np.array([amount], dtype=np.int64), np.array(rows, dtype=np.bool_))


def one_queue(quota: int) -> Snapshot:
    return Snapshot([ClusterQueue("q", quotas={CPU: Quota(quota)})])


def test_a_unit_can_start_once_enough_quota_is_free_for_as_long_as_it_runs() -> None:
    profile = Profile(0.0, NOTHING, one_queue(4).forest)
    profile.occupy(uses("q", 3), 0.0, 10.0)
    profile.occupy(uses("q", 2), 20.0, 30.0)
    short = profile.earliest("q", {CPU: 3}, (), 10.0)
    long = profile.earliest("q", {CPU: 3}, (), 11.0)
    assert short is not None
    assert long is not None
    assert (short.at, long.at) == (10.0, 30.0)


def test_a_unit_needs_the_same_nodes_for_all_of_its_time() -> None:
    free = np.array([[2], [2]], dtype=np.int64)
    profile = Profile(0.0, free, one_queue(9).forest)
    taken = np.array([[2]], dtype=np.int64)
    profile.occupy(Occupation("q", {}, np.array([0]), taken), 0.0, 5.0)
    profile.occupy(Occupation("q", {}, np.array([1]), taken), 5.0, 9.0)
    found = profile.earliest("q", {CPU: 2}, (pods(1, 2, True, True),), 6.0)
    assert found is not None
    assert (found.at, found.occupation.rows.tolist()) == (5.0, [0])
    pinned = profile.earliest("q", {CPU: 2}, (pods(1, 2, False, True),), 6.0)
    assert pinned is not None
    assert pinned.at == 9.0


def test_behind_a_unit_without_an_end_nothing_is_planned() -> None:
    profile = Profile(0.0, NOTHING, one_queue(4).forest)
    profile.occupy(uses("q", 2), 0.0, np.inf)
    assert profile.earliest("q", {CPU: 3}, (), 1.0) is None
    assert profile.earliest("q", {CPU: 2}, (), np.inf) is not None


def test_what_is_released_is_as_if_it_had_not_been_taken() -> None:
    profile = Profile(0.0, NOTHING, one_queue(4).forest)
    profile.occupy(uses("q", 4), 3.0, 7.0)
    assert not profile.fits(uses("q", 1), 0.0, 4.0)
    profile.release(uses("q", 4), 3.0, 7.0)
    assert profile.fits(uses("q", 4), 0.0, np.inf)


@given(snapshots(preempting=False), st.data())
@examples(100)
def test_quota_at_each_time_is_what_the_tree_says(snapshot: Snapshot, data: st.DataObject) -> None:
    queues = st.sampled_from(sorted(snapshot.queues))
    spans = st.tuples(queues, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9))
    taken = data.draw(st.lists(spans, max_size=8))
    profile = Profile(0.0, NOTHING, snapshot.forest)
    for queue, amount, start, length in taken:
        profile.available(queue, CPU)  # What is kept of it must follow what changes.
        profile.occupy(uses(queue, amount), start, start + length)
    for slot, at in enumerate(profile.times.tolist()):
        for queue, amount, start, length in taken:
            if start <= at < start + length:
                snapshot.add_usage(queue, {CPU: amount})
        for name in snapshot.queues:
            assert profile.available(name, CPU)[slot] == snapshot.node(name).available(CPU)
        for queue, amount, start, length in taken:
            if start <= at < start + length:
                snapshot.remove_usage(queue, {CPU: amount})
