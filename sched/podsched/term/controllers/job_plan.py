"""Decide what to do for a Job, from the stored Job and its stored pods. Pure.

A pod that has finished is counted exactly once, in three steps. A step begins only after the one
before it is stored, so a new leader continues where the last one stopped:

    the pod has finished, or is deleted   its uid is added to status.uncountedTerminatedPods;
                                          a succeeded index to status.completedIndexes
    that is stored                        the pod's finalizer of Jobs is removed (``release``)
    the finalizer or the pod is gone      the uid is removed from the list, the counter is raised

Pods that their queue has evicted count as nothing, and others take their place at once: with Kueue,
the Job would be suspended, which is no failure, either.

A Job ends with two conditions; the first is stored before the last finalizers are removed:

    enough pods have succeeded            SuccessCriteriaMet; other pods are deleted; Complete
    too many have failed, the Job has run FailureTarget; other pods are deleted and count as
    for too long, or a policy applies     failed; Failed

Source: pkg/controller/job/job_controller.go of Kubernetes 1.36 (syncJob, manageJob,
trackJobStatusAndRemoveFinalizers).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podsched.api.conditions import FALSE, TRUE
from podsched.api.objects import (
    Job,
    JobStatus,
    Pod,
    Timestamp,
    WorkloadCondition,
    seconds_of,
    timestamp,
)
from podsched.api.queue_labels import QUEUE_NAME
from podsched.term.controllers.job_indexes import Indexes
from podsched.term.controllers.job_policies import (
    Failure,
    backoff_left,
    judge_failure,
    pause_left,
    restarts_exceed,
    success_of,
)
from podsched.term.controllers.owned_pods import MOST_AT_ONCE
from podsched.term.controllers.pod_records import OwnedPod, PodSet, removal_rank

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
_SUCCESS_MET: Final = "SuccessCriteriaMet"
_FAILURE_TARGET: Final = "FailureTarget"
_SUSPENDED: Final = "Suspended"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
#: Max uids in status.uncountedTerminatedPods.
_MOST_UNCOUNTED: Final = 500


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


class NewPod(NamedTuple):
    """A pod to create: its completion index, -1 for none, and annotations."""

    completion: int
    annotations: dict[str, str]


@dataclass(slots=True)
class Plan:
    """The actions for a Job."""

    status: JobStatus
    create: list[NewPod] = field(default_factory=list)
    delete: Sequence[OwnedPod] = ()
    drop: Sequence[OwnedPod] = ()
    """To be deleted without being counted: the finalizer is removed first."""
    release: list[OwnedPod] = field(default_factory=list)
    """Counted pods, whose finalizer is to be removed."""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and message, once the status is stored."""
    wait: float | None = None
    """Seconds after which the Job has to be examined again, without a change."""


def plan(seen: Seen) -> Plan:
    """Return what to do for a Job that is not finished."""
    return _Planner(seen).plan()


def is_indexed(job: Job) -> bool:
    """Return whether each pod of a Job has a completion index."""
    return job.spec.completion_mode == "Indexed"


def finished(job: Job) -> WorkloadCondition | None:
    """Return the condition with which a Job has ended, None if it has not."""
    return _true(job.status, COMPLETE) or _true(job.status, FAILED)


def _true(status: JobStatus, type_: str) -> WorkloadCondition | None:
    found = _condition(status, type_)
    return found if found is not None and found.status == TRUE else None


def _condition(status: JobStatus, type_: str) -> WorkloadCondition | None:
    return next((each for each in status.conditions if each.type == type_), None)


