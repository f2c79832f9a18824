"""The lists of the page: pending pods and groups, the latest events and decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple
from heapq import nlargest, nsmallest
from typing import Any, Generic, TypeVar

from podsched.ask.web.rows import DecisionRow, EventRow, PendingRow

Row = tuple[Any, ...]


class SentList:
    """The rows by key that the browsers have."""

    def __init__(self) -> None:
        self.rows: Mapping[str, Row] = {}

    def whole(self) -> list[list[Any]]:
        """Return all rows, each with its key first."""
        return [[key, *row] for key, row in self.rows.items()]

    def update(self, rows: Mapping[str, Row]) -> dict[str, list[Any]]:
        """Replace the rows; return new and changed rows, and removed keys; empty without any."""
        before, self.rows = self.rows, rows
        changed = [[key, *row] for key, row in rows.items() if before.get(key) != row]
        gone = [key for key in before if key not in rows]
        return {"set": changed, "gone": gone} if changed or gone else {}


D = TypeVar("D", EventRow, DecisionRow)


class Latest(Generic[D]):
    """The latest ``count`` items by key.

    Four times as many are kept, so that older items can take the place of removed ones.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._rows: dict[str, D] = {}

    def put(self, key: str, row: D | None) -> None:
        """Add or replace an item; None: it is gone."""
        if row is None:
            self._rows.pop(key, None)
            return
        self._rows[key] = row
        if len(self._rows) > 8 * self._count:
            self._rows = dict(self._first(4 * self._count))

    def newest(self) -> Iterable[tuple[str, D]]:
        """Return the ``count`` latest items, the newest first."""
        return self._first(self._count)

    def _first(self, count: int) -> list[tuple[str, D]]:
        return nlargest(count, self._rows.items(), key=lambda item: (item[1].at, item[0]))


#: Max pending pods sent to browsers: 20,000 would be megabytes, and too many to read.
LISTED = 200
#: Max events, and max decisions, sent. If hundreds come each second, a delta replaces all of them.
LATEST = 60


class Lists:
    """The lists by key, and what of them the browsers have."""

    def __init__(self) -> None:
        #: Lines of pending pods without a group, and of pending groups.
        self.pending: dict[str, PendingRow] = {}
        self._events: Latest[EventRow] = Latest(LATEST)
        self._decisions: Latest[DecisionRow] = Latest(LATEST)
        self._sent = {name: SentList() for name in ("pending", "events", "decisions")}
        self._stale = set(self._sent)

    def put_pending(self, key: str, row: PendingRow | None) -> None:
        """Set the line of a pending pod or group; None: it is not pending."""
        self._stale.add("pending")
        if row is None:
            self.pending.pop(key, None)
        else:
            self.pending[key] = row

    def put_event(self, key: str, row: EventRow | None) -> None:
        self._stale.add("events")
        self._events.put(key, row)

    def put_decision(self, key: str, before: DecisionRow | None, now: DecisionRow | None) -> None:
        if now != before:
            self._stale.add("decisions")
            self._decisions.put(key, now)

    def events_of(self, about: str) -> list[list[Any]]:
        """Return the latest events about an object, such as "Pod default/web-0"."""
        return [[*astuple(row)] for _, row in self._events.newest() if row.object == about]

    def whole(self) -> dict[str, Any]:
        """Return the lists as of the last ``difference``."""
        return {name: sent.whole() for name, sent in self._sent.items()}

    def difference(self) -> dict[str, Any]:
        """Return what has changed since the last call."""
        found = {name: self._sent[name].update(self._first_rows(name)) for name in self._stale}
        self._stale.clear()
        return {name: changed for name, changed in found.items() if changed}

    def _first_rows(self, name: str) -> dict[str, Row]:
        """Return the rows of a list that are sent."""
        if name == "pending":
            first = nsmallest(
                LISTED, self.pending.items(), key=lambda i: (-i[1].priority, i[1].since, i[0])
            )
            return {key: astuple(row) for key, row in first}
        latest: Latest[Any] = self._events if name == "events" else self._decisions
        return {key: astuple(row) for key, row in latest.newest()}
