"""The decision on a bound pod, as its record tells it."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.ask.explain.decided import NO_SCORES, NOT_RECORDED, Recorded, add_record
from podsched.v1.decisions_pb2 import DecisionRecord
from podsched.v1.scheduling_pb2 import Attempt, Explanation, PodReference, PodState


def record(number: int, name: str = "web", node: str = "", **parts: Any) -> DecisionRecord:
    made = DecisionRecord(
        number=number, namespace="default", name=name, node_name=node, replica="me_1", **parts
    )
    made.queued_time.FromMilliseconds(1000 * number)
    made.popped_time.FromMilliseconds(1000 * number + 250)
    made.decided_time.FromMilliseconds(1000 * number + 300)
    return made


def bound(node: str = "a") -> Explanation:
    pod = PodReference(namespace="default", name="web", node_name=node)
    return Explanation(state=PodState.BOUND, pod=pod)


@pytest.fixture
def deciding() -> DecisionRecord:
    """The second attempt, number 9, which chose a of three nodes."""
    made = record(9, node="a", term=4, attempt=2, feasible_nodes=3, tied_nodes=2, together=5)
    for node, total in (("a", 90), ("b", 90), ("c", 70)):
        made.scores.add(node_name=node, total=total, plugins={"Fit": total - 30, "Taints": 30})
    return made


def test_replica_term_scores_and_ties_are_told(deciding: DecisionRecord) -> None:
    answer = bound()
    add_record(answer, Recorded([deciding]), {"Taints": 3})
    facts = answer.decision
    assert (facts.replica, facts.term, facts.attempts, facts.node_name) == ("me_1", 4, 2, "a")
    assert (facts.feasible_nodes, facts.together, facts.waited_seconds) == (3, 5, 0.25)
    assert [(s.node, s.total, s.rank) for s in answer.scores] == [
        ("a", 90, 1),
        ("b", 90, 1),
        ("c", 70, 3),
    ]
    assert [(p.plugin, p.score, p.weight) for p in answer.scores[0].plugins] == [
        ("Fit", 60, 1),
        ("Taints", 30, 3),
    ]
    assert answer.tied_nodes == 2
    assert not answer.notes


def test_attempts_before_it_are_told_with_their_messages(deciding: DecisionRecord) -> None:
    failed = record(3, attempt=1, outcome="Unschedulable", message="0/3 nodes are available")
    answer = bound()
    add_record(answer, Recorded([failed, deciding]), {})
    [attempt] = answer.attempts
    assert (attempt.number, attempt.outcome) == (1, "Unschedulable")
    assert attempt.message == "0/3 nodes are available"


def test_attempts_before_a_restart_of_the_replica_are_told_too(deciding: DecisionRecord) -> None:
    """Its process counts its decisions from 1 again."""
    failed = record(3, attempt=7, outcome="Unschedulable")
    failed.number, failed.replica = 90, "me_0"
    answer = bound()
    add_record(answer, Recorded([failed, deciding]), {})
    assert [attempt.number for attempt in answer.attempts] == [7]


def test_pods_that_got_a_node_before_it_came_between(deciding: DecisionRecord) -> None:
    others = [record(5, "one", "b"), record(6, "none"), record(8, "two", "a"), deciding]
    later = record(12, "later", "c")
    answer = bound()
    add_record(answer, Recorded([deciding], [*others, later]), {})
    told = [(pod.name, pod.node_name) for pod in answer.decision.pods_between]
    assert told == [("one", "b"), ("two", "a")]
    assert answer.decision.pods_between_count == 2


def test_a_node_that_was_refused_to_the_whole_group_was_given_to_nobody(
    deciding: DecisionRecord,
) -> None:
    refused = {"outcome": "Unschedulable", "message": "waiting for minCount pods"}
    mine, other = record(3, node="a", attempt=1, **refused), record(4, "other", "b", **refused)
    later = record(12, node="a", attempt=3, **refused)
    answer = bound()
    answer.attempts.add(number=1)
    add_record(answer, Recorded([mine, deciding, later], [mine, other, deciding]), {})
    assert answer.decision.pods_between_count == 0
    assert answer.decision.attempts == 2
    assert answer.attempts[0].message == "waiting for minCount pods"


def test_what_was_not_recorded_is_said() -> None:
    answer = bound()
    add_record(answer, Recorded(), {})
    assert list(answer.notes) == [NOT_RECORDED]
    answer = bound(node="elsewhere")
    add_record(answer, Recorded([record(9, node="a")]), {})
    assert list(answer.notes) == [NOT_RECORDED]
    answer = bound()
    add_record(answer, Recorded([record(9, node="a")], cut=True), {})
    assert list(answer.notes) == [NO_SCORES]
    assert answer.decision.pods_between_count == -1


def test_a_pending_pods_attempts_get_the_words_of_their_records() -> None:
    answer = Explanation(state=PodState.PENDING, attempts=[Attempt(number=1), Attempt(number=2)])
    records = [record(3, attempt=1, outcome="Unschedulable", message="first")]
    add_record(answer, Recorded(records), {})
    assert [attempt.message for attempt in answer.attempts] == ["first", ""]
    assert not answer.notes
