"""Objects of a cluster in memory, and what the scheduler's writes do to them.

What a binding, an eviction, a patch or a deletion does to an object is computed by the API server's
own functions. Base of the cluster of tests (``testing.fake_cluster``) and of the cluster of replays
(``lab.replay.simulated_cluster``).

Not for production: nothing is validated or defaulted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import TypeVar

from podsched.api.conditions import set_pod_condition
from podsched.api.disruption_budgets import needs_no_budget
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS, Kind, find_kind, kind_of
from podsched.api.objects import AnyObject, Pod, Timestamp, object_key, timestamp
from podsched.serve.client.errors import of_result
from podsched.serve.server import errors
from podsched.serve.server.binding import bind_step, status_step
from podsched.serve.server.budgets import budgets_of, spend
from podsched.serve.server.deletion import can_be_removed, check_preconditions, deletion_step
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.namespaces import namespace_deletion_step
from podsched.serve.server.patching import parse_patch, patched
from podsched.serve.server.status import batch_response
from podsched.serve.server.storage import Outcome, Step
from podsched.v1 import api_pb2 as v1

T = TypeVar("T")


class MemoryCluster:
    """The reads and fenced writes of ``Cluster`` in memory; ``now`` gives Unix time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.revision = 1
        self._now = now
        self._entries: dict[tuple[str, str], Entry] = {}
        self._terms: dict[str, int] = {}
        self._uids = itertools.count(1)

    # ------------------------------------------------------------------ for subclasses

    def changed(self, event: v1.EventType, entry: Entry, old: Entry | None) -> None:
        """Hear of a change; ``entry`` has its revision, and what a deleted object was last."""

    def starts(self, pod: Pod) -> None:
        """Change a pod further in the write that binds it."""

    async def enter(self) -> None:
        """Run before each call of the scheduler; a subclass may raise ClientError."""
        await asyncio.sleep(0)

    # ------------------------------------------------------------------ writes by others

    def create(self, item: AnyObject) -> AnyObject:
        """Store a new object, with a uid if it has none. Raises AlreadyExists."""
        return message_of(raised(lambda: self._create(item)))

    def update(self, item: AnyObject) -> AnyObject:
        """Replace an object, status included. Raises NotFound."""
        value = value_of(item)
        return message_of(self._write(kind_of(item), object_key(item), lambda _: Step(value)))

    def delete(self, kind: str, key: str) -> None:
        """Remove an object at once. Raises NotFound."""
        raised(lambda: self._write(find_kind(kind), key, lambda _: Step(None)))

    def object(self, kind: str, key: str) -> AnyObject:
        """Return a copy of an object. Raises NotFound."""
        return message_of(raised(lambda: self._entry(find_kind(kind), key)))

    def objects(self, kind: str) -> list[AnyObject]:
        """Return all objects of a kind, in the order of their keys."""
        return [message_of(entry) for entry in self._of_kind(kind)]

    def new_term(self, lock: str) -> v1.Fence:
        """Begin a new term of the lock: writes with the fences of earlier terms are refused."""
        self.revision += 1
        self._terms[lock] = self.revision
        return v1.Fence(lock=lock, term=self.revision)

    # ------------------------------------------------------------------ as in Cluster

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        await self.enter()
        return self.object(kind, _key(find_kind(kind), namespace, name))

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._bind, bindings, fence)

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._evict, evictions, fence)

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._patch_status, patches, fence)

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._patch, patches, fence)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._delete, deletions, fence)

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        await self.enter()
        raised(lambda: self._check(fence))
        found = [o for o in self.objects(kind) if o.metadata.namespace == namespace]
        for item in found:
            name = item.metadata.name
            self._delete(v1.DeleteRequest(kind=kind, namespace=namespace, name=name))
        return len(found)

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self._create, items, fence)

    # ------------------------------------------------------------------ inside

    async def _each(
        self, act: Callable[[T], Entry], items: Sequence[T], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Do something with each item by itself, if the fence holds."""
        await self.enter()

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
        kind, made = kind_of(item), deepcopy(item)
        metadata = made.metadata
        if kind.namespaced and not metadata.namespace:
            metadata.namespace = "default"
        key = object_key(made)
        if (kind.name, key) in self._entries:
            raise errors.already_exists(kind, metadata.name)
        metadata.uid = metadata.uid or f"uid-{next(self._uids)}"
        if not metadata.HasField("creation_timestamp"):
            metadata.creation_timestamp.CopyFrom(timestamp(self._now(), whole=True))
        return self._store(kind, key, value_of(made), None)

    def _write(self, kind: Kind, key: str, change: Callable[[Entry], Step | None]) -> Entry:
        """Change an object by the step that follows from it. Raises ApiError."""
        entry = self._entry(kind, key)
        step = change(entry)
        if step is None:
            return entry
        if step.value is None:
            del self._entries[kind.name, key]
            self.revision += 1
            last = Entry(kind, key, entry.value, self.revision, entry.created)
            self.changed(v1.DELETED, last, entry)
            return last
        return self._store(kind, key, step.value, entry)

    def _store(self, kind: Kind, key: str, value: bytes, old: Entry | None) -> Entry:
        self.revision += 1
        created = self.revision if old is None else old.created
        entry = self._entries[kind.name, key] = Entry(kind, key, value, self.revision, created)
        self.changed(v1.ADDED if old is None else v1.MODIFIED, entry, old)
        return entry

    def _bind(self, binding: v1.Binding) -> Entry:
        def start(pod: Pod) -> None:
            self._entry(KINDS["Node"], binding.node_name)
            self.starts(pod)

        return self._write(
            KINDS["Pod"],
            _pod_key(binding),
            lambda entry: bind_step(entry, binding, self._stamp(), fenced=True, add_metadata=start),
        )

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
            return Step(None if can_be_removed(message) else value_of(message))

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


def value_of(item: AnyObject) -> bytes:
    """Return what is stored of an object: all but its resourceVersion."""
    kept = deepcopy(item)
    kept.metadata.resource_version = ""
    return kept.SerializeToString()


def message_of(entry: Entry) -> AnyObject:
    """Return a copy of a stored object, with its resourceVersion."""
    message = entry.decode()
    message.metadata.resource_version = str(entry.revision)
    return message


def _results(outcomes: list[Outcome]) -> Sequence[v1.BatchResult]:
    return v1.BatchResponse.FromString(batch_response(outcomes)).results


def raised(act: Callable[[], T]) -> T:
    """Do something; raise its ApiError as a client gets it."""
    try:
        return act()
    except ApiError as error:
        (result,) = _results([error])
        raise of_result(result) or error from error
