"""Explain a pod from a replica's state: its place in the queue, attempts and nominations, too.

``Clock`` turns the queue's times into Unix seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from podsched.api.conditions import POD_SCHEDULED, condition_of, is_finished, is_terminating
from podsched.api.objects import Pod, Timestamp, timestamp
from podsched.ask.explain.decided import Recorded, add_record
from podsched.ask.explain.explanation import (
    explain_ended,
    explain_fit,
    reference,
    replace_wake_events,
)
from podsched.ask.explain.pod_group import pod_group_standing, standing_answer
from podsched.ask.explain.preempting import add_preemption
from podsched.ask.queues.waiting import add_admission
from podsched.decide.evaluation.filtering import counting_nominees
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import KIND as POD_GROUP
from podsched.framework.pods import PodInfo
from podsched.queue.standing import Standing, standing_of
from podsched.term.admission.units import unit_key
from podsched.term.set_aside import IGNORED
from podsched.term.state import SchedulingState
from podsched.v1.scheduling_pb2 import ExplainRequest, Explanation, PodState, QueueStanding

MAX_NOMINATIONS: Final = 50
#: Max nodes on which victims are searched for; also DefaultPreemption's default.
PREEMPTION_NODES: Final = 100
NOT_TRIED: Final = (
    "Nodes asked for are tried only while the pod waits. With -f or --kubeconfig they are tried as "
    "if the pod had no node."
)


@dataclass(frozen=True, slots=True)
class Clock:
    """The queue's time and Unix time, in seconds, read together."""

    queue: float
    unix: float

    def stamp(self, time: float) -> Timestamp:
        """Return a time of the queue's clock as a timestamp."""
        return timestamp(self.unix + time - self.queue)


def explain_live(
    state: SchedulingState,
    request: ExplainRequest,
    clock: Clock,
    stored: Pod | None = None,
    recorded: Recorded = Recorded(),
) -> Explanation | None:
    """Explain a pod or PodGroup as of now; None if it is unknown.

    stored: the stored pod, for pods that the state does not have: those that have ended or are set
    aside;
    recorded: what this replica has recorded about the pod.
    """
    key = f"{request.namespace}/{request.name}"
    if request.kind == POD_GROUP:
        return _explain_group(state, key, clock)
    info = state.cache.cluster.pods.get(key)
    if info is None:
        return _explain_stored(state, stored, key) if stored is not None else None
    held = state.cache.held.get(info.uid)
    answer = Explanation(
        pod=reference(held.info if held else info), scheduler_name=info.cls.scheduler_name
    )
    answer.answered_by.revision = state.revision
    answer.state = _state_of(state, info)
    runtime = state.profiles.get(info.cls.scheduler_name)
    _add_queue(answer, state, info, clock)
    add_admission(answer, state.admission, unit_key(info))
    if info.group:
        answer.pod_group.CopyFrom(pod_group_standing(state.cache.cluster, info.group))
    if answer.state == PodState.OTHER_SCHEDULER:
        answer.message = f"no profile here is called {info.cls.scheduler_name}"
    elif answer.state == PodState.PENDING and runtime is not None:
        _add_nominations(answer, state, info)
        _add_fit(answer, runtime.unmeasured(), state, info, request.nodes)
    if request.nodes and not answer.node_verdicts:
        answer.notes.append(NOT_TRIED)
    scoring = runtime.score if runtime is not None else ()
    add_record(answer, recorded, {named.name: named.weight for named in scoring})
    return answer


def _explain_stored(state: SchedulingState, pod: Pod, key: str) -> Explanation:
    """Explain a pod that the state does not have."""
    answer = explain_ended(pod)
    if is_finished(pod):
        return answer
    if pod.spec.node_name:
        answer.state = PodState.BOUND
    elif is_terminating(pod):
        answer.state = PodState.DELETING
    else:
        answer.state = PodState.PENDING
    reason = state.set_aside.reason("Pod", key)
    answer.message = IGNORED.format(reason) if reason else ""
    return answer


