"""What controllers are given: the time, objects to read, and where their writes go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from podsched.api.objects import AnyObject, ObjectMeta
from podsched.client.informer import Event
from podsched.v1.api_pb2 import EvictRequest, PatchRequest


class Now(NamedTuple):
    """One moment on two clocks, in seconds."""

    wall: float
    """Unix time, for what is written and for what others have written."""
    monotonic: float
    """For how long something lasts: it does not jump."""


class Objects(Protocol):
    """The cluster's objects as they were last seen; `Informer` has it."""

    def objects(self, kind: str) -> Mapping[str, AnyObject]: ...

    def get(self, kind: str, key: str) -> AnyObject | None: ...


class Writes(Protocol):
    """Takes writes and returns at once; `again` is called some time after one has failed."""

    def patch(self, key: str, request: PatchRequest, again: Callable[[], None]) -> None: ...

    def evict(self, key: str, request: EvictRequest, again: Callable[[], None]) -> None: ...

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
    """One control loop: told of changes, and given time to work."""

    @property
    def name(self) -> str:
        """Of its writes in metrics."""
        ...

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of whose changes it is told."""
        ...

    def start(self, now: Now) -> None:
        """Take in what is there."""
        ...

    def changed(self, event: Event, now: Now) -> None:
        """Note a change; cheap."""
        ...

    def work(self, now: Now) -> float | None:
        """Do what is due; the monotonic time of the next work, None: after the next change."""
        ...


def earliest(*times: float | None) -> float | None:
    """Return the first of some times, None meaning never."""
    return min((time for time in times if time is not None), default=None)
