"""Serves watches: streams of changes in the order of revisions.

A response has all changes since the last one, so a watch that lags gets several revisions at once.
A watcher is a position in the cache's ring and has no queue. While the client does not read, gRPC's
flow control suspends the generator. If the ring drops the position meanwhile, the watch ends with
OUT_OF_RANGE, and the client must list again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Protocol

from podsched.lib.event_loop import Turn
from podsched.serve.server import errors, frames
from podsched.serve.server.access.rights import WatchRight, rights
from podsched.serve.server.cache_reflector import CacheReflector
from podsched.serve.server.change_ring import Change, ExpiredError
from podsched.serve.server.entries import Entry
from podsched.serve.server.fairness.turns import Seat, current_seat
from podsched.serve.server.scope import Scope, selected_name
from podsched.serve.server.watchcache import WatchCache
from podsched.v1.api_pb2 import ADDED, DELETED, MODIFIED, WatchRequest

#: Changes that a watch takes from the cache at once.
_CHANGES_AT_ONCE = 2000
#: Bytes after which a response is sent. The server holds one or two responses for each client that
#: does not read, so this is much less than a page of a list; larger ones are not faster.
_RESPONSE_BYTES = 256 << 10
#: Size of the first response of the initial objects; each next one is twice as large. So a watch
#: that is not read costs little memory and time: encoding 256 KiB takes 3 ms.
_FIRST_BYTES = 16 << 10
#: Min seconds between two responses of a watch; the first after a pause is sent at once. On a busy
#: stream the changes in between form one response, as each costs server and client about 100 us
#: regardless of its size. Each change in a response delays the next one by _PER_CHANGE, up to the
#: longest interval: at 1,000 pods/s a response of four changes cost as much as the changes, whereas
#: 100 pods/s are not delayed.
_RESPONSE_INTERVAL, _PER_CHANGE, _LONGEST_INTERVAL = 0.002, 0.0005, 0.01


#: Max interval between two responses that a watcher may request, equal to that of bookmarks.
MAX_PACE_MS = 1000


class Encoding(Protocol):
    """Encodes the responses of a watch, for gRPC (``GrpcEncoding``) or REST (``rest.watches``).

    idle: seconds after which a quiet watch gets a bookmark. divisible: whether a client whose
    connection breaks may have read some events of a response.
    """

    idle: float
    divisible: bool

    def added(self, entry: Entry) -> bytes:
        """Encode the ADDED event of an object that exists when the watch begins."""

    def event(self, scope: Scope, change: Change) -> bytes | None:
        """Encode the event of a change; None: no event."""

    def response(self, events: Sequence[bytes], revision: int) -> bytes:
        """Join encoded events up to a whole revision into one response."""

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        """Encode a bookmark with the revision that the watch has reached; may be empty."""


class GrpcEncoding:
    """Encodes serialized WatchResponses."""

    divisible = False

    def __init__(self, idle: float) -> None:
        self.idle = idle

    def added(self, entry: Entry) -> bytes:
        return frames.event_frame(ADDED, entry.wrapped())

    def event(self, scope: Scope, change: Change) -> bytes | None:
        found = scope.event_type(change)
        if found is None:
            return None
        return change.frame if found == change.type else change.reframed(found)

    def response(self, events: Sequence[bytes], revision: int) -> bytes:
        return frames.watch_response(events, revision)

    def bookmark(self, revision: int, *, initial_events_end: bool) -> bytes:
        return frames.bookmark_response(revision, initial_events_end=initial_events_end)


class Watcher:
    """Streams the changes of the objects that a request selects."""

    def __init__(
        self, cache: WatchCache, reflector: CacheReflector, bookmark_seconds: float, most: int
    ) -> None:
        """bookmark_seconds: interval of bookmarks in a quiet watch.

        most: watches at a time, beyond which only schedulers, nodes and administrators may watch.
        """
        self._cache = cache
        self._reflector = reflector
        self._most = most
        self._grpc = GrpcEncoding(bookmark_seconds)
        self._closing = False
        self.watching = 0
        #: Events sent by all watches.
        self.sent = 0

    def close(self) -> None:
        """End all watches, so that the server can drain."""
        self._closing = True
        self._cache.ring.release()

    def watch(
        self, request: WatchRequest, encoding: Encoding | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the encoded responses of a watch until the client disconnects or loses its rights.

        encoding: by default gRPC's. Raises ApiError: for an invalid request immediately, not at the
        first iteration; OUT_OF_RANGE if the client must list again.
        """
        scope = Scope(
            request.kinds, request.namespace, request.label_selector, request.field_selector
        )
        name = selected_name(request.field_selector)
        right = WatchRight(scope.kinds.values(), request.namespace, name)
        if (node := rights().node) is not None:
            for kind in scope.kinds.values():
                node.check_selection(kind, request.field_selector)
        _check(request, scope)
        if self.watching >= self._most and not _is_protected(current_seat()):
            raise errors.overloaded(f"{self._most} watches are being served already")
        return self._watch(request, scope, right, encoding or self._grpc)

    async def _watch(
        self, request: WatchRequest, scope: Scope, right: WatchRight, encoding: Encoding
    ) -> AsyncGenerator[bytes, None]:
        self.watching += 1
        try:
            async for response in self._stream(request, scope, encoding):
                # Rights, or the caller's token, may have been withdrawn since the watch began.
                right.check()
                yield response
        except ExpiredError as error:
            raise errors.expired(str(error), asked=error.asked, oldest=error.oldest) from None
        finally:
            self.watching -= 1

    async def _stream(
        self, request: WatchRequest, scope: Scope, encoding: Encoding
    ) -> AsyncIterator[bytes]:
        """Yield the responses of a watch: changes from a revision on, or from now on.

        With ``send_initial_events``, the existing objects come first, and then a bookmark that
        marks their end. Raises ApiError, ExpiredError.
        """
        if request.from_revision and not request.send_initial_events:
            if request.from_revision > self._cache.revision:
                await self._check_reached(request.from_revision)
            position = self._resumed(request.from_revision, scope, divisible=encoding.divisible)
        else:
            await self._reflector.wait_until_fresh()
            # Taken together, without an ``await`` in between: the initial objects are those at
            # ``seen``, and changes made while they are being sent follow from ``position`` on.
            seen = self._cache.revision
            position = self._cache.ring.end
            if request.send_initial_events:
                # Read all lists now, as they never change; encode them later in pieces.
                existing = [self._cache.in_order(kind) for kind in scope.kinds.values()]
                async for response in self._initial(scope, encoding, existing):
                    yield response
                    # Raises if the ring has moved on: then it must list again anyway, and would
                    # keep what was replaced since in memory, for as long as its client likes.
                    self._cache.ring.changes_from(position, 1)
            yield encoding.bookmark(seen, initial_events_end=request.send_initial_events)
        pace = request.pace_ms / 1000
        async for response in self._follow(scope, encoding, position, pace):
            yield response

    def _resumed(self, revision: int, scope: Scope, *, divisible: bool) -> int:
        """Return the position in the ring at which a watch goes on. Raises ExpiredError.

        Changes that were stored together have one revision. A client that may have read only some
        of their events gets all of them again: lost ones would stay unknown until it lists again.
        """
        ring = self._cache.ring
        position = ring.position_after(revision)
        if divisible:
            changes = ring.changes_of(revision)
            ours = [change for change in changes if change.kind.name in scope.kinds]
            if sum(scope.event_type(change) is not None for change in ours) > 1:
                position -= len(changes)
        return position

    async def _check_reached(self, revision: int) -> None:
        """Raise ExpiredError if etcd has not reached a revision.

        Such a revision is from before etcd was restored from a backup. The cache is made fresh
        first, because the client may have it from another server that was slightly ahead.
        """
        await self._reflector.wait_until_fresh()
        if revision > self._cache.revision:
            raise ExpiredError(revision, self._cache.revision)

    async def _initial(
        self, scope: Scope, encoding: Encoding, existing: Iterable[Iterable[Entry]]
    ) -> AsyncIterator[bytes]:
        """Yield the existing objects as responses of ADDED events without a revision."""
        pending: list[bytes] = []
        size, most, turn = 0, _FIRST_BYTES, Turn()
        for entries in existing:
            for entry in entries:
                if scope.matches(entry):
                    pending.append(encoding.added(entry))
                    self.sent += 1
                    size += len(pending[-1])
                    if size >= most:
                        yield b"".join(pending)
                        turn.begin()
                        pending, size, most = [], 0, min(2 * most, _RESPONSE_BYTES)
                if turn.is_over:
                    await turn.give_way()
        if pending:
            yield b"".join(pending)

    async def _follow(
        self, scope: Scope, encoding: Encoding, position: int, pace: float
    ) -> AsyncIterator[bytes]:
        """Yield responses with the changes from a position on, and bookmarks while there are none.

        pace: min seconds between two responses; with one, changes of an object since the last
        response are merged.
        """
        cache, clock = self._cache, asyncio.get_running_loop().time
        topics = scope.topics
        sent_at, sent, bookmark_at = 0.0, 0, clock() + encoding.idle
        turn = Turn()
        while not self._closing:
            changes = cache.ring.changes_from(position, _CHANGES_AT_ONCE)
            position += len(changes)
            shown = latest_of(changes) if pace else changes
            turn.begin()
            async for response in self._responses(scope, encoding, shown, turn):
                yield response
                sent_at, sent = clock(), len(changes)
                bookmark_at = sent_at + encoding.idle
            # More changes have come while the responses were sent, so there is nothing to wait for.
            if position < cache.ring.end:
                # A watch that lags by a full batch does not pause: it would fall further behind.
                if pace and len(changes) < _CHANGES_AT_ONCE:
                    await asyncio.sleep(max(0.0, sent_at + pace - clock()))
                continue
            if clock() >= bookmark_at:
                # Only now every change up to the cache's revision was sent, as a bookmark promises.
                yield encoding.bookmark(cache.revision, initial_events_end=False)
                bookmark_at = clock() + encoding.idle
                continue
            if self._closing:
                break  # ``close`` has ended only the waits that had begun
            position = await cache.ring.next_position(topics, bookmark_at - clock())
            pause = sent_at + max(_interval(sent), pace) - clock()
            if pause > 0:
                await asyncio.sleep(pause)
        raise errors.shutting_down()

    async def _responses(
        self, scope: Scope, encoding: Encoding, changes: Sequence[Change], turn: Turn
    ) -> AsyncIterator[bytes]:
        """Yield responses of up to about _RESPONSE_BYTES, each ending with a whole revision.

        In between this yields to other calls: a response of JSON may take tens of milliseconds.
        """
        pending: list[bytes] = []
        size = revision = 0
        kinds = scope.kinds
        for change in changes:
            if change.revision != revision:
                if size >= _RESPONSE_BYTES:
                    self.sent += len(pending)
                    yield encoding.response(pending, revision)
                    turn.begin()
                    pending, size = [], 0
                revision = change.revision
            if change.kind.name not in kinds:
                continue
            frame = encoding.event(scope, change)
            if frame is not None:
                pending.append(frame)
                size += len(frame)
            if turn.is_over:
                await turn.give_way()
        if pending:
            self.sent += len(pending)
            yield encoding.response(pending, revision)


