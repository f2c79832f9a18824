"""How many feasible nodes are scored, and where the search for them begins."""

from __future__ import annotations

import numpy as np
import pytest

from podsched.decide.evaluation.sampling import Rotation, num_feasible_nodes_to_find


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


def test_the_next_search_starts_where_the_last_one_stopped() -> None:
    rotation = Rotation()
    order = np.arange(10)
    feasible = np.array([1, 3, 5, 7, 9])
    taken = [rotation.take(order, feasible, 2) for _ in range(3)]
    assert [rows.tolist() for rows, _ in taken] == [[1, 3], [5, 7], [9, 1]]
    assert [processed for _, processed in taken] == [4, 4, 4]
