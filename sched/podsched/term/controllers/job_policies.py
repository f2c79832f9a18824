"""Apply a Job's policies to the failures and successes of its pods. Pure.

Source: pkg/controller/job (pod_failure_policy.go, success_policy.go, backoff_utils.go) of
Kubernetes 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from podsched.api.objects import (
    ContainerStatus,
    Job,
    Pod,
    PodFailurePolicyOnExitCodes,
    PodFailurePolicyRule,
    key_of,
)
from podsched.lib.backoff import exponential
from podsched.term.controllers.job_indexes import Indexes
from podsched.term.controllers.pod_records import OwnedPod

#: Seconds before a failed pod is replaced, for the first failure and at most.
_FIRST_BACKOFF, _LONGEST_BACKOFF = 10.0, 600.0


class Failure(NamedTuple):
    """The result of a pod failure policy for a failed pod."""

    counts: bool = True
    """Towards backoffLimit."""
    action: str = ""
    """Of the rule that matched."""
    message: str = ""
    """Why the Job fails, if it does."""


def judge_failure(job: Job, pod: Pod | None) -> Failure:
    """Apply a Job's pod failure policy to a failed pod; ``pod`` is None if it is gone."""
    if pod is None:
        return Failure()
    for number, rule in enumerate(job.spec.pod_failure_policy.rules):
        why = _match(rule, pod)
        if not why:
            continue
        message = f"{why} matching {rule.action} rule at index {number}"
        return Failure(
            rule.action != "Ignore", rule.action, message if rule.action == "FailJob" else ""
        )
    return Failure()


def _match(rule: PodFailurePolicyRule, pod: Pod) -> str:
    """Return why a rule matches, "" if it does not."""
    name = key_of(pod)
    if rule.HasField("on_exit_codes"):
        statuses = [*pod.status.container_statuses, *pod.status.init_container_statuses]
        found = next((each for each in statuses if _has_code(each, rule.on_exit_codes)), None)
        if found is None:
            return ""
        code = found.state.terminated.exit_code
        return f"Container {found.name} for pod {name} failed with exit code {code}"
    wanted = {(pattern.type, pattern.status) for pattern in rule.on_pod_conditions}
    for condition in pod.status.conditions:
        if (condition.type, condition.status) in wanted:
            return f"Pod {name} has condition {condition.type}"
    return ""


def _has_code(status: ContainerStatus, wanted: PodFailurePolicyOnExitCodes) -> bool:
    code = status.state.terminated.exit_code
    if not status.state.HasField("terminated") or code == 0:
        return False
    if wanted.HasField("container_name") and wanted.container_name != status.name:
        return False
    return (code in wanted.values) == (wanted.operator == "In")


def success_of(job: Job, succeeded: Indexes) -> str:
    """Return why a Job's success policy is met, "" if it is not."""
    if not succeeded.intervals:
        return ""
    for number, rule in enumerate(job.spec.success_policy.rules):
        count = rule.succeeded_count if rule.HasField("succeeded_count") else None
        if rule.HasField("succeeded_indexes"):
            wanted = Indexes.parse(rule.succeeded_indexes, job.spec.completions)
            shared = wanted.shared_with(succeeded)
            enough = len(wanted) if count is None else min(count, len(wanted))
            if wanted.intervals and shared >= enough:
                return f"Matched rules at index {number}"
        elif count is not None and len(succeeded) >= count:
            return f"Matched rules at index {number}"
    return ""


def backoff_left(pods: Iterable[OwnedPod], now: float) -> float:
    """Return the seconds before a pod may be created, from the pods of a Job that have finished.

    now: Unix time. kube-controller-manager remembers the failures instead, until it restarts.
    """
    finished = [pod for pod in pods if pod.finished_at and not _was_dropped(pod)]
    success = max((pod.finished_at for pod in finished if pod.phase == "Succeeded"), default=0.0)
    since = [
        pod.finished_at
        for pod in finished
        if pod.phase != "Succeeded" and pod.finished_at > success
    ]
    return pause_left(len(since), max(since, default=0.0), now)


def _was_dropped(pod: OwnedPod) -> bool:
    """Return whether a pod was deleted as surplus, or for its queue: its end is no failure."""
    return bool(pod.eviction) or (pod.is_deleting and not pod.is_tracked)


def pause_left(failures: int, last: float, now: float) -> float:
    """Return the seconds left of the backoff after ``failures`` failures, the last at ``last``."""
    return max(0.0, last + exponential(_FIRST_BACKOFF, _LONGEST_BACKOFF, failures) - now)


def restarts_exceed(job: Job, pods: Iterable[OwnedPod]) -> bool:
    """Return whether containers that are restarted in place have failed too often."""
    if job.spec.template.spec.restart_policy != "OnFailure":
        return False
    total = sum(pod.all_restarts for pod in pods if pod.phase in ("Running", "Pending"))
    return total >= max(1, job.spec.backoff_limit)
