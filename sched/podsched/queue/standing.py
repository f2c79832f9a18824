"""Describe a pod's place in the scheduling queue, for explanations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.pending_pods import UNSCHEDULABLE
from podsched.queue.scheduling_queue import SchedulingQueue

#: How many of the pods ahead of another pod are named.
FIRST = 10


@dataclass(frozen=True, slots=True)
class Standing:
    """A pod's place in the queue; durations are in seconds.

    ``queue``: active, backoff, unschedulable, gated or in-flight. ``backoff``: the full backoff
    after the last failure. ``timeout_left``: time until the pod is tried again even without an
    event, None if it will not be. ``ahead``: the number of pods in activeQ that come before it, or
    would if it were woken now; ``ahead_first``: the first of these. ``waiting``: the number of pods
    by queue. ``gate``: the plugin that keeps it out of activeQ, or "", and ``gate_reasons`` why.
    """

    queue: str
    pod: QueuedPodInfo
    backoff: float = 0.0
    backoff_left: float = 0.0
    timeout_left: float | None = None
    ahead: int = 0
    ahead_first: tuple[PodInfo, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    gate: str = ""
    gate_reasons: tuple[str, ...] = ()


def standing_of(queue: SchedulingQueue, uid: str, now: float) -> Standing | None:
    """Return a pod's place in the queue, None if it is not there; O(pods of activeQ)."""
    pending, place = queue.pending, queue.place(uid)
    flight = queue.in_flight.get(uid)
    if flight is not None:
        return Standing(place, flight.pod, waiting=pending.counts())
    pod = pending.get(uid)
    if pod is None:
        return None
    gate, reasons = pending.gates.refusal(pod)
    ahead, first = pending.active.before(pending.order(pod), FIRST)
    return Standing(
        place,
        pod,
        backoff=pending.backoff.times.duration(pod),
        backoff_left=pending.backoff.times.left(pod, now),
        timeout_left=queue.timeouts.left(pod, now) if place == UNSCHEDULABLE else None,
        ahead=ahead,
        ahead_first=tuple(other.info for other in first),
        waiting=pending.counts(),
        gate=gate,
        gate_reasons=reasons,
    )
