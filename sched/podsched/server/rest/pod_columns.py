"""The cells of a pod's row, as kubectl shows them."""

from __future__ import annotations

from typing import Any

NONE = "<none>"


def pod_ready(pod: Any, _: float) -> str:
    """Return how many of its containers are ready."""
    ready = sum(status.ready for status in pod.status.container_statuses)
    return f"{ready}/{len(pod.spec.containers)}"


def pod_restarts(pod: Any, _: float) -> str:
    """Return how often its containers were started anew."""
    return str(sum(status.restart_count for status in pod.status.container_statuses))


def pod_status(pod: Any, _: float) -> str:
    """Return its phase, or what says more about it."""
    if pod.metadata.HasField("deletion_timestamp"):
        return "Unknown" if pod.status.reason == "NodeLost" else "Terminating"
    reason = str(pod.status.reason or pod.status.phase)
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.reason == "SchedulingGated":
            reason = condition.reason
    for status in reversed(pod.status.container_statuses):
        reason = _of_container(status) or reason
    return reason


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
