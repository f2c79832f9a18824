"""Nominated pods are filtered with on forks as on the live columns, and leave no trace there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.usage_columns import FIRST_COLUMNS
from podsched.decide.evaluation.filtering import (
    fork_with_nominees,
    nominees,
    run_plain_filters,
    run_with_nominees,
)
from podsched.decide.evaluation.pre_filtering import run_pre_filter
from podsched.framework.nodes import ForkedColumns
from podsched.framework.plugin import CycleState
from support.engine_world import World
from support.evaluations import plain
from support.examples import examples


def shown(fork: ForkedColumns) -> list[object]:
    """Pods in their order, usage, and what counts over pods."""
    pods = [list(fork.pods(row)) for row in range(fork.size)]
    usage = [fork.requested(name).tolist() for name in FIRST_COLUMNS]
    ports = [dict(fork.used_ports(row)) for row in range(fork.size)]
    return [pods, usage, ports]


@examples(30)
@given(st.integers(0, 10**6))
def test_a_fork_is_filtered_with_nominees_as_a_fork_of_it_that_has_them(seed: int) -> None:
    world = World(seed)
    for _ in range(30):
        world.mutate()
    pending, state, cluster = world.pending(), CycleState(), world.cluster
    run_pre_filter(world.runtime, state, pending, cluster)
    fork = cluster.nodes.fork(np.flatnonzero(cluster.nodes.alive))
    for row in range(fork.size):
        for there in list(fork.pods(row).values())[:1]:
            fork.remove_pod(row, there)
    rows = np.array(sorted(world.random.sample(range(fork.size), 3)), dtype=np.intp)
    counted = nominees(pending, cluster, fork, rows)
    before = shown(fork)
    found = run_with_nominees(world.runtime, state, pending, fork, rows, counted)
    assert shown(fork) == before
    another = fork_with_nominees(fork, rows[counted.places], counted.pods)
    places = np.arange(len(counted.places))
    expected = run_plain_filters(world.runtime, state, pending, another, places)
    assert [plain(found, i) for i in places] == [plain(expected, i) for i in places]
