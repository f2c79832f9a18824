"""Create the pods of Jobs, count those that finish, and end Jobs.

``job_plan`` decides; this module reads, writes and keeps track of writes under way. Pods have the
finalizer batch.kubernetes.io/job-tracking until they are counted, so that deleted pods are counted,
too. The finalizer is removed at once if the Job is gone or finished. Jobs that name another
controller in spec.managedBy are left alone. A Job is suspended, as with Kueue, when its queue has
deactivated its pods: they would start again otherwise.

Source: pkg/controller/job of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, Job, Pod, PodGroup, PodTemplateSpec, copy_of
from podsched.api.owners import controller_of
from podsched.api.queue_labels import (
    MAX_EXEC_TIME,
    QUEUE_GROUP_COUNT,
    QUEUE_GROUP_NAME,
    QUEUE_NAME,
    QUEUE_PRIORITY_CLASS,
)
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
from podsched.term.controllers.job_plan import NewPod, Plan, finished, plan
from podsched.term.controllers.job_pods import Seen, is_indexed
from podsched.term.controllers.owned_pods import MOST_AT_ONCE, Owned
from podsched.term.controllers.pod_records import COMPLETION_INDEX, JOB_TRACKING, OwnedPod
from podsched.term.controllers.workload_controller import WorkloadController
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes
from podsched.term.writes.event_recorder import EventRecorder

_OWN_NAME: Final = "kubernetes.io/job-controller"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
#: Max pods that lose their finalizer in one call of ``work``.
_ORPHANS_AT_ONCE: Final = 100
#: Max ended pods remembered. The backoff is longest after seven failures in a row.
_MOST_ENDED: Final = 20
_LONGEST_PREFIX: Final = 63 - 5


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
        self._orphans = WorkQueue[str]()
        """Pods that may have a finalizer that no Job removes."""

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
            self._orphans.update(self._pods.of(old.metadata.uid).pods.all)
        super()._owner_changed(key, old, new)

    def _searches(self, owner: AnyObject) -> bool:
        return isinstance(owner, Job) and owner.spec.manual_selector

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        super()._pod_changed(key, old, new)
        if not isinstance(new, Pod) or not new.metadata.finalizers:
            return
        if JOB_TRACKING in new.metadata.finalizers:
            owner = controller_of(new.metadata)
            if owner is None or (owner.kind == "Job" and self._job_of(new) is None):
                self._orphans.add(key)

    def _job_of(self, pod: Pod) -> Job | None:
        """Return the Job that controls a pod, if it exists."""
        owner = controller_of(pod.metadata)
        if owner is None:
            return None
        job = find(self._objects, Job, f"{pod.metadata.namespace}/{owner.name}")
        return job if job is not None and job.metadata.uid == owner.uid else None

    # ------------------------------------------------------------------ work

    def work(self, now: Instant) -> float | None:
        """Examine the Jobs that are due; remove the finalizer of pods that no Job counts."""
        due = super().work(now)
        for key in self._orphans.take(_ORPHANS_AT_ONCE):
            self._sync_orphan_pod(key)
        return now.monotonic if self._orphans else due

    def _sync_orphan_pod(self, key: str) -> None:
        pod = find(self._objects, Pod, key)
        if pod is None or JOB_TRACKING not in pod.metadata.finalizers:
            return
        owner, job = controller_of(pod.metadata), self._job_of(pod)
        is_counted = job is not None and finished(job) is None
        if is_counted or (owner is not None and owner.kind != "Job"):
            return
        if owner is None and self._pods.owners_for(pod):
            return  # It will be adopted.
        self._writes.send(key, without_finalizer(pod, JOB_TRACKING), self._orphans.adder(key))

    def _sync(self, key: str, owner: Job, owned: Owned, now: Instant) -> None:
        if owner.spec.managed_by not in ("", _OWN_NAME):
            return
        if finished(owner) is not None:
            self._orphans.update(owned.pods.uncounted)
            self._orphans.update(key for key, p in owned.pods.live.items() if p.is_tracked)
            return
        self._pod_writes.claim(key, owner, finalizer=JOB_TRACKING)
        # Before the evicted pods are released: they tell the next leader of it, too.
        if not owner.spec.suspend and self._is_deactivated(owned):
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

    def _is_deactivated(self, owned: Owned) -> bool:
        """Whether a unit of a Job may not run again, and has no PodGroup that remembers it."""
        for record in owned.pods.uncounted.values():
            pod = self._pod_of(record) if record.eviction == DEACTIVATED else None
            if pod is not None and not pod.spec.HasField("scheduling_group"):
                return True
        return False

    def _pod_of(self, record: OwnedPod) -> Pod | None:
        return find(self._objects, Pod, record.key)

    def _act(self, key: str, job: Job, owned: Owned, todo: Plan, group: PodGroup | None) -> None:
        some_done = todo.status.succeeded or todo.status.uncounted_terminated_pods.succeeded
        if todo.create:
            count = self._pod_writes.room(owned, len(todo.create))
            pods = self._new_pods(job, todo.create[:count], group)
            if some_done:
                _leave_queue_group(job, pods)
            self._pod_writes.create(key, job, pods)
        elif not owned.creating:
            owned.batch = 1
        self._hand_on_priority(key, job, owned)
        release = [pod for pod in todo.release if pod.uid not in owned.releasing]
        self._pod_writes.delete(key, job, todo.delete[:MOST_AT_ONCE])
        self._pod_writes.drop(key, job, todo.drop[:MOST_AT_ONCE], JOB_TRACKING)
        if some_done:
            self._pod_writes.drop(key, job, self._waiting_in_vain(job, owned), JOB_TRACKING)
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

    def _waiting_in_vain(self, job: Job, owned: Owned) -> list[OwnedPod]:
        """Return pods that wait for members of their queue's group that have ended already."""
        template, active = job.spec.template.metadata, owned.active()
        least = int32(template.annotations.get(QUEUE_GROUP_COUNT, ""))
        if template.labels.get(QUEUE_GROUP_NAME) != job.metadata.name or least is None:
            return []
        if len(active) >= least:
            return []
        found = []
        for record in active:
            pod = None if record.node else self._pod_of(record)
            if pod is not None and QUEUE_GROUP_NAME in pod.metadata.labels:
                found.append(record)
        return found[:MOST_AT_ONCE]

    def _release(self, owned: Owned, record: OwnedPod) -> None:
        """Remove the finalizer of a pod that is counted."""
        pod = self._pod_of(record)
        if pod is None:
            return
        self._pod_writes.change(owned, record, without_finalizer(pod, JOB_TRACKING))
        owned.ended[record.uid] = record
        if len(owned.ended) > _MOST_ENDED:
            del owned.ended[next(iter(owned.ended))]

    # ------------------------------------------------------------------ new pods

    def _new_pods(self, job: Job, wanted: Sequence[NewPod], group: PodGroup | None) -> list[Pod]:
        template = copy_of(job.spec.template)
        # They may have changed since the API server gave them to the template.
        for name in (QUEUE_NAME, QUEUE_PRIORITY_CLASS, MAX_EXEC_TIME):
            if name in job.metadata.labels:
                template.metadata.labels[name] = job.metadata.labels[name]
        if JOB_TRACKING not in template.metadata.finalizers:
            template.metadata.finalizers.append(JOB_TRACKING)
        if is_indexed(job):
            _add_index_variable(template)
        if group is None:
            return [self._new_pod(job, template, new) for new in wanted]
        template.spec.scheduling_group.pod_group_name = group.metadata.name
        pods = [self._new_pod(job, template, new) for new in wanted]
        for pod in pods:
            pod.metadata.owner_references.add(
                api_version=KINDS["PodGroup"].api_version,
                kind="PodGroup",
                name=group.metadata.name,
                uid=group.metadata.uid,
            )
        return pods

    def _new_pod(self, job: Job, template: PodTemplateSpec, new: NewPod) -> Pod:
        name = job.metadata.name
        if new.completion < 0:
            return self._pod_writes.new_pod(job, template, f"{name}-")
        suffix = f"-{new.completion}-"
        prefix = name[: _LONGEST_PREFIX - len(suffix)] + suffix
        pod = self._pod_writes.new_pod(job, template, prefix, new.completion)
        pod.metadata.annotations[COMPLETION_INDEX] = str(new.completion)
        pod.metadata.annotations.update(new.annotations)
        pod.metadata.labels[COMPLETION_INDEX] = str(new.completion)
        pod.spec.hostname = f"{name}-{new.completion}"
        return pod


def _leave_queue_group(job: Job, pods: Sequence[Pod]) -> None:
    """Remove, in place, the labels with which the API server puts new pods of a Job into a group.

    Once a pod has succeeded, the group never has all members again: new ones would wait forever.
    """
    for pod in pods:
        if pod.metadata.labels.get(QUEUE_GROUP_NAME) == job.metadata.name:
            del pod.metadata.labels[QUEUE_GROUP_NAME]
            pod.metadata.annotations.pop(QUEUE_GROUP_COUNT, None)


def _is_new(job: Job, owned: Owned) -> bool:
    """Return whether no pod of a Job was ever created."""
    status = job.status
    ran = status.HasField("start_time") or status.succeeded or status.failed
    suspended = any(condition.type == "Suspended" for condition in status.conditions)
    return not (ran or suspended or owned.pods.all or owned.creating)


def _add_index_variable(template: PodTemplateSpec) -> None:
    """Give each container its pod's completion index in an environment variable."""
    path = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in (*template.spec.init_containers, *template.spec.containers):
        if all(variable.name != _INDEX_VARIABLE for variable in container.env):
            container.env.add(name=_INDEX_VARIABLE).value_from.update(path)
