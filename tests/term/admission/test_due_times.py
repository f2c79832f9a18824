"""The times at which units are due."""

from __future__ import annotations

from podsched.term.admission.due_times import DueTimes


def test_a_unit_is_due_once_at_the_last_time_that_was_set() -> None:
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
