"""Makes the pods of Jobs, counts those that finish, and ends Jobs.

``job_plan`` decides; this module reads, writes and remembers what is on its way. Pods have the
finalizer batch.kubernetes.io/job-tracking until they are counted, so that a pod that is deleted
counts as well. A pod whose Job is gone or finished loses it at once. Jobs that name another
controller in spec.managedBy are left to that. Source: pkg/controller/job of Kubernetes 1.36.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from podsched.api.codec import write
from podsched.api.manifest import merge_patch
from podsched.api.objects import AnyObject, Job, Pod, PodTemplateSpec
from podsched.api.owners import controller_of
from podsched.api.selectors import Selector, compile_selector
from podsched.serve.client.errors import ClientError
from podsched.serve.client.informer import Event
from podsched.term.controllers.agenda import Agenda
from podsched.term.controllers.controller import (
    Instant,
    Objects,
    Recorder,
    Writes,
    earliest,
    object_patch,
    without_finalizer,
)
from podsched.term.controllers.job_plan import NewPod, Plan, Seen, finished, is_indexed, plan
from podsched.term.controllers.owned_pods import Owned, PodsOfOwners
from podsched.term.controllers.pod_records import COMPLETION_INDEX, JOB_TRACKING, OwnedPod

_OWN_NAME: Final = "kubernetes.io/job-controller"
_INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
#: Seconds for which changes of pods are collected, for each pod of their Job.
_PER_POD: Final = 0.0002
#: Max pods of the Jobs that are examined in one call of ``work``.
_POD_BUDGET: Final = 2000
#: Max pods that lose their finalizer in one call of ``work``.
_ORPHANS_AT_ONCE: Final = 200
#: Ended pods that are remembered: seven failures in a row make the longest backoff.
_MOST_ENDED: Final = 20
_PAUSE: Final = 0.001
_LONGEST_PREFIX: Final = 63 - 5


class JobController:
    """See the module."""

    name = "job"
    kinds = ("Job", "Pod")

    def __init__(self, objects: Objects, writes: Writes, recorder: Recorder) -> None:
        self._objects = objects
        self._writes = writes
        self._agenda = Agenda()
        self._now = 0.0
        """Monotonic time of the last call of ``changed`` or ``work``."""
        self._written: dict[str, str] = {}
        """The version from which a status was computed that is on its way, by key."""
        self._orphans: dict[str, None] = {}
        """Pods that may have a finalizer that no Job removes."""
        self._pods = PodsOfOwners(
            "Job", objects, writes, recorder, selector_of=_selector_of, notify=self._notify
        )

    def start(self, now: Instant) -> Iterator[None]:
        """Read the existing Jobs and pods."""
        self._now = now.monotonic
        for key in list(self._objects.objects("Job")):
            yield
            self._job_changed(key, None, self._objects.get("Job", key))
        for key in list(self._objects.objects("Pod")):
            yield
            self._pod_changed(key, None, self._objects.get("Pod", key))

    def changed(self, event: Event, now: Instant) -> None:
        """Note a change of a Job or of a pod."""
        self._now = now.monotonic
        if event.kind == "Pod":
            self._pod_changed(event.key, event.old, event.new)
        else:
            self._job_changed(event.key, event.old, event.new, search=True)

    def _job_changed(
        self, key: str, old: AnyObject | None, new: AnyObject | None, *, search: bool = False
    ) -> None:
        self._written.pop(key, None)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._orphans.update(dict.fromkeys(self._pods.of(old.metadata.uid).pods))
        by_hand = isinstance(new, Job) and new.spec.manual_selector
        self._pods.owner_changed(key, new, search=search and by_hand)
        if new is not None:
            self._agenda.put(key, self._now)

    def _pod_changed(self, key: str, old: AnyObject | None, new: AnyObject | None) -> None:
        self._pods.pod_changed(key, old, new)
        if isinstance(new, Pod) and JOB_TRACKING in new.metadata.finalizers:
            owner = controller_of(new.metadata)
            if owner is None or (owner.kind == "Job" and self._job_of(new) is None):
                self._orphans[key] = None

    def _job_of(self, pod: Pod) -> Job | None:
        """Return the Job that controls a pod, if it exists."""
        owner = controller_of(pod.metadata)
        if owner is None:
            return None
        job = self._objects.get("Job", f"{pod.metadata.namespace}/{owner.name}")
        return job if isinstance(job, Job) and job.metadata.uid == owner.uid else None

    def _notify(self, key: str) -> None:
        job = self._objects.get("Job", key)
        if job is not None:
            pods = len(self._pods.of(job.metadata.uid).pods)
            self._agenda.put(key, self._now + pods * _PER_POD)

    # ------------------------------------------------------------------ work

    def work(self, now: Instant) -> float | None:
        """Examine the Jobs that are due, up to a number of pods."""
        self._now = now.monotonic
        more = self._pods.search(now)
        budget = _POD_BUDGET
        for key in self._agenda.due(now.monotonic):
            job = self._objects.get("Job", key)
            if not isinstance(job, Job) or self._pods.is_searching(key):
                continue
            try:
                budget -= 10 + self._examine(key, job, now)
            except Exception as error:
                self._writes.skipped("Job", key, error)
            if budget <= 0:
                break
        for key in list(itertools.islice(self._orphans, _ORPHANS_AT_ONCE)):
            del self._orphans[key]
            self._free(key)
        more = more or bool(self._orphans)
        return earliest(self._agenda.next, now.monotonic + _PAUSE if more else None)

    def _free(self, key: str) -> None:
        """Remove the finalizer of a pod that no Job counts."""
        pod = self._objects.get("Pod", key)
        if not isinstance(pod, Pod) or JOB_TRACKING not in pod.metadata.finalizers:
            return
        owner, job = controller_of(pod.metadata), self._job_of(pod)
        is_counted = job is not None and finished(job) is None
        if is_counted or (owner is not None and owner.kind != "Job"):
            return
        if owner is None and self._pods.owners_for(pod):
            return  # It will be adopted.

        def again() -> None:
            self._orphans[key] = None

        self._writes.patch(key, without_finalizer(pod, JOB_TRACKING), again)

    def _examine(self, key: str, job: Job, now: Instant) -> int:
        """Act on what is planned for a Job; return the number of its pods."""
        if job.spec.managed_by not in ("", _OWN_NAME):
            return 0
        owned = self._pods.of(job.metadata.uid)
        if finished(job) is not None:
            tracked = (pod.key for pod in owned.pods.values() if pod.is_tracked)
            self._orphans.update(dict.fromkeys(tracked))
            return len(owned.pods)
        owned.forget_lost(now.monotonic)
        self._pods.claim(key, job, finalizer=JOB_TRACKING)
        seen = Seen(
            job,
            list(owned.pods.values()),
            [made.completion for made in owned.creating.values()],
            owned.deleting,
            owned.dropping,
            owned.ended,
            self._pod_of,
            now.wall,
        )
        todo = plan(seen)
        self._act(key, job, owned, todo, now)
        if todo.wait is not None:
            self._agenda.put(key, now.monotonic + todo.wait)
        if owned.not_before > now.monotonic:
            self._agenda.put(key, owned.not_before)
        for made in owned.creating.values():
            self._agenda.put(key, made.until)
            break
        return len(owned.pods)

    def _pod_of(self, record: OwnedPod) -> Pod | None:
        found = self._objects.get("Pod", record.key)
        return found if isinstance(found, Pod) else None

    def _act(self, key: str, job: Job, owned: Owned, todo: Plan, now: Instant) -> None:
        if todo.create:
            count = self._pods.room(owned, len(todo.create), now)
            new = self._new_pods(job, todo.create[:count])
            if new:
                self._pods.create(key, job, new, now)
        elif not owned.creating:
            owned.batch = 1
        self._pods.delete(key, job, todo.delete)
        self._pods.drop(key, job, todo.drop, JOB_TRACKING)
        for record in todo.release:
            pod = self._pod_of(record)
            if pod is not None and record.uid not in owned.releasing:
                self._pods.change_pod(owned, record, without_finalizer(pod, JOB_TRACKING))
                owned.ended[record.uid] = record
                if len(owned.ended) > _MOST_ENDED:
                    del owned.ended[next(iter(owned.ended))]
        self._write_status(key, job, todo)

    def _write_status(self, key: str, job: Job, todo: Plan) -> None:
        version = job.metadata.resource_version
        if todo.status == job.status or self._written.get(key) == version:
            return
        before, after = write(job.status), write(todo.status)
        patch = merge_patch(before, after)
        self._written[key] = version

        def done(error: ClientError | None) -> None:
            for type_, reason, message in todo.events if error is None else ():
                self._pods.record(job.metadata, reason, message, type_)

        self._writes.patch(
            key, object_patch(job, {"status": patch}), partial(self._again, key), done=done
        )

    def _again(self, key: str) -> None:
        self._written.pop(key, None)
        self._notify(key)

    # ------------------------------------------------------------------ new pods

    def _new_pods(self, job: Job, wanted: Sequence[NewPod]) -> list[tuple[Pod, int]]:
        template = PodTemplateSpec()
        template.CopyFrom(job.spec.template)
        if JOB_TRACKING not in template.metadata.finalizers:
            template.metadata.finalizers.append(JOB_TRACKING)
        if is_indexed(job):
            _add_index_variable(template)
        return [(self._new_pod(job, template, new), new.completion) for new in wanted]

    def _new_pod(self, job: Job, template: PodTemplateSpec, new: NewPod) -> Pod:
        name = job.metadata.name
        if new.completion < 0:
            return self._pods.new_pod(job, template, f"{name}-")
        suffix = f"-{new.completion}-"
        pod = self._pods.new_pod(job, template, name[: _LONGEST_PREFIX - len(suffix)] + suffix)
        pod.metadata.annotations[COMPLETION_INDEX] = str(new.completion)
        pod.metadata.annotations.update(new.annotations)
        pod.metadata.labels[COMPLETION_INDEX] = str(new.completion)
        pod.spec.hostname = f"{name}-{new.completion}"
        return pod


def _selector_of(job: Job) -> Selector:
    return compile_selector(job.spec.selector if job.spec.HasField("selector") else None)


def _add_index_variable(template: PodTemplateSpec) -> None:
    """Let each container have its pod's completion index in an environment variable."""
    path = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    for container in (*template.spec.init_containers, *template.spec.containers):
        if all(variable.name != _INDEX_VARIABLE for variable in container.env):
            container.env.add(name=_INDEX_VARIABLE).value_from.update(path)
