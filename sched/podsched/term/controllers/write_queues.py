"""The queues of the controllers' writes: batched, fenced, rate limited, retried.

Guarantees: every write carries the fence; evictions are rate limited; after a failed write its
controller decides again; a write that requires the absence of an object is sent only if the API
server does not have the object, even if the informer missed it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject
from podsched.api.reasons import StatusCode, StatusReason
from podsched.lib.tasks import TaskSet
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client import errors
from podsched.serve.client.cluster import ControlledCluster
from podsched.serve.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1.api_pb2 import BatchResult, DeleteRequest, EvictRequest, Fence, PatchRequest

_log = get_logger("controllers")

#: Max pods evicted per call, and the burst of the rate limit.
EVICT_AT_ONCE = 20
#: Max evictions and deletions per second, to limit the damage of a bug.
_EVICTIONS_PER_SECOND = 100.0
#: Max objects patched, and deleted or created, per call.
_MOST_PATCHES, _AT_ONCE = 500, 100
#: Seconds after which a controller decides again, after a conflict and after another error.
_RETRY_CONFLICT, _RETRY_ERROR = 0.2, 5.0
#: The kinds of objects in a namespace, in the order of their deletion.
_CONTENT = ("Pod", *(k.name for k in KINDS.values() if k.namespaced and k.name != "Pod"))
#: The result of a write whose ``without`` object exists. NOT_FOUND, which is not tried again: the
#: answer would be the same until an event brings the controller back.
_THERE = BatchResult(
    code=StatusCode.NOT_FOUND, reason=StatusReason.NOT_FOUND, message="it is not gone"
)

T = TypeVar("T")
#: The creation of an object is the object itself.
Request = PatchRequest | DeleteRequest | EvictRequest | AnyObject
#: Called with the outcome of a write: None, or the error.
Done = Callable[[ClientError | None], None]


class AbsentObject(NamedTuple):
    """An object that must not exist; with a uid, another object of the same name may exist."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class _QueuedWrite(NamedTuple, Generic[T]):
    """A write of a controller; see ``Writes.send``."""

    controller: str
    request: T
    retry: Callable[[], None]
    without: tuple[AbsentObject, ...] = ()
    done: Done | None = None


class Writes:
    """Queues the writes of one controller without waiting; the queues are shared by all."""

    def __init__(
        self,
        controller: str,
        queues: WriteQueues,
        skipped: Callable[[str, str, str, Exception], None],
    ) -> None:
        self.controller = controller
        self._queues = queues
        self._skipped = skipped

    def send(
        self,
        key: str,
        request: Request,
        retry: Callable[[], None],
        *,
        without: Sequence[AbsentObject] = (),
        done: Done | None = None,
    ) -> None:
        """Patch, delete or evict an object with this key, or create one.

        ``retry`` is called some time after the write has failed. It is sent only if none of the
        objects in ``without`` exist in the API server. ``done`` is called once its outcome is
        known.
        """
        write = _QueuedWrite[Any](self.controller, request, retry, tuple(without), done)
        kind = request.kind if isinstance(request, PatchRequest | DeleteRequest) else ""
        # With the controller's name: none may replace another one's write of the same object.
        self._queues.of(request).put(f"{self.controller} {kind} {key}", write)

    def empty(self, namespace: str, uid: str, retry: Callable[[], None]) -> None:
        """Delete the content of a namespace, then the namespace if it is empty; then ``retry``."""
        request = DeleteRequest(kind="Namespace", name=namespace)
        request.preconditions.uid = uid
        self._queues.namespaces.put(namespace, _QueuedWrite(self.controller, request, retry))

    def cancel_eviction(self, key: str) -> None:
        # The key that ``send`` gives an eviction, which has no kind.
        self._queues.evictions.drop(f"{self.controller}  {key}")

    def cancel_deletion(self, kind: str, key: str) -> None:
        self._queues.deletions.drop(f"{self.controller} {kind} {key}")

    def skipped(self, kind: str, key: str, error: Exception) -> None:
        """Report an object that the controller cannot handle; it is skipped until it changes."""
        self._skipped(self.controller, kind, key, error)

    @contextmanager
    def skipping(self, kind: str, key: str) -> Iterator[None]:
        """Report an exception of the block, which concerns only this object; see ``skipped``."""
        try:
            yield
        except Exception as error:
            self.skipped(kind, key, error)


