"""A history as a whole: read from its file, in the order of its lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from podsched.lab.chaos.records import (
    Begin,
    Call,
    End,
    FaultMark,
    FencedWrite,
    HistoryError,
    Record,
    Revision,
    Settled,
    decode,
)

#: Format of the records; other versions are refused.
VERSION = 2


@dataclass(slots=True)
class History:
    """What a run has recorded. ``settled`` and ``end`` are None in one that was broken off."""

    begin: Begin
    calls: list[Call] = field(default_factory=list)
    revisions: list[Revision] = field(default_factory=list)
    writes: list[FencedWrite] = field(default_factory=list)
    faults: list[FaultMark] = field(default_factory=list)
    settled: Settled | None = None
    end: End | None = None

    @property
    def last_fault(self) -> float:
        """When the last fault was over; 0 without any."""
        return max((fault.at for fault in self.faults), default=0.0)

    @property
    def seconds(self) -> float:
        """When the last thing happened."""
        times = [fault.at for fault in self.faults[-1:]]
        times += [revision.at for revision in self.revisions[-1:]]
        times += [last.at for last in (self.settled, self.end) if last is not None]
        return max(times, default=0.0)


def history_of(records: Iterable[Record]) -> History:
    """Return the history that begins with a ``Begin``. Raises HistoryError."""
    history: History | None = None
    for record in records:
        if history is None:
            history = _begun(record)
            continue
        match record:
            case Begin():
                raise HistoryError("a second beginning: two histories in one file?")
            case Settled():
                history.settled = record
            case End():
                history.end = record
            case _:
                _listed(history, record)
    if history is None:
        raise HistoryError("it is empty")
    return history


def _listed(history: History, record: Call | Revision | FencedWrite | FaultMark) -> None:
    match record:
        case Call():
            history.calls.append(record)
        case Revision():
            history.revisions.append(record)
        case FencedWrite():
            history.writes.append(record)
        case FaultMark():
            history.faults.append(record)


def _begun(record: Record) -> History:
    if not isinstance(record, Begin):
        raise HistoryError('the first line is no "begin"')
    if record.version != VERSION:
        raise HistoryError(f"it has version {record.version}; this sched reads {VERSION}")
    return History(record)


def load(path: Path) -> History:
    """Read a history. Raises OSError, HistoryError with the number of the line."""
    number = 0

    def records() -> Iterable[Record]:
        nonlocal number
        with path.open("rb") as file:
            for line in file:
                number += 1
                # A run that was killed may leave half a line at the end.
                if line.endswith(b"\n"):
                    yield decode(line)

    try:
        return history_of(records())
    except HistoryError as error:
        raise HistoryError(f"line {number}: {error}") from None
