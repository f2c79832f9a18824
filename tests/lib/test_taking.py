"""What has been collected is taken once."""

from __future__ import annotations

from podsched.lib.taking import take_all


def test_what_is_collected_after_it_was_taken_is_left_for_the_next_time() -> None:
    collected = {"a": 1, "b": 2}
    taken = take_all(collected)
    collected["c"] = 3
    assert taken == {"a": 1, "b": 2}
    assert take_all(collected) == {"c": 3}
