"""The cluster's state as browsers show it: built for the first browser, then kept current.

Invariant (a property test checks it): a state with all later deltas applied is the later state.
The size is bounded: only the first pending pods, events and decisions are sent, and the most
frequent reasons. The members of a PodGroup are one line, which is computed once for all changes of
a second. All input comes through ``put``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from heapq import nlargest, nsmallest
from typing import Any, Generic, TypeVar

from podsched.api.objects import AnyObject, Event, Node, Pod, PodGroup, ResourceSlice
from podsched.ask.web.nodes import NodeTable
from podsched.ask.web.pod_groups import PodGroupTable, line_key
from podsched.ask.web.queues import KINDS as QUEUE_KINDS
from podsched.ask.web.queues import QueueTable
from podsched.ask.web.rows import (
    DecisionRow,
    EventRow,
    PendingRow,
    PodRow,
    event_row,
    gist,
    node_row,
    pod_row,
)
from podsched.lib.groups import Grouped

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


#: Max events, and max decisions, sent. If hundreds come each second, a delta replaces all of them.
LATEST = 60


class Latest(Generic[D]):
    """The ``LATEST`` items by key.

    Four times as many are kept, so that older items can take the place of removed ones.
    """

    def __init__(self) -> None:
        self._rows: dict[str, D] = {}

    def put(self, key: str, row: D | None) -> None:
        """Add or replace an item; None: it is gone."""
        if row is None:
            self._rows.pop(key, None)
            return
        self._rows[key] = row
        if len(self._rows) > 8 * LATEST:
            self._rows = dict(self._first(4 * LATEST))

    def newest(self) -> Iterable[tuple[str, D]]:
        """Return the latest items, the newest first."""
        return self._first(LATEST)

    def _first(self, count: int) -> list[tuple[str, D]]:
        return nlargest(count, self._rows.items(), key=lambda item: (item[1].at, item[0]))


#: Max pending pods sent to browsers: 20,000 would be megabytes, and too many to read.
LISTED = 200


class Lists:
    """The lists by key, and what of them the browsers have."""

    def __init__(self) -> None:
        #: Lines of pending pods without a group, and of pending groups.
        self.pending: dict[str, PendingRow] = {}
        self._events: Latest[EventRow] = Latest()
        self._decisions: Latest[DecisionRow] = Latest()
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


#: Max reasons of pending pods that are sent, the most frequent ones.
MOST_REASONS = 8


class Board:
    """Nodes, pods, pod groups and events as the page shows them."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self.queues = QueueTable()
        self._pods: dict[str, PodRow] = {}
        self._on_node: Grouped[str, str, None] = Grouped()
        #: By node, the ResourceSlices that belong to it alone.
        self._slices: Grouped[str, str, None] = Grouped()
        self.groups = PodGroupTable()
        self.lists = Lists()
        self._waiting = 0
        #: Pending pods by reason and gist of the message.
        self._by_reason: Counter[tuple[str, str]] = Counter()
        self._ended = 0
        self._counts: dict[str, Any] = {}

    def put(self, kind: str, key: str, found: AnyObject | None) -> None:
        """Update an object; None: it is gone."""
        if kind in QUEUE_KINDS:
            self.queues.put(kind, key, found)
        elif kind == "Pod":
            self._put_pod(key, pod_row(found) if isinstance(found, Pod) else None)
        elif kind == "Node":
            if isinstance(found, Node):
                self.nodes.put(node_row(found))
            else:
                self.nodes.remove(key)
        elif kind == "PodGroup":
            self.groups.put(key, found if isinstance(found, PodGroup) else None)
        elif kind == "ResourceSlice":
            node = found.spec.node_name if isinstance(found, ResourceSlice) else ""
            self._slices.move(key, node or None, None)
        elif kind == "Event":
            self.lists.put_event(key, event_row(found) if isinstance(found, Event) else None)

    def _put_pod(self, key: str, row: PodRow | None) -> None:
        before = self._pods.get(key)
        if before == row:
            return
        if before is not None:
            self._count(key, before, -1)
        if row is None:
            self._pods.pop(key, None)
        else:
            self._pods[key] = row
            self._count(key, row, 1)
        alone = (None if one is None or one.group else one.decision for one in (before, row))
        self.lists.put_decision(key, *alone)

    def _count(self, key: str, row: PodRow, sign: int) -> None:
        """Add a pod to the sums and lists that it is in, or remove it (``sign`` -1)."""
        if row.node:
            self.nodes.take(row.node, row.requests, sign)
            self._on_node.move(key, row.node if sign > 0 else None, None)
        self._ended += sign * row.ended
        if row.group:
            self.groups.count(key, row, sign)
        if row.pending is None:
            return
        self._waiting += sign
        reason = row.pending.reason, gist(row.pending.message)
        self._by_reason[reason] += sign
        if not self._by_reason[reason]:
            del self._by_reason[reason]
        if not row.group:
            self.lists.put_pending(key, row.pending if sign > 0 else None)

    def pods(self) -> list[tuple[str, str, str]]:
        """Return each pod's key, the node on which its requests count, and its group; "": none."""
        return [(key, row.node, row.group) for key, row in self._pods.items()]

    def members(self, group: str) -> list[tuple[str, str]]:
        """Return the key of each member, and the node on which its requests count, "" for none."""
        return [(key, self._pods[key].node) for key in self.groups.members.of(group)]

    def pods_on(self, node: str) -> list[str]:
        """Return the keys of the pods whose requests count on a node."""
        return sorted(self._on_node.of(node))

    def slices_of(self, node: str) -> list[str]:
        """Return the keys of the ResourceSlices that only this node reaches."""
        return sorted(self._slices.of(node))

    def state(self) -> dict[str, Any]:
        """Return the whole state as of the last ``delta``, which must be called right before."""
        return {**self.nodes.whole(), **self.lists.whole(), **self._counts}

    def delta(self) -> dict[str, Any]:
        """Return what has changed since the last call; empty if nothing has."""
        for group, before, line in self.groups.update(self._pods):
            if line != before:
                pending = line.row if line is not None and line.waits else None
                self.lists.put_pending(line_key(group), pending)
            decisions = (one.decision if one is not None else None for one in (before, line))
            self.lists.put_decision(line_key(group), *decisions)
        found = self.nodes.difference() | self.lists.difference()
        counts = self._counts_now()
        found |= {name: value for name, value in counts.items() if self._counts.get(name) != value}
        self._counts = counts
        return found

    def _counts_now(self) -> dict[str, Any]:
        pods, pending = len(self._pods), self._waiting
        totals = {
            "nodes": len(self.nodes),
            "usable": self.nodes.usable,
            "bound": pods - pending - self._ended,
            "pending": pending,
            "lines": len(self.lists.pending),
            "ended": self._ended,
        }
        groups = [
            [count, reason, message]
            for (reason, message), count in nlargest(
                MOST_REASONS, self._by_reason.items(), key=lambda item: (item[1], item[0])
            )
        ]
        return {"totals": totals, "groups": groups}
