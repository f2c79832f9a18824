"""Decisions and their outcomes come together in the log, and nothing of it makes anybody wait."""

from __future__ import annotations

import time
from typing import Any

from podsched.ask.decisions.frames import FrameWriter
from podsched.ask.decisions.log import MOST_BUFFERED, DecisionLog, facts_of
from podsched.ask.decisions.rows import DecisionQuery
from podsched.ask.decisions.stores import MemoryStore
from podsched.telemetry.instruments import MetricRegistry
from podsched.telemetry.metrics import DecisionMetrics
from podsched.v1.decisions_pb2 import DecisionRecord


class Full:
    """A store without room."""

    def append(self, frame: bytes) -> None:
        raise OSError("No space left on device")


class Logged:
    """A log in memory that is flushed by hand."""

    def __init__(self, store: Any = None) -> None:
        first = FrameWriter().facts(facts_of("scheduler-0_ab12"), 1.0)
        self.metrics = DecisionMetrics(MetricRegistry())
        self.log = DecisionLog(store or MemoryStore(1 << 20, first), self.metrics)
        self.now = time.monotonic()

    def decide(self, *names: str, node: str = "n1", more: dict[str, Any] | None = None) -> None:
        number = self.log.numbers(len(names))
        common = ("default-scheduler", 7, 42, 0, 3, self.now - 0.2, self.now, 0.001)
        pods = [
            (number + at, "default", name, f"uid-{name}", 1, "c1", 9, 5, node, 300,
             self.now - 0.5, more)
            for at, name in enumerate(names, 1)
        ]  # fmt: skip
        self.log.put(("decided", common, pods), len(pods))

    def bind(self, *names: str) -> None:
        self.log.put(("bound", [f"uid-{name}" for name in names], self.now + 0.1))

    def found(self, **query: Any) -> list[DecisionRecord]:
        return list(self.log.find(DecisionQuery(**query)).records)


def test_a_decision_has_all_that_was_handed_over_and_its_outcome() -> None:
    logged = Logged()
    scores = [("n1", 300, {"Fit": 300}), ("n2", 290, {"Fit": 290})]
    more = {"scores": scores, "tied_nodes": 1, "plugin_seconds": {"Fit": 0.5}}
    logged.decide("a", "b", more=more)
    logged.bind("a", "b")
    one, other = logged.found()
    assert (one.number, one.name, other.number, other.name) == (1, "a", 2, "b")
    assert (one.replica, one.term, one.revision) == ("scheduler-0_ab12", 7, 42)
    assert (one.evaluated_nodes, one.feasible_nodes, one.node_name, one.total) == (9, 5, "n1", 300)
    assert (one.together, one.rotation, one.draws, one.pod_class) == (2, 0, 3, "c1")
    assert (one.outcome, one.message) == ("Scheduled", "")
    waited = one.decided_time.ToMicroseconds() - one.queued_time.ToMicroseconds()
    assert waited == 500_000
    assert abs(one.ended_time.ToMicroseconds() / 1e6 - time.time() - 0.1) < 5
    assert [(s.node_name, s.total, dict(s.plugins)) for s in one.scores] == scores
    assert one.plugin_seconds["Fit"] == 0.5


def test_a_decision_whose_outcome_takes_long_is_there_before_it_and_once_afterwards() -> None:
    logged = Logged()
    logged.decide("slow")
    assert logged.found() == [], "it waits for its outcome"
    logged.log.flush(hold=-1.0)
    assert [record.outcome for record in logged.found()] == [""]
    logged.log.put(("ended", "uid-slow", "Rejected", "no", logged.now, {"nominated_node": "n2"}))
    (record,) = logged.found()
    assert (record.outcome, record.message, record.nominated_node) == ("Rejected", "no", "n2")


def test_what_a_term_leaves_open_stays_open() -> None:
    logged = Logged()
    logged.decide("a")
    logged.log.put(("term", {"term": 8}))
    logged.bind("a")
    assert [record.outcome for record in logged.found()] == [""]


