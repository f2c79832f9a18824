"""Create the pods of Jobs, count those that finish, and end Jobs.

``job_plan`` decides; this module reads, writes and keeps track of writes under way. Pods have the
finalizer batch.kubernetes.io/job-tracking until they are counted, so that deleted pods are counted,
too. The finalizer is removed at once if the Job is gone or finished (``job_orphans``). Jobs that
name another controller in spec.managedBy are left alone. A Job is suspended, as with Kueue, when
its queue has deactivated its pods: they would start again otherwise.

Source: pkg/controller/job of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from podsched.api.objects import AnyObject, Job, Pod, PodGroup
from podsched.api.queue_labels import QUEUE_GROUP_COUNT, QUEUE_GROUP_NAME, QUEUE_PRIORITY_CLASS
from podsched.serve.client.cluster import object_patch
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.admission.endings import DEACTIVATED
from podsched.term.controllers.controller import (
    Instant,
    Objects,
    find,
    metadata_patch,
    without_finalizer,
)
from podsched.term.controllers.job_gangs import GANG_KINDS, Gang, JobGangs
from podsched.term.controllers.job_indexes import int32
from podsched.term.controllers.job_orphans import JobOrphans
from podsched.term.controllers.job_plan import Plan, finished, plan
from podsched.term.controllers.job_pods import Seen
from podsched.term.controllers.job_templates import leave_queue_group, new_pods
from podsched.term.controllers.owned_pods import MOST_AT_ONCE, Owned
from podsched.term.controllers.pod_records import JOB_TRACKING, OwnedPod
from podsched.term.controllers.workload_controller import WorkloadController
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_OWN_NAME: Final = "kubernetes.io/job-controller"
#: Max ended pods remembered. The backoff is longest after seven failures in a row.
_MOST_ENDED: Final = 20
#: Returns the stored pod of a record, None if it is gone.
_PodOf = Callable[[OwnedPod], Pod | None]


class JobController(WorkloadController):
    """See the module."""

    name = "job"
    owner_kind = "Job"

    def __init__(
        self, objects: Objects, writes: Writes, recorder: EventRecorder, gangs: bool = False
    ) -> None:
        """``gangs``: whether to create PodGroups for Jobs whose pods start together."""
        super().__init__(objects, writes, recorder)
        self._gangs = (
            JobGangs(objects, writes, self._pod_writes.record, self._notify) if gangs else None
        )
        self._orphans = JobOrphans(objects, writes, self._pods)

    @property
    def kinds(self) -> tuple[str, ...]:
        return (*super().kinds, *(GANG_KINDS if self._gangs is not None else ()))

    def changed(self, event: Event, now: Instant) -> None:
        if self._gangs is not None and event.kind in GANG_KINDS:
            self._gangs.changed(event.key, event.old, event.new)
        else:
            super().changed(event, now)

    def _owner_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._orphans.job_gone(old)
        super()._owner_changed(key, old, new)

    def _searches(self, owner: AnyObject) -> bool:
        return isinstance(owner, Job) and owner.spec.manual_selector

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        super()._pod_changed(key, old, new)
        self._orphans.pod_changed(key, new)

    # ------------------------------------------------------------------ work

    def work(self, now: Instant) -> float | None:
        """Examine the Jobs that are due; remove the finalizer of pods that no Job counts."""
        due = super().work(now)
        self._orphans.work()
        return now.monotonic if self._orphans else due

    def _sync(self, key: str, owner: Job, owned: Owned, now: Instant) -> None:
        if owner.spec.managed_by not in ("", _OWN_NAME):
            return
        if finished(owner) is not None:
            self._orphans.job_finished(owned)
            return
        self._adoption.claim(key, owner, finalizer=JOB_TRACKING)
        # Before the evicted pods are released: they tell the next leader of it, too.
        if not owner.spec.suspend and _is_deactivated(owned, self._pod_of):
            request = object_patch(owner, {"spec": {"suspend": True}})
            self._writes.send(key, request, partial(self._notify, key))
            return
        gang = Gang(True)
        if self._gangs is not None:
            gang = self._gangs.gang_of(key, owner, is_new=_is_new(owner, owned))
            if not gang.is_made:
                return
        seen = Seen(
            owner,
            owned.pods,
            owned.active(),
            [made.completion for made in owned.creating.values()] + [-1] * len(owned.adoptable),
            owned.dropping,
            owned.ended,
            self._pod_of,
            now.wall,
        )
        todo = plan(seen)
        self._act(key, owner, owned, todo, gang.group)
        if todo.wait is not None:
            self._due.advance(key, now.monotonic + todo.wait)

    def _pod_of(self, record: OwnedPod) -> Pod | None:
        return find(self._objects, Pod, record.key)

    def _act(self, key: str, job: Job, owned: Owned, todo: Plan, group: PodGroup | None) -> None:
        some_done = todo.status.succeeded or todo.status.uncounted_terminated_pods.succeeded
        if todo.create:
            count = self._pod_writes.room(owned, len(todo.create))
            pods = new_pods(self._pod_writes, job, todo.create[:count], group)
            if some_done:
                leave_queue_group(job, pods)
            self._pod_writes.create(key, job, pods)
        elif not owned.creating:
            owned.batch = 1
        self._hand_on_priority(key, job, owned)
        release = [pod for pod in todo.release if pod.uid not in owned.releasing]
        self._pod_writes.delete(key, job, todo.delete[:MOST_AT_ONCE])
        self._pod_writes.drop(key, job, todo.drop[:MOST_AT_ONCE])
        if some_done:
            in_vain = _waiting_in_vain(job, owned.active(), self._pod_of)
            self._pod_writes.drop(key, job, in_vain)
        for record in release[:MOST_AT_ONCE]:
            self._release(owned, record)
        if max(map(len, (todo.delete, todo.drop, release))) > MOST_AT_ONCE:
            self._due.advance(key, self._now)

        def written(error: ClientError | None) -> None:
            for type_, reason, message in todo.events if error is None else ():
                self._pod_writes.record(job.metadata, reason, message, type_)

        self._write_status(key, job, todo.status, written)

    def _hand_on_priority(self, key: str, job: Job, owned: Owned) -> None:
        """Give pods the WorkloadPriorityClass of their Job, which may have changed."""
        wanted = job.metadata.labels.get(QUEUE_PRIORITY_CLASS, "")
        for record in owned.active() if wanted else ():
            pod = None if record.uid in owned.releasing else self._pod_of(record)
            if pod is not None and pod.metadata.labels.get(QUEUE_PRIORITY_CLASS, wanted) != wanted:
                request = metadata_patch(pod, {"labels": {QUEUE_PRIORITY_CLASS: wanted}})
                self._writes.send(record.key, request, partial(self._notify, key))

    def _release(self, owned: Owned, record: OwnedPod) -> None:
        """Remove the finalizer of a pod that is counted."""
        pod = self._pod_of(record)
        if pod is None:
            return
        self._pod_writes.change(owned, record, without_finalizer(pod, JOB_TRACKING))
        owned.ended[record.uid] = record
        if len(owned.ended) > _MOST_ENDED:
            del owned.ended[next(iter(owned.ended))]


def _is_deactivated(owned: Owned, pod_of: _PodOf) -> bool:
    """Whether a unit of a Job may not run again, and has no PodGroup that remembers it."""
    for record in owned.pods.uncounted.values():
        pod = pod_of(record) if record.eviction == DEACTIVATED else None
        if pod is not None and not pod.spec.HasField("scheduling_group"):
            return True
    return False


def _waiting_in_vain(job: Job, active: Sequence[OwnedPod], pod_of: _PodOf) -> list[OwnedPod]:
    """Return pods that wait for members of their queue's group that have ended already."""
    template = job.spec.template.metadata
    least = int32(template.annotations.get(QUEUE_GROUP_COUNT, ""))
    if template.labels.get(QUEUE_GROUP_NAME) != job.metadata.name or least is None:
        return []
    if len(active) >= least:
        return []
    found = []
    for record in active:
        pod = None if record.node else pod_of(record)
        if pod is not None and QUEUE_GROUP_NAME in pod.metadata.labels:
            found.append(record)
    return found[:MOST_AT_ONCE]


def _is_new(job: Job, owned: Owned) -> bool:
    """Return whether no pod of a Job was ever created."""
    status = job.status
    ran = status.HasField("start_time") or status.succeeded or status.failed
    suspended = any(condition.type == "Suspended" for condition in status.conditions)
    return not (ran or suspended or owned.pods.all or owned.creating)
