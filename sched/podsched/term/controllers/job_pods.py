"""Judge the pods of a Job: which of them and of its indexes have succeeded or failed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple

from podsched.api.objects import Job, Pod
from podsched.term.controllers.job_indexes import Indexes, int32
from podsched.term.controllers.job_policies import Failure, judge_failure, pause_left
from podsched.term.controllers.pod_records import OwnedPod, PodSet

INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


class Seen(NamedTuple):
    """A Job with its pods, at one time."""

    job: Job
    pods: PodSet
    active: Sequence[OwnedPod]
    """The live pods that are not being deleted."""
    creating: Sequence[int]
    """The completion indexes of pods on their way, -1 for pods without."""
    dropping: Container[str]
    """Uids of pods that are being deleted as surplus: they are not counted."""
    ended: Mapping[str, OwnedPod]
    """By uid: pods that were counted, some of which may be gone."""
    pod_of: Callable[[OwnedPod], Pod | None]
    now: float
    """Unix time."""

    def active_indexes(self) -> Indexes:
        """Return the indexes of active pods."""
        return Indexes.of(pod.completion for pod in self.active if pod.completion >= 0)

    def taken(self) -> Indexes:
        """Return the indexes of active pods, and of pods on their way."""
        return self.active_indexes() | Indexes.of(each for each in self.creating if each >= 0)


def is_indexed(job: Job) -> bool:
    """Return whether each pod of a Job has a completion index."""
    return job.spec.completion_mode == "Indexed"


class JobPods:
    """The pods of a Job at one time, with the counts of its status."""

    def __init__(self, seen: Seen) -> None:
        self._seen, self._pods = seen, seen.pods
        self._job, self._spec, self._status = seen.job, seen.job.spec, seen.job.status
        self.only_failed = self._spec.pod_replacement_policy == "Failed"
        self.indexed = is_indexed(seen.job)
        self.by_index = self.indexed and self._spec.HasField("backoff_limit_per_index")
        self.stored_ok = Indexes.parse(self._status.completed_indexes, self._spec.completions)
        self.ok, self.failed_indexes = self.stored_ok, Indexes()
        self.succeeded = self.failed = 0
        self.delayed: dict[int, OwnedPod] = {}
        """By index: the failed pod that stays until its replacement is seen.

        It has the number of failures, which would be lost if the creation failed.
        """
        self._judged: dict[str, Failure] = {}
        self._count()

    def is_failed(self, pod: OwnedPod) -> bool:
        """Return whether a pod has failed, or is deleted and so counts as failed."""
        if pod.phase == "Failed":
            return True
        if not pod.is_deleting or pod.phase == "Succeeded":
            return False
        return not self.only_failed or pod.is_lost

    def failure(self, pod: OwnedPod) -> Failure:
        """Return how the failure of a pod counts."""
        if pod.eviction:
            return Failure(counts=False, action="Ignore")
        if not self._spec.HasField("pod_failure_policy"):
            return Failure()
        found = self._judged.get(pod.uid)
        if found is None:
            found = self._judged[pod.uid] = judge_failure(self._job, self._seen.pod_of(pod))
        return found

    def is_valid(self, pod: OwnedPod) -> bool:
        """Return whether a pod has an index of the Job, or needs none."""
        return not self.indexed or 0 <= pod.completion < self._spec.completions

    def ended(self) -> list[OwnedPod]:
        """Return the pods that are not counted yet and that have ended or are deleted."""
        dropping = self._seen.dropping
        return [pod for pod in self._pods.uncounted.values() if pod.uid not in dropping]

    def _count(self) -> None:
        """Count the pods that have ended and those that status lists as such."""
        status, uncounted = self._status, self._status.uncounted_terminated_pods
        known = {*uncounted.succeeded, *uncounted.failed}
        new = [pod for pod in self.ended() if pod.uid not in known and self.is_valid(pod)]
        self.succeeded = status.succeeded + len(uncounted.succeeded)
        self.succeeded += sum(pod.phase == "Succeeded" for pod in new)
        self.failed = status.failed + len(uncounted.failed)
        self.failed += sum(self.is_failed(pod) and self.failure(pod).counts for pod in new)
        if self.indexed:
            self._count_indexes()

    def _count_indexes(self) -> None:
        valid = [pod for pod in self.ended() if self.is_valid(pod)]
        self.ok |= Indexes.of(pod.completion for pod in valid if pod.phase == "Succeeded")
        self.succeeded = len(self.ok)
        if not self.by_index:
            return
        failed = [pod for pod in valid if self.is_failed(pod)]
        before = Indexes.parse(self._status.failed_indexes, self._spec.completions)
        self.failed_indexes = before | Indexes.of(
            pod.completion for pod in failed if self._ends_its_index(pod)
        )
        if not failed:
            return
        done = self.ok | self.failed_indexes | self._seen.active_indexes()
        for pod in failed:
            if pod.completion in done:
                continue
            last = self.delayed.get(pod.completion)
            if last is None or self._is_later(pod, last):
                self.delayed[pod.completion] = pod

    def _is_later(self, pod: OwnedPod, last: OwnedPod) -> bool:
        more = sum(self.index_failures(pod)) >= sum(self.index_failures(last))
        return more and pod.finished_at >= last.finished_at

    def _ends_its_index(self, pod: OwnedPod) -> bool:
        failure = self.failure(pod)
        if failure.action == "FailIndex":
            return True
        limit = self._spec.backoff_limit_per_index
        return failure.counts and self.index_failures(pod)[0] >= limit

    def index_failures(self, pod: OwnedPod) -> tuple[int, int]:
        """Return how many earlier pods of its index failed: those that count, and those ignored."""
        found = self._seen.pod_of(pod)
        if found is None:
            return 0, 0
        texts = (
            found.metadata.annotations.get(name, "") for name in (INDEX_FAILURES, INDEX_IGNORED)
        )
        first, second = (max(0, int32(text) or 0) for text in texts)
        return first, second

    def pause(self, index: int, now: float) -> float:
        """Return the seconds until the failed pod of an index may be replaced."""
        failed = self.delayed.get(index)
        if failed is None or failed.eviction:
            return 0.0
        failures = sum(self.index_failures(failed)) + 1
        return pause_left(failures, failed.finished_at, now)

    def annotations(self, index: int) -> dict[str, str]:
        """Return the annotations of a pod that replaces the failed pods of its index."""
        if not self.by_index:
            return {}
        failed = self.delayed.get(index)
        if failed is None:
            return {INDEX_FAILURES: "0"}
        counted, ignored = self.index_failures(failed)
        counts = self.failure(failed).counts
        found = {INDEX_FAILURES: str(counted + counts)}
        return found | ({INDEX_IGNORED: str(ignored + 1 - counts)} if ignored or not counts else {})
