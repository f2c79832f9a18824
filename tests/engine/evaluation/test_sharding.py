"""Parts of the cluster, evaluated apart and merged, say what the whole says."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from podsched.cache.pod_class import PodClasses
from podsched.engine.evaluation.sharding import EvaluationResult, adopt, evaluate, request_for
from podsched.framework.pods import PodInfo
from support.engine_world import World
from support.evaluations import seen


def parts(world: World, pending: PodInfo, count: int) -> tuple[list[EvaluationResult], object]:
    """The pieces of a random split, each answered after a journey of the request by pickle."""
    evaluation = world.evaluation(pending)
    request = request_for(evaluation, pending)
    if request is None:
        return [], evaluation
    nodes = world.cluster.nodes
    rows = np.flatnonzero(nodes.alive)
    owner = np.array([world.random.randrange(count) for _ in rows])
    answers = []
    for part in range(count):
        sent = pickle.loads(pickle.dumps(request))
        answer = evaluate(world.runtime, nodes, PodClasses(), sent, rows[owner == part])
        answers.append(pickle.loads(pickle.dumps(answer)))
    return answers, evaluation


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_any_split_into_parts_gives_what_the_whole_gives(seed: int, count: int) -> None:
    world = World(seed)
    for _ in range(20):
        world.mutate()
    for template in range(4):
        pending = world.pending(template)
        answers, evaluation = parts(world, pending, count)
        if answers:
            adopt(evaluation, pending, answers)  # type: ignore[arg-type]
        whole = seen(world.evaluation(pending), pending)
        assert seen(evaluation, pending) == whole  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_what_changed_on_the_way_is_evaluated_again(seed: int) -> None:
    world = World(seed)
    pending = world.pending(0)
    answers, evaluation = parts(world, pending, 3)
    for _ in range(5):
        world.mutate()
    if answers:
        adopt(evaluation, pending, answers[:2])  # type: ignore[arg-type]
    whole = seen(world.evaluation(pending), pending)
    assert seen(evaluation, pending) == whole  # type: ignore[arg-type]