class _Planner:
    """Plans for one Job, at one time."""

    def __init__(self, seen: Seen) -> None:
        self._job, self._pods, self._now = seen.job, seen.pods, seen.now
        self._seen = seen
        self._spec = seen.job.spec
        self._stored = seen.job.status
        self._status = JobStatus()
        self._status.CopyFrom(seen.job.status)
        self._status.uncounted_terminated_pods.SetInParent()
        self._plan = Plan(self._status)
        self._active: Sequence[OwnedPod] = seen.active
        self._terminating = len(seen.pods.live) - len(seen.active)
        self._terminating += sum(pod.is_terminating for pod in seen.pods.others.values())
        uncounted = seen.job.status.uncounted_terminated_pods
        self._uncounted_ok = frozenset(uncounted.succeeded)
        self._uncounted_failed = frozenset(uncounted.failed)
        self._only_failed = self._spec.pod_replacement_policy == "Failed"
        self._indexed = is_indexed(seen.job)
        self._by_index = self._indexed and self._spec.HasField("backoff_limit_per_index")
        self._stored_ok = Indexes.parse(self._stored.completed_indexes, self._spec.completions)
        self._ok, self._failed_indexes = self._stored_ok, Indexes()
        self._succeeded = self._failed = 0
        self._delayed: dict[int, OwnedPod] = {}
        """By index: the failed pod that stays until it is replaced."""
        self._judged: dict[str, Failure] = {}
        self._end: WorkloadCondition | None = None
        """The condition with which the Job will end."""

    def plan(self) -> Plan:
        """Return the plan; call it once."""
        self._count()
        if self._waits_in_queue():
            self._status.ClearField("start_time")
        elif not self._stored.HasField("start_time") and not self._spec.suspend:
            self._status.start_time.CopyFrom(self._stamp())
        self._look_for_the_end()
        if self._end is not None:
            if not self._status.HasField("start_time"):
                self._status.start_time.CopyFrom(self._stamp())
            self._plan.delete = self._active
            self._terminating += len(self._active)
            if self._seen.creating:
                self._end = None  # Some pods are not seen yet.
            active: Sequence[OwnedPod] = ()
        else:
            active = self._manage()
        self._track(active)
        self._finish()
        self._status.active = len(active)
        self._status.ready = sum(pod.ready_at is not None for pod in active)
        self._status.terminating = self._terminating
        return self._plan

    def _waits_in_queue(self) -> bool:
        """Return whether no pod of a Job in a queue has been admitted, or all were evicted again.

        With Kueue the Job would be suspended, so its start and its deadline count from later on.
        """
        if QUEUE_NAME not in self._spec.template.metadata.labels:
            return False
        if self._stored.succeeded or self._stored.failed:
            return False
        return all(not pod.node or pod.eviction for pod in self._pods.all.values())

    # ------------------------------------------------------------------ counting

    def _stamp(self) -> Timestamp:
        return timestamp(self._now, whole=True)

    def _is_failed(self, pod: OwnedPod) -> bool:
        if pod.phase == "Failed":
            return True
        if not pod.is_deleting or pod.phase == "Succeeded":
            return False
        return not self._only_failed or pod.is_lost

    def _failure(self, pod: OwnedPod) -> Failure:
        if pod.eviction:
            return Failure(counts=False, action="Ignore")
        if not self._spec.HasField("pod_failure_policy"):
            return Failure()
        found = self._judged.get(pod.uid)
        if found is None:
            found = self._judged[pod.uid] = judge_failure(self._job, self._seen.pod_of(pod))
        return found

    def _is_valid(self, pod: OwnedPod) -> bool:
        return not self._indexed or 0 <= pod.completion < self._spec.completions

    def _ended(self) -> list[OwnedPod]:
        """Return the pods that are not counted yet and that have ended or are deleted."""
        dropping = self._seen.dropping
        return [pod for pod in self._pods.uncounted.values() if pod.uid not in dropping]

    def _count(self) -> None:
        tracked = self._pods.tracked
        status, uncounted = self._status, self._status.uncounted_terminated_pods
        for uids, counter in ((uncounted.succeeded, "succeeded"), (uncounted.failed, "failed")):
            left = [uid for uid in uids if uid in tracked]
            setattr(status, counter, getattr(status, counter) + len(uids) - len(left))
            uids[:] = left
        known = self._uncounted_ok | self._uncounted_failed
        new = [pod for pod in self._ended() if pod.uid not in known and self._is_valid(pod)]
        self._succeeded = status.succeeded + len(uncounted.succeeded)
        self._succeeded += sum(pod.phase == "Succeeded" for pod in new)
        self._failed = status.failed + len(uncounted.failed)
        self._failed += sum(self._is_failed(pod) and self._failure(pod).counts for pod in new)
        if self._indexed:
            self._count_indexes()

    def _count_indexes(self) -> None:
        valid = [pod for pod in self._ended() if self._is_valid(pod)]
        self._ok |= Indexes.of(pod.completion for pod in valid if pod.phase == "Succeeded")
        self._succeeded = len(self._ok)
        if not self._by_index:
            return
        failed = [pod for pod in valid if self._is_failed(pod)]
        before = Indexes.parse(self._stored.failed_indexes, self._spec.completions)
        self._failed_indexes = before | Indexes.of(
            pod.completion for pod in failed if self._ends_its_index(pod)
        )
        done = self._ok | self._failed_indexes | self._taken() if failed else Indexes()
        for pod in failed:
            if pod.completion in done:
                continue
            last = self._delayed.get(pod.completion)
            if last is None or self._is_later(pod, last):
                self._delayed[pod.completion] = pod

    def _is_later(self, pod: OwnedPod, last: OwnedPod) -> bool:
        more = sum(self._index_failures(pod)) >= sum(self._index_failures(last))
        return more and pod.finished_at >= last.finished_at

    def _taken(self) -> Indexes:
        """Return the indexes of active pods, and of pods on their way."""
        here = (pod.completion for pod in self._active if pod.completion >= 0)
        return Indexes.of((*here, *(each for each in self._seen.creating if each >= 0)))

    def _ends_its_index(self, pod: OwnedPod) -> bool:
        failure = self._failure(pod)
        if failure.action == "FailIndex":
            return True
        limit = self._spec.backoff_limit_per_index
        return failure.counts and self._index_failures(pod)[0] >= limit

    def _index_failures(self, pod: OwnedPod) -> tuple[int, int]:
        """Return how many earlier pods of its index failed: those that count, and those ignored."""
        found = self._seen.pod_of(pod)
        if found is None:
            return 0, 0
        texts = (
            found.metadata.annotations.get(name, "") for name in (INDEX_FAILURES, INDEX_IGNORED)
        )
        first, second = (int(text) if text.isdecimal() and len(text) < 10 else 0 for text in texts)
        return first, second

    # ------------------------------------------------------------------ the end

    def _new(self, type_: str, reason: str, message: str, status: str = TRUE) -> WorkloadCondition:
        made = WorkloadCondition(type=type_, status=status, reason=reason, message=message)
        made.last_probe_time.CopyFrom(self._stamp())
        made.last_transition_time.CopyFrom(self._stamp())
        return made

    def _look_for_the_end(self) -> None:
        """Find out whether the Job must end, and why."""
        target = _true(self._stored, _FAILURE_TARGET)
        self._end = _true(self._stored, _SUCCESS_MET)
        if self._end is None and target is not None:
            self._end = self._new(FAILED, target.reason, target.message)
        if self._end is None and (reason := self._failure_reason()) is not None:
            self._end = self._new(_FAILURE_TARGET, *reason)
        if self._end is None and self._indexed:
            met = success_of(self._job, self._ok)
            if met:
                self._end = self._new(_SUCCESS_MET, "SuccessPolicy", met)

    def _failure_reason(self) -> tuple[str, str] | None:
        """Return reason and message if the Job fails."""
        spec = self._spec
        if spec.HasField("pod_failure_policy"):
            for pod in self._ended():
                if self._is_failed(pod) and (message := self._failure(pod).message):
                    return "PodFailurePolicy", message
        if self._failed > spec.backoff_limit or restarts_exceed(
            self._job, self._pods.live.values()
        ):
            return "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        has_deadline = spec.HasField("active_deadline_seconds") and not spec.suspend
        if has_deadline and self._status.HasField("start_time"):
            began = seconds_of(self._status.start_time)
            left = began + spec.active_deadline_seconds - self._now
            if left <= 0:
                return "DeadlineExceeded", "Job was active longer than specified deadline"
            self._wait(left)
        if not self._by_index:
            return None
        failed, ok = len(self._failed_indexes), len(self._ok)
        if spec.HasField("max_failed_indexes") and failed > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", message
        if failed and failed + ok >= spec.completions:
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _wait(self, seconds: float) -> None:
        before = self._plan.wait
        self._plan.wait = seconds if before is None else min(before, seconds)

    # ------------------------------------------------------------------ pods

    def _manage(self) -> Sequence[OwnedPod]:
        """Decide which pods to create and to drop; return those that stay active."""
        active = self._active
        if not self._job.metadata.HasField("deletion_timestamp"):
            if self._spec.suspend:
                self._plan.drop = active
            else:
                self._scale()
            dropped = {pod.uid for pod in self._plan.drop}
            active = [pod for pod in active if pod.uid not in dropped]
            self._terminating += len(dropped)
        if not active and not self._seen.creating and not self._plan.create and self._is_enough():
            message = "Reached expected number of succeeded pods"
            self._end = self._new(_SUCCESS_MET, "CompletionsReached", message)
        else:
            self._note_suspension()
        return active

    def _is_enough(self) -> bool:
        if not self._spec.HasField("completions"):
            return self._succeeded > 0
        return self._succeeded >= self._spec.completions

    def _note_suspension(self) -> None:
        known = _condition(self._status, _SUSPENDED)
        suspend = self._spec.suspend
        if (known.status if known is not None else FALSE) == (TRUE if suspend else FALSE):
            return
        status = self._status
        if suspend:
            made = self._new(_SUSPENDED, "JobSuspended", "Job suspended")
            self._plan.events.append(("Normal", "Suspended", "Job suspended"))
            status.ClearField("start_time")
        else:
            made = self._new(_SUSPENDED, "JobResumed", "Job resumed", FALSE)
            self._plan.events.append(("Normal", "Resumed", "Job resumed"))
            status.start_time.CopyFrom(self._stamp())
        if known is None:
            status.conditions.append(made)
        else:
            known.CopyFrom(made)

    def _scale(self) -> None:
        spec, there = self._spec, len(self._active) + len(self._seen.creating)
        if spec.HasField("completions"):
            wanted = max(0, min(spec.completions - self._succeeded, spec.parallelism))
        else:
            wanted = there if self._succeeded else spec.parallelism
        surplus = self._surplus(max(0, there - wanted))
        if surplus:
            self._plan.drop = surplus
            return
        missing = wanted - there - (self._terminating if self._only_failed else 0)
        if missing > 0:
            self._create(min(missing, MOST_AT_ONCE))

    def _surplus(self, count: int) -> list[OwnedPod]:
        """Return at least ``count`` pods to drop, and all whose index is invalid or taken."""
        if not self._indexed:
            return sorted(self._active, key=removal_rank)[:count] if count else []
        indexes = {pod.completion for pod in self._active}
        if not count and len(indexes) == len(self._active) and self._are_valid(indexes):
            return []
        best: dict[int, OwnedPod] = {}
        for pod in sorted(self._active, key=removal_rank):
            if self._is_valid(pod):
                best[pod.completion] = pod
        kept = {pod.uid for pod in best.values()}
        found = [pod for pod in self._active if pod.uid not in kept]
        if len(found) < count:
            found += sorted(best.values(), key=removal_rank)[: count - len(found)]
        return found

    def _are_valid(self, indexes: set[int]) -> bool:
        return not indexes or (min(indexes) >= 0 and max(indexes) < self._spec.completions)

    def _create(self, count: int) -> None:
        if not self._by_index:
            known = {pod.uid: pod for pod in self._pods.others.values()} | {**self._seen.ended}
            left = backoff_left(known.values(), self._now)
            if left > 0:
                self._wait(left)
                return
        if not self._indexed:
            self._plan.create = [NewPod(-1, {})] * count
            return
        taken = self._ok | self._failed_indexes | self._taken()
        if self._only_failed:
            taken |= Indexes.of(
                pod.completion for pod in self._pods.others.values() if pod.is_terminating
            )
        found = taken.first_missing(count, self._spec.completions)
        waits = {index: self._index_pause(index) for index in found}
        due = [index for index in found if waits[index] <= 0]
        if found and not due:
            self._wait(min(waits.values()))
        self._plan.create = [NewPod(index, self._annotations(index)) for index in due]

    def _index_pause(self, index: int) -> float:
        failed = self._delayed.get(index)
        if failed is None or failed.eviction:
            return 0.0
        failures = sum(self._index_failures(failed)) + 1
        return pause_left(failures, failed.finished_at, self._now)

    def _annotations(self, index: int) -> dict[str, str]:
        """Return the annotations of a pod that replaces the failed pods of its index."""
        if not self._by_index:
            return {}
        failed = self._delayed.get(index)
        if failed is None:
            return {INDEX_FAILURES: "0"}
        counted, ignored = self._index_failures(failed)
        counts = self._failure(failed).counts
        found = {INDEX_FAILURES: str(counted + counts)}
        return found | ({INDEX_IGNORED: str(ignored + 1 - counts)} if ignored or not counts else {})

    # ------------------------------------------------------------------ tracking

    def _track(self, active: Sequence[OwnedPod]) -> None:
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
            elif self._end is None or _true(self._stored, _SUCCESS_MET) is not None:
                self._plan.release.append(pod)
            if len(uncounted.succeeded) + len(uncounted.failed) + len(new_indexes) >= (
                _MOST_UNCOUNTED
            ):
                break
        if self._indexed:
            known = self._stored_ok | Indexes.of(new_indexes)
            self._status.succeeded = len(known)
            self._status.completed_indexes = str(known)
            if self._by_index:
                self._status.failed_indexes = str(self._failed_indexes)

    def _to_track(self) -> list[OwnedPod]:
        found = self._ended()
        if self._end is not None or self._job.metadata.HasField("deletion_timestamp"):
            dropping = self._seen.dropping
            live = self._pods.live.values()
            found += [pod for pod in live if pod.is_tracked and pod.uid not in dropping]
        return sorted(found, key=lambda pod: pod.completion) if self._indexed else found

    def _may_be_released(self, pod: OwnedPod) -> bool:
        is_over = self._job.metadata.HasField("deletion_timestamp") or self._end is not None
        if is_over or pod.phase == "Succeeded":
            return True
        return self._is_failed(pod) and self._delayed.get(pod.completion) is not pod

    def _counts_as_failed(self, pod: OwnedPod) -> bool:
        if self._end is None:
            return self._is_failed(pod)
        return pod.phase == "Failed" or self._end.type != _SUCCESS_MET

    def _track_success(self, pod: OwnedPod, new_indexes: set[int]) -> None:
        if self._indexed:
            if self._is_valid(pod) and pod.completion not in self._stored_ok:
                new_indexes.add(pod.completion)
            else:
                self._plan.release.append(pod)
        elif pod.uid in self._uncounted_ok:
            self._plan.release.append(pod)
        else:
            self._status.uncounted_terminated_pods.succeeded.append(pod.uid)

    def _track_failure(self, pod: OwnedPod) -> None:
        if pod.uid in self._uncounted_failed or not (
            self._is_valid(pod) and self._failure(pod).counts
        ):
            self._plan.release.append(pod)
        else:
            self._status.uncounted_terminated_pods.failed.append(pod.uid)

    def _finish(self) -> None:
        """Add the first condition of the end, and the last one once all pods are counted."""
        end, status = self._end, self._status
        if end is None:
            return
        if end.type == _FAILURE_TARGET or (
            end.type == _SUCCESS_MET and _true(self._stored, _SUCCESS_MET) is None
        ):
            status.conditions.append(end)
            return
        uncounted = status.uncounted_terminated_pods
        if uncounted.succeeded or uncounted.failed or self._terminating:
            return
        if self._pods.tracked:
            return
        type_ = COMPLETE if end.type == _SUCCESS_MET else FAILED
        status.conditions.append(self._new(type_, end.reason, end.message))
        if type_ == FAILED:
            self._plan.events.append(("Warning", end.reason, end.message))
            return
        status.completion_time.CopyFrom(self._stamp())
        if self._spec.HasField("completions") and status.succeeded > self._spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._plan.events.append(("Warning", "TooManySucceededPods", message))
        self._plan.events.append(("Normal", "Completed", "Job completed"))
