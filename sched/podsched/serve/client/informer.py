"""Keeps the objects of some kinds current in memory, by one watch of all these kinds.

Guarantees:

- The handler gets every change once, in the order of etcd's revisions across all kinds.
- After a batch that is not partial, the stores equal the cluster at ``revision``.
- After a gap in the history (Compacted), the handler gets the differences between the stores and
  the cluster.

An object that cannot be decoded is counted, logged, and treated as deleted.

    starting  --first list-->    synced
    synced    --stream breaks--> resuming at the same revision, next server  --> synced
    synced    --Compacted-->     listing again, the differences delivered    --> synced
    synced    --new pace-->      resuming at the same revision, at the new pace --> synced

``Mirror`` applies responses to the stores (pure), ``Informer`` does the I/O.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from enum import IntEnum
from itertools import islice
from typing import NamedTuple, Protocol

from google.protobuf.message import DecodeError

from podsched.api.kinds import KINDS, find_kind
from podsched.api.objects import AnyObject, copy_of
from podsched.lib.backoff import Backoff
from podsched.lib.event_loop import Turn
from podsched.lib.list_watch import list_and_watch
from podsched.lib.revisions import RevisionWaiters
from podsched.lib.tasks import in_background
from podsched.serve.client.errors import (
    ClientError,
    Compacted,
    Forbidden,
    ServerBug,
    TooLarge,
    Unavailable,
)
from podsched.serve.client.undecodable import Identity, identify, log_undecodable
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse

_log = get_logger("informer")

#: Objects of a list or a response that are processed without a pause: 2 to 4 ms in a scheduler.
#: With 25, a leader took 4 to 14 % more CPU for distinct pods, and its longest lag was no shorter.
_CHUNK = 50
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class EventType(IntEnum):
    """Kinds of change, with the API's numbers."""

    ADDED = 1
    MODIFIED = 2
    DELETED = 3


class Event(NamedTuple):
    """One change of one object.

    kind: "Pod", ... key: "namespace/name", or the name of a cluster-scoped object. old: the object
    before it, None for ADDED. new: the object after it, None for DELETED. Objects are shared with
    the stores and must not be changed.
    """

    type: EventType
    kind: str
    key: str
    old: AnyObject | None
    new: AnyObject | None


class Batch(NamedTuple):
    """Changes up to and including ``revision``; without events, only the revision has changed.

    partial: this is a part of a list or response, and not the last one. ``revision`` is then the
    one before, and the last part has the revision that includes these changes.
    """

    revision: int
    events: Sequence[Event]
    partial: bool = False


Handler = Callable[[Batch], None]
"""Handles a batch synchronously."""


_KIND_BY_FIELD = {kind.oneof_field: name for name, kind in KINDS.items()}
ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


