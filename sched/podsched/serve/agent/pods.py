"""Decides the actions of a hollow kubelet for a pod, and their times.

Pure: ``step`` returns what to do for a pod at ``now`` (Unix seconds), or when to call it again. The
only state is the time at which the pod was first seen in its present state. It is only used for
precision, because the API's times are whole seconds: a restarted agent does the same without it.

    state of the pod                      becomes
    bound, Pending, no room on its node   Failed at once, OutOfcpu and so on (``admission``)
    bound, Pending                        Running, run_delay seconds after its binding
    Running, NodeNotReady                 Ready, once the node is Ready
    Running, a readiness gate changes     Ready while all its gates are True
    Running, podsched.io/run-seconds      Succeeded after these seconds (Failed if the annotation
                                          podsched.io/exit-code is not 0)
    Running, of a Job                     Succeeded after ``job_seconds``, without that annotation
    Running, activeDeadlineSeconds        Failed (DeadlineExceeded) after these seconds
    being deleted, not running            removed at once
    being deleted, Running                removed after its grace period
    ... with finalizers                   Failed first: others may wait for that
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from podsched.api.codec import format_time, write
from podsched.api.conditions import (
    FALSE,
    POD_READY,
    TRUE,
    bound_at,
    condition_of,
    is_finished,
    set_pod_condition,
)
from podsched.api.objects import (
    Container,
    Pod,
    PodCondition,
    PodStatus,
    Timestamp,
    latest_time,
    seconds_of,
    timestamp,
)
from podsched.api.owners import controller_of
from podsched.api.resources import is_sidecar
from podsched.serve.agent.admission import Rejection
from podsched.serve.client.cluster import eviction, object_patch
from podsched.v1.api_pb2 import EvictRequest, PatchRequest

RUN_SECONDS_ANNOTATION = "podsched.io/run-seconds"
EXIT_CODE_ANNOTATION = "podsched.io/exit-code"
_COMPLETED = "PodCompleted"
#: Reason and message of kubelet's active_deadline.go, and the exit code after SIGKILL.
DEADLINE_EXCEEDED = "DeadlineExceeded"
_DEADLINE_MESSAGE = "Pod was active on the node longer than the specified deadline"
_SIGKILLED = 137
_HIGHEST_CODE = 255
_NODE_NOT_READY = "NodeNotReady"
_GATES_NOT_READY = "ReadinessGatesNotReady"


class _State(NamedTuple):
    """What a condition says."""

    status: str
    reason: str = ""
    message: str = ""


#: Conditions of a running pod; readiness gates may keep it from being Ready.
_OF_RUNNING = dict.fromkeys(
    ("PodReadyToStartContainers", "Initialized", POD_READY, "ContainersReady", "PodScheduled"),
    _State(TRUE),
)


class Later(NamedTuple):
    """Call ``step`` again at this time."""

    at: float


Action = PatchRequest | EvictRequest | Later
"""A patch of the pod's status, the deletion of the pod at once, or nothing before a time."""


def step(
    pod: Pod,
    seen: float,
    now: float,
    run_delay: float,
    *,
    node_ready: bool = True,
    job_seconds: float = 0.0,
) -> Action | None:
    """Return the next action for a bound pod; None if nothing is to be done until it changes.

    seen: time at which it was first seen in its present state. run_delay: seconds from a binding
    until the pod runs. job_seconds: how long a Job's pod runs that does not say it itself.
    """
    if pod.metadata.HasField("deletion_timestamp"):
        return _removal(pod, seen, now)
    if is_finished(pod):
        return None
    if pod.status.phase == "Running":
        if node_ready and _is_readiness_outdated(pod):
            return _running(pod, now)
        return _completion(pod, seen, now, job_seconds)
    at = latest_time(bound_at(pod), seen) + run_delay
    return Later(at) if at > now else _running(pod, now)


def _removal(pod: Pod, seen: float, now: float) -> Action:
    grace = pod.metadata.deletion_grace_period_seconds
    if grace > 0 and pod.status.phase == "Running":
        # The timestamp is in whole seconds; a process that ignores SIGTERM lives the whole period.
        at = min(seen + grace, seconds_of(pod.metadata.deletion_timestamp) + 1)
        if at > now:
            return Later(at)
    if pod.metadata.finalizers and not is_finished(pod):
        return _ended(pod, now, _SIGKILLED)
    return eviction(pod, "", "", grace=0)


def _completion(pod: Pod, seen: float, now: float, job_seconds: float) -> Action | None:
    started = pod.status.start_time if pod.status.HasField("start_time") else None
    ends: list[tuple[float, Callable[[Pod, float], PatchRequest]]] = []
    span = run_seconds(pod)
    if span is None and _is_of_job(pod):
        span = job_seconds
    if span is not None:
        ends.append((latest_time(started, seen) + span, _finished))
    if pod.spec.active_deadline_seconds > 0:
        ends.append((latest_time(started, seen) + pod.spec.active_deadline_seconds, _too_long))
    if not ends:
        return None
    at, end = min(ends, key=lambda each: each[0])
    return Later(at) if at > now else end(pod, now)


