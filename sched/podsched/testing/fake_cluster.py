"""A cluster in memory: the semantics of ``Cluster``, without sockets and without etcd.

Verified by the contract suite that also runs on ``ApiClient`` (tests/serve/client/test_cluster.py).
Informers on it are the real ones. ``fault`` makes every call fail; ``break_watches`` and
``compact`` do to streams what a network and etcd do.

Not for production: nothing is validated or defaulted, label and field selectors are not applied.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from podsched.api.objects import Event, Pod, object_key
from podsched.lab.memory_cluster import MemoryCluster
from podsched.serve.client.errors import ClientError, Compacted, Unavailable
from podsched.serve.client.informer import Informer
from podsched.serve.server.entries import Entry
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse


class _Change(NamedTuple):
    revision: int
    kind: str
    namespace: str
    event: RawWatchEvent


_revision_of = attrgetter("revision")


class FakeCluster(MemoryCluster):
    """A ``Cluster`` in memory; ``now`` gives Unix time in seconds, for timestamps."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        super().__init__(now)
        self.fault: ClientError | None = None
        self.bound: list[tuple[str, str]] = []
        """Every binding done, in order: (pod key, node name)."""
        self._log: list[_Change] = []
        self._compacted = 0
        self._breaks = 0
        self._changed = asyncio.Event()

    # ------------------------------------------------------------------ for tests

    def break_watches(self) -> None:
        """Break all streams; informers resume."""
        self._breaks += 1
        self._wake()

    def compact(self) -> None:
        """Forget the history up to now, so that watches that resume from it must list again."""
        self._compacted = self.revision
        self._log.clear()
        self.break_watches()

    # ------------------------------------------------------------------ as in Cluster

    def informer(self, kinds: Sequence[str], *, metadata_only: bool = False) -> Informer:
        return Informer(self, kinds, metadata_only=metadata_only)

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        await self.enter()
        for event in new:
            self.create(event)
        for event in repeated:
            if ("Event", object_key(event)) in self.stored:
                self.update(event)
            else:
                self.create(event)

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        """Stream changes to an ``Informer`` as ``ApiClient.watch_stream`` does."""
        await self.enter()
        breaks, seen = self._breaks, request.from_revision
        if request.send_initial_events or not seen:
            seen = self.revision
            initial = [
                RawWatchEvent(type=v1.ADDED, object=entry.wrapped())
                for kind in request.kinds
                for entry in self.entries(kind)
                if request.namespace in ("", entry.message.metadata.namespace)
            ]
            yield RawWatchResponse(events=initial)
            yield RawWatchResponse(revision=seen, bookmark=True, initial_events_end=True)
        while breaks == self._breaks and seen >= self._compacted:
            changed, revision = self._changed, self.revision
            changes = self._log[bisect_right(self._log, seen, key=_revision_of) :]
            wanted = [
                change.event
                for change in changes
                if change.kind in request.kinds and request.namespace in ("", change.namespace)
            ]
            if revision > seen:
                seen = revision
                yield RawWatchResponse(events=wanted, revision=revision, bookmark=not wanted)
                continue
            await changed.wait()
        if seen < self._compacted:
            raise Compacted("required revision has been compacted")
        raise Unavailable("the watch broke")

    # ------------------------------------------------------------------ from MemoryCluster

    async def enter(self) -> None:
        """Raise the fault, if there is one."""
        await super().enter()
        if self.fault is not None:
            raise self.fault

    def starts(self, pod: Pod) -> None:
        self.bound.append((object_key(pod), pod.spec.node_name))

    def changed(self, event: v1.EventType, entry: Entry, old: Entry | None) -> None:
        """Append the change to the log and wake the watches."""
        namespace = entry.message.metadata.namespace
        told = RawWatchEvent(type=int(event), object=entry.wrapped())
        self._log.append(_Change(entry.revision, entry.kind.name, namespace, told))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