def _explain_group(state: SchedulingState, key: str, clock: Clock) -> Explanation | None:
    """Explain a PodGroup: its state, and the place of its first waiting member in the queue.

    Returns None if there is neither the group nor a member of it.
    """
    answer = standing_answer(state.cache.cluster, key)
    if answer is None:
        return None
    answer.answered_by.revision = state.revision
    members = sorted(state.cache.cluster.members(key), key=lambda pod: pod.name)
    waiting = [pod for pod in members if pod.uid not in state.cache.held]
    answer.state = PodState.PENDING if waiting else PodState.BOUND
    add_admission(answer, state.admission, key)
    if waiting:
        answer.scheduler_name = waiting[0].cls.scheduler_name
        _add_queue(answer, state, waiting[0], clock)
        runtime = state.profiles.get(answer.scheduler_name)
        if runtime is not None:
            replace_wake_events(answer, runtime)
    return answer


def _add_fit(
    answer: Explanation,
    runtime: ProfileRuntime,
    state: SchedulingState,
    info: PodInfo,
    nodes: Sequence[str],
) -> None:
    fitting = explain_fit(answer, runtime, state.cache.cluster, info, nodes)
    if fitting is not None:
        add_preemption(answer, fitting, PREEMPTION_NODES)
    # If the pod is gated, or would fit by now, no plugin rejects it here.
    if answer.queue.gating_plugin or not answer.wake_events:
        replace_wake_events(answer, runtime)


def _state_of(state: SchedulingState, info: PodInfo) -> PodState:
    if info.uid in state.cache.assumed:
        return PodState.BINDING
    if info.node_name:
        return PodState.BOUND
    if info.terminating:
        return PodState.DELETING
    if info.cls.scheduler_name not in state.profiles:
        return PodState.OTHER_SCHEDULER
    return PodState.PENDING


def _add_queue(answer: Explanation, state: SchedulingState, info: PodInfo, clock: Clock) -> None:
    standing = standing_of(state.queue, info.uid, clock.queue)
    if standing is None:
        return
    answer.queue.CopyFrom(_queue(standing, clock))
    condition = condition_of(info.pod.status, POD_SCHEDULED)
    for failed in standing.pod.failures:
        answer.attempts.add(
            number=failed.number,
            outcome="Unschedulable" if failed.plugins else "Error",
            plugins=sorted(failed.plugins),
            time=clock.stamp(failed.time),
        )
    if answer.attempts:
        answer.attempts[-1].message = condition.message if condition is not None else ""


def _queue(standing: Standing, clock: Clock) -> QueueStanding:
    pod = standing.pod
    found = QueueStanding(
        queue=standing.queue,
        attempts=pod.attempts,
        unschedulable_count=pod.unschedulable_count,
        consecutive_errors=pod.consecutive_errors_count,
        backoff_left_seconds=standing.backoff_left,
        backoff_seconds=standing.backoff,
        unschedulable_plugins=sorted(pod.unschedulable_plugins),
        pending_plugins=sorted(pod.pending_plugins),
        gating_plugin=standing.gate,
        gate_reasons=standing.gate_reasons,
        ahead=standing.ahead,
        pods_ahead=[reference(other) for other in standing.ahead_first],
        waiting=standing.waiting,
        timeout_left_seconds=standing.timeout_left,
        since=clock.stamp(pod.timestamp),
    )
    if pod.initial_attempt_timestamp is not None:
        found.first_attemptable.CopyFrom(clock.stamp(pod.initial_attempt_timestamp))
    return found


def _add_nominations(answer: Explanation, state: SchedulingState, info: PodInfo) -> None:
    cluster = state.cache.cluster
    own = cluster.nominator.node_of(info.uid) or info.nominated_node_name
    if own:
        answer.nominations.add(pod=reference(info), node_name=own, own=True)
    for name in sorted(cluster.nominator.nodes()):
        for other in counting_nominees(info, cluster.nominator.pods(name)):
            if len(answer.nominations) < MAX_NOMINATIONS:
                answer.nominations.add(pod=reference(other), node_name=name)
