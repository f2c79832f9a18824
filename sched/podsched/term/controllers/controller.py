"""The interface of a controller, and the interfaces that it uses: time and objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from podsched.api.objects import AnyObject, Pod
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.v1.api_pb2 import PatchRequest


class Instant(NamedTuple):
    """The same moment on two clocks, in seconds."""

    wall: float
    """Unix time: for timestamps in objects."""
    monotonic: float
    """For durations: never jumps."""


class AbsentObject(NamedTuple):
    """An object that must not exist; with a uid, another object of the same name may exist."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class Objects(Protocol):
    """The last seen objects of the cluster; implemented by ``Informer``."""

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...


#: Called with the outcome of a write: None, or the error.
Done = Callable[[ClientError | None], None]


class Controller(Protocol):
    """One control loop. Synchronous: ``changed`` records changes, ``work`` acts on them."""

    @property
    def name(self) -> str:
        """The label of its writes in the metrics."""
        ...

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds whose changes it receives."""
        ...

    @property
    def ignores_bare_pods(self) -> bool:
        """Whether it does not need changes of pods that are bare before and after (``is_bare``)."""
        ...

    def start(self, now: Instant) -> Iterator[None]:
        """Read the existing objects, one per step; other tasks may run between steps.

        Changes between two steps are passed to ``changed``, also those of objects not read yet.
        """
        ...

    def changed(self, event: Event, now: Instant) -> None:
        """Record a change; must be cheap."""
        ...

    def work(self, now: Instant) -> float | None:
        """Do what is due; return when to work next (monotonic), or None to wait for a change."""
        ...


def is_bare(pod: Pod) -> bool:
    """Whether a pod has no owner, finalizer, volume or claim, and is not being deleted.

    In some clusters most pods are bare. If ten controllers examined each change of such a pod, that
    would take a fifth of the time that the scheduler spends on the pod.
    """
    spec = pod.spec
    return not (spec.volumes or spec.resource_claims) and stays_bare(pod)


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


def earliest(*times: float | None) -> float | None:
    """Return the earliest of some times; None means never."""
    return min((time for time in times if time is not None), default=None)
