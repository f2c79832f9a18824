"""A controller, and what it is given: the time, objects to read, and where its writes go."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from podsched.api.kinds import kind_of
from podsched.api.objects import AnyObject, ObjectMeta
from podsched.serve.client.informer import Event
from podsched.v1.api_pb2 import DeleteRequest, EvictRequest, PatchRequest


class Instant(NamedTuple):
    """One moment on two clocks, in seconds."""

    wall: float
    """Unix time, for what is written and for what others have written."""
    monotonic: float
    """For measuring how long something lasts: it does not jump."""


class AbsentObject(NamedTuple):
    """An object that must be gone; with a uid, one of the same name may be there."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class Objects(Protocol):
    """The cluster's objects as they were last seen; ``Informer`` has it."""

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...


class Writes(Protocol):
    """Takes writes and returns at once; ``retry`` is called some time after one has failed.

    ``without``: written only if the API server has none of these any more.
    """

    def patch(
        self,
        key: str,
        request: PatchRequest,
        retry: Callable[[], None],
        *,
        without: Sequence[AbsentObject] = (),
    ) -> None: ...

    def delete(
        self,
        key: str,
        request: DeleteRequest,
        retry: Callable[[], None],
        *,
        without: Sequence[AbsentObject] = (),
    ) -> None: ...

    def create(self, key: str, item: AnyObject, retry: Callable[[], None]) -> None: ...

    def empty(self, namespace: str, uid: str, retry: Callable[[], None]) -> None:
        """Delete all that is in a namespace, and then itself; ``retry`` if something is left."""
        ...

    def evict(
        self, key: str, request: EvictRequest, retry: Callable[[], None], *, without_node: str = ""
    ) -> None:
        """Evict a pod; with ``without_node`` only if the API server has no node of this name.

        A node that the informer lacks may be there: objects that cannot be decoded are left out of
        watches, and the pods of such a node run on.
        """
        ...

    def cancel_eviction(self, key: str) -> None: ...

    def skipped(self, kind: str, key: str, error: Exception) -> None:
        """Tell of an object that the controller cannot handle and leaves alone until it changes.

        Whatever it raised is a fault of this one object: everything else goes on.
        """
        ...


class Recorder(Protocol):
    """Records events about pods; the scheduler's recorder has it."""

    def record(
        self,
        pod: ObjectMeta,
        *,
        type_: str,
        reason: str,
        action: str,
        message: str,
        controller: str = ...,
    ) -> None: ...


class Controller(Protocol):
    """One control loop. Synchronous: ``changed`` takes notes, ``work`` acts on them."""

    @property
    def name(self) -> str:
        """Its name in the metrics of writes."""
        ...

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds whose changes it gets."""
        ...

    def start(self, now: Instant) -> Iterator[None]:
        """Take in the objects that there are, one a step; others may have turns in between.

        What changes between two steps is told to ``changed``, also of objects not taken in yet.
        """
        ...

    def changed(self, event: Event, now: Instant) -> None:
        """Note a change, at little cost."""
        ...

    def work(self, now: Instant) -> float | None:
        """Do what is due; return when to work next (monotonic), None: after the next change."""
        ...


def metadata_patch(item: AnyObject, metadata: dict[str, Any]) -> PatchRequest:
    """Return the patch of an object's metadata, of the version that is seen."""
    return PatchRequest(
        kind=kind_of(item).name,
        namespace=item.metadata.namespace,
        name=item.metadata.name,
        uid=item.metadata.uid,
        resource_version=int(item.metadata.resource_version or 0),
        merge_patch=json.dumps({"metadata": metadata}).encode(),
    )


def without_finalizer(item: AnyObject, finalizer: str) -> PatchRequest:
    """Return the patch that takes a finalizer from an object."""
    left = [name for name in item.metadata.finalizers if name != finalizer]
    return metadata_patch(item, {"finalizers": left or None})


def earliest(*times: float | None) -> float | None:
    """Return the first of some times, None meaning never."""
    return min((time for time in times if time is not None), default=None)
