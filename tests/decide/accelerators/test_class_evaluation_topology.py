"""Pods that depend on other pods: what is cached and done in batches is right for them, too."""

from __future__ import annotations

from typing import cast

from hypothesis import example, given
from hypothesis import strategies as st

from podsched.decide.accelerators.selection import Selector
from support.engine_world import World
from support.evaluations import from_scratch, seen
from support.examples import examples
from support.worlds import Evaluated


@examples(40)
@given(st.integers(0, 10**6))
def test_after_any_changes_it_equals_an_evaluation_from_scratch(seed: int) -> None:
    one = Evaluated(seed)
    pendings = [one.world.info(one.world.random_pod()) for _ in range(4)]
    evaluations = [one.evaluation(pending) for pending in pendings]
    for turn in range(20):
        for _ in range(one.world.random.choice((0, 1, 2))):
            one.world.mutate()
        if turn % 7 == 3:
            nominee = one.world.info(one.world.random_pod())
            node = one.world.random.choice(one.world.scene.nodes)["metadata"]["name"]
            one.cluster.nominator.add(nominee, node)
        at = one.world.random.randrange(4)
        expected = from_scratch(cast(World, one), pendings[at])
        assert seen(evaluations[at], pendings[at]) == expected


@examples(60)
@given(st.integers(0, 10**6), st.integers(2, 12))
# Constraints with an empty selector: they count no pod, but do in trials.
@example(2777, 3)
@example(532227, 6)
@example(257520, 5)
def test_a_batch_goes_where_its_pods_would_go_one_by_one(seed: int, count: int) -> None:
    batch, single = Evaluated(seed, nodes=8), Evaluated(seed, nodes=8)
    pods = batch.copies(batch.world.random_pod(), count)
    run = Selector(batch.evaluation(pods[0])).select_batch(pods, batch.commit)
    chosen = []
    for pod in single.copies(single.world.random_pod(), count):
        choice = Selector(single.evaluation(pod)).select(pod)
        if choice is None:
            break
        single.commit([pod], [choice.row])
        chosen.append(choice.row)
    assert run.rows == chosen