class WriteQueues:
    """The queues of one term; ``start`` begins to send.

    ``count`` is called with the controller and the result of each write; ``retry_later`` calls a
    function after some seconds.
    """

    def __init__(
        self,
        cluster: ControlledCluster,
        fence: Fence,
        *,
        clock: Callable[[], float],
        count: Callable[[str, str], None],
        retry_later: Callable[[Callable[[], None], float], None],
    ) -> None:
        self._cluster = cluster
        self._fence = fence
        self._clock = clock
        self._count = count
        self._retry_later = retry_later
        self._limit = TokenBucket(_EVICTIONS_PER_SECOND, burst=EVICT_AT_ONCE)
        self._patches = self._outbox(partial(cluster.patch_many, fence=fence), _MOST_PATCHES)
        self.deletions = self._outbox(partial(cluster.delete_many, fence=fence), _AT_ONCE)
        self._creations = self._outbox(partial(cluster.create_many, fence=fence), _AT_ONCE)
        self.namespaces = Outbox[_QueuedWrite[DeleteRequest]](self._empty, self._answered, most=1)
        self.evictions = Outbox[_QueuedWrite[EvictRequest]](
            self._evict, self._answered, most=EVICT_AT_ONCE
        )

    def _outbox(
        self, call: Callable[[list[Any]], Awaitable[Sequence[BatchResult]]], most: int
    ) -> Outbox[_QueuedWrite[Any]]:
        return Outbox(lambda batch: self._unless_there(batch, call), self._answered, most=most)

    def of(self, request: Request) -> Outbox[Any]:
        """Return the queue of a write."""
        if isinstance(request, PatchRequest):
            return self._patches
        if isinstance(request, DeleteRequest):
            return self.deletions
        return self.evictions if isinstance(request, EvictRequest) else self._creations

    def start(self, tasks: TaskSet) -> None:
        for queue, name in (
            (self._patches, "controller patches"),
            (self.deletions, "controller deletions"),
            (self._creations, "controller creations"),
            (self.namespaces, "terminating namespaces"),
            (self.evictions, "controller evictions"),
        ):
            tasks.start(queue.run(), name, endless=True)

    # ------------------------------------------------------------------ sending

    async def _evict(
        self, batch: Sequence[_QueuedWrite[EvictRequest]]
    ) -> Sequence[BatchResult | None]:
        await asyncio.sleep(self._limit.reserve(len(batch), self._clock()))
        return await self._unless_there(
            batch, lambda due: self._cluster.evict_pods(due, fence=self._fence), self.evictions
        )

    async def _empty(self, batch: Sequence[_QueuedWrite[DeleteRequest]]) -> Sequence[BatchResult]:
        """Delete the content of namespaces, pods first; delete a namespace once it is empty."""
        results: list[BatchResult] = []
        for write in batch:
            name, uid = write.request.name, write.request.preconditions.uid
            # Another one of this name may have taken its place: the answer to its deletion may get
            # lost, and its event may be late.
            found = await self._not_gone(AbsentObject("Namespace", "", name, uid))
            for kind in _CONTENT if found is _THERE else ():
                left = await self._cluster.delete_collection(kind, name, fence=self._fence)
                if left and kind == "Pod":
                    # As Kubernetes since 1.33 (OrderedNamespaceDeletion): what protects pods, such
                    # as a NetworkPolicy, stays until they are gone.
                    break
            # Objects without grace period and finalizers are deleted by the call that counts them.
            results += await self._cluster.delete_many([write.request], fence=self._fence)
            # Whatever they found: objects that cannot be read are content, too, but not counted.
            self._retry_later(write.retry, 0.0)
        return results

    async def _unless_there(
        self,
        batch: Sequence[_QueuedWrite[T]],
        send: Callable[[list[T]], Awaitable[Sequence[BatchResult]]],
        queue: Outbox[_QueuedWrite[T]] | None = None,
    ) -> Sequence[BatchResult | None]:
        """Send the writes that are still wanted and whose ``without`` objects do not exist.

        Return a result for each write: the answer, _THERE or an error if one of these objects may
        exist, None if the write is not wanted any more.
        """
        there: dict[AbsentObject, BatchResult] = {}
        for absentee in dict.fromkeys(absentee for write in batch for absentee in write.without):
            found = await self._not_gone(absentee)
            if found is not None:
                there[absentee] = found
        kept = [next((there[a] for a in write.without if a in there), None) for write in batch]
        # Writes may have been dropped while this method awaited; there is no await until the call.
        wanted = [queue is None or queue.is_wanted(write) for write in batch]
        sent = [want and instead is None for want, instead in zip(wanted, kept, strict=True)]
        due = [write.request for write, send_it in zip(batch, sent, strict=True) if send_it]
        answers = iter(await send(due) if due else ())
        return [
            next(answers) if send_it else instead if want else None
            for want, instead, send_it in zip(wanted, kept, sent, strict=True)
        ]

    async def _not_gone(self, absentee: AbsentObject) -> BatchResult | None:
        """Return None if the object does not exist, else the result of writes that require that."""
        kind, namespace, name, uid = absentee
        try:
            found = await self._cluster.get(kind, name, namespace)
        except NotFound:
            return None
        except ClientError as error:
            _log.warning(
                "Skipped the writes that depend on it", kind=kind, name=name, error=str(error)
            )
            return errors.as_result(error) if error.retryable else _THERE
        return None if uid and found.metadata.uid != uid else _THERE

    # ------------------------------------------------------------------ outcomes

    def _answered(self, key: str, write: _QueuedWrite[T], result: BatchResult) -> None:
        failed = errors.of_result(result)
        self._count(write.controller, "written" if failed is None else "error")
        if write.done is not None:
            write.done(failed)
        if failed is None or isinstance(failed, (NotFound, AlreadyExists)):
            return
        wait = _RETRY_CONFLICT
        if not isinstance(failed, Conflict):
            _log.warning("A write failed", name=key, error=str(failed))
            wait = _RETRY_ERROR
        self._retry_later(write.retry, wait)
