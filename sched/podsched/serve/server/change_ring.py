"""Keeps the latest changes in memory, in the order of revisions, for watchers.

    dropped | floor < oldest change ... newest change
            ^ _start                                   ^ end        (positions)

The ring has every change after the revision ``floor``. All changes of one revision are added
together and dropped together. A watcher only remembers a position in the ring and has no queue. So
a slow watcher uses no memory; if its position is dropped, it must list again.

A watcher that has read everything is woken only by changes of its topics: a kind, or the objects of
a kind with one name, or the pods of one node. Kubernetes' API server has the same indexes, because
each kubelet watches the pods of its node, and its Secrets and ConfigMaps by their names. Woken by
every change, 200 watchers without any event cost two thirds of what creating and binding did.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from podsched.api.etcd_keys import name_in
from podsched.api.objects import Pod
from podsched.lib.groups import Groups
from podsched.serve.server import frames
from podsched.serve.server.entries import Entry
from podsched.v1.api_pb2 import ADDED, DELETED, MODIFIED

#: Fields by which a topic limits the objects of a kind.
NAME, NODE_NAME = "metadata.name", "spec.nodeName"
Topic = tuple[str, str, str]
"""A kind, and NAME or NODE_NAME with its value, or "" twice for all objects."""

#: A position that is always dropped.
_GONE = -1
_by_revision = attrgetter("revision")


class ExpiredError(Exception):
    """The requested changes are no longer in memory, so the watcher must list again.

    asked: the revision after which they were requested, 0 if the watcher has fallen behind. oldest:
    the oldest revision after which all changes are in memory.
    """

    def __init__(self, asked: int, oldest: int) -> None:
        super().__init__(f"required revision has been compacted: {asked} ({oldest})")
        self.asked = asked
        self.oldest = oldest


class Change:
    """One change of one object, encoded once for all its watchers.

    type: ADDED, MODIFIED or DELETED. key: the object's local key. old: the object before it, None
    for a creation. new: the object after it, None for a deletion. frame: the serialized element of
    WatchResponse.events.
    """

    __slots__ = ("frame", "key", "kind", "new", "old", "revision", "type")

    def __init__(self, new: Entry | None, old: Entry | None, revision: int) -> None:
        shown = new or old
        assert shown is not None
        self.kind = shown.kind
        self.key = shown.key
        self.new = new
        self.old = old
        self.revision = revision
        self.type = DELETED if new is None else MODIFIED if old is not None else ADDED
        self.frame = frames.event_frame(self.type, shown.wrapped(revision))

    def shown_as(self, event_type: int) -> Entry:
        """Return the object that an event shows; DELETED has the one before the change."""
        shown = self.old if event_type == DELETED else self.new
        assert shown is not None
        return shown

    def reframed(self, event_type: int) -> bytes:
        """Return the change as another type of event."""
        return frames.event_frame(event_type, self.shown_as(event_type).wrapped(self.revision))


class _Waiting:
    """The watchers that wait for changes, by topic."""

    def __init__(self) -> None:
        self._by_topic = Groups[Topic, asyncio.Future[int], None]()
        #: How many wait for pods of one node: if there are none, no pod is decoded for its node.
        self._of_nodes = 0

    def add(self, topics: Sequence[Topic], woken: asyncio.Future[int]) -> None:
        """Let a watcher wait; ``woken`` gets the position of the first change of its topics."""
        for topic in topics:
            self._by_topic.put(topic, woken, None)
            self._of_nodes += topic[1] == NODE_NAME

    def remove(self, topics: Sequence[Topic], woken: asyncio.Future[int]) -> None:
        for topic in topics:
            self._by_topic.drop(topic, woken)
            self._of_nodes -= topic[1] == NODE_NAME

    def wake(self, change: Change, position: int) -> None:
        """Wake those that wait for a change."""
        for topic in self._topics(change) if self._by_topic else ():
            _complete(self._by_topic.pop(topic), position)

    def wake_all(self, position: int) -> None:
        for topic in list(self._by_topic):
            _complete(self._by_topic.pop(topic), position)

    def _topics(self, change: Change) -> Iterator[Topic]:
        kind = change.kind.name
        yield kind, "", ""
        yield kind, NAME, name_in(change.key)
        if self._of_nodes:
            # The node may change: a pod is bound, or replaced by another of its name.
            for entry in (change.old, change.new):
                if entry is not None and isinstance(entry.message, Pod):
                    yield kind, NODE_NAME, entry.message.spec.node_name


def _complete(waiting: Iterable[asyncio.Future[int]], position: int) -> None:
    for woken in waiting:
        if not woken.done():
            woken.set_result(position)


class ChangeRing:
    """A bounded list of changes. Positions count changes since the start and never repeat."""

    def __init__(self, *, max_events: int, max_bytes: int) -> None:
        """Create an empty ring; max_events, max_bytes: its bounds, in changes and frames."""
        self.floor = 0
        self._changes: list[Change] = []
        self._start = 0  # position of _changes[0]
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._waiting = _Waiting()

    def __len__(self) -> int:
        return len(self._changes)

    @property
    def end(self) -> int:
        """The position after the newest change."""
        return self._start + len(self._changes)

    def position_after(self, revision: int) -> int:
        """Return the position of the first change later than a revision. Raises ExpiredError."""
        if revision < self.floor:
            raise ExpiredError(revision, self.floor)
        return self._start + bisect_right(self._changes, revision, key=_by_revision)

    def changes_of(self, revision: int) -> Sequence[Change]:
        """Return the changes of a revision; none where the ring begins after it."""
        first = bisect_left(self._changes, revision, key=_by_revision)
        last = bisect_right(self._changes, revision, key=_by_revision)
        return self._changes[first:last]

    def changes_from(self, position: int, limit: int) -> Sequence[Change]:
        """Return about ``limit`` changes from a position on, ending with a whole revision.

        Raises ExpiredError if the ring has moved past the position.
        """
        first = position - self._start
        if first < 0:
            raise ExpiredError(0, self.floor)
        ring = self._changes
        last = min(first + limit, len(ring))
        # A watch that resumes asks for changes after the last revision that it got, so a part of a
        # revision would lose the rest of it.
        while last < len(ring) and ring[last].revision == ring[last - 1].revision:
            last += 1
        return ring[first:last]

    async def next_position(self, topics: Sequence[Topic], seconds: float) -> int:
        """Wait for a change of some topics; return the position from which to read on.

        For a watcher that has read up to the end. After ``seconds`` it is the end: all changes
        until then are of other topics. ``release`` and ``restart`` end the wait, too.
        """
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[int] = loop.create_future()
        self._waiting.add(topics, woken)
        # The end is taken when the time is over, not when the task goes on: a change of a topic may
        # come in between.
        timer = loop.call_later(seconds, lambda: _complete((woken,), self.end))
        try:
            return await woken
        finally:
            timer.cancel()
            self._waiting.remove(topics, woken)

    def release(self) -> None:
        """End all waits of ``next_position``."""
        self._waiting.wake_all(self.end)

    def add(self, change: Change) -> None:
        """Add a change; ``trim`` follows when all of its revision are added."""
        self._waiting.wake(change, self.end)
        self._changes.append(change)
        self._bytes += len(change.frame)

    def restart(self, revision: int) -> None:
        """Drop all changes up to a revision, and make all earlier positions invalid."""
        # One more than the end: the position of a watcher that has read everything is that end, and
        # it would otherwise not notice that it has missed changes.
        self._start = self.end + 1
        self._changes = []
        self._bytes = 0
        self.floor = revision
        self._waiting.wake_all(_GONE)

    def trim(self) -> None:
        """Drop at least the oldest tenth of a ring that is too large, by whole revisions.

        Deleting from the front of a list moves all the rest, so it is done rarely.
        """
        if len(self._changes) <= self._max_events and self._bytes <= self._max_bytes:
            return
        changes = self._changes
        drop = max(len(changes) - self._max_events * 9 // 10, 0)
        excess = (
            self._bytes
            - self._max_bytes * 9 // 10
            - sum(len(change.frame) for change in changes[:drop])
        )
        while excess > 0 and drop < len(changes):
            excess -= len(changes[drop].frame)
            drop += 1
        while drop < len(changes) and changes[drop].revision == changes[drop - 1].revision:
            drop += 1
        dropped = changes[:drop]
        del changes[:drop]
        self._start += drop
        self._bytes -= sum(len(change.frame) for change in dropped)
        self.floor = dropped[-1].revision
