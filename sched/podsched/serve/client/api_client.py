"""The API servers' client: all calls, with decoded answers; ``calls`` makes them."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from google.protobuf.message import DecodeError

from podsched.api.codec import format_time
from podsched.api.kinds import put, unwrap, wrap
from podsched.api.objects import AnyObject, Event, Pod
from podsched.api.reasons import StatusCode
from podsched.serve.client.calls import Calls
from podsched.serve.client.channels import ClientOptions
from podsched.serve.client.cluster import merge_patch_request
from podsched.serve.client.errors import ClientError, Unreadable
from podsched.serve.client.informer import Informer
from podsched.serve.client.object_watch import watch_objects
from podsched.serve.client.pod_stream import PodStream, open_stream
from podsched.serve.client.undecodable import identify, log_undecodable
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2 as v1
from podsched.v1.decisions_pb2 import DecisionsRequest, DecisionsResponse
from podsched.v1.frames_pb2 import RawListResponse, RawWatchResponse
from podsched.v1.scheduling_pb2 import (
    ApplyConfigRequest,
    ApplyConfigResponse,
    CheckpointRequest,
    ExplainRequest,
    Explanation,
    SchedulingCheckpoint,
)

if TYPE_CHECKING:
    from podsched.serve.client.call_metrics import ClientTelemetry

_log = get_logger("client")
_Object = TypeVar("_Object", bound=AnyObject)
_OBJECTS, _PODS = "/podsched.v1.Objects/", "/podsched.v1.Pods/"
_SCHEDULING = "/podsched.v1.Scheduling/"
_EVENTS_PER_CALL = 1000


class Listing(NamedTuple):
    """Objects of one kind at one revision, from which a watch misses no changes."""

    items: list[AnyObject]
    revision: int


class ApiClient:
    """Talks to one of several API servers. Every method raises ``ClientError``s."""

    def __init__(
        self,
        endpoints: str | Sequence[str],
        options: ClientOptions | None = None,
        *,
        observer: ClientTelemetry | None = None,
    ) -> None:
        self.calls = Calls(endpoints, options or ClientOptions(), observer)
        self.channels = self.calls.channels
        """The connections; ``endpoint``: host:port of the server in use."""

    async def close(self) -> None:
        """Close the connections."""
        await self.channels.close()

    async def __aenter__(self) -> ApiClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # ------------------------------------------------------------------ any kind

    async def create(
        self, item: _Object, *, dry_run: bool = False, fence: v1.Fence | None = None
    ) -> _Object:
        """Store a new object and return it. AlreadyExists, Invalid, Forbidden, TooLarge."""
        request = v1.CreateRequest(dry_run=dry_run, fence=fence)
        put(item, request.object)
        return cast(_Object, await self._object("Create", request))

    async def create_many(
        self, items: Iterable[AnyObject], *, dry_run: bool = False, fence: v1.Fence | None = None
    ) -> Sequence[v1.BatchResult]:
        """Store new objects, each independently; ``of_result`` converts a result to an error."""
        request = v1.CreateBatchRequest(fence=fence, dry_run=dry_run)
        for item in items:
            put(item, request.objects.add())
        return await self._batch(f"{_OBJECTS}CreateBatch", request)

    async def get(self, kind: str, name: str, namespace: str = "") -> AnyObject:
        """Return the current object. NotFound."""
        request = v1.GetRequest(kind=kind, namespace=namespace, name=name)
        return await self._object("Get", request, repeatable=True)

    async def get_raw(self, kind: str, name: str, namespace: str = "") -> v1.RawObject:
        """Return the stored bytes of an object, even if they cannot be decoded. NotFound."""
        request = v1.GetRequest(kind=kind, namespace=namespace, name=name)
        return await self.calls.unary(f"{_OBJECTS}GetRaw", request, v1.RawObject, repeatable=True)

    async def list(
        self,
        kind: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        allow_stale: bool = False,
    ) -> Listing:
        """Return all matching objects at one revision. Compacted if paging took too long.

        Objects that cannot be decoded are left out and logged. limit: items per page; 0: the
        server's choice.
        """
        request = v1.ListRequest(
            kind=kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            limit=limit,
            allow_stale=allow_stale,
        )
        items: list[AnyObject] = []
        while True:
            page = await self.list_page(request)
            items += _readable(page.items)
            token: str = getattr(page, "continue")
            if not token:
                return Listing(items, page.resource_version)
            setattr(request, "continue", token)

    async def list_page(self, request: v1.ListRequest) -> RawListResponse:
        """Return one page with undecoded objects."""
        return await self.calls.unary(f"{_OBJECTS}List", request, RawListResponse, repeatable=True)

    async def update(
        self, item: _Object, *, dry_run: bool = False, fence: v1.Fence | None = None
    ) -> _Object:
        """Replace an object except its status. Conflict if its resourceVersion is not current."""
        request = v1.UpdateRequest(object=wrap(item), dry_run=dry_run, fence=fence)
        return cast(_Object, await self._object("Update", request))

    async def update_status(self, item: _Object, *, fence: v1.Fence | None = None) -> _Object:
        """Replace only the status."""
        request = v1.UpdateRequest(object=wrap(item), fence=fence)
        return cast(_Object, await self._object("UpdateStatus", request))

    async def patch(
        self,
        kind: str,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        strategic: bool = False,
        dry_run: bool = False,
        fence: v1.Fence | None = None,
    ) -> AnyObject:
        """Apply a JSON merge patch, or a strategic one."""
        request = v1.PatchRequest(
            kind=kind,
            namespace=namespace,
            name=name,
            merge_patch=json.dumps(patch).encode(),
            type=v1.STRATEGIC_MERGE_PATCH if strategic else v1.JSON_MERGE_PATCH,
            dry_run=dry_run,
            fence=fence,
        )
        return await self._object("Patch", request)

    async def patch_many(
        self,
        patches: Sequence[v1.PatchRequest],
        *,
        fence: v1.Fence | None = None,
        traceparent: str = "",
    ) -> Sequence[v1.BatchResult]:
        """Apply patches, each independently."""
        request = v1.PatchBatchRequest(patches=patches, fence=fence)
        return await self._batch(f"{_OBJECTS}PatchBatch", request, traceparent=traceparent)

    async def delete(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        grace_period_seconds: int | None = None,
        uid: str = "",
        resource_version: int = 0,
        propagation_policy: str = "",
        dry_run: bool = False,
        fence: v1.Fence | None = None,
    ) -> AnyObject:
        """Delete an object; a running pod is marked and given its grace period. NotFound."""
        wanted = v1.Preconditions(uid=uid, resource_version=resource_version)
        request = v1.DeleteRequest(
            kind=kind,
            namespace=namespace,
            name=name,
            grace_period_seconds=grace_period_seconds,
            preconditions=wanted,
            fence=fence,
            propagation_policy=propagation_policy,
            dry_run=dry_run,
        )
        return await self._object("Delete", request)

    async def delete_many(
        self, deletions: Sequence[v1.DeleteRequest], *, fence: v1.Fence | None = None
    ) -> Sequence[v1.BatchResult]:
        """Delete objects, each independently."""
        request = v1.DeleteBatchRequest(deletions=deletions, fence=fence)
        return await self._batch(f"{_OBJECTS}DeleteBatch", request)

    async def delete_collection(
        self,
        kind: str,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        timeout: float | None = None,
        dry_run: bool = False,
        fence: v1.Fence | None = None,
    ) -> int:
        """Delete all matching objects; return their number."""
        request = v1.DeleteCollectionRequest(
            kind=kind,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            dry_run=dry_run,
            fence=fence,
        )
        method, answer = f"{_OBJECTS}DeleteCollection", v1.DeleteCollectionResponse
        found = await self.calls.unary(method, request, answer, repeatable=True, timeout=timeout)
        return found.deleted

    def watch_stream(self, request: v1.WatchRequest) -> AsyncGenerator[RawWatchResponse, None]:
        """Yield the responses of one stream, with undecoded objects, until it breaks.

        Raises ClientError: after Compacted, list again; after Unavailable, resume where it stopped
        (on the next server). ``Informer`` does both.
        """
        return self.calls.stream(f"{_OBJECTS}Watch", request, RawWatchResponse)

    watch = watch_objects

    def informer(self, kinds: Sequence[str], *, metadata_only: bool = False) -> Informer:
        """Follow kinds, in one stream; lists deliver them in this order."""
        return Informer(self, kinds, metadata_only=metadata_only)

    async def record_events(self, new: Sequence[Event], repeated: Sequence[Event] = ()) -> None:
        """Store new events and update count and time of repeated ones; best effort, not fenced."""
        await self._create_events(new)
        missing: list[Event] = []
        for start in range(0, len(repeated), _EVENTS_PER_CALL):
            part = repeated[start : start + _EVENTS_PER_CALL]
            results = await self.patch_many([_repetition(event) for event in part])
            missing += (
                event
                for event, result in zip(part, results, strict=True)
                if result.code == StatusCode.NOT_FOUND
            )
        # They have expired, or could not be stored when they were new.
        await self._create_events(missing)

    async def _create_events(self, events: Sequence[Event]) -> None:
        for start in range(0, len(events), _EVENTS_PER_CALL):
            results = await self.create_many(events[start : start + _EVENTS_PER_CALL])
            failed = [result for result in results if result.code == StatusCode.UNAVAILABLE]
            if failed:
                _log.warning("Could not write events", events=len(failed), error=failed[0].message)

    # ------------------------------------------------------------------ pods

    async def create_pods(self, pods: Sequence[Pod]) -> Sequence[v1.BatchResult]:
        """Store new pods, each independently."""
        return await self._batch(f"{_PODS}CreatePods", v1.CreatePodsRequest(pods=pods))

    @asynccontextmanager
    async def submit_pods(self) -> AsyncIterator[PodStream]:
        """Store pods one by one over one stream, which is cheaper than a call for each.

        At the end of the block all are answered. See ``PodStream`` for broken streams.
        """
        stream = await open_stream(self.channels, self.calls.options)
        try:
            yield stream
            await stream.close()
        finally:
            stream.cancel()

    async def bind(self, binding: v1.Binding, *, fence: v1.Fence | None = None) -> Pod:
        """Bind a pod. AlreadyBound, NotBindable, FenceLost, NotFound."""
        request = v1.BindRequest(binding=binding, fence=fence)
        repeatable = bool(binding.uid) and fence is not None
        return await self.calls.unary(f"{_PODS}Bind", request, Pod, repeatable=repeatable)

    async def bind_pods(
        self,
        bindings: Sequence[v1.Binding],
        *,
        fence: v1.Fence | None = None,
        traceparent: str = "",
    ) -> Sequence[v1.BatchResult]:
        """Bind pods, each independently; idempotent with uids and a fence."""
        request = v1.BindPodsRequest(bindings=bindings, fence=fence)
        repeatable = fence is not None and all(binding.uid for binding in bindings)
        return await self._batch(
            f"{_PODS}BindPods", request, repeatable=repeatable, traceparent=traceparent
        )

    async def evict(self, request: v1.EvictRequest) -> Pod:
        """Evict a pod. DisruptionBudget if a budget does not permit it yet."""
        return await self.calls.unary(f"{_PODS}Evict", request, Pod)

    async def evict_pods(
        self, evictions: Sequence[v1.EvictRequest], *, fence: v1.Fence | None = None
    ) -> Sequence[v1.BatchResult]:
        """Evict pods, each independently."""
        request = v1.EvictPodsRequest(evictions=evictions, fence=fence)
        return await self._batch(f"{_PODS}EvictPods", request)

    async def patch_pod_statuses(
        self, patches: Sequence[v1.PodStatusPatch], *, fence: v1.Fence | None = None
    ) -> Sequence[v1.BatchResult]:
        """Set conditions and nominations of pods, each independently; idempotent."""
        request = v1.PatchPodStatusesRequest(patches=patches, fence=fence)
        return await self._batch(f"{_PODS}PatchPodStatuses", request, repeatable=True)

    # ------------------------------------------------------------------ scheduling

    async def explain(
        self, request: ExplainRequest, *, timeout: float | None = None
    ) -> Explanation:
        """Explain why a pod is pending or on its node. NotFound; Unavailable without a replica."""
        method = f"{_SCHEDULING}Explain"
        return await self.calls.unary(
            method, request, Explanation, repeatable=True, timeout=timeout
        )

    async def decisions(
        self, request: DecisionsRequest, *, timeout: float | None = None
    ) -> DecisionsResponse:
        """Return recorded decisions, at most 1,000. Unavailable if no replica answers."""
        method = f"{_SCHEDULING}Decisions"
        return await self.calls.unary(
            method, request, DecisionsResponse, repeatable=True, timeout=timeout
        )

    async def apply_config(
        self, request: ApplyConfigRequest, *, timeout: float | None = None
    ) -> ApplyConfigResponse:
        """Apply a configuration to all scheduler replicas; see ``ApplyConfigResponse``."""
        method = f"{_SCHEDULING}ApplyConfig"
        return await self.calls.unary(method, request, ApplyConfigResponse, timeout=timeout)

    async def checkpoint(self) -> SchedulingCheckpoint:
        """Return the state, besides objects, on which the leader bases its decisions.

        Raises Unavailable, or another ClientError if no decisions are recorded.
        """
        method, request = f"{_SCHEDULING}Checkpoint", CheckpointRequest()
        return await self.calls.unary(method, request, SchedulingCheckpoint, repeatable=True)

    # ------------------------------------------------------------------ calling

    async def _object(self, method: str, request: Any, *, repeatable: bool = False) -> AnyObject:
        method = _OBJECTS + method
        answer = await self.calls.unary(method, request, v1.Object, repeatable=repeatable)
        try:
            return unwrap(answer)
        except ValueError as error:
            raise Unreadable(str(error)) from None

    async def _batch(
        self, method: str, request: Any, *, repeatable: bool = False, traceparent: str = ""
    ) -> Sequence[v1.BatchResult]:
        answer = await self.calls.unary(
            method, request, v1.BatchResponse, repeatable=repeatable, traceparent=traceparent
        )
        return answer.results


def _readable(items: Iterable[bytes]) -> Iterator[AnyObject]:
    for raw in items:
        try:
            yield unwrap(v1.Object.FromString(raw))
        except (DecodeError, ValueError):
            log_undecodable(identify(raw))


def _repetition(event: Event) -> v1.PatchRequest:
    """Return the patch that records the repetition of an event."""
    body = {"count": event.count, "lastTimestamp": format_time(event.last_timestamp)}
    about = event.metadata
    return merge_patch_request("Event", about.namespace, about.name, body, uid="")


__all__ = ["ApiClient", "ClientError", "ClientOptions", "Listing"]
