"""What the agent remembers of pods: since when each is in its state, and how many have a phase."""

from __future__ import annotations

from typing import NamedTuple

from podsched.api.objects import Pod
from podsched.telemetry.metrics import AgentMetrics


class _Seen(NamedTuple):
    """A pod's state, and the time at which it was first seen in it."""

    state: tuple[str, str, int]
    since: float


class FirstSeen:
    """The times, by key of the pod, at which pods were first seen in their present states."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def since(self, key: str, pod: Pod, now: float) -> float:
        """Return the time at which the pod was first seen in its present state."""
        metadata = pod.metadata
        deleting = metadata.HasField("deletion_timestamp")
        mark = 1 + metadata.deletion_grace_period_seconds if deleting else 0
        state = (metadata.uid, pod.status.phase, mark)
        seen = self._seen.get(key)
        if seen is None or seen.state != state:
            seen = self._seen[key] = _Seen(state, now)
        return seen.since

    def forget(self, key: str) -> None:
        """Forget a pod that is gone."""
        self._seen.pop(key, None)


class PhaseCounts:
    """The number of pods of each phase, for the gauge."""

    def __init__(self, metrics: AgentMetrics) -> None:
        self._metrics = metrics
        self._phases: dict[str, str] = {}

    def count(self, key: str, pod: Pod | None) -> None:
        """Count a pod in its present phase; None: it is not counted any more."""
        before = self._phases.pop(key, None)
        if before is not None:
            self._metrics.pods.labels(before).inc(-1)
        if pod is not None:
            phase = self._phases[key] = pod.status.phase or "Pending"
            self._metrics.pods.labels(phase).inc()
