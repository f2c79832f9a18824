"""Delete Jobs spec.ttlSecondsAfterFinished after they have finished.

Their pods are deleted first. Source: pkg/controller/ttlafterfinished of Kubernetes 1.36.
"""

from __future__ import annotations

from functools import partial

from podsched.api.conditions import is_terminating
from podsched.api.objects import AnyObject, Job, seconds_of
from podsched.lib.due_times import DueTimes
from podsched.serve.client.cluster import object_deletion
from podsched.serve.client.informer import Event
from podsched.term.controllers.controller import Controller, Instant, Objects, find
from podsched.term.controllers.job_plan import finished
from podsched.term.controllers.write_queues import Writes


class TtlAfterFinishedController(Controller):
    """See the module."""

    name = "ttl-after-finished"
    kinds = ("Job",)

    def __init__(self, objects: Objects, writes: Writes) -> None:
        super().__init__(objects, writes)
        self._due = DueTimes()

    def changed(self, event: Event, now: Instant) -> None:
        if event.new is None:
            self._due.discard(event.key)
        self._note(event.key, event.new, now)

    def _note(self, key: str, job: AnyObject | None, now: Instant) -> None:
        if isinstance(job, Job) and (at := _ends_at(job)) is not None:
            self._due.advance(key, now.monotonic + max(0.0, at - now.wall))

    def work(self, now: Instant) -> float | None:
        for key, _ in self._due.pop_due(now.monotonic):
            job = find(self._objects, Job, key)
            at = _ends_at(job) if job is not None else None
            if job is None or at is None:
                continue
            if at > now.wall:  # The time was changed.
                self._note(key, job, now)
                continue
            request = object_deletion(job, "Foreground")
            self._writes.send(key, request, partial(self._note, key, job, now))
        return self._due.next_time()


def _ends_at(job: Job) -> float | None:
    """Return the Unix time at which a Job is to be deleted, None for never."""
    end = finished(job)
    is_wanted = end is not None and job.spec.HasField("ttl_seconds_after_finished")
    if end is None or not is_wanted or is_terminating(job):
        return None
    return seconds_of(end.last_transition_time) + job.spec.ttl_seconds_after_finished