def _is_readiness_outdated(pod: Pod) -> bool:
    """Return whether Ready must change; what others have set to False for their reasons stays."""
    ready = condition_of(pod.status, POD_READY)
    if ready is None or (
        ready.status != TRUE and ready.reason not in (_NODE_NOT_READY, _GATES_NOT_READY)
    ):
        return False
    wanted = _readiness(pod)
    return (ready.status, ready.message) != (wanted.status, wanted.message)


def _readiness(pod: Pod) -> _State:
    """Return the condition Ready of a running pod (GeneratePodReadyCondition of kubelet)."""
    shut = []
    for gate in pod.spec.readiness_gates:
        name, found = gate.condition_type, condition_of(pod.status, gate.condition_type)
        if found is None:
            shut.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif found.status != TRUE:
            told = f'is not "True", but {found.status}'
            shut.append(f'the status of pod readiness gate "{name}" {told}')
    return _State(FALSE, _GATES_NOT_READY, ", ".join(shut)) if shut else _State(TRUE)


def _is_of_job(pod: Pod) -> bool:
    owner = controller_of(pod.metadata)
    return owner is not None and owner.kind == "Job"


def run_seconds(pod: Pod) -> float | None:
    """Return the seconds after which a pod says that it finishes; None: it does not."""
    return _number(pod, RUN_SECONDS_ANNOTATION)


def _number(pod: Pod, annotation: str) -> float | None:
    """Return the value of an annotation; None if it is missing or invalid."""
    text = pod.metadata.annotations.get(annotation)
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _running(pod: Pod, now: float) -> PatchRequest:
    stamp = timestamp(now, whole=True)
    conditions = {**_OF_RUNNING, POD_READY: _readiness(pod)}
    running = {"running": {"startedAt": _started(pod, stamp)}}
    status = {
        "phase": "Running",
        "conditions": _with_conditions(pod, stamp, conditions),
        **_containers(pod, running, ready=True),
    }
    return _patch(pod, status, stamp)


def _containers(pod: Pod, state: Mapping[str, Any], *, ready: bool) -> dict[str, Any]:
    """Return the fields with the statuses of containers and sidecars, all in the same state."""
    fields = {"containerStatuses": _statuses(pod.spec.containers, state, ready=ready)}
    if sidecars := [each for each in pod.spec.init_containers if is_sidecar(each)]:
        fields["initContainerStatuses"] = _statuses(sidecars, state, ready=ready)
    return fields


def _statuses(
    containers: Iterable[Container], state: Mapping[str, Any], *, ready: bool
) -> list[dict[str, Any]]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in containers
    ]


def _finished(pod: Pod, now: float) -> PatchRequest:
    code = math.ceil(_number(pod, EXIT_CODE_ANNOTATION) or 0)
    return _ended(pod, now, min(code, _HIGHEST_CODE))


def _too_long(pod: Pod, now: float) -> PatchRequest:
    reason_fields = {"reason": DEADLINE_EXCEEDED, "message": _DEADLINE_MESSAGE}
    return _ended(pod, now, _SIGKILLED, reason_fields)


def _ended(
    pod: Pod, now: float, code: int, reason_fields: Mapping[str, str] | None = None
) -> PatchRequest:
    """Return the status of a finished pod.

    code: exit code of its containers. reason_fields: reason and message of the status, if any.
    """
    stamp = timestamp(now, whole=True)
    not_ready = _State(FALSE, "PodFailed" if code else _COMPLETED)
    conditions = {
        "PodReadyToStartContainers": _State(FALSE),
        "Initialized": _State(TRUE, "" if code else _COMPLETED),
        POD_READY: not_ready,
        "ContainersReady": not_ready,
    }
    terminated = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": _started(pod, stamp),
        "finishedAt": format_time(stamp),
    }
    status = {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _with_conditions(pod, stamp, conditions),
        **_containers(pod, {"terminated": terminated}, ready=False),
    }
    status |= reason_fields or {}
    return _patch(pod, status, stamp)


def rejected(pod: Pod, rejection: Rejection, now: float) -> PatchRequest:
    """Return the status of a pod that its node rejects."""
    status = {"phase": "Failed", "reason": rejection.reason, "message": rejection.message}
    return _patch(pod, status, timestamp(now, whole=True))


def is_waiting(pod: Pod) -> bool:
    """Return whether a bound pod is still to be started."""
    if pod.metadata.HasField("deletion_timestamp") or is_finished(pod):
        return False
    return pod.status.phase != "Running"


def _with_conditions(
    pod: Pod, now: Timestamp, wanted: Mapping[str, _State]
) -> list[dict[str, Any]]:
    """Return all of the pod's conditions for a patch, with ``wanted`` by their types."""
    status = PodStatus(conditions=pod.status.conditions)
    for name, state in wanted.items():
        set_pod_condition(status, PodCondition(type=name, **state._asdict()), now)
    return [write(condition) for condition in status.conditions]


def _started(pod: Pod, now: Timestamp) -> str:
    """Return the pod's start time: that of the first status that its node writes, as kubelet's."""
    return format_time(pod.status.start_time if pod.status.HasField("start_time") else now)


def _patch(pod: Pod, status: dict[str, Any], now: Timestamp) -> PatchRequest:
    # With the resourceVersion, because the list of conditions is replaced as a whole, and a
    # condition added concurrently must not be lost.
    return object_patch(pod, {"status": {"startTime": _started(pod, now), **status}})
