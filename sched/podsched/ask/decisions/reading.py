"""Reading the log: the latest decisions that match a query, the newest looked at first."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from podsched.ask.decisions.frames import Frame, FrameKind
from podsched.ask.decisions.rows import FIELDS, DecisionQuery, Row, message_of, shape_of
from podsched.v1 import decisions_pb2

#: In ``more`` of a decision that is in the log once more, from before its outcome was known.
AGAIN = "again"


#: What a row may raise that is no decision; anybody may have written the file.
_GARBLED = (TypeError, ValueError, LookupError, AttributeError, OverflowError)


def find(
    segments: Iterable[list[Frame]],
    query: DecisionQuery,
    garbled: Callable[[str], object] = lambda why: None,
) -> list[decisions_pb2.DecisionRecord]:
    """Return the latest decisions that match, the oldest first.

    garbled: is told of each frame and row that is left out because it is none.
    """
    found: list[decisions_pb2.DecisionRecord] = []
    rewritten: set[tuple[str, int]] = set()
    for segment in segments:
        replica, shape = _about(segment)
        for row in _rows(segment, query, garbled):
            try:
                key = (replica, row[0])
                if key in rewritten:
                    continue
                if AGAIN in (row[shape["more"]] or {}):
                    rewritten.add(key)
                if not query.matches(row, shape):
                    continue
                found.append(message_of(row, shape, replica))
            except _GARBLED as error:
                garbled(f"a row is no decision: {reprlib.repr(row)}: {error}")
                continue
            if len(found) >= query.limit:
                return sorted(found, key=_order)
        if all(frame.index.ended < query.since for frame in segment):
            break
    return sorted(found, key=_order)


def _about(segment: list[Frame]) -> tuple[str, Mapping[str, int]]:
    """Return whose segment it is, and where its rows have what."""
    for facts in facts_in(segment):
        fields = facts.get("fields")
        if isinstance(fields, list) and all(isinstance(name, str) for name in fields):
            return str(facts.get("replica", "")), shape_of(fields)
    return "", shape_of(FIELDS)


def facts_in(segment: list[Frame]) -> Iterator[Mapping[str, Any]]:
    """Yield the facts in a segment: about the process, and about terms that began."""
    for frame in segment:
        if frame.index.kind is FrameKind.FACTS:
            try:
                facts = frame.content()
            except ValueError:
                continue
            if isinstance(facts, dict):
                yield facts


def _rows(
    segment: list[Frame], query: DecisionQuery, garbled: Callable[[str], object]
) -> Iterator[Row]:
    for frame in reversed(segment):
        if frame.index.kind is not FrameKind.ROWS or not query.may_be_in(frame.index):
            continue
        try:
            rows = frame.content()
        except ValueError as error:
            garbled(f"a frame cannot be read: {error}")
            continue  # the disk's fault: the other frames are as good as ever
        if isinstance(rows, list):
            yield from reversed(rows)


def _order(record: decisions_pb2.DecisionRecord) -> tuple[int, int, int]:
    at = record.decided_time
    return at.seconds, at.nanos, record.number