def _is_protected(seat: Seat | None) -> bool:
    return seat is not None and not seat.flow.schema.level.shared


def _interval(changes: int) -> float:
    """Return the min seconds from a response with ``changes`` changes to the next one.

    It is multiplied by the number of the flow's watches, so that together they wake up the server
    as often as one watch would.
    """
    least = min(_RESPONSE_INTERVAL + changes * _PER_CHANGE, _LONGEST_INTERVAL)
    seat = current_seat()
    if seat is None or _is_protected(seat):
        return least
    return least * max(seat.flow.watches, 1)


def latest_of(changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes without those superseded by a later one of the same object.

    Deletions are kept, so that a recreated object is not mistaken for its predecessor. If an
    object's creation is left out, its last change becomes ADDED.
    """
    kept: list[Change] = []
    places: dict[tuple[str, str], int] = {}
    for change in reversed(changes):
        key = (change.kind.name, change.key)
        place = places.get(key)
        if place is None or change.type == DELETED:
            places[key] = len(kept)
            kept.append(change)
        elif change.type == ADDED and kept[place].type == MODIFIED:
            kept[place] = Change(kept[place].new, None, kept[place].revision)
    kept.reverse()
    return kept


def _check(request: WatchRequest, scope: Scope) -> None:
    """Raise ApiError for invalid options of a watch."""
    if request.from_revision < 0:
        raise errors.bad_request("from_revision must not be negative", "fromRevision")
    if not 0 <= request.pace_ms <= MAX_PACE_MS:
        text = f"pace_ms must be from 0 to {MAX_PACE_MS}, not {request.pace_ms}"
        raise errors.bad_request(text, "paceMs")
    if request.pace_ms and not scope.every_object:
        raise errors.bad_request("pace_ms is not for watches of a part of the objects", "paceMs")
