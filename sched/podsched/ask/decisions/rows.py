"""A decision as a row of plain values, for the log.

``FIELDS`` has the names of the columns; every segment stores the names that it was written with.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any, Final

from podsched.api.objects import seconds_of, timestamp
from podsched.ask.decisions.frames import Frame, FrameKind, pod_mark
from podsched.v1 import decisions_pb2

#: Names of a row's values. Those that ``DecisionRecord`` has, too, have its names.
FIELDS: Final = (
    "number", "namespace", "name", "uid", "attempt", "profile", "pod_class", "term", "revision",
    "evaluated_nodes", "feasible_nodes", "node_name", "total", "together", "rotation", "draws",
    "queued_time", "popped_time", "decided_time", "seconds", "outcome", "message", "ended_time",
    "more",
)  # fmt: skip
NAMESPACE, NAME, UID = 1, 2, 3
QUEUED, POPPED, DECIDED, OUTCOME, MESSAGE, ENDED, MORE = 16, 17, 18, 20, 21, 22, 23
#: Indices of times: Unix seconds in the log, monotonic seconds before; 0.0 if unset.
TIMES: Final = (QUEUED, POPPED, DECIDED, ENDED)
#: Names in ``more`` that ``DecisionRecord`` has, too.
_MORE_FIELDS: Final = frozenset({
    "nominated_node", "victims", "beyond", "ended_after", "begun_after", "pod_group",
    "pod_group_binding", "bound_node", "tied_nodes", "began_revision", "began_beyond",
})  # fmt: skip
#: A day before the year 10000, in Unix seconds: a later time can be shown in no time zone.
_NO_TIME: Final = 253_402_214_400
_TIME_NAMES: Final = frozenset(FIELDS[place] for place in TIMES)

Row = Sequence[Any]


def message_of(row: Row, index: Mapping[str, int], replica: str) -> decisions_pb2.DecisionRecord:
    """Return a row as a message."""
    record = decisions_pb2.DecisionRecord(replica=replica)
    for name, place in index.items():
        value = row[place] if place < len(row) else None
        if name == "more" or value is None:
            continue
        if name in _TIME_NAMES:
            if value:
                if not 0 < value < _NO_TIME:
                    raise ValueError(f"{value} is not a time")
                getattr(record, name).CopyFrom(timestamp(value))
        else:
            setattr(record, name, value)
    _add_more(record, row[index["more"]] or {})
    return record


def _add_more(record: decisions_pb2.DecisionRecord, more: Mapping[str, Any]) -> None:
    for name in _MORE_FIELDS & more.keys():
        setattr(record, name, more[name])
    record.plugin_seconds.update(more.get("plugin_seconds", {}))
    for node_name, total, plugins in more.get("scores", ()):
        record.scores.add(node_name=node_name, total=total, plugins=plugins)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionQuery:
    """A filter for decisions; empty fields match everything.

    ``since`` and ``until``: Unix seconds between which the decisions ended.
    """

    namespace: str = ""
    name: str = ""
    node_name: str = ""
    since: float = 0.0
    until: float = math.inf
    reason: str = ""
    """A part of the outcome or of the message, compared without case."""
    shadow: bool = False
    limit: int = 100

    @classmethod
    def of(cls, request: decisions_pb2.DecisionsRequest, most: int) -> DecisionQuery:
        """Return the query of a request, limited to ``most`` decisions."""
        since = seconds_of(request.since) if request.HasField("since") else 0.0
        until = seconds_of(request.until) if request.HasField("until") else math.inf
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

    def may_be_in(self, frame: Frame) -> bool:
        """Whether a frame may contain a matching decision."""
        if frame.ended < self.since or frame.began > self.until:
            return False
        return not self.name or frame.may_have(pod_mark(self.namespace, self.name))

    def matches(self, row: Row, index: Mapping[str, int]) -> bool:
        """Whether a row matches."""
        more = row[index["more"]] or {}
        return (
            self.namespace in ("", row[index["namespace"]])
            and self.name in ("", row[index["name"]])
            and self.node_name in ("", row[index["node_name"]])
            and self.since <= _ended(row, index) <= self.until
            and ("bound_node" in more) == self.shadow
            and self._has_reason(row, index)
        )

    def _has_reason(self, row: Row, index: Mapping[str, int]) -> bool:
        wanted = self.reason.casefold()
        return not wanted or any(
            wanted in str(row[index[name]]).casefold() for name in ("outcome", "message")
        )


def _ended(row: Row, index: Mapping[str, int]) -> float:
    """Return when a decision ended; if it is open, when it was made."""
    at: float = row[index["ended_time"]] or row[index["decided_time"]]
    return at


#: Seconds after which even a decision without outcome has certainly been written.
_LATE: Final = 10.0


class _Latest:
    """Keeps the decisions that ended last, up to a number.

    Those that were written after the clock was set back are later than those before.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: list[tuple[float, int, decisions_pb2.DecisionRecord]] = []
        #: Those of after the clock was set back; ``_most`` is without them.
        self._after: list[tuple[float, int, decisions_pb2.DecisionRecord]] = []
        self._added = 0
        self._last = 0.0

    @property
    def since(self) -> float:
        """Decisions that ended earlier are not among them."""
        if not self._most:
            return math.inf
        return self._kept[0][0] if len(self._kept) >= self._most else 0.0

    def may_be_in(self, frame: Frame) -> bool:
        """Whether a frame, written before the decisions so far, may have one to be kept.

        A frame that is much later than all of them is from before the clock was set back.
        """
        if self._kept and frame.began > self._last + _LATE:
            self._after += self._kept
            self._most -= len(self._kept)
            self._kept, self._last = [], 0.0
        return self.since <= frame.ended

    def add(self, ended: float, record: decisions_pb2.DecisionRecord) -> None:
        """Add a decision; of those that ended at once, the first ones stay."""
        self._added += 1
        self._last = max(self._last, ended)
        heappush(self._kept, (ended, -self._added, record))
        if len(self._kept) > self._most:
            heappop(self._kept)

    def records(self) -> list[decisions_pb2.DecisionRecord]:
        """Return them by when they were made."""
        kept = (*self._after, *self._kept)
        return sorted((record for _, _, record in kept), key=_order)


