"""What is asked for is found, whichever way it was asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from podsched.ask.decisions.frames import Frame, FrameWriter, frames_in, pod_mark
from podsched.ask.decisions.log import facts_of
from podsched.ask.decisions.rows import DecisionQuery, find


def row(number: int, name: str, node: str, outcome: str, at: float, **more: Any) -> list[Any]:
    return [
        number, "default", name, f"uid-{name}", 1, "default-scheduler", "c", 1, 1, 3, 2, node, 1,
        1, 0, 0, at - 1, at - 0.5, at, 0.001, outcome, "0/3 nodes" if not node else "", at, more,
    ]  # fmt: skip


def segment(*rows: list[Any]) -> list[Frame]:
    """A segment with a frame for each row."""
    writer = FrameWriter()
    frames = [writer.facts(facts_of("r"), 1.0)]
    for one in rows:
        frames.append(writer.rows([one], (one[22], one[22]), [pod_mark(one[1], one[2])]))
    return list(frames_in(b"".join(frames)))


LOG = (
    segment(
        row(3, "b", "n2", "Scheduled", 30.0),
        row(4, "a", "n1", "Scheduled", 40.0),
        row(5, "b", "n3", "Scheduled", 50.0, bound_node="n2"),
    ),
    segment(row(1, "a", "", "Unschedulable", 10.0), row(2, "c", "n1", "Error", 20.0)),
)


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ({}, [1, 2, 3, 4]),
        ({"limit": 2}, [3, 4]),
        ({"namespace": "default", "name": "a"}, [1, 4]),
        ({"namespace": "other"}, []),
        ({"node_name": "n1"}, [2, 4]),
        ({"since": 20.0}, [2, 3, 4]),
        ({"since": 35.0}, [4]),
        ({"since": 15.0, "until": 35.0}, [2, 3]),
        ({"reason": "UNSCHED"}, [1]),
        ({"reason": "0/3 nodes"}, [1]),
        ({"until": 30.0}, [1, 2, 3]),
        ({"shadow": True}, [5]),
    ],
)
def test_the_decisions_that_match_are_found(query: dict[str, Any], numbers: list[int]) -> None:
    assert [record.number for record in find(LOG, DecisionQuery(**query))] == numbers


@pytest.mark.parametrize("limit", [1, 2])
def test_page_by_page_all_decisions_are_found_although_an_open_one_is_written_late(
    limit: int,
) -> None:
    late = row(3, "c", "n1", "", 9.0)
    late[22] = 0.0  # it has not ended
    log = [
        segment(row(1, "a", "n1", "Scheduled", 10.0), row(2, "b", "n1", "Scheduled", 10.5)),
        segment(row(4, "d", "n1", "Scheduled", 10.6)),
    ]
    log[1] += frames_in(FrameWriter().rows([late], (9.0, 9.0), [pod_mark("default", "c")]))
    numbers, until = set(), 20.0
    for _ in range(4):
        page = find(reversed(log), DecisionQuery(until=until, limit=limit))
        numbers |= {record.number for record in page}
        ends = (r.ended_time if r.HasField("ended_time") else r.decided_time for r in page)
        until = min(end.ToMicroseconds() for end in ends) / 1e6 - (0.01 if limit == 1 else 0)
    assert numbers == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("limit", "numbers"), [(1, [4]), (2, [3, 4]), (3, [3, 4, 2]), (9, [3, 4, 1, 2])]
)
def test_the_latest_are_those_written_last_when_the_clock_was_set_back(
    limit: int, numbers: list[int]
) -> None:
    before = segment(row(1, "a", "n1", "Scheduled", 100.0), row(2, "b", "n1", "Scheduled", 101.0))
    after = segment(row(3, "c", "n1", "Scheduled", 50.0), row(4, "d", "n1", "Scheduled", 51.0))
    found = find((after, before), DecisionQuery(limit=limit))
    assert [record.number for record in found] == numbers


@pytest.mark.parametrize("empty", [[], segment()])
def test_a_segment_without_decisions_hides_none(empty: list[Frame]) -> None:
    found = find((empty, LOG[0], empty, LOG[1]), DecisionQuery(since=5.0))
    assert [record.number for record in found] == [1, 2, 3, 4]


def test_a_garbled_frame_hides_itself_alone() -> None:
    whole = segment(row(1, "a", "n1", "Scheduled", 1.0), row(2, "b", "n1", "Scheduled", 2.0))
    bad = replace(whole[1], data=b"garbage")
    assert [r.number for r in find([[whole[0], bad, whole[2]]], DecisionQuery())] == [2]


@pytest.mark.parametrize(
    "garbled",
    [
        7,
        [],
        [[1], *row(1, "a", "n1", "Scheduled", 1.0)[1:]],
        [*row(1, "a", "n1", "Scheduled", 1.0)[:-1], 7],
        [2**63, *row(1, "a", "n1", "Scheduled", 1.0)[1:]],
        [*row(1, "a", "n1", "Scheduled", 1.0)[:22], 1e308, None],
        [*row(1, "a", "n1", "Scheduled", 1.0)[:22], "then", None],
        [*row(1, "a", "n1", "Scheduled", 1.0)[:16], -1.0, *row(1, "a", "n1", "", 1.0)[17:]],
        row(1, "a", "n1", "Scheduled", 253_402_300_800.0),
    ],
)
def test_a_row_that_is_no_decision_is_passed_over_and_told(garbled: Any) -> None:
    whole = segment(row(2, "b", "n1", "Scheduled", 2.0))
    bad = next(frames_in(FrameWriter().rows([garbled], (1.0, 1.0), [])))
    told: list[str] = []
    found = find([[*whole, bad]], DecisionQuery(), told.append)
    assert [record.number for record in found] == [2]
    assert len(told) == 1 and told[0].startswith("a row is not a decision: ")


@pytest.mark.parametrize("facts", [7, {"fields": 7}, {"fields": ["number"]}, {"fields": [[]]}])
def test_facts_of_the_wrong_type_hide_no_other_segment(facts: Any) -> None:
    writer = FrameWriter()
    rows = writer.rows([row(1, "a", "n1", "Scheduled", 1.0)], (1.0, 1.0), [])
    odd = list(frames_in(writer.facts(facts, 1.0) + rows))
    found = find([odd, segment(row(2, "b", "n1", "Scheduled", 2.0))], DecisionQuery())
    assert 2 in [record.number for record in found]


def test_decisions_that_a_copied_file_has_again_are_found_once() -> None:
    found = find((*LOG, *LOG), DecisionQuery(limit=3))
    assert [record.number for record in found] == [2, 3, 4]


def test_decisions_of_an_unknown_process_are_told_and_hide_none_of_another() -> None:
    lost = segment(row(1, "a", "n1", "Scheduled", 1.0))[1:]
    others = segment(row(1, "b", "n1", "Scheduled", 2.0))[1:]
    told: list[str] = []
    found = find((others, lost), DecisionQuery(), told.append)
    assert [record.name for record in found] == ["a", "b"]
    assert told == ["a segment does not tell whose decisions it has"] * 2
