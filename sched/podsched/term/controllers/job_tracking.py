"""Count the pods of a Job that have finished, each exactly once (see ``job_plan``). Pure."""

from __future__ import annotations

from typing import Final

from podsched.api.conditions import is_terminating
from podsched.api.objects import JobStatus
from podsched.term.controllers.job_indexes import Indexes
from podsched.term.controllers.job_pods import JobPods, Seen
from podsched.term.controllers.pod_records import OwnedPod

SUCCESS_MET: Final = "SuccessCriteriaMet"
#: Max uids in status.uncountedTerminatedPods.
_MOST_UNCOUNTED: Final = 500


class Tracking:
    """Lists finished pods in a status, and finds those whose finalizer is to be removed."""

    def __init__(
        self, seen: Seen, pods: JobPods, status: JobStatus, end: str | None, *, is_met: bool
    ) -> None:
        """``end``: the condition with which the Job will end; ``is_met``: it is stored already."""
        self._seen = seen
        self._pods = pods
        self._status = status
        self._end = end
        self._is_met = is_met
        uncounted = seen.job.status.uncounted_terminated_pods
        self._uncounted_ok = frozenset(uncounted.succeeded)
        self._uncounted_failed = frozenset(uncounted.failed)
        self.release: list[OwnedPod] = []
        """Counted pods, whose finalizer is to be removed."""

    def track(self) -> None:
        """List the pods that have finished, and release those that are listed."""
        uncounted = self._status.uncounted_terminated_pods
        new_indexes: set[int] = set()
        for pod in self._to_track():
            if not self._may_be_released(pod):
                continue
            if pod.phase == "Succeeded" and pod.uid not in self._uncounted_failed:
                self._track_success(pod, new_indexes)
            elif self._counts_as_failed(pod):
                self._track_failure(pod)
            elif self._end is None or self._is_met:
                self.release.append(pod)
            if len(uncounted.succeeded) + len(uncounted.failed) + len(new_indexes) >= (
                _MOST_UNCOUNTED
            ):
                break
        if self._pods.indexed:
            known = self._pods.stored_ok | Indexes.of(new_indexes)
            self._status.succeeded = len(known)
            self._status.completed_indexes = str(known)
            if self._pods.by_index:
                self._status.failed_indexes = str(self._pods.failed_indexes)

    def _to_track(self) -> list[OwnedPod]:
        found = self._pods.ended()
        if self._end is not None or is_terminating(self._seen.job):
            dropping = self._seen.dropping
            live = self._seen.pods.live.values()
            found += [pod for pod in live if pod.is_tracked and pod.uid not in dropping]
        return sorted(found, key=lambda pod: pod.completion) if self._pods.indexed else found

    def _may_be_released(self, pod: OwnedPod) -> bool:
        is_over = is_terminating(self._seen.job) or self._end is not None
        if is_over or pod.phase == "Succeeded":
            return True
        return self._pods.is_failed(pod) and self._pods.delayed.get(pod.completion) is not pod

    def _counts_as_failed(self, pod: OwnedPod) -> bool:
        if self._end is None:
            return self._pods.is_failed(pod)
        return pod.phase == "Failed" or self._end != SUCCESS_MET

    def _track_success(self, pod: OwnedPod, new_indexes: set[int]) -> None:
        if self._pods.indexed:
            if self._pods.is_valid(pod) and pod.completion not in self._pods.stored_ok:
                new_indexes.add(pod.completion)
            else:
                self.release.append(pod)
        elif pod.uid in self._uncounted_ok:
            self.release.append(pod)
        else:
            self._status.uncounted_terminated_pods.succeeded.append(pod.uid)

    def _track_failure(self, pod: OwnedPod) -> None:
        if pod.uid in self._uncounted_failed or not (
            self._pods.is_valid(pod) and self._pods.failure(pod).counts
        ):
            self.release.append(pod)
        else:
            self._status.uncounted_terminated_pods.failed.append(pod.uid)
