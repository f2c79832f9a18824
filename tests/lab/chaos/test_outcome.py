"""The figures of a run."""

from __future__ import annotations

from podsched.lab.chaos.outcome import judge
from support.chaos_history import Story, good_story


def test_the_figures_of_a_history_are_added_up() -> None:
    outcome = judge(good_story().history)
    figures = outcome.as_dict()
    assert figures["seed"] == 7
    assert figures["faults"] == {"kill-leader": 1}
    assert (figures["terms"], figures["bound"]) == (2, 4)
    assert figures["violations"] == []
    assert outcome.lines()[-1] == "  0 violations"
    assert all(len(line) <= 80 for line in outcome.lines())


def test_a_history_that_was_broken_off_says_so() -> None:
    assert "  the history is not complete: the run was broken off" in judge(Story().history).lines()
