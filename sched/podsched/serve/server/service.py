"""The gRPC services: decode requests, call the operations, encode responses.

Responses are passed to gRPC as bytes, because most of them consist of stored bytes. So the handlers
are generic: the generated servicers would serialize messages.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from podsched.api.kinds import unwrap
from podsched.api.objects import AnyObject, Pod
from podsched.serve.server import errors
from podsched.serve.server.access.reviews import Reviews
from podsched.serve.server.calls import bidirectional, streaming, unary
from podsched.serve.server.core import ServerCore
from podsched.serve.server.entries import Entry
from podsched.serve.server.frames import revision_suffix
from podsched.serve.server.listing import Page
from podsched.serve.server.methods import METHODS, OTHER
from podsched.serve.server.mutations import Outcome, only_entry
from podsched.serve.server.pipeline import Pipeline
from podsched.serve.server.requests import batch_of, bounded, with_items, with_object
from podsched.serve.server.status import batch_response
from podsched.v1 import api_pb2 as v1

OBJECTS, PODS = "podsched.v1.Objects", "podsched.v1.Pods"
AUTHORIZATION = "podsched.v1.Authorization"
#: Max characters of a lock: those of a namespace and of a name.
_LONGEST_LOCK: Final = 63 + 1 + 253

Methods = Mapping[str, Callable[[Any], Awaitable[bytes]]]
"""The unary methods of a service: the handler of a decoded request, by name."""


def fence_of(request: Any) -> v1.Fence | None:
    """Return the fence of a request, None without one. Raises ApiError if it is malformed."""
    if not request.HasField("fence"):
        return None
    fence: v1.Fence = request.fence
    namespace, _, name = fence.lock.partition("/")
    # A longer one names no Lease, and would be copied into keys and messages.
    if not namespace or not name or len(fence.lock) > _LONGEST_LOCK:
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


# Each of these awaits an operation and encodes what it returns as a response.


async def _wrapped(entry: Awaitable[Entry]) -> bytes:
    return (await entry).wrapped()


async def _raw(entry: Awaitable[Entry]) -> bytes:
    return (await entry).raw().SerializeToString()


async def _page(page: Awaitable[Page]) -> bytes:
    return await (await page).encoded()


async def _only(outcomes: Awaitable[list[Outcome]]) -> bytes:
    return only_entry(await outcomes).wrapped()


async def _only_bare(outcomes: Awaitable[list[Outcome]]) -> bytes:
    entry = only_entry(await outcomes)
    return entry.value + revision_suffix(entry.revision)


async def _results(outcomes: Awaitable[list[Outcome]]) -> bytes:
    return batch_response(await outcomes)


async def _deleted(number: Awaitable[int]) -> bytes:
    return v1.DeleteCollectionResponse(deleted=await number).SerializeToString()


async def _answered(message: Awaitable[Message]) -> bytes:
    return (await message).SerializeToString()


async def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def object_methods(core: ServerCore) -> Methods:
    """Return the methods of podsched.v1.Objects, without Watch."""
    creator, registry, lister, deleter = core.creator, core.registry, core.lister, core.deleter
    return {
        "Create": lambda r: _wrapped(
            creator.create(_unwrapped(r.object), fence_of(r), dry_run=r.dry_run)
        ),
        "CreateBatch": lambda b: _results(
            creator.create_many(b.objects(), fence_of(b.rest), dry_run=b.rest.dry_run)
        ),
        "Get": lambda r: _wrapped(registry.get(r.kind, r.namespace, r.name)),
        "GetRaw": lambda r: _raw(registry.get_raw(r.kind, r.namespace, r.name)),
        "List": lambda r: _page(lister.page(r)),
        "Update": lambda r: _wrapped(
            registry.update(_unwrapped(r.object), fence_of(r), dry_run=r.dry_run)
        ),
        "UpdateStatus": lambda r: _wrapped(
            registry.update(_unwrapped(r.object), fence_of(r), status=True, dry_run=r.dry_run)
        ),
        "Patch": lambda r: _only(registry.patch([r], fence_of(r), dry_run=r.dry_run)),
        "PatchBatch": lambda r: _results(registry.patch(r.patches, fence_of(r), dry_run=r.dry_run)),
        "Delete": lambda r: _wrapped(deleter.delete(r, fence_of(r))),
        "DeleteBatch": lambda r: _results(
            deleter.delete_many(r.deletions, fence_of(r), dry_run=r.dry_run)
        ),
        "DeleteCollection": lambda r: _deleted(deleter.delete_collection(r, fence_of(r))),
    }


def pod_methods(core: ServerCore) -> Methods:
    """Return the methods of podsched.v1.Pods, without SubmitPods."""
    creator, pods = core.creator, core.pods
    return {
        "CreatePods": lambda b: _results(creator.create_many(b.objects(), dry_run=b.rest.dry_run)),
        "Bind": lambda r: _only_bare(pods.bind([r.binding], fence_of(r), dry_run=r.dry_run)),
        "BindPods": lambda r: _results(pods.bind(r.bindings, fence_of(r), dry_run=r.dry_run)),
        "Evict": lambda r: _only_bare(pods.evict([r], fence_of(r), dry_run=r.dry_run)),
        "EvictPods": lambda r: _results(pods.evict(r.evictions, fence_of(r), dry_run=r.dry_run)),
        "PatchPodStatuses": lambda r: _results(
            pods.patch_statuses(r.patches, fence_of(r), dry_run=r.dry_run)
        ),
    }


def review_methods(core: ServerCore) -> Methods:
    """Return the methods of podsched.v1.Authorization."""
    reviews = Reviews(core.authorizer)
    return {
        "SelfSubjectReview": lambda _: _serialized(reviews.self_subject()),
        "SubjectAccessReview": lambda r: _answered(reviews.access(r)),
        "SubjectRulesReview": lambda r: _serialized(reviews.rules(r)),
    }


#: The field of batches whose objects are decoded one at a time, and what decodes one.
_OBJECTS_IN: Final[Mapping[str, tuple[str, Callable[[bytes], AnyObject]]]] = {
    "CreateBatch": ("objects", _object),
    "CreatePods": ("pods", Pod.FromString),
}


def _decoder_of(service: str, method: str) -> Callable[[bytes], Any]:
    """Return what decodes the requests of a method, with bounded memory (``requests``)."""
    described = v1.DESCRIPTOR.services_by_name[service.rpartition(".")[2]]
    request: Any = described.methods_by_name[method].input_type
    message = request._concrete_class
    if method in _OBJECTS_IN:
        return batch_of(message, *_OBJECTS_IN[method])
    if items := METHODS.get(method, OTHER).items:
        return with_items(message, items)
    # A patch may be as large as the object.
    has_object = "object" in request.fields_by_name or "merge_patch" in request.fields_by_name
    return with_object(message) if has_object else bounded(message)


def service_handlers(core: ServerCore, pipeline: Pipeline) -> list[grpc.GenericRpcHandler]:
    """Return the handlers of the services to register with gRPC."""
    streams = {
        OBJECTS: {
            "Watch": streaming("Watch", bounded(v1.WatchRequest), core.watcher.watch, pipeline)
        },
        PODS: {"SubmitPods": bidirectional("SubmitPods", core.submission.submit, pipeline)},
    }
    services = {
        OBJECTS: object_methods(core),
        PODS: pod_methods(core),
        AUTHORIZATION: review_methods(core),
    }
    return [
        grpc.method_handlers_generic_handler(
            service,
            {
                **{
                    name: unary(name, _decoder_of(service, name), handle, pipeline)
                    for name, handle in methods.items()
                },
                **streams.get(service, {}),
            },
        )
        for service, methods in services.items()
    ]
