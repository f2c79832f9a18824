"""What is due, and when."""

from __future__ import annotations

from weakref import WeakSet

from podsched.lib.due_times import DueTimes


def test_a_key_is_due_once_at_the_last_time_that_was_set() -> None:
    times = DueTimes()
    for key, at in (("a", 3.0), ("b", 5.0), ("a", 7.0), ("c", 4.0), ("a", 7.0)):
        times.set(key, at)
    times.discard("c")
    assert times.next_time() == 5.0
    assert list(times.pop_due(7.0)) == [("b", 5.0), ("a", 7.0)]
    assert times.next_time() is None
    times.set("a", 7.0)
    assert list(times.pop_due(7.0)) == [("a", 7.0)]


def test_none_is_due_after_all_were_dropped() -> None:
    times = DueTimes()
    times.set("a", 3.0)
    times.clear()
    assert "a" not in times
    assert list(times.pop_due(9.0)) == []


def test_a_key_may_be_due_earlier_but_not_later() -> None:
    times = DueTimes()
    for key, at in (("a", 5.0), ("b", 3.0), ("a", 1.0), ("a", 9.0)):
        times.advance(key, at)
    assert times.next_time() == 1.0
    assert list(times.pop_due(4.0)) == [("a", 1.0), ("b", 3.0)]
    assert list(times.pop_due(10.0)) == []


def test_keys_that_are_not_taken_stay_due() -> None:
    times = DueTimes()
    for key in "abc":
        times.set(key, 1.0)
    assert next(times.pop_due(1.0)) == ("a", 1.0)
    assert list(times.pop_due(1.0)) == [("b", 1.0), ("c", 1.0)]


def test_a_key_may_become_due_again_while_keys_are_taken() -> None:
    times = DueTimes()
    times.set("a", 1.0)
    taken = times.pop_due(2.0)
    assert next(taken) == ("a", 1.0)
    times.set("a", 2.0)
    assert list(taken) == [("a", 2.0)]


class Key(str):
    """A key whose references can be counted."""

    __slots__ = ("__weakref__",)


def test_what_is_due_no_more_is_forgotten_long_before_its_time() -> None:
    """Such as the end of a job that has a week, and takes a minute."""
    times, alive = DueTimes(), WeakSet[Key]()
    for number in range(1000):
        key = Key(number)
        alive.add(key)
        times.set(key, 1e9 + number)
        times.discard(key)
    times.set("a", 2e9)
    assert len(alive) < 50
    assert times.next_time() == 2e9
