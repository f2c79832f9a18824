"""Fewer pods than wanted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from podsched.queues.objects import PodSet
from podsched.queues.partial import search_counts, some_counts
from support.examples import examples


def most(limit: int, *pod_sets: tuple[int, int | None]) -> list[int] | None:
    """Return the largest counts whose sum is within a limit."""
    sets = [PodSet("main", count, {}, least) for count, least in pod_sets]
    return search_counts(sets, lambda counts: counts if sum(counts) <= limit else None)


def test_all_pod_sets_shrink_in_proportion() -> None:
    assert most(15, (10, 0), (10, 5)) == [6, 8]


def test_without_a_minimum_there_is_nothing_to_give_up() -> None:
    assert most(5, (10, None)) is None
    assert most(5, (10, 6)) is None
    assert most(9, (4, 9), (10, 1)) == [4, 5]


def test_some_counts_end_with_the_minimum() -> None:
    def some(count: int, least: int | None) -> list[list[int]]:
        return list(some_counts([PodSet("main", count, {}, least)]))

    assert some(4, 2) == [[3], [2]]
    assert some(4, None) == []
    assert some(100, 20) == [[90], [80], [70], [60], [50], [40], [30], [20]]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=4), st.data())
@examples(300)
def test_the_binary_search_finds_what_a_plain_one_does(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    pod_sets = [(max(pair), min(pair)) for pair in sizes]
    limit = data.draw(st.integers(0, 36))
    total = sum(count - least for count, least in pod_sets)
    steps = (
        [count - (count - least) * step // total for count, least in pod_sets]
        for step in range(total + 1)
        if total
    )
    plain = next((counts for counts in steps if sum(counts) <= limit), None)
    assert most(limit, *pod_sets) == plain
