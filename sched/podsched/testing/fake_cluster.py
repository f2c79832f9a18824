"""A cluster in memory: the semantics of ``Cluster``, without sockets and without etcd.

What a binding, an eviction, a patch or a deletion does to an object is computed by the API server's
own functions.
Verified by the contract suite that also runs on ``ApiClient`` (tests/serve/client/test_cluster.py).
Informers on it are the real ones. ``fault`` makes every call fail; ``break_watches`` and
``compact`` do to streams what a network and etcd do.

Not for production: nothing is validated or defaulted, label and field selectors are not applied.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

from podsched.api.conditions import set_pod_condition
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS, Kind, find_kind, kind_of
from podsched.api.objects import AnyObject, Event, Pod, Timestamp, object_key, timestamp
from podsched.serve.client.errors import ClientError, Compacted, Unavailable, of_result
from podsched.serve.client.informer import Informer
from podsched.serve.server import errors
from podsched.serve.server.binding import bind_step, status_step
from podsched.serve.server.budgets import budgets_of, needs_no_budget, spend
from podsched.serve.server.deletion import can_be_removed, check_preconditions, deletion_step
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.namespaces import namespace_deletion_step
from podsched.serve.server.patching import parse_patch, patched
from podsched.serve.server.status import batch_response
from podsched.serve.server.storage import Outcome, Step
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse

T = TypeVar("T")


class _Change(NamedTuple):
    revision: int
    kind: str
    namespace: str
    event: RawWatchEvent


_revision_of = attrgetter("revision")


class FakeCluster:
    """A ``Cluster`` in memory; ``now`` gives Unix time in seconds, for timestamps."""

    def __init__(self, *, now: Callable[[], float] = time.time) -> None:
        self.revision = 1
        self.fault: ClientError | None = None
        self.bound: list[tuple[str, str]] = []
        """Every binding done, in order: (pod key, node name)."""
        self._now = now
        self._entries: dict[tuple[str, str], Entry] = {}
        self._terms: dict[str, int] = {}
        self._log: list[_Change] = []
        self._compacted = 0
        self._breaks = 0
        self._changed = asyncio.Event()
        self._uids = itertools.count(1)

    # ------------------------------------------------------------------ for tests

    def create(self, item: AnyObject) -> AnyObject:
        """Store a new object, with a uid if it has none. Raises AlreadyExists."""
        return _message(_raised(lambda: self._create(item)))

    def update(self, item: AnyObject) -> AnyObject:
        """Replace an object, status included. Raises NotFound."""
        value = _value(item)
        return _message(self._write(kind_of(item), object_key(item), lambda _: Step(value)))

    def delete(self, kind: str, key: str) -> None:
        """Remove an object at once. Raises NotFound."""
        _raised(lambda: self._write(find_kind(kind), key, lambda _: Step(None)))

    def object(self, kind: str, key: str) -> AnyObject:
        """Return a copy of an object. Raises NotFound."""
        return _message(_raised(lambda: self._entry(find_kind(kind), key)))

    def objects(self, kind: str) -> list[AnyObject]:
        """Return all objects of a kind, in the order of their keys."""
        return [_message(entry) for entry in self._of_kind(kind)]

    def new_term(self, lock: str) -> v1.Fence:
        """Begin a new term of the lock: writes with the fences of earlier terms are refused."""
        self.revision += 1
        self._terms[lock] = self.revision
        return v1.Fence(lock=lock, term=self.revision)

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
        """See ``Cluster.informer``."""
        return Informer(self, kinds, metadata_only=metadata_only)

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """See ``Cluster.get``."""
        await self._enter()
        return self.object(kind, _key(find_kind(kind), namespace, name))

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.bind_pods``."""
        return await self._each(self._bind, bindings, fence)

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.evict_pods``."""
        return await self._each(self._evict, evictions, fence)

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.patch_pod_statuses``."""
        return await self._each(self._patch_status, patches, fence)

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.patch_many``."""
        return await self._each(self._patch, patches, fence)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.delete_many``."""
        return await self._each(self._delete, deletions, fence)

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        """See ``Cluster.delete_collection``."""
        await self._enter()
        _raised(lambda: self._check(fence))
        found = [o for o in self.objects(kind) if o.metadata.namespace == namespace]
        for item in found:
            name = item.metadata.name
            self._delete(v1.DeleteRequest(kind=kind, namespace=namespace, name=name))
        return len(found)

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.create_many``."""
        return await self._each(self._create, items, fence)

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """See ``Cluster.record_events``."""
        await self._enter()
        for event in new:
            self.create(event)
        for event in repeated:
            if ("Event", object_key(event)) in self._entries:
                self.update(event)

    async def watch_stream(
        self, request: v1.WatchRequest
    ) -> AsyncGenerator[RawWatchResponse, None]:
        """Stream changes to an ``Informer`` as ``ApiClient.watch_stream`` does."""
        await self._enter()
        breaks, seen = self._breaks, request.from_revision
        if request.send_initial_events or not seen:
            seen = self.revision
            initial = [
                RawWatchEvent(type=v1.ADDED, object=entry.wrapped())
                for kind in request.kinds
                for entry in self._of_kind(kind)
                if request.namespace in ("", entry.message.metadata.namespace)
            ]
            yield RawWatchResponse(events=initial)
            yield RawWatchResponse(revision=seen, bookmark=True, initial_events_end=True)
        while breaks == self._breaks:
            if seen < self._compacted:
                break
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

    # ------------------------------------------------------------------ inside

    async def _enter(self) -> None:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault

    async def _each(
        self, act: Callable[[T], Entry], items: Sequence[T], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Do something with each item by itself, if the fence holds."""
        await self._enter()

        def outcome(item: T) -> Outcome:
            try:
                self._check(fence)
                return act(item)
            except ApiError as error:
                return error

        return _results([outcome(item) for item in items])

    def _check(self, fence: v1.Fence) -> None:
        if self._terms.get(fence.lock) != fence.term:
            raise errors.fence_lost(fence.lock, fence.term)

    def _of_kind(self, kind: str) -> Iterable[Entry]:
        name = find_kind(kind).name
        return [entry for (k, _), entry in sorted(self._entries.items()) if k == name]

    def _entry(self, kind: Kind, key: str) -> Entry:
        entry = self._entries.get((kind.name, key))
        if entry is None:
            raise errors.not_found(kind, key.rpartition("/")[2])
        return entry

    def _create(self, item: AnyObject) -> Entry:
        kind, made = kind_of(item), type(item)()
        made.CopyFrom(item)  # type: ignore[arg-type]
        metadata = made.metadata
        if kind.namespaced and not metadata.namespace:
            metadata.namespace = "default"
        key = object_key(made)
        if (kind.name, key) in self._entries:
            raise errors.already_exists(kind, metadata.name)
        metadata.uid = metadata.uid or f"uid-{next(self._uids)}"
        if not metadata.HasField("creation_timestamp"):
            metadata.creation_timestamp.CopyFrom(timestamp(self._now(), whole=True))
        return self._store(kind, key, _value(made), v1.ADDED)

    def _write(self, kind: Kind, key: str, change: Callable[[Entry], Step | None]) -> Entry:
        """Change an object by the step that follows from it. Raises ApiError."""
        entry = self._entry(kind, key)
        step = change(entry)
        if step is None:
            return entry
        if step.value is None:
            del self._entries[kind.name, key]
            return self._record(kind, key, entry.value, v1.DELETED)
        return self._store(kind, key, step.value, v1.MODIFIED)

    def _store(self, kind: Kind, key: str, value: bytes, event_type: v1.EventType) -> Entry:
        entry = self._record(kind, key, value, event_type)
        self._entries[kind.name, key] = entry
        return entry

    def _record(self, kind: Kind, key: str, value: bytes, event_type: v1.EventType) -> Entry:
        self.revision += 1
        entry = Entry(kind, key, value, self.revision, self.revision)
        event = RawWatchEvent(type=int(event_type), object=entry.wrapped())
        namespace = entry.message.metadata.namespace
        self._log.append(_Change(self.revision, kind.name, namespace, event))
        self._wake()
        return entry

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _bind(self, binding: v1.Binding) -> Entry:
        def change(entry: Entry) -> Step | None:
            step = bind_step(entry, binding, self._stamp(), fenced=True)
            if step is not None:
                self._entry(KINDS["Node"], binding.node_name)
                self.bound.append((entry.key, binding.node_name))
            return step

        return self._write(KINDS["Pod"], _pod_key(binding), change)

    def _patch_status(self, patch: v1.PodStatusPatch) -> Entry:
        stamp = self._stamp()
        return self._write(
            KINDS["Pod"], _pod_key(patch), lambda entry: status_step(entry, patch, stamp)
        )

    def _patch(self, request: v1.PatchRequest) -> Entry:
        def change(entry: Entry) -> Step:
            if request.resource_version and request.resource_version != entry.revision:
                raise errors.conflict(entry.kind, request.name)
            message = patched(entry.message, parse_patch(request), request.type)
            return Step(None if can_be_removed(message) else _value(message))

        kind = find_kind(request.kind)
        return self._write(kind, _key(kind, request.namespace, request.name), change)

    def _delete(self, request: v1.DeleteRequest) -> Entry:
        kind = find_kind(request.kind)

        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            if kind.name == "Namespace":
                prefix = f"{entry.key}/"
                emptied = not any(key.startswith(prefix) for _, key in self._entries)
                return namespace_deletion_step(entry, self._now(), emptied=emptied)
            return deletion_step(entry, None, self._now(), request.propagation_policy)

        return self._write(kind, _key(kind, request.namespace, request.name), change)

    def _evict(self, request: v1.EvictRequest) -> Entry:
        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            pod = entry.decode()
            assert isinstance(pod, Pod)
            if not request.ignore_disruption_budgets and not needs_no_budget(pod):
                for budget in budgets_of(pod, self._of_kind("PodDisruptionBudget")):
                    if (spent := spend(budget, pod, self._now())) is not None:
                        self.update(spent)
            if request.HasField("condition"):
                set_pod_condition(pod.status, request.condition, self._stamp())
            has_grace = request.HasField("grace_period_seconds")
            grace = request.grace_period_seconds if has_grace else None
            return deletion_step(entry, grace, self._now(), message=pod)

        return self._write(KINDS["Pod"], _pod_key(request), change)

    def _stamp(self) -> Timestamp:
        return timestamp(self._now(), whole=True)


def _key(kind: Kind, namespace: str, name: str) -> str:
    return local_key(kind, namespace or "default", name)


def _pod_key(about: v1.Binding | v1.PodStatusPatch | v1.EvictRequest) -> str:
    return f"{about.namespace or 'default'}/{about.name}"


def _value(item: AnyObject) -> bytes:
    """Return what is stored of an object: all but its resourceVersion."""
    kept = type(item)()
    kept.CopyFrom(item)  # type: ignore[arg-type]
    kept.metadata.resource_version = ""
    return kept.SerializeToString()


def _message(entry: Entry) -> AnyObject:
    message = entry.decode()
    message.metadata.resource_version = str(entry.revision)
    return message


def _results(outcomes: list[Outcome]) -> Sequence[v1.BatchResult]:
    return v1.BatchResponse.FromString(batch_response(outcomes)).results


def _raised(act: Callable[[], T]) -> T:
    """Do something; raise its ApiError as a client gets it."""
    try:
        return act()
    except ApiError as error:
        (result,) = _results([error])
        raise of_result(result) or error from error
