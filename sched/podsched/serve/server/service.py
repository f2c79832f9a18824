"""The gRPC services: decode requests, call the operations, encode responses.

Responses are passed to gRPC as bytes, because most of them consist of stored bytes. So the handlers
are generic: the generated servicers would serialize messages.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import grpc

from podsched.api.kinds import unwrap
from podsched.api.objects import AnyObject, Pod
from podsched.serve.server import errors
from podsched.serve.server.access.reviews import Reviews
from podsched.serve.server.calls import conversing, streaming, unary
from podsched.serve.server.creation import Creator
from podsched.serve.server.listing import Lister
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.pods import PodOperations
from podsched.serve.server.registry import Registry
from podsched.serve.server.requests import Batch, batch_of, bounded, with_items, with_object
from podsched.serve.server.status import batch_response
from podsched.serve.server.storage import only_entry
from podsched.serve.server.submission import PodSubmission
from podsched.serve.server.watching import Watcher
from podsched.v1 import api_pb2 as v1

OBJECTS, PODS = "podsched.v1.Objects", "podsched.v1.Pods"
AUTHORIZATION = "podsched.v1.Authorization"


def _fence(request: Any) -> v1.Fence | None:
    """Return the fence of a request, None without one. Raises ApiError if it is malformed."""
    if not request.HasField("fence"):
        return None
    fence: v1.Fence = request.fence
    namespace, _, name = fence.lock.partition("/")
    if not namespace or not name:
        raise errors.bad_request('lock must be "namespace/name"', "fence.lock")
    if fence.term <= 0:
        raise errors.bad_request("term must be greater than 0", "fence.term")
    return fence


def _object(raw: bytes) -> AnyObject:
    return _unwrapped(v1.Object.FromString(raw))


def _unwrapped(wrapped: v1.Object) -> AnyObject:
    try:
        return unwrap(wrapped)
    except ValueError as error:
        raise errors.bad_request(str(error), "object") from None


class ObjectsService:
    """podsched.v1.Objects."""

    def __init__(
        self, creator: Creator, registry: Registry, lister: Lister, watcher: Watcher
    ) -> None:
        self._creator = creator
        self._registry = registry
        self._lister = lister
        self._watcher = watcher

    def handlers(self, pipeline: Pipeline) -> grpc.GenericRpcHandler:
        """Return the handlers to register with gRPC."""
        methods: dict[str, tuple[Any, Any]] = {
            "Create": (with_object(v1.CreateRequest), self.create),
            "CreateBatch": (batch_of(v1.CreateBatchRequest, "objects", _object), self.create_batch),
            "Get": (bounded(v1.GetRequest), self.get),
            "GetRaw": (bounded(v1.GetRequest), self.get_raw),
            "List": (bounded(v1.ListRequest), self.list),
            "Update": (with_object(v1.UpdateRequest), self.update),
            "UpdateStatus": (with_object(v1.UpdateRequest), self.update_status),
            "Patch": (with_object(v1.PatchRequest), self.patch),
            "PatchBatch": (with_items(v1.PatchBatchRequest, "patches"), self.patch_batch),
            "Delete": (bounded(v1.DeleteRequest), self.delete),
            "DeleteBatch": (with_items(v1.DeleteBatchRequest, "deletions"), self.delete_batch),
            "DeleteCollection": (bounded(v1.DeleteCollectionRequest), self.delete_collection),
        }
        handlers = {
            name: unary(name, parse, handle, pipeline) for name, (parse, handle) in methods.items()
        }
        handlers["Watch"] = streaming("Watch", bounded(v1.WatchRequest), self.watch, pipeline)
        return grpc.method_handlers_generic_handler(OBJECTS, handlers)

    async def create(self, request: v1.CreateRequest) -> bytes:
        """Objects.Create."""
        entry = await self._creator.create(
            _unwrapped(request.object), _fence(request), dry_run=request.dry_run
        )
        return entry.wrapped()

    async def create_batch(self, batch: Batch[v1.CreateBatchRequest]) -> bytes:
        """Objects.CreateBatch."""
        fence = _fence(batch.rest)
        return batch_response(
            await self._creator.create_many(batch.objects(), fence, dry_run=batch.rest.dry_run)
        )

    async def get(self, request: v1.GetRequest) -> bytes:
        """Objects.Get."""
        entry = await self._registry.get(request.kind, request.namespace, request.name)
        return entry.wrapped()

    async def get_raw(self, request: v1.GetRequest) -> bytes:
        """Objects.GetRaw."""
        entry = await self._registry.get_raw(request.kind, request.namespace, request.name)
        return entry.raw().SerializeToString()

    async def list(self, request: v1.ListRequest) -> bytes:
        """Objects.List."""
        return await (await self._lister.page(request)).encoded()

    def watch(self, request: v1.WatchRequest) -> AsyncGenerator[bytes, None]:
        """Objects.Watch."""
        return self._watcher.watch(request)

    async def update(self, request: v1.UpdateRequest) -> bytes:
        """Objects.Update."""
        message, dry_run = _unwrapped(request.object), request.dry_run
        entry = await self._registry.update(message, _fence(request), dry_run=dry_run)
        return entry.wrapped()

    async def update_status(self, request: v1.UpdateRequest) -> bytes:
        """Objects.UpdateStatus."""
        message, dry_run = _unwrapped(request.object), request.dry_run
        entry = await self._registry.update_status(message, _fence(request), dry_run=dry_run)
        return entry.wrapped()

    async def patch(self, request: v1.PatchRequest) -> bytes:
        """Objects.Patch."""
        fence, dry_run = _fence(request), request.dry_run
        return only_entry(await self._registry.patch([request], fence, dry_run=dry_run)).wrapped()

    async def patch_batch(self, request: v1.PatchBatchRequest) -> bytes:
        """Objects.PatchBatch."""
        fence, dry_run = _fence(request), request.dry_run
        return batch_response(await self._registry.patch(request.patches, fence, dry_run=dry_run))

    async def delete(self, request: v1.DeleteRequest) -> bytes:
        """Objects.Delete."""
        return (await self._registry.delete(request, _fence(request))).wrapped()

    async def delete_batch(self, request: v1.DeleteBatchRequest) -> bytes:
        """Objects.DeleteBatch."""
        fence, items = _fence(request), request.deletions
        return batch_response(
            await self._registry.delete_many(items, fence, dry_run=request.dry_run)
        )

    async def delete_collection(self, request: v1.DeleteCollectionRequest) -> bytes:
        """Objects.DeleteCollection."""
        deleted = await self._registry.delete_collection(request, _fence(request))
        return v1.DeleteCollectionResponse(deleted=deleted).SerializeToString()


class PodsService:
    """podsched.v1.Pods."""

    def __init__(self, creator: Creator, pods: PodOperations, submission: PodSubmission) -> None:
        self._creator = creator
        self._pods = pods
        self._submission = submission

    def handlers(self, pipeline: Pipeline) -> grpc.GenericRpcHandler:
        """Return the handlers to register with gRPC."""
        methods: dict[str, tuple[Any, Any]] = {
            "CreatePods": (
                batch_of(v1.CreatePodsRequest, "pods", Pod.FromString),
                self.create_pods,
            ),
            "Bind": (bounded(v1.BindRequest), self.bind),
            "BindPods": (with_items(v1.BindPodsRequest, "bindings"), self.bind_pods),
            "Evict": (bounded(v1.EvictRequest), self.evict),
            "EvictPods": (with_items(v1.EvictPodsRequest, "evictions"), self.evict_pods),
            "PatchPodStatuses": (
                with_items(v1.PatchPodStatusesRequest, "patches"),
                self.patch_pod_statuses,
            ),
        }
        handlers = {
            name: unary(name, parse, handle, pipeline) for name, (parse, handle) in methods.items()
        }
        handlers["SubmitPods"] = conversing("SubmitPods", self._submission.submit, pipeline)
        return grpc.method_handlers_generic_handler(PODS, handlers)

    async def create_pods(self, batch: Batch[v1.CreatePodsRequest]) -> bytes:
        """Pods.CreatePods."""
        dry_run = batch.rest.dry_run
        return batch_response(await self._creator.create_many(batch.objects(), dry_run=dry_run))

    async def bind(self, request: v1.BindRequest) -> bytes:
        """Pods.Bind."""
        fence, dry_run = _fence(request), request.dry_run
        return only_entry(await self._pods.bind([request.binding], fence, dry_run=dry_run)).bare()

    async def bind_pods(self, request: v1.BindPodsRequest) -> bytes:
        """Pods.BindPods."""
        fence, dry_run = _fence(request), request.dry_run
        return batch_response(await self._pods.bind(request.bindings, fence, dry_run=dry_run))

    async def evict(self, request: v1.EvictRequest) -> bytes:
        """Pods.Evict."""
        fence, dry_run = _fence(request), request.dry_run
        return only_entry(await self._pods.evict([request], fence, dry_run=dry_run)).bare()

    async def evict_pods(self, request: v1.EvictPodsRequest) -> bytes:
        """Pods.EvictPods."""
        fence, dry_run = _fence(request), request.dry_run
        return batch_response(await self._pods.evict(request.evictions, fence, dry_run=dry_run))

    async def patch_pod_statuses(self, request: v1.PatchPodStatusesRequest) -> bytes:
        """Pods.PatchPodStatuses."""
        fence, items = _fence(request), request.patches
        return batch_response(
            await self._pods.patch_statuses(items, fence, dry_run=request.dry_run)
        )


class AuthorizationService:
    """podsched.v1.Authorization."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def handlers(self, pipeline: Pipeline) -> grpc.GenericRpcHandler:
        """Return the handlers to register with gRPC."""
        methods: dict[str, tuple[Any, Any]] = {
            "SelfSubjectReview": (bounded(v1.SelfSubjectReviewRequest), self.self_subject_review),
            "SubjectAccessReview": (
                bounded(v1.SubjectAccessReviewRequest),
                self.subject_access_review,
            ),
            "SubjectRulesReview": (
                bounded(v1.SubjectRulesReviewRequest),
                self.subject_rules_review,
            ),
        }
        handlers = {
            name: unary(name, parse, handle, pipeline) for name, (parse, handle) in methods.items()
        }
        return grpc.method_handlers_generic_handler(AUTHORIZATION, handlers)

    async def self_subject_review(self, _: v1.SelfSubjectReviewRequest) -> bytes:
        """Authorization.SelfSubjectReview."""
        return self._reviews.self_subject().SerializeToString()

    async def subject_access_review(self, request: v1.SubjectAccessReviewRequest) -> bytes:
        """Authorization.SubjectAccessReview."""
        return self._reviews.access(request).SerializeToString()

    async def subject_rules_review(self, request: v1.SubjectRulesReviewRequest) -> bytes:
        """Authorization.SubjectRulesReview."""
        return self._reviews.rules(request).SerializeToString()
