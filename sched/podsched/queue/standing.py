"""Describe a pod's place in the scheduling queue, for explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsched.framework.pods import PodInfo, QueuedPodInfo


@dataclass(frozen=True, slots=True)
class Standing:
    """A pod's place in the queue; durations are in seconds.

    ``queue``: active, backoff, unschedulable, gated or in-flight. ``backoff``: the full backoff
    after the last failure. ``timeout_left``: time until the pod is tried again even without an
    event, None if it will not be. ``ahead``: the number of pods in activeQ that come before it, or
    would if it were woken now; ``ahead_first``: the first of these pods. ``waiting``: the number of
    pods by queue. ``gate_reasons``: why its gating plugin rejects it.
    """

    queue: str
    pod: QueuedPodInfo
    backoff: float = 0.0
    backoff_left: float = 0.0
    timeout_left: float | None = None
    ahead: int = 0
    ahead_first: tuple[PodInfo, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    gate_reasons: tuple[str, ...] = ()
