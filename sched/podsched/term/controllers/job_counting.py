"""Count the pods of a Job that have finished. Pure.

A pod that has finished is counted exactly once, in three steps. A step begins only after the one
before it is stored, so a new leader continues where the last one stopped:

    the pod has finished, or is deleted   its uid is added to status.uncountedTerminatedPods;
                                          a succeeded index to status.completedIndexes
    that is stored                        the pod's finalizer of Jobs is removed (``track``)
    the finalizer or the pod is gone      the uid is removed from the list, the counter is raised

Pods that their queue has evicted count as nothing, and others take their place at once: with Kueue,
the Job would be suspended, which is no failure, either.

Source: trackJobStatusAndRemoveFinalizers in pkg/controller/job of Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podsched.api.conditions import is_terminating, true_condition
from podsched.api.objects import JobStatus, WorkloadCondition
from podsched.term.controllers.job_indexes import Indexes
from podsched.term.controllers.job_pods import JobPods, Seen
from podsched.term.controllers.pod_records import OwnedPod

SUCCESS_MET: Final = "SuccessCriteriaMet"
#: Max uids in status.uncountedTerminatedPods.
_MOST_UNCOUNTED: Final = 500


class Counting:
    """Counts for one Job, at one time, in its new status."""

    def __init__(self, seen: Seen, judged: JobPods, status: JobStatus) -> None:
        """``status`` begins as the stored one."""
        self._seen = seen
        self._judged = judged
        self._stored = seen.job.status
        self._status = status
        self._end: WorkloadCondition | None = None
        self._release: list[OwnedPod] = []
        listed = self._stored.uncounted_terminated_pods
        self._listed_ok, self._listed_failed = frozenset(listed.succeeded), frozenset(listed.failed)

    def count_gone(self) -> None:
        """Raise the counters by the listed pods that are gone or have lost the finalizer."""
        tracked = self._seen.pods.tracked
        status, uncounted = self._status, self._status.uncounted_terminated_pods
        for uids, counter in ((uncounted.succeeded, "succeeded"), (uncounted.failed, "failed")):
            left = [uid for uid in uids if uid in tracked]
            setattr(status, counter, getattr(status, counter) + len(uids) - len(left))
            uids[:] = left

    def track(self, end: WorkloadCondition | None) -> Sequence[OwnedPod]:
        """List the pods that have finished; return those whose finalizer can be removed.

        ``end``: the condition with which the Job will end, None if it does not end yet.
        """
        self._end = end
        uncounted = self._status.uncounted_terminated_pods
        new_indexes: set[int] = set()
        for pod in self._to_track():
            if not self._may_be_released(pod):
                continue
            if pod.phase == "Succeeded" and pod.uid not in self._listed_failed:
                self._track_success(pod, new_indexes)
            elif self._counts_as_failed(pod):
                self._track_failure(pod)
            elif self._end is None or true_condition(self._stored, SUCCESS_MET) is not None:
                self._release.append(pod)
            listed = len(uncounted.succeeded) + len(uncounted.failed)
            if listed + len(new_indexes) >= _MOST_UNCOUNTED:
                break
        if self._judged.indexed:
            known = self._judged.stored_ok | Indexes.of(new_indexes)
            self._status.succeeded = len(known)
            self._status.completed_indexes = str(known)
            if self._judged.by_index:
                self._status.failed_indexes = str(self._judged.failed_indexes)
        return self._release

    def _to_track(self) -> list[OwnedPod]:
        found = self._judged.ended()
        if self._end is not None or is_terminating(self._seen.job):
            dropping = self._seen.dropping
            live = self._seen.pods.live.values()
            found += [pod for pod in live if pod.is_tracked and pod.uid not in dropping]
        return sorted(found, key=lambda pod: pod.completion) if self._judged.indexed else found

    def _may_be_released(self, pod: OwnedPod) -> bool:
        is_over = is_terminating(self._seen.job) or self._end is not None
        if is_over or pod.phase == "Succeeded":
            return True
        return self._judged.is_failed(pod) and self._judged.delayed.get(pod.completion) is not pod

    def _counts_as_failed(self, pod: OwnedPod) -> bool:
        if self._end is None:
            return self._judged.is_failed(pod)
        return pod.phase == "Failed" or self._end.type != SUCCESS_MET

    def _track_success(self, pod: OwnedPod, new_indexes: set[int]) -> None:
        if self._judged.indexed:
            if self._judged.is_valid(pod) and pod.completion not in self._judged.stored_ok:
                new_indexes.add(pod.completion)
            else:
                self._release.append(pod)
        elif pod.uid in self._listed_ok:
            self._release.append(pod)
        else:
            self._status.uncounted_terminated_pods.succeeded.append(pod.uid)

    def _track_failure(self, pod: OwnedPod) -> None:
        if pod.uid in self._listed_failed or not (
            self._judged.is_valid(pod) and self._judged.failure(pod).counts
        ):
            self._release.append(pod)
        else:
            self._status.uncounted_terminated_pods.failed.append(pod.uid)