class Mirror:
    """The stores (objects by kind and key), and the rules for updating them from responses."""

    def __init__(
        self, kinds: Iterable[str], *, metadata_only: bool = False, is_list: bool = False
    ) -> None:
        """``is_list``: another mirror will ``adopt`` it, and log the undecodable objects then."""
        self._metadata_only = metadata_only
        self._is_list = is_list
        self.stores: dict[str, dict[str, AnyObject]] = {kind: {} for kind in kinds}
        self.revision = 0
        #: Objects whose latest version cannot be decoded.
        self.undecodable: set[Identity] = set()

    def take(self, events: Iterable[RawWatchEvent]) -> list[Event]:
        """Apply changes to the stores; return them as events with the previous objects.

        Deletions of unknown objects are left out, and MODIFIED of an unknown object is ADDED.
        """
        taken: list[Event | None] = []
        parse = v1.Object.FromString
        for event in events:
            # Objects are decoded separately: objects of one message would keep all of its memory
            # while any of them is referenced.
            try:
                wrapped = parse(event.object)
            except DecodeError:
                taken.append(self.mark_undecodable(identify(event.object), event.type))
                continue
            field = wrapped.WhichOneof("object")
            if field is None:
                continue
            kind = _KIND_BY_FIELD[field]
            item: AnyObject = getattr(wrapped, field)
            if self._metadata_only:
                item = _metadata_of(item)
            metadata = item.metadata
            namespace = metadata.namespace
            key = f"{namespace}/{metadata.name}" if namespace else metadata.name
            taken.append(self.apply(event.type, kind, key, item))
        return [event for event in taken if event is not None]

    def apply(self, type_: int, kind: str, key: str, item: AnyObject | None) -> Event | None:
        """Apply a change to the stores; return it as in ``take``, None if it is left out.

        ``item``: None if it cannot be decoded.
        """
        if item is None:
            return self.mark_undecodable(Identity(kind, key), type_)
        if self.undecodable:
            self.undecodable.discard(Identity(kind, key))
        store = self.stores[kind]
        if type_ == DELETED:
            old = store.pop(key, None)
            return None if old is None else Event(DELETED, kind, key, old, None)
        old = store.get(key)
        store[key] = item
        return Event(ADDED if old is None else MODIFIED, kind, key, old, item)

    def mark_undecodable(self, identity: Identity, type_: int) -> Event | None:
        """Record an undecodable object; if it was in the stores, return its deletion there."""
        kind, key = identity
        if type_ == DELETED:
            self.undecodable.discard(identity)
        elif identity not in self.undecodable:
            self.undecodable.add(identity)
            if not self._is_list:
                log_undecodable(identity)
        old = self.stores[kind].pop(key, None) if kind in self.stores else None
        return None if old is None else Event(DELETED, kind, key, old, None)

    def differences(self, listed: Mirror) -> Iterator[list[Event]]:
        """Yield the events that would turn the stores into ``listed``, deletions first.

        The stores are not changed. Each list of events results from comparing ``_CHUNK`` objects,
        so that the caller can yield to other tasks in between.
        """
        for kind, after in listed.stores.items():
            known = iter(self.stores[kind].items())
            while some := list(islice(known, _CHUNK)):
                yield [
                    Event(DELETED, kind, key, old, None)
                    for key, old in some
                    if (now := after.get(key)) is None or now.metadata.uid != old.metadata.uid
                ]
        for kind, after in listed.stores.items():
            items = iter(after.items())
            while some := list(islice(items, _CHUNK)):
                yield self._new_or_changed(kind, some)

    def _new_or_changed(self, kind: str, items: Iterable[tuple[str, AnyObject]]) -> list[Event]:
        found: list[Event] = []
        before = self.stores[kind]
        for key, item in items:
            known = before.get(key)
            # Of a recreated object, ``differences`` has yielded the deletion already.
            if known is None or known.metadata.uid != item.metadata.uid:
                found.append(Event(ADDED, kind, key, None, item))
            elif known.metadata.resource_version != item.metadata.resource_version:
                found.append(Event(MODIFIED, kind, key, known, item))
        return found

    def adopt(self, listed: Mirror) -> None:
        """Replace the stores of the kinds of ``listed``."""
        for identity in listed.undecodable - self.undecodable:
            log_undecodable(identity)
        self.stores.update(listed.stores)
        others = self.stores.keys() - listed.stores.keys()
        kept = {identity for identity in self.undecodable if identity.kind in others}
        self.undecodable = kept | listed.undecodable


def _metadata_of(item: AnyObject) -> AnyObject:
    """Return a new object with only the metadata: clearing fields would not free their memory."""
    bare = type(item)()
    bare.metadata.CopyFrom(item.metadata)
    return bare


class WatchSource(Protocol):
    """A source of watch responses: an ``ApiClient``, or a fake."""

    def watch_stream(self, request: v1.WatchRequest) -> AsyncGenerator[RawWatchResponse, None]: ...


class MirrorReader:
    """The part of an informer that reads its mirror."""

    def __init__(self, kinds: Sequence[str], *, metadata_only: bool = False) -> None:
        self.kinds = [find_kind(kind).name for kind in kinds]
        self._mirror = Mirror(self.kinds, metadata_only=metadata_only)
        self.synced = asyncio.Event()

    @property
    def undecodable(self) -> int:
        """Number of objects that cannot be decoded."""
        return len(self._mirror.undecodable)

    @property
    def revision(self) -> int:
        """The revision up to which all changes have been delivered; see ``Batch``."""
        return self._mirror.revision

    def objects(self, kind: str) -> Mapping[str, AnyObject]:
        """Return the objects of a kind by key; nothing of a kind that is not followed.

        The mapping changes with the informer, so do not iterate over it across an ``await``.
        """
        return self._mirror.stores.get(kind, {})

    def get(self, kind: str, key: str) -> AnyObject | None:
        """Return one object, or None."""
        return self.objects(kind).get(key)


