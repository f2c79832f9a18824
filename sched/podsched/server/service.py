"""The gRPC services: decode, call, encode; they decide nothing.

Responses are handed to gRPC as bytes, because most of them are stored bytes already. That is why
handlers are generic and not the generated servicers, whose serializers want messages.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc

from podsched.api.kinds import unwrap
from podsched.api.objects import AnyObject
from podsched.server import errors
from podsched.server.calls import CallObserver, streaming, unary
from podsched.server.creation import Creator
from podsched.server.errors import ApiError
from podsched.server.listing import Lister
from podsched.server.pods import PodOperations
from podsched.server.registry import Registry
from podsched.server.status import batch_response
from podsched.server.storage import only_entry
from podsched.server.watching import Watcher
from podsched.v1 import api_pb2 as v1

OBJECTS, PODS = "podsched.v1.Objects", "podsched.v1.Pods"
#: Most items of a batch; of 5,000 large pods it has about 10 MiB.
MAX_BATCH = 5000


def _fence(request: Any) -> v1.Fence | None:
    """Return the fence of a request, if it has one. Raises ApiError for a malformed one."""
    if not request.HasField("fence"):
        return None
    fence: v1.Fence = request.fence
    namespace, _, name = fence.lock.partition("/")
    if not namespace or not name:
        raise errors.bad_request('lock must be "namespace/name"', "fence.lock")
    if fence.term <= 0:
        raise errors.bad_request("term must be greater than 0", "fence.term")
    return fence


def _object(wrapped: v1.Object) -> AnyObject:
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

    def handlers(self, observer: CallObserver | None) -> grpc.GenericRpcHandler:
        """Return the service as gRPC wants it."""
        methods: dict[str, tuple[Any, Any]] = {
            "Create": (v1.CreateRequest, self.create),
            "CreateBatch": (v1.CreateBatchRequest, self.create_batch),
            "Get": (v1.GetRequest, self.get),
            "List": (v1.ListRequest, self.list),
            "Update": (v1.UpdateRequest, self.update),
            "UpdateStatus": (v1.UpdateRequest, self.update_status),
            "Patch": (v1.PatchRequest, self.patch),
            "PatchBatch": (v1.PatchBatchRequest, self.patch_batch),
            "Delete": (v1.DeleteRequest, self.delete),
            "DeleteCollection": (v1.DeleteCollectionRequest, self.delete_collection),
        }
        handlers = {
            name: unary(name, request.FromString, handle, observer)
            for name, (request, handle) in methods.items()
        }
        handlers["Watch"] = streaming("Watch", v1.WatchRequest.FromString, self.watch, observer)
        return grpc.method_handlers_generic_handler(OBJECTS, handlers)

    async def create(self, request: v1.CreateRequest) -> bytes:
        """Objects.Create."""
        entry = await self._creator.create(
            _object(request.object), _fence(request), dry_run=request.dry_run
        )
        return entry.wrapped()

    async def create_batch(self, request: v1.CreateBatchRequest) -> bytes:
        """Objects.CreateBatch."""
        _check_length(request.objects, "objects")
        objects = [_object(wrapped) for wrapped in request.objects]
        return batch_response(await self._creator.create_many(objects, _fence(request)))

    async def get(self, request: v1.GetRequest) -> bytes:
        """Objects.Get."""
        entry = await self._registry.get(request.kind, request.namespace, request.name)
        return entry.wrapped()

    async def list(self, request: v1.ListRequest) -> bytes:
        """Objects.List."""
        return (await self._lister.page(request)).encoded()

    def watch(self, request: v1.WatchRequest) -> AsyncIterator[bytes]:
        """Objects.Watch."""
        return self._watcher.watch(request)

    async def update(self, request: v1.UpdateRequest) -> bytes:
        """Objects.Update."""
        return (await self._registry.update(_object(request.object), _fence(request))).wrapped()

    async def update_status(self, request: v1.UpdateRequest) -> bytes:
        """Objects.UpdateStatus."""
        message = _object(request.object)
        return (await self._registry.update_status(message, _fence(request))).wrapped()

    async def patch(self, request: v1.PatchRequest) -> bytes:
        """Objects.Patch."""
        return only_entry(await self._registry.patch([request], _fence(request))).wrapped()

    async def patch_batch(self, request: v1.PatchBatchRequest) -> bytes:
        """Objects.PatchBatch."""
        _check_length(request.patches, "patches")
        return batch_response(await self._registry.patch(request.patches, _fence(request)))

    async def delete(self, request: v1.DeleteRequest) -> bytes:
        """Objects.Delete."""
        return (await self._registry.delete(request, _fence(request))).wrapped()

    async def delete_collection(self, request: v1.DeleteCollectionRequest) -> bytes:
        """Objects.DeleteCollection."""
        deleted = await self._registry.delete_collection(request, _fence(request))
        return v1.DeleteCollectionResponse(deleted=deleted).SerializeToString()


class PodsService:
    """podsched.v1.Pods."""

    def __init__(self, creator: Creator, pods: PodOperations) -> None:
        self._creator = creator
        self._pods = pods

    def handlers(self, observer: CallObserver | None) -> grpc.GenericRpcHandler:
        """Return the service as gRPC wants it."""
        methods: dict[str, tuple[Any, Any]] = {
            "CreatePods": (v1.CreatePodsRequest, self.create_pods),
            "Bind": (v1.BindRequest, self.bind),
            "BindPods": (v1.BindPodsRequest, self.bind_pods),
            "Evict": (v1.EvictRequest, self.evict),
            "EvictPods": (v1.EvictPodsRequest, self.evict_pods),
            "PatchPodStatuses": (v1.PatchPodStatusesRequest, self.patch_pod_statuses),
        }
        handlers = {
            name: unary(name, request.FromString, handle, observer)
            for name, (request, handle) in methods.items()
        }
        return grpc.method_handlers_generic_handler(PODS, handlers)

    async def create_pods(self, request: v1.CreatePodsRequest) -> bytes:
        """Pods.CreatePods."""
        _check_length(request.pods, "pods")
        return batch_response(await self._creator.create_many(request.pods))

    async def bind(self, request: v1.BindRequest) -> bytes:
        """Pods.Bind."""
        return only_entry(await self._pods.bind([request.binding], _fence(request))).bare()

    async def bind_pods(self, request: v1.BindPodsRequest) -> bytes:
        """Pods.BindPods."""
        _check_length(request.bindings, "bindings")
        return batch_response(await self._pods.bind(request.bindings, _fence(request)))

    async def evict(self, request: v1.EvictRequest) -> bytes:
        """Pods.Evict."""
        return only_entry(await self._pods.evict([request], _fence(request))).bare()

    async def evict_pods(self, request: v1.EvictPodsRequest) -> bytes:
        """Pods.EvictPods."""
        _check_length(request.evictions, "evictions")
        return batch_response(await self._pods.evict(request.evictions, _fence(request)))

    async def patch_pod_statuses(self, request: v1.PatchPodStatusesRequest) -> bytes:
        """Pods.PatchPodStatuses."""
        _check_length(request.patches, "patches")
        return batch_response(await self._pods.patch_statuses(request.patches, _fence(request)))


def _check_length(items: Sequence[object], field: str) -> None:
    if len(items) > MAX_BATCH:
        message = f"a batch may have at most {MAX_BATCH} items, this one has {len(items)}"
        raise _too_long(message, field)


def _too_long(message: str, field: str) -> ApiError:
    error = errors.too_large(message)
    error.violations = (errors.Violation(field, message),)
    return error
