"""A cluster in memory that runs a workload in place of API server, agents and clients.

The real scheduling loop sends it bindings, evictions and statuses, and gets every change at once. A
bound pod runs as long as in the recording; an evicted pod ends a while later; pods end with their
node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence

from podsched.api.conditions import is_finished, is_terminating, set_pod_condition
from podsched.api.kinds import find_kind, kind_of
from podsched.api.manifest import ManifestError, apply_merge_patch
from podsched.api.objects import AnyObject, Node, Pod, PodCondition, object_key, timestamp
from podsched.api.reasons import StatusCode, StatusReason
from podsched.lab.replay.history import History, PodHistory
from podsched.lab.replay.workload import NodeSpans, Step, Workload, requests_of
from podsched.serve.client.errors import NotFound
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.v1 import api_pb2 as v1

_SCHEDULED = PodCondition(type="PodScheduled", status="True")
_ADDED, _MODIFIED, _DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


class SimulatedCluster:
    """See the module."""

    def __init__(
        self,
        workload: Workload,
        deliver: Callable[[Batch], None],
        now: Callable[[], float],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """``now``: seconds since the start; ``later`` calls a function after some seconds."""
        self._workload = workload
        self._deliver = deliver
        self._now = now
        self._later = later
        self._objects: dict[tuple[str, str], AnyObject] = {}
        self._revision = 0
        self._spans = NodeSpans()
        self._on_node: dict[str, set[str]] = {}
        self._histories: dict[str, PodHistory] = {}

    # ------------------------------------------------------------------ the run

    def begin(self) -> None:
        """Deliver the initial objects."""
        for item in self._workload.objects:
            self.step(Step(0.0, _ADDED, kind_of(item).name, object_key(item), item))

    def step(self, step: Step) -> None:
        """Carry out a recorded change by others."""
        known = self._objects.get((step.kind, step.key))
        if step.type is _DELETED:
            self._remove(step.kind, step.key, step.item.metadata.uid)
        elif isinstance(step.item, Pod):
            self._pod_step(step.key, step.item, known)
        else:
            if isinstance(step.item, Node):
                self._spans.seen(self._now(), step.item)
            self._store(step.item)

    def history(self) -> History:
        """Return the history after the end of the run."""
        seconds = self._workload.seconds
        return History(seconds, self._histories, self._spans.until(seconds))

    # ------------------------------------------------------------------ what the scheduler writes

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """See ``TermCluster``."""
        item = self._objects.get((kind, f"{namespace}/{name}" if namespace else name))
        if item is None:
            raise NotFound(f"{kind} {name} does not exist")
        return item

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        """See ``ClusterWrites``."""
        del fence, traceparent
        return [self._bind(binding) for binding in bindings]

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``ClusterWrites``."""
        del fence
        return [self._evict(eviction) for eviction in evictions]

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``ClusterWrites``."""
        del fence
        return [self._patch_status(patch) for patch in patches]

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``ClusterWrites``."""
        del fence
        return [self._patch(patch) for patch in patches]

    def _bind(self, binding: v1.Binding) -> v1.BatchResult:
        pod = self._pod(binding.namespace, binding.name, binding.uid)
        if pod is None or ("Node", binding.node_name) not in self._objects:
            return _missing(binding.name)
        if pod.spec.node_name or is_terminating(pod):
            already = bool(pod.spec.node_name)
            reason = StatusReason.ALREADY_BOUND if already else StatusReason.POD_DELETING
            return v1.BatchResult(code=StatusCode.FAILED_PRECONDITION, reason=reason)
        pod.spec.node_name = binding.node_name
        pod.status.nominated_node_name = ""
        pod.metadata.annotations.update(binding.annotations)
        self._run(pod)
        self._store(pod)
        return v1.BatchResult(resource_version=self._revision)

    def _run(self, pod: Pod) -> None:
        """Let a pod run on its node, and end at its time."""
        uid, key, now = pod.metadata.uid, object_key(pod), self._now()
        stamp = timestamp(self._workload.began + now, whole=True)
        set_pod_condition(pod.status, _SCHEDULED, stamp)
        pod.status.phase = "Running"
        if not pod.status.HasField("start_time"):
            pod.status.start_time.CopyFrom(stamp)
        history = self._histories[uid]
        history.bound, history.node = now, pod.spec.node_name
        run_time = self._workload.run_times.get(uid)
        if run_time is not None:
            self._later(run_time, lambda: self._remove("Pod", key, uid))

    def _evict(self, request: v1.EvictRequest) -> v1.BatchResult:
        pod = self._pod(request.namespace, request.name, request.preconditions.uid)
        if pod is None:
            return _missing(request.name)
        uid, key, wait = pod.metadata.uid, object_key(pod), self._workload.termination
        self._histories[uid].preempted = True
        if is_terminating(pod):
            return v1.BatchResult()
        stamp = timestamp(self._workload.began + self._now(), whole=True)
        set_pod_condition(pod.status, request.condition, stamp)
        pod.metadata.deletion_timestamp.CopyFrom(stamp)
        self._store(pod)
        self._later(wait, lambda: self._remove("Pod", key, uid))
        return v1.BatchResult(resource_version=self._revision)

    def _patch_status(self, patch: v1.PodStatusPatch) -> v1.BatchResult:
        pod = self._pod(patch.namespace, patch.name, patch.uid)
        if pod is None:
            return _missing(patch.name)
        stamp = timestamp(self._workload.began + self._now(), whole=True)
        changed = False
        for condition in patch.conditions:
            changed |= set_pod_condition(pod.status, condition, stamp)
            if condition.reason == "Unschedulable":
                self._histories[pod.metadata.uid].unschedulable = True
        if patch.HasField("nominated_node_name"):
            changed |= pod.status.nominated_node_name != patch.nominated_node_name
            pod.status.nominated_node_name = patch.nominated_node_name
        if changed:
            self._store(pod)
        return v1.BatchResult(resource_version=self._revision)

    def _patch(self, patch: v1.PatchRequest) -> v1.BatchResult:
        kind = find_kind(patch.kind)
        key = f"{patch.namespace}/{patch.name}" if kind.namespaced else patch.name
        known = self._objects.get((kind.name, key))
        if known is None:
            return _missing(patch.name)
        try:
            self._store(apply_merge_patch(known, json.loads(patch.merge_patch)).message)
        except ManifestError as error:
            return v1.BatchResult(code=StatusCode.INVALID_ARGUMENT, message=str(error))
        return v1.BatchResult(resource_version=self._revision)

    # ------------------------------------------------------------------ objects

    def _pod_step(self, key: str, item: Pod, known: AnyObject | None) -> None:
        uid, now = item.metadata.uid, self._now()
        if known is not None and known.metadata.uid != uid:
            self._remove("Pod", key, known.metadata.uid)  # others have made it anew meanwhile
            known = None
        pod = Pod()
        pod.CopyFrom(item)
        foreign = uid in self._workload.foreign
        if known is None:
            if uid in self._histories:
                return  # it has ended here
            bound = bool(pod.spec.node_name) and not is_finished(pod)
            decided = not foreign and not pod.spec.node_name
            history = PodHistory(uid, key, requests_of(pod), now, decided=decided)
            history.priority = item.spec.priority
            self._histories[uid] = history
            if bound:
                self._run(pod)
        elif foreign:
            if pod.spec.node_name and self._histories[uid].bound is None:
                self._run(pod)
            if is_finished(pod):
                self._remove("Pod", key, uid)
                return
        else:
            assert isinstance(known, Pod)
            pod.spec.node_name = known.spec.node_name
            pod.status.CopyFrom(known.status)
            if is_terminating(known):
                stamp = known.metadata.deletion_timestamp
                pod.metadata.deletion_timestamp.CopyFrom(stamp)
        self._store(pod)

    def _pod(self, namespace: str, name: str, uid: str) -> Pod | None:
        """Return a copy of a pod to be changed."""
        known = self._objects.get(("Pod", f"{namespace}/{name}"))
        if not isinstance(known, Pod) or (uid and known.metadata.uid != uid):
            return None
        pod = Pod()
        pod.CopyFrom(known)
        return pod

    def _store(self, item: AnyObject) -> None:
        """Store an object, which is not changed afterwards, and deliver the event."""
        kind, key = kind_of(item).name, object_key(item)
        known = self._objects.get((kind, key))
        self._objects[kind, key] = item
        if isinstance(item, Pod) and item.spec.node_name:
            self._on_node.setdefault(item.spec.node_name, set()).add(key)
        self._tell([Event(_MODIFIED if known else _ADDED, kind, key, known, item)])

    def _remove(self, kind: str, key: str, uid: str = "") -> None:
        """Remove an object if it exists; a node with its pods."""
        known = self._objects.get((kind, key))
        if known is None or (uid and known.metadata.uid not in ("", uid)):
            return
        del self._objects[kind, key]
        if isinstance(known, Pod):
            self._histories[known.metadata.uid].ended = self._now()
            self._on_node.get(known.spec.node_name, set()).discard(key)
        self._tell([Event(_DELETED, kind, key, known, None)])
        if kind == "Node":
            self._spans.gone(self._now(), key)
            for pod in sorted(self._on_node.pop(key, ())):
                self._remove("Pod", pod)

    def _tell(self, events: Iterable[Event]) -> None:
        self._revision += 1
        self._deliver(Batch(self._revision, list(events)))


def _missing(name: str) -> v1.BatchResult:
    reason = StatusReason.NOT_FOUND
    return v1.BatchResult(code=StatusCode.NOT_FOUND, reason=reason, message=f'"{name}" not found')