#: Key in ``more`` of a row that replaces an earlier one, written before the outcome was known.
AGAIN = "again"


#: Exceptions when a row is read that is not a decision: the file may come from any source.
_GARBLED = (TypeError, ValueError, LookupError, AttributeError, OverflowError)


def find(
    segments: Iterable[list[Frame]],
    query: DecisionQuery,
    garbled: Callable[[str], object] = lambda why: None,
) -> list[decisions_pb2.DecisionRecord]:
    """Return the latest decisions that match, the oldest first.

    The latest are those that ended last: who asks for the next ones names the earliest end. They
    are not simply the last rows, as one whose outcome takes long is written later than others.

    garbled: called for each frame and row that is skipped because it cannot be read.
    """
    found = _Latest(query.limit)
    # Written again once the outcome is known, and copied files have them twice.
    known: set[tuple[str | int, int]] = set()
    for place, segment in enumerate(segments):
        replica, index = _about(segment, garbled)
        for row in _rows(segment, query, found, garbled):
            try:
                key = (replica or place, row[0])
                if key in known:
                    continue
                if AGAIN in (row[index["more"]] or {}):
                    known.add(key)
                ended = _ended(row, index)
                if ended >= found.since and query.matches(row, index):
                    found.add(ended, message_of(row, index, replica))
                    known.add(key)
            except _GARBLED as error:
                garbled(f"a row is not a decision: {reprlib.repr(row)}: {error}")
        # A segment without decisions, which a full disk or a crash has left, says nothing of those
        # before it.
        ends = [frame.ended for frame in segment if frame.kind is FrameKind.ROWS]
        if ends and max(ends) < max(query.since, found.since):
            break
    return found.records()


def _about(segment: list[Frame], garbled: Callable[[str], object]) -> tuple[str, Mapping[str, int]]:
    """Return the process of a segment, and the indices of its rows' fields by name."""
    replica, fields = "", list(FIELDS)
    for frame in segment:
        if frame.kind is not FrameKind.FACTS:
            continue
        try:
            facts = frame.content()
        except ValueError:
            continue
        named = facts.get("fields") if isinstance(facts, dict) else None
        if isinstance(named, list) and all(isinstance(name, str) for name in named):
            replica, fields = str(facts.get("replica", "")), named
            break
    else:
        if segment:
            garbled("a segment does not tell whose decisions it has")
    return replica, {name: place for place, name in enumerate(fields)}


def _rows(
    segment: list[Frame],
    query: DecisionQuery,
    found: _Latest,
    garbled: Callable[[str], object],
) -> Iterator[Row]:
    for frame in reversed(segment):
        if frame.kind is not FrameKind.ROWS:
            continue
        if not (found.may_be_in(frame) and query.may_be_in(frame)):
            continue
        try:
            rows = frame.content()
        except ValueError as error:
            garbled(f"a frame cannot be read: {error}")
            continue  # The frame is corrupt, but the others can still be read.
        if isinstance(rows, list):
            yield from reversed(rows)


def _order(record: decisions_pb2.DecisionRecord) -> tuple[int, int, int]:
    at = record.decided_time
    return at.seconds, at.nanos, record.number
