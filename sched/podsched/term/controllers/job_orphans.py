"""Remove the finalizer of Jobs from the pods that no Job counts.

These are the pods of Jobs that are gone or finished, those of other controllers, and those without
a controller that no Job adopts.
"""

from __future__ import annotations

from typing import Final

from podsched.api.conditions import is_terminating
from podsched.api.objects import AnyObject, Job, OwnerReference, Pod
from podsched.api.owners import controller_of
from podsched.term.controllers.controller import Objects, find, without_finalizer
from podsched.term.controllers.job_plan import finished
from podsched.term.controllers.owned_pods import Owned, PodsOfOwners
from podsched.term.controllers.pod_records import JOB_TRACKING
from podsched.term.controllers.workqueue import WorkQueue
from podsched.term.controllers.write_queues import Writes

#: Max pods that lose their finalizer in one call of ``work``.
_AT_ONCE: Final = 100


class JobOrphans:
    """The keys of pods that may have a finalizer that no Job removes."""

    def __init__(self, objects: Objects, writes: Writes, pods: PodsOfOwners) -> None:
        self._objects = objects
        self._writes = writes
        self._pods = pods
        self._keys = WorkQueue[str]()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def job_gone(self, job: AnyObject) -> None:
        """Note a Job that is gone."""
        self._keys.update(self._pods.of(job.metadata).pods.all)

    def job_finished(self, owned: Owned) -> None:
        """Note the pods of a Job that is finished."""
        self._keys.update(owned.pods.uncounted)
        self._keys.update(key for key, pod in owned.pods.live.items() if pod.is_tracked)

    def pod_changed(self, key: str, pod: AnyObject | None) -> None:
        """Note a pod whose Job is gone, or that has none."""
        if not isinstance(pod, Pod) or not pod.metadata.finalizers:
            return
        if JOB_TRACKING in pod.metadata.finalizers:
            owner = controller_of(pod.metadata)
            if owner is None or self._job_of(pod, owner) is None:
                self._keys.add(key)

    def _job_of(self, pod: Pod, owner: OwnerReference) -> Job | None:
        """Return the Job that controls a pod, if it exists."""
        if owner.kind != "Job":
            return None  # A ReplicaSet may adopt what a Job has left.
        job = find(self._objects, Job, f"{pod.metadata.namespace}/{owner.name}")
        return job if job is not None and job.metadata.uid == owner.uid else None

    def work(self) -> None:
        """Examine some of the pods."""
        for key in self._keys.take(_AT_ONCE):
            self._examine(key)

    def _examine(self, key: str) -> None:
        pod = find(self._objects, Pod, key)
        if pod is None or JOB_TRACKING not in pod.metadata.finalizers:
            return
        owner = controller_of(pod.metadata)
        if owner is None and not is_terminating(pod):
            jobs = (find(self._objects, Job, key) for key in self._pods.owners_for(pod))
            if any(job is not None and _may_adopt(job) for job in jobs):
                return  # It will be adopted.
        elif owner is not None:
            job = self._job_of(pod, owner)
            if job is not None and finished(job) is None:
                return
        self._writes.send(key, without_finalizer(pod, JOB_TRACKING), self._keys.adder(key))


def _may_adopt(job: Job) -> bool:
    return not is_terminating(job) and finished(job) is None
