"""A cluster in memory: the semantics of ``Cluster``, without sockets and without etcd.

Verified by the contract suite that also runs on ``ApiClient`` (tests/serve/client/test_cluster.py).
Informers on it are the real ones. ``fault`` makes every call fail; ``break_watches`` and
``compact`` do to streams what a network and etcd do.

Not for production: nothing is validated or defaulted, label and field selectors are not applied.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from podsched.api.conditions import is_finished, is_pod_ready, set_pod_condition
from podsched.api.kinds import find_kind, kind_of, wrap
from podsched.api.manifest import apply_merge_patch
from podsched.api.objects import (
    AnyObject,
    Event,
    Namespace,
    Pod,
    PodCondition,
    PodDisruptionBudget,
    object_key,
    timestamp,
)
from podsched.api.owners import FOREGROUND_FINALIZER, ORPHAN_FINALIZER
from podsched.api.reasons import StatusCode, StatusReason
from podsched.api.selectors import compile_selector
from podsched.serve.client.errors import (
    AlreadyExists,
    ClientError,
    Compacted,
    NotFound,
    Unavailable,
    as_result,
    of_result,
)
from podsched.serve.client.informer import Informer
from podsched.v1 import api_pb2 as v1
from podsched.v1.frames_pb2 import RawWatchEvent, RawWatchResponse

_FINALIZERS = {"Foreground": FOREGROUND_FINALIZER, "Orphan": ORPHAN_FINALIZER}
_SCHEDULED = PodCondition(type="PodScheduled", status="True")


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
        self._objects: dict[tuple[str, str], AnyObject] = {}
        self._terms: dict[str, int] = {}
        self._log: list[_Change] = []
        self._compacted = 0
        self._breaks = 0
        self._changed = asyncio.Event()
        self._uids = itertools.count(1)

    # ------------------------------------------------------------------ for tests

    def create(self, item: AnyObject) -> AnyObject:
        """Store a new object, with a uid if it has none."""
        kind = kind_of(item)
        copy = _copy(item)
        if kind.namespaced and not copy.metadata.namespace:
            copy.metadata.namespace = "default"
        if (kind.name, object_key(copy)) in self._objects:
            raise AlreadyExists(f'{kind.plural} "{copy.metadata.name}" already exists')
        copy.metadata.uid = copy.metadata.uid or f"uid-{next(self._uids)}"
        if not copy.metadata.HasField("creation_timestamp"):
            copy.metadata.creation_timestamp.CopyFrom(timestamp(self._now(), whole=True))
        return self._store(copy, v1.ADDED)

    def update(self, item: AnyObject) -> AnyObject:
        """Replace an object, status included."""
        self._existing(kind_of(item).name, object_key(item))
        return self._store(_copy(item), v1.MODIFIED)

    def delete(self, kind: str, key: str) -> None:
        """Remove an object at once."""
        name = find_kind(kind).name
        gone = _copy(self._existing(name, key))
        del self._objects[name, key]
        self._record(gone, v1.DELETED)

    def object(self, kind: str, key: str) -> AnyObject:
        """Return a copy of an object. Raises NotFound."""
        return _copy(self._existing(find_kind(kind).name, key))

    def objects(self, kind: str) -> list[AnyObject]:
        """Return all objects of a kind, in the order of their keys."""
        name = find_kind(kind).name
        return [_copy(item) for (k, _), item in sorted(self._objects.items()) if k == name]

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
        """Forget the history up to now: whoever resumes from it has to list again."""
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
        found = find_kind(kind)
        key = f"{namespace or 'default'}/{name}" if found.namespaced else name
        return self.object(kind, key)

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.bind_pods``."""
        await self._enter()
        return [self._fenced(fence) or self._bind(binding) for binding in bindings]

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.evict_pods``."""
        await self._enter()
        return [self._fenced(fence) or self._evict(eviction) for eviction in evictions]

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.patch_pod_statuses``."""
        await self._enter()
        return [self._fenced(fence) or self._patch_status(patch) for patch in patches]

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.patch_many``."""
        await self._enter()
        return [self._fenced(fence) or self._patch(patch) for patch in patches]

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.delete_many``."""
        await self._enter()
        return [self._fenced(fence) or self._delete(deletion) for deletion in deletions]

    async def delete_collection(self, kind: str, namespace: str = "", *, fence: v1.Fence) -> int:
        """See ``Cluster.delete_collection``."""
        await self._enter()
        refused = of_result(self._fenced(fence) or v1.BatchResult())
        if refused is not None:
            raise refused
        found = [o for o in self.objects(kind) if o.metadata.namespace == namespace]
        for item in found:
            name = item.metadata.name
            self._delete(v1.DeleteRequest(kind=kind, namespace=namespace, name=name))
        return len(found)

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster.create_many``."""
        await self._enter()
        return [self._fenced(fence) or self._create(item) for item in items]

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """See ``Cluster.record_events``."""
        await self._enter()
        for event in new:
            self.create(event)
        for event in repeated:
            if ("Event", object_key(event)) in self._objects:
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
                RawWatchEvent(type=v1.ADDED, object=wrap(item).SerializeToString())
                for kind in request.kinds
                for item in self.objects(kind)
                if request.namespace in ("", item.metadata.namespace)
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

    def _existing(self, kind: str, key: str) -> AnyObject:
        item = self._objects.get((kind, key))
        if item is None:
            name = key.rpartition("/")[2]
            raise NotFound(
                f'{find_kind(kind).plural} "{name}" not found', reason=StatusReason.NOT_FOUND
            )
        return item

    def _store(self, item: AnyObject, event_type: v1.EventType) -> AnyObject:
        self._objects[kind_of(item).name, object_key(item)] = item
        self._record(item, event_type)
        return _copy(item)

    def _record(self, item: AnyObject, event_type: v1.EventType) -> None:
        self.revision += 1
        item.metadata.resource_version = str(self.revision)
        event = RawWatchEvent(type=int(event_type), object=wrap(item).SerializeToString())
        metadata = item.metadata
        self._log.append(_Change(self.revision, kind_of(item).name, metadata.namespace, event))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _fenced(self, fence: v1.Fence) -> v1.BatchResult | None:
        if self._terms.get(fence.lock) == fence.term:
            return None
        message = f'the lock "{fence.lock}" no longer belongs to term {fence.term}'
        return _refused(StatusCode.FAILED_PRECONDITION, StatusReason.FENCE_LOST, message)

    def _pod(self, namespace: str, name: str, uid: str) -> Pod | v1.BatchResult:
        item = self._objects.get(("Pod", f"{namespace or 'default'}/{name}"))
        if item is None:
            return _refused(
                StatusCode.NOT_FOUND, StatusReason.NOT_FOUND, f'pods "{name}" not found'
            )
        if uid and item.metadata.uid != uid:
            message = f'Precondition failed: UID of pods "{name}"'
            return _refused(StatusCode.ABORTED, StatusReason.PRECONDITION_FAILED, message)
        pod = _copy(item)
        assert isinstance(pod, Pod)
        return pod

    def _bind(self, binding: v1.Binding) -> v1.BatchResult:
        pod = self._pod(binding.namespace, binding.name, binding.uid)
        if isinstance(pod, v1.BatchResult):
            return pod
        code, name = StatusCode.FAILED_PRECONDITION, binding.name
        if pod.spec.node_name:
            if binding.uid and pod.spec.node_name == binding.node_name:
                return v1.BatchResult(resource_version=int(pod.metadata.resource_version))
            message = f'pod {name} is already assigned to node "{pod.spec.node_name}"'
            return _refused(code, StatusReason.ALREADY_BOUND, message, node_name=pod.spec.node_name)
        if pod.metadata.HasField("deletion_timestamp"):
            return _refused(code, StatusReason.POD_DELETING, f"pod {name} is being deleted")
        if pod.spec.scheduling_gates:
            return _refused(code, StatusReason.SCHEDULING_GATED, f"pod {name} has scheduling gates")
        if ("Node", binding.node_name) not in self._objects:
            message = f'nodes "{binding.node_name}" not found'
            return _refused(StatusCode.NOT_FOUND, StatusReason.NOT_FOUND, message)
        pod.spec.node_name = binding.node_name
        pod.status.nominated_node_name = ""
        set_pod_condition(pod.status, _SCHEDULED, timestamp(self._now(), whole=True))
        self.bound.append((object_key(pod), binding.node_name))
        return self._written(pod)

    def _patch_status(self, patch: v1.PodStatusPatch) -> v1.BatchResult:
        pod = self._pod(patch.namespace, patch.name, patch.uid)
        if isinstance(pod, v1.BatchResult):
            return pod
        before = _copy(pod)
        for condition in patch.conditions:
            set_pod_condition(pod.status, condition, timestamp(self._now(), whole=True))
        if patch.HasField("nominated_node_name"):
            pod.status.nominated_node_name = patch.nominated_node_name
        if pod == before:
            return v1.BatchResult(resource_version=int(pod.metadata.resource_version))
        return self._written(pod)

    def _patch(self, patch: v1.PatchRequest) -> v1.BatchResult:
        kind = find_kind(patch.kind)
        key = f"{patch.namespace or 'default'}/{patch.name}" if kind.namespaced else patch.name
        item = self._objects.get((kind.name, key))
        if item is None:
            message = f'{kind.plural} "{patch.name}" not found'
            return _refused(StatusCode.NOT_FOUND, StatusReason.NOT_FOUND, message)
        item = apply_merge_patch(item, json.loads(patch.merge_patch)).message
        if item.metadata.HasField("deletion_timestamp") and not item.metadata.finalizers:
            self.delete(kind.name, key)
            return v1.BatchResult(resource_version=self.revision)
        return self._written(item)

    def _create(self, item: AnyObject) -> v1.BatchResult:
        try:
            created = self.create(item)
        except AlreadyExists as error:
            code = StatusCode.ALREADY_EXISTS
            return _refused(code, StatusReason.ALREADY_EXISTS, str(error))
        return v1.BatchResult(resource_version=int(created.metadata.resource_version))

    def _delete(self, request: v1.DeleteRequest) -> v1.BatchResult:
        """Delete at once, or mark what has finalizers, and namespaces that are not empty."""
        kind = find_kind(request.kind)
        key = f"{request.namespace}/{request.name}" if kind.namespaced else request.name
        try:
            item = _copy(self._existing(kind.name, key))
        except NotFound as error:
            return as_result(error)
        metadata, wanted = item.metadata, request.preconditions.uid
        if wanted not in ("", metadata.uid):
            message = f'Precondition failed: UID of {kind.plural} "{request.name}"'
            return _refused(StatusCode.ABORTED, StatusReason.PRECONDITION_FAILED, message)
        if finalizer := _FINALIZERS.get(request.propagation_policy):
            metadata.finalizers.append(finalizer)
        marked = metadata.HasField("deletion_timestamp")
        if isinstance(item, Namespace):
            content = (o for o in self._objects.values() if o.metadata.namespace == request.name)
            stays = not marked or any(content)
            item.status.phase = "Terminating"
        else:
            stays = bool(metadata.finalizers)
        if not stays:
            self.delete(kind.name, key)
        elif not marked:
            metadata.deletion_timestamp.CopyFrom(timestamp(self._now(), whole=True))
            return self._written(item)
        return v1.BatchResult(resource_version=self.revision)

    def _evict(self, request: v1.EvictRequest) -> v1.BatchResult:
        pod = self._pod(request.namespace, request.name, request.preconditions.uid)
        if isinstance(pod, v1.BatchResult):
            return pod
        if not request.ignore_disruption_budgets:
            refused = self._spend_budget(pod)
            if refused is not None:
                return refused
        if request.HasField("condition"):
            now = timestamp(self._now(), whole=True)
            set_pod_condition(pod.status, request.condition, now)
        grace = pod.spec.termination_grace_period_seconds
        if request.HasField("grace_period_seconds"):
            grace = request.grace_period_seconds
        if not pod.spec.node_name or is_finished(pod) or grace == 0:
            self.delete("Pod", object_key(pod))
            return v1.BatchResult(resource_version=self.revision)
        if pod.metadata.HasField("deletion_timestamp"):
            return v1.BatchResult(resource_version=int(pod.metadata.resource_version))
        end = timestamp(int(self._now()) + grace, whole=True)
        pod.metadata.deletion_timestamp.CopyFrom(end)
        pod.metadata.deletion_grace_period_seconds = grace
        return self._written(pod)

    def _spend_budget(self, pod: Pod) -> v1.BatchResult | None:
        if is_finished(pod) or pod.status.phase == "Pending":
            return None
        for budget in self.objects("PodDisruptionBudget"):
            assert isinstance(budget, PodDisruptionBudget)
            selector = compile_selector(budget.spec.selector)
            same = budget.metadata.namespace == pod.metadata.namespace
            if not same or not selector.matches(pod.metadata.labels):
                continue
            status = budget.status
            if not is_pod_ready(pod) and status.current_healthy >= status.desired_healthy > 0:
                return None
            if status.disruptions_allowed <= 0:
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                code = StatusCode.RESOURCE_EXHAUSTED
                return _refused(code, StatusReason.DISRUPTION_BUDGET, message)
            status.disruptions_allowed -= 1
            status.disrupted_pods[pod.metadata.name].CopyFrom(timestamp(self._now(), whole=True))
            self.update(budget)
        return None

    def _written(self, item: AnyObject) -> v1.BatchResult:
        self._store(item, v1.MODIFIED)
        return v1.BatchResult(resource_version=self.revision)


def _refused(
    code: StatusCode, reason: StatusReason, message: str, *, node_name: str = ""
) -> v1.BatchResult:
    return v1.BatchResult(code=code, reason=reason, message=message, node_name=node_name)


def _copy(item: AnyObject) -> AnyObject:
    copy = type(item)()
    copy.CopyFrom(item)  # type: ignore[arg-type]
    return copy
