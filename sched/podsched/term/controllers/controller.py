"""The base classes of controllers, and what they use: time and objects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

from podsched.api.objects import AnyObject, Pod
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.informer import Event
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.v1.api_pb2 import PatchRequest

T = TypeVar("T")


class Instant(NamedTuple):
    """The same moment on two clocks, in seconds."""

    wall: float
    """Unix time: for timestamps in objects."""
    monotonic: float
    """For durations: never jumps."""


class Objects(Protocol):
    """The last seen objects of the cluster; implemented by ``Informer``."""

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...


def find(objects: Objects, kind: type[T], key: str) -> T | None:
    """Return an object of a kind by its key."""
    found = objects.get(kind.__name__, key)
    return found if isinstance(found, kind) else None


class Ref(NamedTuple):
    """The kind and key of an object."""

    kind: str
    key: str


class Controller(ABC):
    """One control loop. Synchronous: ``changed`` records changes, ``work`` acts on them."""

    name: ClassVar[str]
    """The label of its writes in the metrics."""

    def __init__(self, objects: Objects, writes: Writes) -> None:
        self._objects = objects
        self._writes = writes

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The kinds whose changes it receives."""

    @property
    def ignores_bare_pods(self) -> bool:
        """Whether it does not need pods that are bare before and after a change (``is_bare``)."""
        return True

    @abstractmethod
    def changed(self, event: Event, now: Instant) -> None:
        """Record a change, or an object that exists when the controller starts; must be cheap.

        At the start changes are passed on, too, also those of objects that were not read yet.
        """

    def pods_follow(self) -> None:  # noqa: B027 - most controllers have nothing to do
        """Note that all existing pods are read from now on; the other kinds have been read."""

    @abstractmethod
    def work(self, now: Instant) -> float | None:
        """Do what is due; return when to work next (monotonic), or None to wait for a change."""


class QueueController(Controller):
    """A controller that examines the objects in ``_queue``."""

    most_at_once: ClassVar[int | None] = None
    """Max objects examined per call of ``work``."""
    pause: ClassVar[float] = 0.0
    """Seconds until the next call, if objects are left."""

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        self._queue = WorkQueue[Ref]()

    def work(self, now: Instant) -> float | None:
        for ref in self._queue.take(self.most_at_once):
            with self._writes.skipping(*ref):
                self._examine(ref, now)
        return now.monotonic + self.pause if self._queue else None

    @abstractmethod
    def _examine(self, ref: Ref, now: Instant) -> None:
        """Compare an object, which may be gone, with what it should be, and write the rest."""


def is_bare(pod: Pod) -> bool:
    """Whether a pod has no owner, finalizer, volume or claim, and is not being deleted.

    In some clusters most pods are bare. If ten controllers examined each change of such a pod, that
    would take a fifth of the time that the scheduler spends on the pod.
    """
    return stays_bare(pod) and not (pod.spec.volumes or pod.spec.resource_claims)


def stays_bare(pod: Pod) -> bool:
    """Whether a pod that was bare still is: volumes and claims of a pod do not change."""
    metadata = pod.metadata
    return not (
        metadata.owner_references or metadata.finalizers or metadata.HasField("deletion_timestamp")
    )


def metadata_patch(item: AnyObject, metadata: dict[str, Any]) -> PatchRequest:
    """Return a patch of the metadata that applies only to this version of the object."""
    return object_patch(item, {"metadata": metadata})


def without_finalizer(item: AnyObject, finalizer: str) -> PatchRequest:
    """Return the patch that removes a finalizer from an object."""
    left = [name for name in item.metadata.finalizers if name != finalizer]
    return metadata_patch(item, {"finalizers": left or None})