def test_an_attempt_that_is_decided_again_is_a_decision_of_its_own() -> None:
    logged = Logged()
    logged.decide("a", node="")
    logged.decide("a")
    logged.bind("a")
    assert [(r.number, r.outcome) for r in logged.found()] == [(1, ""), (2, "Scheduled")]


def test_a_full_buffer_drops_and_counts() -> None:
    logged = Logged()
    names = [f"p{number}" for number in range(MOST_BUFFERED)]
    logged.decide(*names)
    logged.decide("one-too-many")
    assert logged.metrics.dropped.labels().value == 1
    logged.bind(*names)
    logged.log.flush()
    logged.decide("a")
    logged.bind("a")
    assert logged.found(name="a", namespace="default")[0].number == MOST_BUFFERED + 2
    assert logged.metrics.dropped.labels().value == 1


def test_outcomes_that_the_full_buffer_dropped_keep_no_later_decision_out() -> None:
    logged = Logged()
    names = [f"p{number}" for number in range(MOST_BUFFERED)]
    for name in names:  # each fills a place of the buffer, so that the outcomes have none
        logged.decide(name)
    for name in names:
        logged.bind(name)
    logged.log.flush()
    logged.decide("a", "b")
    logged.bind("a", "b")
    (record,) = logged.found(name="b", namespace="default")
    assert record.outcome == "Scheduled"
    assert logged.metrics.dropped.labels().value == 0
    (open_one,) = logged.found(name=names[-1], namespace="default")
    assert open_one.outcome == ""


def test_an_outcome_that_comes_after_others_were_dropped_is_written() -> None:
    logged = Logged()
    logged.decide("slow")
    for number in range(MOST_BUFFERED + 1):
        logged.bind(f"p{number}")
    logged.log.flush()
    logged.bind("slow")
    assert [record.outcome for record in logged.found()] == ["Scheduled"]


def test_more_dropped_outcomes_than_are_noted_keep_no_later_decision_out() -> None:
    logged = Logged()
    names = [f"p{number}" for number in range(MOST_BUFFERED)]
    logged.decide(*names)
    for _ in range(MOST_BUFFERED):
        logged.bind("other")
    logged.bind(*names)
    logged.bind(*(f"other{number}" for number in range(MOST_BUFFERED)))
    logged.log.flush()
    logged.decide("a")
    assert logged.metrics.dropped.labels().value == 0


def test_a_term_that_begins_while_the_buffer_is_full_is_noted() -> None:
    logged = Logged()
    logged.decide("a")
    for number in range(MOST_BUFFERED):
        logged.bind(f"p{number}")
    logged.log.put(("term", {"term": 8}))
    logged.log.flush()
    logged.bind("a")
    assert [record.outcome for record in logged.found()] == [""]


def test_a_disk_without_room_costs_decisions_and_nothing_else() -> None:
    logged = Logged(Full())
    logged.decide("a")
    logged.bind("a")
    logged.log.flush()
    assert logged.metrics.dropped.labels().value == 1
    assert logged.metrics.written.labels().value == 0


def test_a_decision_that_cannot_be_written_costs_no_other() -> None:
    logged = Logged()
    logged.decide("bad", more={"plugin_seconds": {"P": 1 << 70}})
    logged.decide("good")
    logged.bind("bad", "good")
    assert [record.name for record in logged.found()] == ["good"]
    assert logged.metrics.dropped.labels().value == 1


def test_the_latest_decisions_on_a_pod_are_found_by_name_and_uid() -> None:
    logged = Logged()
    for name in ("a", "b", "a"):
        logged.decide(name)
        logged.bind(name)
    assert [record.number for record in logged.log.latest("default", "a")] == [1, 3]
    assert logged.log.latest("default", "a", uid="another") == []
    assert [record.number for record in logged.log.latest("default", "a", most=1)] == [3]
