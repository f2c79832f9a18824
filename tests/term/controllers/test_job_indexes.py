"""Sets of completion indexes: their text, and what is done with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.term.controllers.job_indexes import Indexes

SETS = st.frozensets(st.integers(0, 30), max_size=20)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        ((), ""),
        ((3,), "3"),
        ((0, 1), "0,1"),
        ((0, 1, 2), "0-2"),
        ((1, 3, 4, 5, 7, 8), "1,3-5,7,8"),
    ],
)
def test_the_text_is_that_of_kubernetes(indexes: tuple[int, ...], text: str) -> None:
    assert str(Indexes.of(indexes)) == text


@pytest.mark.parametrize(
    ("text", "below", "found"),
    [
        ("1,3-5,7", 100, [1, 3, 4, 5, 7]),
        ("1,3-5,7", 5, [1, 3, 4]),
        ("x,2,-,3-y,4", 100, [2, 4]),
        ("", 100, []),
        ("5-3", 100, []),
        (f"2,{'9' * 5000},0-{'9' * 5000},4", 100, [2, 4]),
    ],
)
def test_a_text_is_read_up_to_a_limit(text: str, below: int, found: list[int]) -> None:
    assert list(Indexes.parse(text, below)) == found


@given(SETS)
def test_a_text_is_read_as_it_was_written(indexes: frozenset[int]) -> None:
    made = Indexes.of(indexes)
    assert list(Indexes.parse(str(made), 31)) == sorted(indexes)
    assert len(made) == len(indexes)


@given(SETS, SETS)
def test_sets_are_joined_and_compared(one: frozenset[int], other: frozenset[int]) -> None:
    first, second = Indexes.of(one), Indexes.of(other)
    assert list(first | second) == sorted(one | other)
    assert first.shared_with(second) == len(one & other)
    assert [index in first for index in range(31)] == [index in one for index in range(31)]


@given(SETS, st.integers(0, 10), st.integers(0, 31))
def test_the_first_missing_indexes_are_found(
    indexes: frozenset[int], count: int, below: int
) -> None:
    missing = [index for index in range(below) if index not in indexes]
    assert Indexes.of(indexes).first_missing(count, below) == missing[:count]


class Unlisted(tuple[tuple[int, int], ...]):
    """Intervals that can only be read one by one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        raise AssertionError


def test_an_index_is_found_without_reading_all_intervals() -> None:
    """Each pod that ends asks, and every second index of 100,000 may be complete."""
    found = Indexes(Unlisted([(1, 1), (3, 5), (8, 8)]))
    assert [index for index in range(10) if index in found] == [1, 3, 4, 5, 8]
