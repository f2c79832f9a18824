"""The timeline's parts."""

from __future__ import annotations

from podsched.lab.chaos.outcome import judge
from podsched.lab.chaos.report import (
    Bar,
    fault_bars,
    leader_bars,
    per_second,
    rows_of,
    timeline,
    waiting,
)
from support.chaos_history import Story


def test_a_leader_has_a_bar_from_its_term_to_the_next_one_or_its_release() -> None:
    story = Story()
    story.term("s0_1")
    story.wait(1)
    story.term("s1_2")
    story.released()
    story.wait(1)
    story.settles()
    bars = leader_bars(judge(story.history))
    assert [(bar.text, round(bar.begins, 2), round(bar.ends, 2)) for bar in bars] == [
        ("s0, term 101", 0.01, 1.02),
        ("s1, term 102", 1.02, 1.03),
    ]
    assert bars[0].colour != bars[1].colour


def test_a_fault_that_was_not_over_lasts_to_the_end() -> None:
    story = Story()
    story.fault(seconds=2)
    story.settles()
    [bar] = fault_bars(story.history)
    assert (bar.begins, bar.ends, bar.text) == (0, 2, "SIGKILL")


def test_bars_that_overlap_are_in_rows_of_their_own() -> None:
    first, second, third = (Bar(at, at + 2, "", "") for at in (0.0, 1.0, 3.0))
    assert rows_of([first, second, third]) == [[first, third], [second]]


def test_bindings_are_counted_by_the_second() -> None:
    assert per_second([0.1, 0.2, 2.5], 2.9) == [(0.0, 2.0), (1.0, 0.0), (2.0, 1.0)]


def test_a_bar_without_room_for_its_text_has_the_short_one_if_there_is_room_for_that() -> None:
    story = Story()
    story.term("first_1")
    story.wait(1)
    story.term("second_2")
    story.wait(10)
    story.settles()
    drawn = timeline(judge(story.history))
    assert ">first</text>" in drawn
    assert ">second, term 102</text>" in drawn


def test_pods_without_a_node_are_waiting() -> None:
    story = Story()
    story.pod("a")
    story.wait(1)
    story.pod("b")
    story.becomes("a", node="node-1")
    assert [count for _, count in waiting(story.history)] == [1.0, 1.0]


def test_a_violation_is_drawn_with_what_it_is() -> None:
    story = Story()
    story.call("create", "<ghost>", uid="u")
    drawn = timeline(judge(story.history))
    assert drawn.startswith("<svg ")
    assert "acknowledged create exists: pods/default/&lt;ghost&gt; was acknowledged" in drawn
