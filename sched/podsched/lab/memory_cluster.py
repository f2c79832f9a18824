"""A cluster in memory, and what the scheduler's writes do to its objects.

What a binding, an eviction, a patch or a deletion does to an object is computed by the API server's
own functions. Base of the cluster of tests (``testing.fake_cluster``) and of the cluster of replays
(``lab.replay.simulated_cluster``).

Not for production: nothing is validated or defaulted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TypeVar

from podsched.api.conditions import set_pod_condition
from podsched.api.disruption_budgets import needs_no_budget
from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS, Kind, find_kind, kind_of
from podsched.api.objects import AnyObject, Pod, Timestamp, object_key, timestamp
from podsched.serve.client.errors import of_result
from podsched.serve.server import errors
from podsched.serve.server.binding import bind_step, status_step
from podsched.serve.server.budgets import budgets_of, more_than_one, spend
from podsched.serve.server.deletion import can_be_removed, check_preconditions, deletion_step
from podsched.serve.server.entries import Entry
from podsched.serve.server.errors import ApiError
from podsched.serve.server.mutations import Outcome, Step
from podsched.serve.server.namespaces import namespace_deletion_step
from podsched.serve.server.patching import parse_patch, patched
from podsched.serve.server.status import batch_response
from podsched.v1 import api_pb2 as v1

T = TypeVar("T")


class MemoryObjects:
    """Objects by kind and key; ``now`` gives Unix time in seconds. Writes here need no fence."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.revision = 1
        self.stored: dict[tuple[str, str], Entry] = {}
        self._uids = itertools.count(1)

    def changed(self, event: v1.EventType, entry: Entry, old: Entry | None) -> None:
        """Take in a change; ``entry`` has its revision, and a deleted object as it was."""

    def create(self, item: AnyObject) -> AnyObject:
        """Store a new object, with a uid if it has none. Raises AlreadyExists."""
        return message_of(raised(lambda: self.add(item)))

    def update(self, item: AnyObject) -> AnyObject:
        """Replace an object, status included. Raises NotFound."""
        value = value_of(item)
        return message_of(self.write(kind_of(item), object_key(item), lambda _: Step(value)))

    def delete(self, kind: str, key: str) -> None:
        """Remove an object at once. Raises NotFound."""
        raised(lambda: self.write(find_kind(kind), key, lambda _: Step(None)))

    def object(self, kind: str, key: str) -> AnyObject:
        """Return a copy of an object. Raises NotFound."""
        return message_of(raised(lambda: self.entry(find_kind(kind), key)))

    def objects(self, kind: str) -> list[AnyObject]:
        """Return all objects of a kind, in the order of their keys."""
        return [message_of(entry) for entry in self.entries(kind)]

    def entries(self, kind: str) -> Iterable[Entry]:
        """Return the entries of a kind, in the order of their keys."""
        name = find_kind(kind).name
        return [entry for (k, _), entry in sorted(self.stored.items()) if k == name]

    def entry(self, kind: Kind, key: str) -> Entry:
        """Return an entry. Raises ApiError."""
        entry = self.stored.get((kind.name, key))
        if entry is None:
            raise errors.not_found(kind, key.rpartition("/")[2])
        return entry

    def add(self, item: AnyObject) -> Entry:
        """Store a new object. Raises ApiError."""
        kind, made = kind_of(item), deepcopy(item)
        metadata = made.metadata
        if kind.namespaced and not metadata.namespace:
            metadata.namespace = "default"
        key = object_key(made)
        if (kind.name, key) in self.stored:
            raise errors.already_exists(kind, metadata.name)
        metadata.uid = metadata.uid or f"uid-{next(self._uids)}"
        if not metadata.HasField("creation_timestamp"):
            metadata.creation_timestamp.CopyFrom(timestamp(self.now(), whole=True))
        return self._store(kind, key, value_of(made), None)

    def write(self, kind: Kind, key: str, change: Callable[[Entry], Step | None]) -> Entry:
        """Change an object by the step that follows from it. Raises ApiError."""
        entry = self.entry(kind, key)
        step = change(entry)
        if step is None:
            return entry
        if step.value is None:
            del self.stored[kind.name, key]
            self.revision += 1
            last = Entry(kind, key, entry.value, self.revision, entry.created)
            self.changed(v1.DELETED, last, entry)
            return last
        return self._store(kind, key, step.value, entry)

    def _store(self, kind: Kind, key: str, value: bytes, old: Entry | None) -> Entry:
        self.revision += 1
        created = self.revision if old is None else old.created
        entry = self.stored[kind.name, key] = Entry(kind, key, value, self.revision, created)
        self.changed(v1.ADDED if old is None else v1.MODIFIED, entry, old)
        return entry


def patch_object(objects: MemoryObjects, request: v1.PatchRequest) -> Entry:
    """Carry out a patch. Raises ApiError."""

    def change(entry: Entry) -> Step:
        if request.resource_version and request.resource_version != entry.revision:
            raise errors.conflict(entry.kind, request.name)
        message = patched(entry.message, parse_patch(request), request.type)
        return Step(None if can_be_removed(message) else value_of(message))

    kind = find_kind(request.kind)
    return objects.write(kind, key_of_name(kind, request.namespace, request.name), change)


