"""The parts of the promised starts that queues may have."""

from __future__ import annotations

from math import inf

from podsched.queues.backfill.parts import equal_parts, has_one_left


def test_queues_have_equal_parts_and_those_that_need_less_leave_theirs_to_others() -> None:
    assert equal_parts(100, {"a": inf}) == {"a": 100}
    assert equal_parts(100, {"a": inf, "b": inf, "c": inf}) == {"a": 33, "b": 33, "c": 34}
    assert equal_parts(100, {"a": inf, "easy": 1, "b": inf}) == {"a": 49, "easy": 1, "b": 50}
    assert equal_parts(2, {"a": inf, "b": inf, "c": 5}) == {"a": 1, "b": 1, "c": 1}


def test_a_queue_has_no_more_than_its_part_while_another_has_less_than_its_own() -> None:
    parts = {"a": 2, "b": 2}
    assert has_one_left("a", 4, parts, {"a": 1})
    assert not has_one_left("a", 4, parts, {"a": 2})
    assert not has_one_left("a", 4, parts, {"a": 2, "b": 1})
    assert has_one_left("b", 4, parts, {"a": 2, "b": 1})
    assert not has_one_left("b", 4, parts, {"a": 2, "b": 2})
    # ``a`` had all of them before ``b`` got backfill, and keeps them.
    assert not has_one_left("b", 4, parts, {"a": 4})
    assert has_one_left("b", 4, parts, {"a": 3})


def test_what_is_no_part_of_any_queue_is_for_all() -> None:
    # A unit of higher priority is promised a start beside the one that EASY has promised already.
    assert has_one_left("easy", 9, {"easy": 1, "a": 7}, {"easy": 1, "a": 7})
    assert not has_one_left("easy", 8, {"easy": 1, "a": 7}, {"easy": 1, "a": 6})
