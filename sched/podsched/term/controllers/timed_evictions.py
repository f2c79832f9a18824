"""Evict pods at given times, for controllers that evict because of taints.

schedule()  -->  to be evicted at a time  --work() at that time-->  evicted
                   '--cancel()-->  the pod stays, and an Event reports it
"""

from __future__ import annotations

from typing import NamedTuple

from podsched.api.objects import Pod
from podsched.lib.due_times import DueTimes
from podsched.serve.client.cluster import eviction
from podsched.telemetry.instruments import Counter, Histogram
from podsched.term.controllers.controller import Instant, Objects, find
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder


class Notices(NamedTuple):
    """The texts of an eviction's condition and Events; ``{}`` stands for the pod."""

    reason: str
    message: str
    event: str
    marking: str
    cancelling: str
    controller: str


class Meters(NamedTuple):
    """The number of evicted pods, and how many seconds late they were evicted."""

    total: Counter
    late: Histogram


class _Leaving(NamedTuple):
    """A scheduled eviction."""

    uid: str
    at: float
    """Unix time."""


class TimedEvictions:
    """The scheduled evictions of one controller."""

    def __init__(
        self,
        objects: Objects,
        writes: Writes,
        recorder: EventRecorder,
        notices: Notices,
        meters: Meters,
    ) -> None:
        self._objects = objects
        self._writes = writes
        self._recorder = recorder
        self._notices = notices
        self._meters = meters
        self._leaving: dict[str, _Leaving] = {}
        #: The Unix times of those that have to be requested, for the first time or again.
        self._due = DueTimes()
        self._sent: set[str] = set()

    def schedule(self, key: str, pod: Pod, at: float) -> None:
        """Evict a pod at a Unix time, 0 for at once; this replaces an earlier time."""
        leaving = _Leaving(pod.metadata.uid, at)
        if self._leaving.get(key) != leaving:
            self._leaving[key] = leaving
            self._due.set(key, at)

    def time_of(self, key: str, pod: Pod) -> float | None:
        """Return when a pod is to be evicted, None for never."""
        leaving = self._leaving.get(key)
        return leaving.at if leaving is not None and leaving.uid == pod.metadata.uid else None

    def cancel(self, key: str, pod: Pod) -> None:
        """Cancel the eviction of a pod, if it has one."""
        at = self.time_of(key, pod)
        self.forget_terminating(key)
        if at is not None:
            self._writes.cancel_eviction(key)
            self._record(pod, self._notices.cancelling.format(key))

    def forget_terminating(self, key: str) -> bool:
        """Forget a pod that is being deleted; return whether this class has evicted it."""
        self._leaving.pop(key, None)
        self._due.discard(key)
        was_sent = key in self._sent
        self._sent.discard(key)
        return was_sent

    def forget(self, key: str) -> bool:
        """Forget a pod that no longer exists; return whether this class has evicted it."""
        self._writes.cancel_eviction(key)
        return self.forget_terminating(key)

    def work(self, now: Instant) -> float | None:
        """Evict the pods whose time has come; return when the next one leaves (monotonic)."""
        for key, _ in self._due.pop_due(now.wall):
            with self._writes.skipping("Pod", key):
                self._evict(key, self._leaving[key], now)
        at = self._due.next_time()
        return None if at is None else now.monotonic + max(0.0, at - now.wall)

    def _evict(self, key: str, leaving: _Leaving, now: Instant) -> None:
        pod = find(self._objects, Pod, key)
        if pod is None or pod.metadata.uid != leaving.uid:
            self._leaving.pop(key, None)
            return
        self._sent.add(key)
        told = self._notices
        self._record(pod, told.marking.format(key))
        self._writes.send(key, eviction(pod, told.reason, told.message), lambda: self._retry(key))
        self._meters.total.inc()
        self._meters.late.observe(now.wall - leaving.at if leaving.at else 0.0)

    def _retry(self, key: str) -> None:
        leaving = self._leaving.get(key)
        if leaving is not None:
            self._due.set(key, leaving.at)

    def _record(self, pod: Pod, message: str) -> None:
        self._recorder.record(
            pod.metadata,
            type_="Normal",
            reason=self._notices.event,
            message=message,
            controller=self._notices.controller,
        )