def delete_object(objects: MemoryObjects, request: v1.DeleteRequest) -> Entry:
    """Carry out a deletion as the API server does. Raises ApiError."""
    kind = find_kind(request.kind)

    def change(entry: Entry) -> Step | None:
        check_preconditions(entry, request.preconditions)
        if kind.name == "Namespace":
            prefix = f"{entry.key}/"
            emptied = not any(key.startswith(prefix) for _, key in objects.stored)
            return namespace_deletion_step(entry, objects.now(), emptied=emptied)
        return deletion_step(entry, None, objects.now(), request.propagation_policy)

    return objects.write(kind, key_of_name(kind, request.namespace, request.name), change)


def key_of_name(kind: Kind, namespace: str, name: str) -> str:
    """Return the key of an object; its namespace is "default" unless it names one."""
    return local_key(kind, namespace or "default", name)


def value_of(item: AnyObject) -> bytes:
    """Return the stored bytes of an object, which exclude its resourceVersion."""
    kept = deepcopy(item)
    kept.metadata.resource_version = ""
    return kept.SerializeToString()


def message_of(entry: Entry) -> AnyObject:
    """Return a copy of a stored object, with its resourceVersion."""
    message = entry.decode()
    message.metadata.resource_version = str(entry.revision)
    return message


def results_of(outcomes: list[Outcome]) -> Sequence[v1.BatchResult]:
    """Return what a client gets as the outcomes of a batch."""
    return v1.BatchResponse.FromString(batch_response(outcomes)).results


def raised(act: Callable[[], T]) -> T:
    """Do something; raise its ApiError as a client gets it."""
    try:
        return act()
    except ApiError as error:
        (result,) = results_of([error])
        raise of_result(result) or error from error


class MemoryPods(MemoryObjects):
    """What bindings, evictions and patches of their status do to pods."""

    def starts(self, pod: Pod) -> None:
        """Change a pod further in the write that binds it."""

    def _bind(self, binding: v1.Binding) -> Entry:
        stamp = self._stamp()

        def start(pod: Pod) -> None:
            self.entry(KINDS["Node"], binding.node_name)
            self.starts(pod)

        def change(entry: Entry) -> Step | None:
            return bind_step(entry, binding, stamp, fenced=True, add_metadata=start)

        return self.write(KINDS["Pod"], _pod_key(binding), change)

    def _patch_status(self, patch: v1.PodStatusPatch) -> Entry:
        stamp = self._stamp()
        pod = KINDS["Pod"], _pod_key(patch)
        return self.write(*pod, lambda entry: status_step(entry, patch, stamp))

    def _evict(self, request: v1.EvictRequest) -> Entry:
        def change(entry: Entry) -> Step | None:
            check_preconditions(entry, request.preconditions)
            pod = entry.decode()
            assert isinstance(pod, Pod)
            if not request.ignore_disruption_budgets and not needs_no_budget(pod):
                self._spend_budget(pod)
            if request.HasField("condition"):
                set_pod_condition(pod.status, request.condition, self._stamp())
            has_grace = request.HasField("grace_period_seconds")
            grace = request.grace_period_seconds if has_grace else None
            return deletion_step(entry, grace, self.now(), message=pod)

        return self.write(KINDS["Pod"], _pod_key(request), change)

    def _spend_budget(self, pod: Pod) -> None:
        budgets = budgets_of(pod, self.entries("PodDisruptionBudget"))
        if len(budgets) > 1:
            raise more_than_one()
        for budget in budgets:
            if (spent := spend(budget, pod, self.now())) is not None:
                self.update(spent)

    def _stamp(self) -> Timestamp:
        return timestamp(self.now(), whole=True)


class MemoryCluster(MemoryPods):
    """The reads and fenced writes of ``Cluster`` in memory; ``now`` gives Unix time in seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self._terms: dict[str, int] = {}

    async def enter(self) -> None:
        """Run before each call of the scheduler; a subclass may raise ClientError."""
        await asyncio.sleep(0)

    def new_term(self, lock: str) -> v1.Fence:
        """Begin a new term of the lock: writes with the fences of earlier terms are refused."""
        self.revision += 1
        self._terms[lock] = self.revision
        return v1.Fence(lock=lock, term=self.revision)

    # ------------------------------------------------------------------ as in Cluster

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        await self.enter()
        return self.object(kind, key_of_name(find_kind(kind), namespace, name))

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
        return await self._each(partial(patch_object, self), patches, fence)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(partial(delete_object, self), deletions, fence)

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        await self.enter()
        raised(lambda: _check(fence, self._terms))
        found = [o for o in self.objects(kind) if o.metadata.namespace == namespace]
        for item in found:
            name = item.metadata.name
            delete_object(self, v1.DeleteRequest(kind=kind, namespace=namespace, name=name))
        return len(found)

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await self._each(self.add, items, fence)

    async def _each(
        self, act: Callable[[T], Entry], items: Sequence[T], fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """Do something with each item by itself, if the fence holds."""
        await self.enter()

        def outcome(item: T) -> Outcome:
            try:
                _check(fence, self._terms)
                return act(item)
            except ApiError as error:
                return error

        return results_of([outcome(item) for item in items])


def _check(fence: v1.Fence, terms: Mapping[str, int]) -> None:
    """Raise ApiError unless a fence is of the latest term of its lock."""
    if terms.get(fence.lock) != fence.term:
        raise errors.fence_lost(fence.lock, fence.term)


def _pod_key(about: v1.Binding | v1.PodStatusPatch | v1.EvictRequest) -> str:
    return f"{about.namespace or 'default'}/{about.name}"
