"""The cells of a pod's row, as kubectl shows them.

As kube-apiserver's printers.go (printPod): sidecars count as containers, and what an init container
does is told until the pod is initialized.
"""

from __future__ import annotations

from typing import Any

from podsched.api.resources import is_sidecar

NONE = "<none>"


def pod_ready(pod: Any, _: float) -> str:
    """Return how many of its containers are ready."""
    sidecars = _sidecars(pod)
    ready = sum(
        status.ready and status.started
        for status in pod.status.init_container_statuses
        if status.name in sidecars
    )
    if not _initializing(pod):
        ready += sum(map(_is_ready, pod.status.container_statuses))
    return f"{ready}/{len(pod.spec.containers) + len(sidecars)}"


def pod_restarts(pod: Any, _: float) -> str:
    """Return how often its containers were started anew: of init containers, while they run."""
    init, status = pod.status.init_container_statuses, pod.status
    if _initializing(pod):
        return str(sum(each.restart_count for each in init))
    sidecars = _sidecars(pod)
    lasting = (each for each in init if each.name in sidecars)
    return str(sum(each.restart_count for each in (*lasting, *status.container_statuses)))


def pod_status(pod: Any, _: float) -> str:
    """Return its phase, or what says more about it."""
    if pod.metadata.HasField("deletion_timestamp"):
        return "Unknown" if pod.status.reason == "NodeLost" else "Terminating"
    reason = str(pod.status.reason or pod.status.phase)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            reason = condition.reason
    if initializing := _initializing(pod):
        return initializing
    for status in reversed(pod.status.container_statuses):
        reason = _of_container(status) or reason
    if reason == "Completed" and any(map(_is_ready, pod.status.container_statuses)):
        return "Running" if _has(pod, "Ready") else "NotReady"
    return reason


def _initializing(pod: Any) -> str:
    """Return what the first init container does that has not done its part; "" if all have."""
    if _has(pod, "Initialized"):
        return ""
    sidecars = _sidecars(pod)
    for number, status in enumerate(pod.status.init_container_statuses):
        ended = status.state.terminated if status.state.HasField("terminated") else None
        if ended is not None and not ended.exit_code:
            continue
        if status.name in sidecars and status.started:
            continue
        waits = status.state.waiting.reason
        if ended is None and waits in ("", "PodInitializing"):
            return f"Init:{number}/{len(pod.spec.init_containers)}"
        return f"Init:{_of_container(status)}"
    return ""


def _is_ready(status: Any) -> bool:
    return bool(status.ready and status.state.HasField("running"))


def _sidecars(pod: Any) -> set[str]:
    return {each.name for each in pod.spec.init_containers if is_sidecar(each)}


def _has(pod: Any, condition: str) -> bool:
    return any(c.type == condition and c.status == "True" for c in pod.status.conditions)


def _of_container(status: Any) -> str:
    """Return why a container does not run; "" if it does."""
    state = status.state
    if state.waiting.reason:
        return str(state.waiting.reason)
    if state.HasField("terminated"):
        ended = state.terminated
        if ended.reason:
            return str(ended.reason)
        return f"Signal:{ended.signal}" if ended.signal else f"ExitCode:{ended.exit_code}"
    return ""


def readiness_gates(pod: Any, _: float) -> str:
    """Return how many of its readiness gates are open."""
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    if not gates:
        return NONE
    true = {c.type for c in pod.status.conditions if c.status == "True"}
    return f"{sum(gate in true for gate in gates)}/{len(gates)}"