class Informer(MirrorReader):
    """Follows some kinds through one watch stream; ``run`` it once, as a task."""

    def __init__(
        self, source: WatchSource, kinds: Sequence[str], *, metadata_only: bool = False
    ) -> None:
        """Follow ``kinds``; ``metadata_only``: keep only the objects' metadata."""
        super().__init__(kinds, metadata_only=metadata_only)
        self._source = source
        self._metadata_only = metadata_only
        self._request = v1.WatchRequest(kinds=self.kinds)
        self._paced = asyncio.Event()
        self._waiters = RevisionWaiters()
        #: Number of lists after a gap in the history.
        self.relists = 0

    def pace(self, milliseconds: int) -> None:
        """Request responses at most every ``milliseconds``, with the changes of an object merged.

        0: send changes at once. The stream is reopened at the new pace, so 0 also delivers changes
        that the server has delayed. Standbys use a slow pace, which costs less.
        """
        if self._request.pace_ms != milliseconds:
            self._request.pace_ms = milliseconds
            self._paced.set()

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until all changes up to a revision have been delivered."""
        if self.revision < revision:
            await self._waiters.wait_for(revision)

    async def run(self, handler: Handler) -> None:
        """Follow until cancelled, retrying after outages. An error of the handler ends it."""
        following = list_and_watch(
            self._stream,
            self._on_error,
            # The last two may be temporary, too: a bug on one server, a response too large.
            transient=(Compacted, Forbidden, Unavailable, ServerBug, TooLarge),
            backoff=Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random),
        )
        async with aclosing(following) as batches:
            async for batch in batches:
                handler(batch)
                if not batch.partial:
                    self.synced.set()
                    self._waiters.reached(self.revision)

    def _on_error(self, error: ClientError) -> None:
        if isinstance(error, Compacted):
            _log.info("Listing again", cause=str(error))
            self.relists += 1
            self.synced.clear()
        elif isinstance(error, Forbidden):
            # Roles and tokens may change, so this is retried.
            _log.warning("The watch is not permitted", error=str(error))
        else:
            _log.info("The watch broke", revision=self.revision, error=str(error))

    async def _stream(self) -> AsyncGenerator[Batch | None, None]:
        """Yield a list, if none was delivered yet, and then batches of changes.

        None stands for a response without changes. Reopens the stream when the pace changes.
        """
        while True:
            request = copy_of(self._request)
            if self.synced.is_set():
                request.from_revision = self.revision
            else:
                request.send_initial_events = True
            # No await since the copy, so a later change of the pace sets it again and reopens the
            # stream.
            self._paced.clear()
            async with aclosing(self._source.watch_stream(request)) as responses:
                if request.send_initial_events:
                    listed, revision = await self._list(responses)
                    async for part in self._deliver_list(listed, revision):
                        yield part
                async for batch in self._take_all(responses):
                    yield batch
            if not self._paced.is_set():
                raise Unavailable("the watch ended")

    async def _list(self, responses: AsyncGenerator[RawWatchResponse, None]) -> tuple[Mirror, int]:
        """Return the existing objects and their revision."""
        turn = Turn()
        listed = Mirror(self._mirror.stores, metadata_only=self._metadata_only, is_list=True)
        async for response in responses:
            await turn.wait()
            for start in range(0, len(response.events), _CHUNK):
                listed.take(response.events[start : start + _CHUNK])
                await turn.pause()
            if response.initial_events_end:
                return listed, response.revision
        raise Unavailable("the watch ended")

    async def _deliver_list(self, listed: Mirror, revision: int) -> AsyncGenerator[Batch, None]:
        """Yield a list in parts, so that a large one does not block the event loop."""
        mirror, turn = self._mirror, Turn()
        events: list[Event] = []
        for some in mirror.differences(listed):
            events += some
            await turn.pause()
        # From here on the stores equal the whole list, although its events are delivered in parts.
        mirror.adopt(listed)
        last = max(0, len(events) - 1) // _CHUNK * _CHUNK
        for start in range(0, last, _CHUNK):
            yield Batch(self.revision, events[start : start + _CHUNK], partial=True)
            await turn.pause()
        if revision < mirror.revision:
            _log.error(
                "The server was restored from a backup: changes since then are lost",
                seen=mirror.revision,
                revision=revision,
            )
            self._waiters.release()
        mirror.revision = revision
        yield Batch(revision, events[last:])

    async def _take_all(
        self, responses: AsyncGenerator[RawWatchResponse, None]
    ) -> AsyncGenerator[Batch | None, None]:
        mirror, turn = self._mirror, Turn()
        async for response in self._until_paced(responses):
            if response.revision <= mirror.revision:
                yield None
                continue
            events = response.events
            await turn.wait()
            last = max(0, len(events) - 1) // _CHUNK * _CHUNK
            for start in range(0, last, _CHUNK):
                some = mirror.take(events[start : start + _CHUNK])
                yield Batch(mirror.revision, some, partial=True)
                await turn.pause()
            taken = mirror.take(events[last:])
            mirror.revision = response.revision
            yield Batch(response.revision, taken)
            turn.end()

    async def _until_paced(
        self, responses: AsyncGenerator[RawWatchResponse, None]
    ) -> AsyncGenerator[RawWatchResponse, None]:
        """Yield the responses until the pace changes."""
        if not self._request.pace_ms:
            # Responses come often, so a new pace takes effect after the next one, without a task.
            async for response in responses:
                yield response
                if self._paced.is_set():
                    return
            return
        async with in_background(self._paced.wait(), "await another pace") as paced:
            while not self._paced.is_set():
                # The block retrieves an error of a response also when this task is cancelled.
                async with in_background(_next(responses), "await a response") as following:
                    await asyncio.wait({following, paced}, return_when=asyncio.FIRST_COMPLETED)
                if following.cancelled():
                    return
                try:
                    yield following.result()
                except StopAsyncIteration:
                    return


async def _next(responses: AsyncGenerator[RawWatchResponse, None]) -> RawWatchResponse:
    """Return the next response, as a coroutine. Raises StopAsyncIteration after the last one."""
    return await anext(responses)
