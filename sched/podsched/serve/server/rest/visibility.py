"""Answers Kueue's visibility API: what waits in a ClusterQueue or LocalQueue, in its order.

    /apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/NAME/pendingworkloads
    /apis/visibility.kueue.x-k8s.io/v1beta2/namespaces/NAMESPACE/localqueues/NAME/pendingworkloads

Its workloads are PodGroups, and pods without one. Nothing of it is stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from podsched.api.etcd_keys import local_key
from podsched.api.kinds import KINDS
from podsched.api.objects import LocalQueue
from podsched.api.reasons import StatusCode
from podsched.serve.server.access.rights import rights
from podsched.serve.server.core import ServerCore
from podsched.serve.server.fairness.turns import Work
from podsched.serve.server.rest.failures import RestError, bad_request, check_method
from podsched.serve.server.rest.messages import Answer, Request, encode, encode_list
from podsched.serve.server.rest.options import number

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSION: Final = "v1beta2"
SUBRESOURCE: Final = "pendingworkloads"
SUMMARY: Final = "PendingWorkloadsSummary"
#: The kinds of queues by plural.
QUEUES: Final = {"clusterqueues": "ClusterQueue", "localqueues": "LocalQueue"}
#: Items of an answer: by default, as in Kueue, and at most.
_DEFAULT_LIMIT, _LARGEST_LIMIT = 1000, 100_000


class PendingWorkload(NamedTuple):
    """A PodGroup that waits, or a pod without one; ``created`` as in manifests."""

    namespace: str
    name: str
    created: str
    priority: int
    local_queue: str


PendingSource: TypeAlias = Callable[[str], Awaitable[Sequence[PendingWorkload]]]
"""Returns what waits in a ClusterQueue, by its name, in the order of the queue."""


class Visibility:
    """Answers the visibility API; ``pending``: None if it is not served."""

    def __init__(self, core: ServerCore, pending: PendingSource | None) -> None:
        self._core = core
        self._pending = pending

    async def answer(self, request: Request, segments: Sequence[str]) -> Answer | None:
        """Answer with what waits in a queue; None for any other path. Raises ApiError."""
        found = _queue(segments)
        if found is None or self._pending is None:
            return None
        plural, namespace, name = found
        check_method(request, "GET", "HEAD")
        shown, resource = f'{plural}.{GROUP} "{name}"', f"{plural}/{SUBRESOURCE}"
        rights().check_resource(shown, "get", GROUP, resource, namespace, name)
        offset = _bounded(request, "offset", 0)
        limit = min(_bounded(request, "limit", _DEFAULT_LIMIT) or _DEFAULT_LIMIT, _LARGEST_LIMIT)
        waiting = await self._pending(self._cluster_queue(plural, namespace, name))
        local = (namespace, name) if namespace else None
        items = await _items(waiting, local, offset, limit)
        head = {"kind": SUMMARY, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}}
        return Answer(encode_list(head, items))

    def _cluster_queue(self, plural: str, namespace: str, name: str) -> str:
        """Return the name of the ClusterQueue of a queue. Raises ApiError if it does not exist."""
        kind = KINDS[QUEUES[plural]]
        entry = self._core.cache.get(kind, local_key(kind, namespace, name))
        if entry is None:
            singular = kind.name.lower()
            text = f'{singular}.{GROUP} "{name}" not found'
            details = {"name": name, "group": GROUP, "kind": singular}
            raise RestError(404, "NotFound", text, details, code=StatusCode.NOT_FOUND)
        queue = entry.message
        return queue.spec.cluster_queue if isinstance(queue, LocalQueue) else name


async def _items(
    waiting: Sequence[PendingWorkload], local: tuple[str, str] | None, offset: int, limit: int
) -> list[bytes]:
    """Encode a part of what waits, giving way to other calls in between.

    ``local``: namespace and name of a LocalQueue, if it is only about this one.
    """
    items: list[bytes] = []
    places: Counter[tuple[str, str]] = Counter()
    work = Work()
    seen = 0
    for place, one in enumerate(waiting):
        queue = one.namespace, one.local_queue
        places[queue] += 1
        if local in (None, queue):
            seen += 1
            if seen > offset:
                items.append(encode(_item(one, place, places[queue] - 1)))
            if len(items) == limit:
                break
        if work.turn_is_over:
            await work.give_way()
    work.end()
    return items


def _item(one: PendingWorkload, place: int, local_place: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": one.name,
            "namespace": one.namespace,
            "creationTimestamp": one.created,
        },
        "priority": one.priority,
        "localQueueName": one.local_queue,
        "positionInClusterQueue": place,
        "positionInLocalQueue": local_place,
    }


def _bounded(request: Request, name: str, default: int) -> int:
    value = number(request.query, name)
    if value is None:
        return default
    if value < 0:
        raise bad_request(f"{name}: Invalid value: {value}: must be 0 or more")
    return value


def _queue(segments: Sequence[str]) -> tuple[str, str, str] | None:
    """Return plural, namespace and name of the queue of a path; None for any other path."""
    if list(segments[:3]) != ["apis", GROUP, VERSION] or segments[-1] != SUBRESOURCE:
        return None
    if len(segments) == 6 and segments[3] == "clusterqueues":
        return segments[3], "", segments[4]
    if len(segments) == 8 and (segments[3], segments[5]) == ("namespaces", "localqueues"):
        return segments[5], segments[4], segments[6]
    return None
