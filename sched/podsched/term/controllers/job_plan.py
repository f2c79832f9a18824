"""Decide what to do for a Job, from the stored Job and its stored pods. Pure.

``job_counting`` counts the pods that have finished.

A Job ends with two conditions; the first is stored before the last finalizers are removed:

    enough pods have succeeded            SuccessCriteriaMet; other pods are deleted; Complete
    too many have failed, the Job has run FailureTarget; other pods are deleted and count as
    for too long, or a policy applies     failed; Failed

Source: pkg/controller/job/job_controller.go of Kubernetes 1.36 (syncJob, manageJob).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podsched.api.conditions import FALSE, TRUE, condition_of, is_terminating, true_condition
from podsched.api.objects import (
    Job,
    JobStatus,
    Timestamp,
    WorkloadCondition,
    copy_of,
    seconds_of,
    timestamp,
)
from podsched.api.queue_labels import QUEUE_NAME
from podsched.lib.due_times import earliest
from podsched.term.controllers.job_counting import SUCCESS_MET, Counting
from podsched.term.controllers.job_indexes import Indexes
from podsched.term.controllers.job_pods import JobPods, Seen
from podsched.term.controllers.job_policies import backoff_left, restarts_exceed, success_of
from podsched.term.controllers.owned_pods import MOST_AT_ONCE
from podsched.term.controllers.pod_records import OwnedPod, removal_rank

COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
_FAILURE_TARGET: Final = "FailureTarget"
_SUSPENDED: Final = "Suspended"


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
    release: Sequence[OwnedPod] = ()
    """Counted pods, whose finalizer is to be removed."""
    events: list[tuple[str, str, str]] = field(default_factory=list)
    """Type, reason and message, once the status is stored."""
    wait: float | None = None
    """Seconds after which the Job has to be examined again, without a change."""


def plan(seen: Seen) -> Plan:
    """Return what to do for a Job that is not finished."""
    return _Planner(seen).plan()


def finished(job: Job) -> WorkloadCondition | None:
    """Return the condition with which a Job has ended, None if it has not."""
    return true_condition(job.status, COMPLETE) or true_condition(job.status, FAILED)


class _Planner:
    """Plans for one Job, at one time."""

    def __init__(self, seen: Seen) -> None:
        self._job, self._pods, self._now = seen.job, seen.pods, seen.now
        self._seen = seen
        self._spec = seen.job.spec
        self._stored = seen.job.status
        self._status = copy_of(seen.job.status)
        self._status.uncounted_terminated_pods.SetInParent()
        self._plan = Plan(self._status)
        self._active: Sequence[OwnedPod] = seen.active
        self._terminating = len(seen.pods.live) - len(seen.active)
        self._terminating += sum(pod.is_terminating for pod in seen.pods.others.values())
        self._judged = JobPods(seen)
        self._end: WorkloadCondition | None = None
        """The condition with which the Job will end."""
        self._counting = Counting(seen, self._judged, self._status)

    def plan(self) -> Plan:
        """Return the plan; call it once."""
        self._counting.count_gone()
        if _waits_in_queue(self._seen):
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
        self._plan.release = self._counting.track(self._end)
        self._finish()
        self._status.active = len(active)
        self._status.ready = sum(pod.ready_at is not None for pod in active)
        self._status.terminating = self._terminating
        return self._plan

    def _stamp(self) -> Timestamp:
        return timestamp(self._now, whole=True)

    # ------------------------------------------------------------------ the end

    def _new(self, type_: str, reason: str, message: str, status: str = TRUE) -> WorkloadCondition:
        made = WorkloadCondition(type=type_, status=status, reason=reason, message=message)
        made.last_probe_time.CopyFrom(self._stamp())
        made.last_transition_time.CopyFrom(self._stamp())
        return made

    def _look_for_the_end(self) -> None:
        """Find out whether the Job must end, and why."""
        target = true_condition(self._stored, _FAILURE_TARGET)
        # What is stored decides first: an end that has begun does not change.
        self._end = true_condition(self._stored, SUCCESS_MET)
        if self._end is None and target is not None:
            self._end = self._new(FAILED, target.reason, target.message)
        if self._end is None and (reason := self._failure_reason()) is not None:
            self._end = self._new(_FAILURE_TARGET, *reason)
        if self._end is None and self._judged.indexed:
            met = success_of(self._job, self._judged.ok)
            if met:
                self._end = self._new(SUCCESS_MET, "SuccessPolicy", met)

    def _failure_reason(self) -> tuple[str, str] | None:
        """Return reason and message if the Job fails."""
        spec = self._spec
        if spec.HasField("pod_failure_policy"):
            for pod in self._judged.ended():
                if self._judged.is_failed(pod) and (message := self._judged.failure(pod).message):
                    return "PodFailurePolicy", message
        if self._judged.failed > spec.backoff_limit or restarts_exceed(
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
        if not self._judged.by_index:
            return None
        failed, ok = len(self._judged.failed_indexes), len(self._judged.ok)
        if spec.HasField("max_failed_indexes") and failed > spec.max_failed_indexes:
            message = "Job has exceeded the specified maximal number of failed indexes"
            return "MaxFailedIndexesExceeded", message
        if failed and failed + ok >= spec.completions:
            return "FailedIndexes", "Job has failed indexes"
        return None

    def _wait(self, seconds: float) -> None:
        self._plan.wait = earliest(self._plan.wait, seconds)

    # ------------------------------------------------------------------ pods

    def _manage(self) -> Sequence[OwnedPod]:
        """Decide which pods to create and to drop; return those that stay active."""
        active = self._active
        if not is_terminating(self._job):
            if self._spec.suspend:
                self._plan.drop = active
            else:
                self._scale()
            dropped = {pod.uid for pod in self._plan.drop}
            active = [pod for pod in active if pod.uid not in dropped]
            self._terminating += len(dropped)
        enough = self._spec.completions if self._spec.HasField("completions") else 1
        runs = active or self._seen.creating or self._plan.create
        if not runs and self._judged.succeeded >= enough:
            message = "Reached expected number of succeeded pods"
            self._end = self._new(SUCCESS_MET, "CompletionsReached", message)
        else:
            self._note_suspension()
        return active

    def _note_suspension(self) -> None:
        known = condition_of(self._status, _SUSPENDED)
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
            wanted = max(0, min(spec.completions - self._judged.succeeded, spec.parallelism))
        else:
            # The pods share a work queue: the first success means that it is empty.
            wanted = there if self._judged.succeeded else spec.parallelism
        # A pod that is not seen yet may be the one to drop.
        too_many = 0 if self._seen.creating else max(0, there - wanted)
        surplus = _surplus(self._judged, self._seen, too_many)
        if surplus:
            self._plan.drop = surplus
            return
        missing = wanted - there - (self._terminating if self._judged.only_failed else 0)
        if missing > 0:
            self._create(min(missing, MOST_AT_ONCE))

    def _create(self, count: int) -> None:
        if not self._judged.by_index:
            known = {pod.uid: pod for pod in self._pods.others.values()} | {**self._seen.ended}
            left = backoff_left(known.values(), self._now)
            if left > 0:
                self._wait(left)
                return
        if not self._judged.indexed:
            self._plan.create = [NewPod(-1, {})] * count
            return
        taken = self._judged.ok | self._judged.failed_indexes | self._seen.taken()
        if self._judged.only_failed:
            taken |= Indexes.of(
                pod.completion for pod in self._pods.others.values() if pod.is_terminating
            )
        found = taken.first_missing(count, self._spec.completions)
        waits = {index: self._judged.pause(index, self._now) for index in found}
        due = [index for index in found if waits[index] <= 0]
        if found and not due:
            self._wait(min(waits.values()))
        self._plan.create = [NewPod(index, self._judged.annotations(index)) for index in due]

    def _finish(self) -> None:
        """Add the first condition of the end, and the last one once all pods are counted."""
        end, status = self._end, self._status
        if end is None:
            return
        if end.type == _FAILURE_TARGET or (
            end.type == SUCCESS_MET and true_condition(self._stored, SUCCESS_MET) is None
        ):
            status.conditions.append(end)
            return
        uncounted = status.uncounted_terminated_pods
        if uncounted.succeeded or uncounted.failed or self._terminating:
            return
        if self._pods.tracked:
            return
        type_ = COMPLETE if end.type == SUCCESS_MET else FAILED
        status.conditions.append(self._new(type_, end.reason, end.message))
        if type_ == FAILED:
            self._plan.events.append(("Warning", end.reason, end.message))
            return
        status.completion_time.CopyFrom(self._stamp())
        if self._spec.HasField("completions") and status.succeeded > self._spec.completions:
            message = "Too many succeeded pods running after completion count reached"
            self._plan.events.append(("Warning", "TooManySucceededPods", message))
        self._plan.events.append(("Normal", "Completed", "Job completed"))


def _waits_in_queue(seen: Seen) -> bool:
    """Return whether no pod of a Job in a queue has been admitted, or all were evicted again.

    With Kueue the Job would be suspended, so its start and its deadline count from later on.
    """
    if QUEUE_NAME not in seen.job.spec.template.metadata.labels:
        return False
    if seen.job.status.succeeded or seen.job.status.failed:
        return False
    return all(not pod.node or pod.eviction for pod in seen.pods.all.values())


def _surplus(pods: JobPods, seen: Seen, count: int) -> list[OwnedPod]:
    """Return at least ``count`` pods to drop, and all whose index is invalid or taken."""
    if not pods.indexed:
        return sorted(seen.active, key=removal_rank)[:count] if count else []
    indexes = {pod.completion for pod in seen.active}
    if (
        not count
        and len(indexes) == len(seen.active)
        and _are_valid(indexes, seen.job.spec.completions)
    ):
        return []
    # Of each index, the pod that would be removed last is kept.
    best: dict[int, OwnedPod] = {}
    for pod in sorted(seen.active, key=removal_rank):
        if pods.is_valid(pod):
            best[pod.completion] = pod
    kept = {pod.uid for pod in best.values()}
    found = [pod for pod in seen.active if pod.uid not in kept]
    if len(found) < count:
        found += sorted(best.values(), key=removal_rank)[: count - len(found)]
    return found


def _are_valid(indexes: set[int], completions: int) -> bool:
    return not indexes or (min(indexes) >= 0 and max(indexes) < completions)
