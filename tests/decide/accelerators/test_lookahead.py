"""The totals looked ahead are those that the rows have once the pods are there."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.decide.accelerators.lookahead import LookaheadScores
from podsched.decide.accelerators.totals import NO_TOTAL
from support.engine_world import World
from support.examples import examples


@examples(30)
@given(st.integers(0, 10**6))
def test_as_long_as_steps_are_safe_they_are_what_evaluations_find(seed: int) -> None:
    world = World(seed)
    for _ in range(10):
        world.mutate()
    template = seed % 4
    pod = world.pending(template)
    evaluation = world.evaluation(pod)
    evaluation.refresh(pod)
    nominated = evaluation.feasibility.nominated.rows
    rows = np.setdiff1d(evaluation.feasible_rows, nominated)
    if not len(rows):
        return
    row = int(rows[seed % len(rows)])
    scores = LookaheadScores(evaluation, pod, rows, depth=1 + seed % 3)
    steps = [scores.step(row, pods, {row: pods}) for pods in range(1, 6)]
    after = world.evaluation(pod)
    for total, safe in steps:
        if not safe:
            break
        world.cache.assume(world.pending(template), world.cluster.nodes.names[row])
        after.refresh(pod)
        assert int(after.total[row]) == total
        if total == NO_TOTAL:
            break
