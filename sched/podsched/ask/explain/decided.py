"""The decision that placed a pod, from the records of the replica that made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.term.cycle.outcomes import SCHEDULED
from podsched.v1.decisions_pb2 import DecisionRecord
from podsched.v1.scheduling_pb2 import (
    Attempt,
    DecisionFacts,
    Explanation,
    NodeScore,
    PodReference,
    PodState,
)

#: Max pods named of those that were decided on while this one waited.
MAX_BETWEEN: Final = 10
NOT_RECORDED: Final = (
    "This replica has no record of the decision: another one made it, or its decision log does "
    "not go back so far."
)
NO_SCORES: Final = "The scores of this decision were not recorded, to keep the log cheap."


@dataclass(frozen=True, slots=True)
class Recorded:
    """A replica's records for a pod: its decisions, and other pods' decisions while it waited.

    The oldest come first. ``cut``: there were more decisions while it waited than were read.
    """

    decisions: Sequence[DecisionRecord] = ()
    meanwhile: Sequence[DecisionRecord] = ()
    cut: bool = False

    @property
    def deciding(self) -> DecisionRecord | None:
        """The latest decision that gave the pod a node."""
        return next(filter(_gave_node, reversed(self.decisions)), None)


def _gave_node(record: DecisionRecord) -> bool:
    """Whether the chosen node was not refused afterwards, such as for the pod's whole group."""
    return bool(record.node_name) and record.outcome in ("", SCHEDULED)


def add_record(answer: Explanation, recorded: Recorded, weights: Mapping[str, int]) -> None:
    """Add what was recorded to the explanation of a pod.

    weights: of the profile's Score plugins, by name.
    """
    _add_messages(answer, recorded.decisions)
    if answer.state not in (PodState.BOUND, PodState.BINDING):
        return
    deciding = recorded.deciding
    if deciding is None or deciding.node_name != answer.pod.node_name:
        answer.notes.append(NOT_RECORDED)
        return
    answer.decision.CopyFrom(_facts(deciding, recorded))
    answer.attempts.extend(_failures(recorded.decisions, deciding))
    answer.tied_nodes = deciding.tied_nodes
    answer.scores.extend(_scores(deciding, weights))
    if not answer.scores:
        answer.notes.append(NO_SCORES)


def _add_messages(answer: Explanation, decisions: Iterable[DecisionRecord]) -> None:
    """Add the recorded messages to the attempts that the queue has kept."""
    messages = {record.attempt: record.message for record in decisions}
    for attempt in answer.attempts:
        attempt.message = messages.get(attempt.number) or attempt.message


def _failures(decisions: Iterable[DecisionRecord], deciding: DecisionRecord) -> Iterable[Attempt]:
    """Yield the failed attempts before the decision."""
    for record in decisions:
        if _is_before(record, deciding) and record.outcome:
            yield Attempt(
                number=record.attempt,
                outcome=record.outcome,
                message=record.message,
                time=record.decided_time,
            )


def _is_before(one: DecisionRecord, other: DecisionRecord) -> bool:
    """Whether a decision was made before another; each process counts its own."""
    if one.replica == other.replica:
        return one.number < other.number
    return one.decided_time.ToMicroseconds() < other.decided_time.ToMicroseconds()


def _facts(record: DecisionRecord, recorded: Recorded) -> DecisionFacts:
    earlier = [r for r in recorded.meanwhile if _is_before(r, record) and _gave_node(r)]
    return DecisionFacts(
        replica=record.replica,
        term=record.term,
        revision=record.revision,
        node_name=record.node_name,
        evaluated_nodes=record.evaluated_nodes,
        feasible_nodes=record.feasible_nodes,
        attempts=record.attempt,
        outcome=record.outcome,
        waited_seconds=max(0.0, _between(record.queued_time, record.popped_time)),
        decided_seconds=record.seconds,
        together=record.together,
        pods_between=[_pod(r) for r in earlier[-MAX_BETWEEN:]],
        pods_between_count=-1 if recorded.cut else len(earlier),
        time=record.decided_time,
    )


def _pod(record: DecisionRecord) -> PodReference:
    return PodReference(
        namespace=record.namespace, name=record.name, uid=record.uid, node_name=record.node_name
    )


def _between(start: Timestamp, end: Timestamp) -> float:
    return (end.ToMicroseconds() - start.ToMicroseconds()) / 1e6


def _scores(record: DecisionRecord, weights: Mapping[str, int]) -> Iterable[NodeScore]:
    for node in record.scores:
        found = NodeScore(node=node.node_name, total=node.total)
        found.rank = 1 + sum(other.total > node.total for other in record.scores)
        for plugin in sorted(node.plugins):
            found.plugins.add(
                plugin=plugin, score=node.plugins[plugin], weight=weights.get(plugin, 1)
            )
        yield found
