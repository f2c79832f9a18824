"""A decision as a row of plain values, on its way into the log and out of it.

``FIELDS`` names the places; every segment says with which names it was written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.ask.decisions.frames import FrameIndex, pod_mark
from podsched.v1 import decisions_pb2

#: Names of a row's values: those of ``DecisionRecord``, as far as it has them.
FIELDS: Final = (
    "number", "namespace", "name", "uid", "attempt", "profile", "pod_class", "term", "revision",
    "evaluated_nodes", "feasible_nodes", "node_name", "total", "together", "rotation", "draws",
    "queued_time", "popped_time", "decided_time", "seconds", "outcome", "message", "ended_time",
    "more",
)  # fmt: skip
NAMESPACE, NAME, UID = 1, 2, 3
QUEUED, POPPED, DECIDED, OUTCOME, MESSAGE, ENDED, MORE = 16, 17, 18, 20, 21, 22, 23
#: Places of times: Unix seconds, 0.0 where unset; monotonic seconds in what is handed over.
TIMES: Final = (QUEUED, POPPED, DECIDED, ENDED)
_TIME_NAMES: Final = frozenset(FIELDS[place] for place in TIMES)

Row = Sequence[Any]


def shape_of(fields: Iterable[str]) -> Mapping[str, int]:
    """Return the places of a segment's fields by name."""
    return {name: place for place, name in enumerate(fields)}


def message_of(row: Row, shape: Mapping[str, int], replica: str) -> decisions_pb2.DecisionRecord:
    """Return a row as a message."""
    record = decisions_pb2.DecisionRecord(replica=replica)
    for name, place in shape.items():
        value = row[place] if place < len(row) else None
        if name == "more" or value is None:
            continue
        if name in _TIME_NAMES:
            if value:
                getattr(record, name).CopyFrom(timestamp(value))
        else:
            setattr(record, name, value)
    _add_more(record, row[shape["more"]] or {})
    return record


def _add_more(record: decisions_pb2.DecisionRecord, more: Mapping[str, Any]) -> None:
    record.nominated_node = more.get("nominated_node", "")
    record.victims = more.get("victims", 0)
    record.beyond = more.get("beyond", 0)
    record.ended_after = more.get("ended_after", 0)
    record.begun_after = more.get("begun_after", 0)
    record.bound_node = more.get("bound_node", "")
    record.tied_nodes = more.get("tied_nodes", 0)
    record.plugin_seconds.update(more.get("plugin_seconds", {}))
    for node_name, total, plugins in more.get("scores", ()):
        record.scores.add(node_name=node_name, total=total, plugins=plugins)


def timestamp(seconds: float) -> Timestamp:
    """Return Unix seconds as a Timestamp, to the microsecond."""
    stamp = Timestamp()
    stamp.FromMicroseconds(round(seconds * 1e6))
    return stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuery:
    """Which decisions are wanted; what is empty does not matter.

    ``since`` and ``until``: Unix seconds between which they ended.
    """

    namespace: str = ""
    name: str = ""
    node_name: str = ""
    since: float = 0.0
    until: float = math.inf
    reason: str = ""
    """A part of the outcome or of the message, in any case."""
    shadow: bool = False
    limit: int = 100

    @classmethod
    def of(cls, request: decisions_pb2.DecisionsRequest, most: int) -> DecisionQuery:
        """Return what a request asks for, of at most so many decisions."""
        since = request.since.ToMicroseconds() / 1e6 if request.HasField("since") else 0.0
        until = request.until.ToMicroseconds() / 1e6 if request.HasField("until") else math.inf
        return cls(
            namespace=request.namespace,
            name=request.name,
            node_name=request.node_name,
            since=since,
            reason=request.reason,
            shadow=request.shadow,
            until=until,
            limit=min(request.limit or 100, most),
        )

    def may_be_in(self, index: FrameIndex) -> bool:
        """Whether such a decision may be in a frame."""
        if index.ended < self.since or index.began > self.until:
            return False
        return not self.name or index.may_have(pod_mark(self.namespace, self.name))

    def matches(self, row: Row, shape: Mapping[str, int]) -> bool:
        """Whether a row is one that is wanted."""
        more = row[shape["more"]] or {}
        return (
            self.namespace in ("", row[shape["namespace"]])
            and self.name in ("", row[shape["name"]])
            and self.node_name in ("", row[shape["node_name"]])
            and self.since <= (row[shape["ended_time"]] or row[shape["decided_time"]]) <= self.until
            and ("bound_node" in more) == self.shadow
            and self._has_reason(row, shape)
        )

    def _has_reason(self, row: Row, shape: Mapping[str, int]) -> bool:
        wanted = self.reason.casefold()
        return not wanted or any(
            wanted in str(row[shape[name]]).casefold() for name in ("outcome", "message")
        )
