"""Parts of the cluster, evaluated apart and merged, say what the whole says."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.cache.pod_class import PodClasses
from podsched.decide.accelerators.class_evaluation import PendingEvaluation
from podsched.decide.accelerators.evaluation_result import EvaluationResult
from podsched.decide.accelerators.sharding import adopt, evaluate, request_for
from support.engine_world import World
from support.evaluations import from_scratch, seen
from support.examples import examples


def parts(world: World, pending: PendingEvaluation, count: int) -> list[EvaluationResult]:
    """The pieces of a random split, each answered after a journey of the request by pickle."""
    request = request_for(pending)
    nodes = world.cluster.nodes
    rows = np.flatnonzero(nodes.alive)
    owner = np.array([world.random.randrange(count) for _ in rows])
    answers = []
    for part in range(count):
        names = frozenset(nodes.names[row] for row in rows[owner == part].tolist())
        mine = names if request.node_names is None else names & request.node_names
        sent = pickle.loads(pickle.dumps(replace(request, node_names=mine)))
        answer = evaluate(world.runtime, nodes, PodClasses(), sent)
        answers.append(pickle.loads(pickle.dumps(answer)))
    return answers


@examples(40)
@given(st.integers(0, 10**6), st.integers(1, 5))
def test_any_split_into_parts_gives_what_the_whole_gives(seed: int, count: int) -> None:
    world = World(seed)
    for _ in range(20):
        world.mutate()
    for template in range(4):
        pod = world.pending(template)
        evaluation = world.evaluation(pod)
        pending = evaluation.begin(pod)
        if pending is not None:
            adopt(pending, parts(world, pending, count))
        assert seen(evaluation, pod) == seen(world.evaluation(pod), pod)


@examples(30)
@given(st.integers(0, 10**6))
def test_what_changed_on_the_way_is_evaluated_again(seed: int) -> None:
    world = World(seed)
    pod = world.pending(0)
    evaluation = world.evaluation(pod)
    pending = evaluation.begin(pod)
    answers = [] if pending is None else parts(world, pending, 3)
    for _ in range(5):
        world.mutate()
    if pending is not None:
        adopt(pending, answers[:2])
    assert seen(evaluation, pod) == seen(world.evaluation(pod), pod)


def test_a_class_that_is_evaluated_has_nothing_to_begin() -> None:
    world = World(1)
    pod = world.pending(0)
    evaluation = world.evaluation(pod)
    evaluation.refresh(pod)
    assert evaluation.begin(pod) is None


def test_after_it_is_discarded_a_first_evaluation_can_begin_again() -> None:
    world = World(1)
    pod = world.pending(0)
    evaluation = world.evaluation(pod)
    first = evaluation.begin(pod)
    assert first is not None
    first.discard()
    assert not evaluation.is_evaluated
    again = evaluation.begin(pod)
    assert again is not None
    adopt(again, parts(world, again, 2))
    assert evaluation.is_evaluated
    assert seen(evaluation, pod) == from_scratch(world, pod)


def test_a_refresh_does_not_wait_and_what_comes_in_later_is_ignored() -> None:
    world = World(1)
    pod = world.pending(0)
    evaluation = world.evaluation(pod)
    pending = evaluation.begin(pod)
    assert pending is not None
    late = parts(world, pending, 1)
    assert seen(evaluation, pod) == from_scratch(world, pod)
    world.cache.assume(world.pending(1), world.cluster.nodes.names[0])
    evaluation.refresh(pod)
    adopt(pending, late)
    pending.discard()
    assert evaluation.is_evaluated
    assert seen(evaluation, pod) == from_scratch(world, pod)
