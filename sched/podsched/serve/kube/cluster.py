"""Implements the scheduler's ``Cluster`` on a Kubernetes cluster.

Items of a batch are sent concurrently within ``qps`` and ``burst``; each is retried independently
while the server cannot be reached, and has its own result.

Kubernetes has no fences, so they are checked here: right before each request is sent, after all
waiting, ``leads`` is asked whether the term is still valid. A request that was sent while it was
valid, but arrives later, is harmless: a pod can be bound only once, bindings have the pod's uid,
and patches have a uid or resourceVersion.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, TypeVar

from podsched.api.kinds import KINDS, find_kind, kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, Event, Pod, timestamp
from podsched.api.reasons import StatusCode, StatusReason
from podsched.api.trace_context import to_metadata
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client import errors
from podsched.serve.client.errors import (
    AlreadyExists,
    ClientError,
    Conflict,
    FenceLost,
    NotFound,
    Unavailable,
    as_result,
)
from podsched.serve.kube import writes
from podsched.serve.kube.http import MERGE_PATCH, STRATEGIC_MERGE_PATCH, KubeHttp
from podsched.serve.kube.informer import KubeInformer
from podsched.serve.kube.objects import read_object
from podsched.serve.kube.paths import collection, of_object
from podsched.serve.kube.protobuf import PROTOBUF, add_finalizers
from podsched.v1 import api_pb2 as v1

T = TypeVar("T")
Leads = Callable[[v1.Fence], bool]
"""Returns whether the term of a fence is still valid."""

_DONE: Final = v1.BatchResult()
_REASONS: Final[Sequence[tuple[type[ClientError], StatusReason]]] = (
    (errors.FenceLost, StatusReason.FENCE_LOST),
    (errors.NotFound, StatusReason.NOT_FOUND),
    (errors.AlreadyExists, StatusReason.ALREADY_EXISTS),
    (errors.DisruptionBudget, StatusReason.DISRUPTION_BUDGET),
    (errors.PreconditionFailed, StatusReason.PRECONDITION_FAILED),
    (errors.Conflict, StatusReason.CONFLICT),
)
_POD: Final = KINDS["Pod"]
_EVENTS: Final = "/apis/events.k8s.io/v1/namespaces/{}/events"
#: Attempts to send an event, each with the timeout of a request; client-go makes twelve.
_EVENT_TRIES: Final = 3
_JSON: Final = "application/json"


class KubeCluster:
    """A ``Cluster``; the caller closes ``http``."""

    def __init__(
        self,
        http: KubeHttp,
        leads: Leads,
        *,
        qps: float = 50.0,
        burst: int = 100,
        now: Callable[[], float] = time.time,
    ) -> None:
        """qps: requests per second on average, no limit if 0 or less. burst: requests at once."""
        limits = [TokenBucket(qps, max(burst, 1)) if qps > 0 else None for _ in range(2)]
        self._http = http
        self._leads = leads
        self._limit = limits[0]
        #: Events have a limit of their own, as in kube-scheduler: they delay no bindings.
        self._limit_of_events = limits[1]
        self._now = now
        #: Returns the pod that was last seen under a key.
        self._known_pod: Callable[[str], object] = lambda key: None

    def informer(self, kinds: Sequence[str]) -> KubeInformer:
        """See ``Cluster``. Status patches take the conditions' times from its pods."""
        informer = KubeInformer(self._http, kinds)
        self._known_pod = lambda key: informer.get("Pod", key)
        return informer

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        known = find_kind(kind)
        content = await self._http.request("GET", of_object(known, name, namespace))
        return read_object(known, content)

    async def bind_pods(
        self, bindings: Sequence[v1.Binding], *, fence: v1.Fence, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        headers = dict(to_metadata(traceparent.partition(",")[0]))
        return await _each(bindings, lambda wanted: self._bind(wanted, fence, headers))

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        """See ``Cluster``; preemption deletes, as in kube-scheduler, all others evict."""
        return await _each(evictions, lambda wanted: self._evict(wanted, fence))

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await _each(patches, lambda wanted: self._patch_status(wanted, fence))

    async def patch_many(
        self, patches: Sequence[v1.PatchRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        return await _each(patches, lambda wanted: self._patch(wanted, fence))

    async def create_many(
        self, items: Sequence[AnyObject], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        def create(item: AnyObject) -> Awaitable[v1.BatchResult]:
            path, body = collection(kind_of(item), item.metadata.namespace), to_manifest(item)
            return self._write("POST", path, body, fence, repeatable=False)

        return await _each(items, create)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence
    ) -> Sequence[v1.BatchResult]:
        def delete(wanted: v1.DeleteRequest) -> Awaitable[v1.BatchResult]:
            path = of_object(find_kind(wanted.kind), wanted.name, wanted.namespace)
            return self._write("DELETE", path, writes.delete_options(wanted), fence)

        return await _each(deletions, delete)

    # ------------------------------------------------------------------ all kinds

    async def _patch(self, wanted: v1.PatchRequest, fence: v1.Fence) -> v1.BatchResult:
        strategic = wanted.type == v1.STRATEGIC_MERGE_PATCH
        form = STRATEGIC_MERGE_PATCH if strategic else MERGE_PATCH
        body, kind = writes.object_patch(wanted), find_kind(wanted.kind)
        metadata = body.get("metadata", {})
        if "status" in body and "finalizers" in metadata:
            # A patch of the status does not change finalizers.
            path = of_object(kind, wanted.name, wanted.namespace)
            version = await self._write_finalizers(path, metadata, fence, form)
            body["metadata"] = {"resourceVersion": version}
        # Kubernetes ignores the status in a patch of the object itself.
        part = "status" if body.keys() - {"metadata"} == {"status"} else ""
        path = of_object(kind, wanted.name, wanted.namespace, part)
        return await self._write("PATCH", path, body, fence, form)

    async def _write_finalizers(
        self, path: str, metadata: Mapping[str, Any], fence: v1.Fence, form: str
    ) -> str:
        """Write an object's finalizers, and return its new resourceVersion.

        The API server compares the opaque parameters of a claim byte by byte, and a patch encodes
        them again. If they were stored with spaces between the tokens, it refuses the patch because
        the spec is immutable. In protobuf, which kube-scheduler uses, they remain as they are.
        """
        try:
            written = await self._send("PATCH", path, {"metadata": metadata}, fence, form)
        except errors.Invalid:
            stored = await self._http.request_bytes("GET", path, headers={"Accept": PROTOBUF})
            changed = add_finalizers(
                stored,
                metadata["finalizers"],
                uid=metadata.get("uid", ""),
                resource_version=metadata.get("resourceVersion", ""),
            )
            written = await self._send("PUT", path, changed, fence, PROTOBUF)
        version: str = written["metadata"]["resourceVersion"]
        return version

    async def _write(
        self, method: str, path: str, body: object, fence: v1.Fence, *args: Any, **options: Any
    ) -> v1.BatchResult:
        """Make a write of a term, as ``_send`` does."""
        await self._send(method, path, body, fence, *args, **options)
        return _DONE

    async def _send(
        self, method: str, path: str, body: object, fence: v1.Fence, form: str = _JSON, **more: Any
    ) -> dict[str, Any]:
        """Make a write of a term and return its answer; ``more``: as in ``KubeHttp.request``."""

        def check() -> None:
            if not self._leads(fence):
                raise FenceLost(f"term {fence.term} of {fence.lock} is over")

        more = {"repeatable": True, "limit": self._limit, "before": check, **more}
        return await self._http.request(method, path, body=body, content_type=form, **more)

    # ------------------------------------------------------------------ pods

    async def _bind(
        self, wanted: v1.Binding, fence: v1.Fence, headers: dict[str, str]
    ) -> v1.BatchResult:
        try:
            path = of_object(_POD, wanted.name, wanted.namespace, "binding")
            body, repeatable = writes.binding(wanted), bool(wanted.uid)
            return await self._write(
                "POST", path, body, fence, repeatable=repeatable, headers=headers
            )
        except Conflict as conflict:
            return await self._not_bound(wanted, conflict)

    async def _not_bound(self, wanted: v1.Binding, conflict: Conflict) -> v1.BatchResult:
        """Determine the cause of a Conflict, which only its text has, from the current pod."""
        path = of_object(_POD, wanted.name, wanted.namespace)
        pod = read_object(_POD, await self._http.request("GET", path))
        assert isinstance(pod, Pod)
        result = v1.BatchResult(code=StatusCode.FAILED_PRECONDITION, message=conflict.message)
        if wanted.uid and pod.metadata.uid != wanted.uid:
            result.reason = StatusReason.PRECONDITION_FAILED
        elif pod.spec.node_name == wanted.node_name and wanted.uid:
            return _DONE  # bound by this binding, whose first answer was lost
        elif pod.spec.node_name:
            result.reason, result.node_name = StatusReason.ALREADY_BOUND, pod.spec.node_name
        elif pod.metadata.HasField("deletion_timestamp"):
            result.reason = StatusReason.POD_DELETING
        elif pod.spec.scheduling_gates:
            result.reason = StatusReason.SCHEDULING_GATED
        else:
            result.code, result.reason = StatusCode.ABORTED, StatusReason.CONFLICT
        return result

    async def _evict(self, wanted: v1.EvictRequest, fence: v1.Fence) -> v1.BatchResult:
        uid = wanted.preconditions.uid
        path = of_object(_POD, wanted.name, wanted.namespace)
        try:
            if wanted.HasField("condition"):
                patch = writes.condition_patch(
                    wanted.condition, uid, timestamp(self._now(), whole=True)
                )
                where = f"{path}/status"
                await self._write("PATCH", where, patch, fence, STRATEGIC_MERGE_PATCH)
            if wanted.ignore_disruption_budgets:
                options = writes.delete_options(wanted)
                return await self._write("DELETE", path, options, fence)
            body = writes.eviction(wanted)
            return await self._write(
                "POST", f"{path}/eviction", body, fence, repeatable=False, retry_after=False
            )
        except errors.TooManyRequests as error:
            raise errors.DisruptionBudget(error.message, reason=error.reason) from error
        except Conflict as error:
            # The only possible cause is the precondition of a uid or resourceVersion.
            raise errors.PreconditionFailed(error.message, reason=error.reason) from error

    async def _patch_status(self, wanted: v1.PodStatusPatch, fence: v1.Fence) -> v1.BatchResult:
        pod = self._known_pod(f"{wanted.namespace}/{wanted.name}")
        known = pod if isinstance(pod, Pod) and pod.metadata.uid == wanted.uid else None
        path = of_object(_POD, wanted.name, wanted.namespace, "status")
        patch = writes.status_patch(wanted, known, timestamp(self._now(), whole=True))
        return await self._write("PATCH", path, patch, fence, STRATEGIC_MERGE_PATCH)

    # ------------------------------------------------------------------ events

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """See ``Cluster``. Raises ClientError when none of them could be written."""
        results = [*await _each(new, self._record), *await _each(repeated, self._record_again)]
        failed = [found for result in results if (found := errors.of_result(result)) is not None]
        if failed and len(failed) == len(results):
            raise failed[0]

    async def _record(self, event: Event) -> v1.BatchResult:
        path = _EVENTS.format(event.metadata.namespace or "default")
        # NotFound: the namespace is deleted. AlreadyExists: an earlier attempt has written the
        # event, but its answer was lost; event names are unique.
        with contextlib.suppress(NotFound, AlreadyExists):
            await self._write_event("POST", path, writes.event(event))
        return _DONE

    async def _record_again(self, event: Event) -> v1.BatchResult:
        path = f"{_EVENTS.format(event.metadata.namespace or 'default')}/{event.metadata.name}"
        series = writes.event_series(event)
        try:
            await self._write_event("PATCH", path, series, MERGE_PATCH)
        except NotFound:  # it has expired, after an hour by default
            return await self._record(event)
        return _DONE

    async def _write_event(self, method: str, path: str, body: object, form: str = _JSON) -> None:
        """Write an event; retry after timeouts, since no other request waits for events."""
        for tried in count(1):
            try:
                await self._http.request_bytes(
                    method,
                    path,
                    body=body,
                    content_type=form,
                    repeatable=True,
                    limit=self._limit_of_events,
                )
                return
            except Unavailable:
                if tried == _EVENT_TRIES:
                    raise


async def _each(
    items: Sequence[T], write: Callable[[T], Awaitable[v1.BatchResult]]
) -> list[v1.BatchResult]:
    """Write items concurrently, each independently; return their results."""

    async def result(item: T) -> v1.BatchResult:
        try:
            return await write(item)
        except ClientError as error:
            return _failed(error)

    return list(await asyncio.gather(*map(result, items)))


def _failed(error: ClientError) -> v1.BatchResult:
    result = as_result(error)
    result.reason = next((reason for cls, reason in _REASONS if isinstance(error, cls)), "")
    if isinstance(error, FenceLost):
        result.code = StatusCode.FAILED_PRECONDITION
    return result
