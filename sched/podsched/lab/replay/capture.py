"""Write a running cluster's history into a recording.

All objects of the kinds that scheduling reads come first, then every change in the order of
revisions. A broken watch is resumed where it stopped. If the server no longer has the changes in
between, the recording ends, because a gap would falsify a replay.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import DecodeError

from podsched.api.kinds import GATED_KINDS, KINDS, UNDECIDING_KINDS, WATCHED_KINDS
from podsched.api.objects import AnyObject
from podsched.lab.replay.recording import RecordingWriter
from podsched.lib.backoff import Backoff
from podsched.lib.list_watch import list_and_watch
from podsched.lib.revisions import RevisionWaiters
from podsched.lib.tasks import in_background
from podsched.serve.client.cluster import InformerPort
from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.serve.client.informer import Batch, EventType, WatchSource
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent

#: What scheduling reads. Gated kinds are recorded, too, where a checkpoint tells whether the leader
#: follows them: in a cluster of podsched's.
RECORDED_KINDS: Final = tuple(kind for kind in WATCHED_KINDS if kind not in UNDECIDING_KINDS)
#: Seconds between two moments at which all that was written can be read.
FLUSH_PERIOD: Final = 1.0
#: Why a recording ended as it was meant to.
TIME_IS_UP: Final = "time is up"
INTERRUPTED: Final = "interrupted"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
_KIND_BY_FIELD = {kind.oneof_field: name for name, kind in KINDS.items()}


@dataclass(slots=True)
class Progress:
    """The progress of a recording."""

    objects: int = 0
    changes: int = 0
    decisions: int = 0
    revision: int = 0
    #: The revision of the objects to begin with.
    listed: int = 0


class Capture:
    """One recording; ``run`` it once."""

    def __init__(
        self, writer: RecordingWriter, clock: Callable[[], float], *, most_bytes: int
    ) -> None:
        """``clock``: seconds since the start; ``most_bytes``: of the file."""
        self._writer = writer
        self._clock = clock
        self._most_bytes = most_bytes
        self.progress = Progress()
        #: Set when all objects to begin with are written.
        self.synced = asyncio.Event()
        self._waiters = RevisionWaiters()

    async def wait_for_revision(self, revision: int) -> None:
        """Wait until everything up to a revision has been recorded."""
        if self.progress.revision < revision:
            await self._waiters.wait_for(revision)

    async def run(
        self,
        work: Coroutine[Any, Any, None],
        seconds: float,
        stop: asyncio.Event,
        finish: Callable[[], Awaitable[None]] | None = None,
    ) -> str:
        """Record with ``work`` until the time is over, the file is full, or ``stop`` is set.

        Then calls ``finish``, still recording, and returns why it ended. Raises ClientError if
        nothing can be recorded at the beginning.
        """
        async with (
            in_background(work, "record") as recording,
            in_background(stop.wait(), "await the stop") as stopped,
        ):
            why = await self._until_the_end(recording, stopped, seconds)
            if finish is not None:
                await finish()
            return why

    async def _until_the_end(
        self, recording: asyncio.Task[None], stopped: asyncio.Task[bool], seconds: float
    ) -> str:
        while (left := seconds - self._clock()) > 0:
            await asyncio.wait(
                (recording, stopped),
                timeout=min(left, FLUSH_PERIOD),
                return_when=asyncio.FIRST_COMPLETED,
            )
            self._writer.flush()
            if stopped.done():
                return INTERRUPTED
            if recording.done():
                if not self.synced.is_set():
                    recording.result()
                return str(recording.exception() or "the watch ended")
            if self._writer.size >= self._most_bytes:
                return f"the file has {self._most_bytes >> 20} MiB"
        return TIME_IS_UP

    # ------------------------------------------------------------------ a cluster of podsched's

    async def watch(self, source: WatchSource) -> None:
        """Record a watch of all kinds. Raises ClientError if it cannot continue."""

        def on_error(error: ClientError) -> None:
            if isinstance(error, Compacted):
                forgotten = f"the server has forgotten what came in between: {error}"
                raise Compacted(forgotten) from error
            if not self.synced.is_set():
                raise error

        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        async for _ in list_and_watch(
            lambda: self._watch_once(source),
            on_error,
            transient=(Compacted, Unavailable),
            backoff=backoff,
        ):
            pass

    async def _watch_once(self, source: WatchSource) -> AsyncGenerator[None, None]:
        progress = self.progress
        kinds = (*GATED_KINDS, *WATCHED_KINDS)
        request = v1.WatchRequest(kinds=kinds, from_revision=progress.revision)
        request.send_initial_events = not self.synced.is_set()
        async with aclosing(source.watch_stream(request)) as responses:
            async for response in responses:
                # As an informer: a response that was seen before the stream broke comes again.
                if self.synced.is_set() and response.revision <= progress.revision:
                    continue
                for event in response.events:
                    self._take(event)
                if response.initial_events_end:
                    progress.listed = response.revision
                    self._writer.synced(response.revision)
                    self.synced.set()
                if self.synced.is_set():
                    progress.revision = response.revision
                    self._waiters.reached(response.revision)
                    yield

    def _take(self, event: RawWatchEvent) -> None:
        try:
            wrapped = v1.Object.FromString(event.object)
        except DecodeError:
            return  # informers leave it out as well
        field = wrapped.WhichOneof("object")
        if field is None or _KIND_BY_FIELD[field] in UNDECIDING_KINDS:
            return
        item: AnyObject = getattr(wrapped, field)
        if not self.synced.is_set():
            self._object(item)
        else:
            self._change(EventType(event.type), item, int(item.metadata.resource_version or 0))

    # ------------------------------------------------------------------ a Kubernetes cluster

    async def follow(self, informer: InformerPort) -> None:
        """Record the changes of an informer. Raises ClientError if it cannot continue."""
        #: Kinds are listed one after the other, so what is listed may change before all are.
        listed: dict[tuple[str, str], AnyObject] = {}

        def handle(batch: Batch) -> None:
            if informer.synced.is_set():
                self._begin(listed)
            for event in batch.events:
                item = event.old if event.new is None else event.new
                assert item is not None
                if self.synced.is_set():
                    self._change(event.type, item, batch.revision)
                elif event.new is None:
                    listed.pop((event.kind, event.key), None)
                else:
                    listed[event.kind, event.key] = item
            self.progress.revision = batch.revision

        async with (
            in_background(informer.run(handle), "informer") as running,
            in_background(informer.synced.wait(), "await the first list") as synced,
        ):
            await asyncio.wait((running, synced), return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                self._begin(listed)
            await running

    def _begin(self, listed: Mapping[tuple[str, str], AnyObject]) -> None:
        """Write the objects to begin with, unless they are written."""
        if not self.synced.is_set():
            for item in listed.values():
                self._object(item)
            self._writer.synced(self.progress.revision)
            self.synced.set()

    # ------------------------------------------------------------------ lines

    def _object(self, item: AnyObject) -> None:
        self._writer.object(item)
        self.progress.objects += 1

    def _change(self, type_: EventType, item: AnyObject, revision: int) -> None:
        self._writer.change(self._clock(), revision, type_, item)
        self.progress.changes += 1
