"""How many feasible nodes are scored, and where the search for them begins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from podsched.config.load import load_config
from podsched.config.profiles import Profile
from podsched.decide.evaluation.sampling import Rotation, num_feasible_nodes_to_find
from support.engine_world import World, node


@pytest.mark.parametrize(
    ("percentage", "nodes", "expected"),
    [
        (None, 5000, 5000),
        (0, 5000, 500),
        (0, 99, 99),
        (0, 1000, 420),
        (0, 10_000, 500),
        (30, 5000, 1500),
        (1, 5000, 100),
        (100, 5000, 5000),
    ],
)
def test_the_number_of_nodes_to_score_is_kube_schedulers(
    percentage: int | None, nodes: int, expected: int
) -> None:
    assert num_feasible_nodes_to_find(percentage, nodes) == expected


def profile(percentage: int | None) -> Profile:
    return replace(load_config({}).profiles[0], percentage_of_nodes_to_score=percentage)


STEP = np.arange(0, 300, 2)


def nodes(number: int = 300) -> World:
    world = World(0, nodes=0)
    for at in range(number):
        world.cache.placed.add_node(node(f"n{at:03}"))
    return world


def test_the_next_search_starts_where_the_last_one_stopped() -> None:
    rotation, world = Rotation(), nodes()
    taken = [rotation.sample(world.cluster, profile(1), STEP) for _ in range(2)]
    assert [sample.evaluated for sample in taken] == [199, 200]
    assert taken[0].rows.tolist() == list(range(0, 200, 2))
    assert taken[1].rows.tolist() == [*range(0, 100, 2), *range(200, 300, 2)]
    assert rotation.start == 99


def test_the_share_is_one_of_the_nodes_that_pre_filter_allows() -> None:
    rotation, world, allowed = Rotation(), nodes(), np.arange(100, 300)
    taken = [rotation.sample(world.cluster, profile(60), allowed, allowed) for _ in range(2)]
    assert [sample.evaluated for sample in taken] == [120, 120]
    assert taken[0].rows.tolist() == list(range(100, 220))
    assert taken[1].rows.tolist() == [*range(100, 140), *range(220, 300)]


def test_a_search_among_few_nodes_moves_the_start_among_all_nodes() -> None:
    """As in kube-scheduler: nextStartNodeIndex is taken modulo the number of all nodes."""
    rotation, world = Rotation(), nodes()
    few, none = np.arange(90), np.arange(0)
    assert rotation.sample(world.cluster, profile(1), few, few).evaluated == 90
    assert rotation.start == 90
    assert rotation.sample(world.cluster, profile(1), none, np.arange(250)).evaluated == 250
    assert rotation.start == (90 + 250) % 300
    world.cluster.placement = frozenset({"n000", "n001", "n002", "gone"})
    rotation.sample(world.cluster, profile(1), np.arange(2), np.arange(2))
    assert rotation.start == (40 + 2) % 3


def test_a_profile_that_scores_all_nodes_does_not_move_the_start() -> None:
    rotation, world = Rotation(), nodes(10)
    assert rotation.sample(world.cluster, profile(None), np.arange(5), np.arange(5)).evaluated == 5
    assert rotation.start == 0


def test_without_score_plugins_the_first_node_that_fits_is_taken() -> None:
    rotation, world, failed = Rotation(), nodes(), np.array([41])
    first_fit = replace(profile(1), compares_nodes=False)
    sample = rotation.sample(world.cluster, first_fit, STEP, failed=failed)
    assert (sample.rows.tolist(), sample.evaluated, sample.failed) == ([0], 1, None)
    assert rotation.start == 1
    rotation.start = 41
    assert rotation.sample(world.cluster, first_fit, STEP, failed=failed).failed == 41


def test_without_nodes_there_is_no_search() -> None:
    assert Rotation().sample(nodes(0).cluster, profile(30), np.arange(0)).evaluated == 0


def test_a_filter_that_fails_in_a_search_moves_the_start_by_the_other_nodes() -> None:
    """As in kube-scheduler, so that the next search begins with other nodes."""
    rotation, world = Rotation(), nodes()
    failed = np.array([41, 199])
    assert rotation.sample(world.cluster, profile(1), STEP, failed=failed).failed == 41
    assert rotation.start == 199 - 1
    assert rotation.sample(world.cluster, profile(1), STEP, failed=failed).failed == 199
    assert rotation.start == (198 + 199 - 2) % 300
    assert rotation.sample(world.cluster, profile(1), np.arange(0), failed=failed).failed == 199
    assert rotation.start == (95 + 300 - 2) % 300


def test_a_filter_that_fails_on_a_node_beyond_the_search_is_no_error() -> None:
    rotation, world = Rotation(), nodes()
    found = rotation.sample(world.cluster, profile(1), STEP, failed=np.array([199, 299]))
    assert (found.rows.tolist(), found.failed) == (list(range(0, 200, 2)), None)
    assert rotation.start == 199


def test_if_all_nodes_are_scored_a_filter_that_fails_anywhere_is_an_error() -> None:
    assert (
        Rotation().sample(nodes().cluster, profile(None), STEP, failed=np.array([299])).failed
        == 299
    )
