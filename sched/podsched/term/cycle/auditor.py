"""Find pods whose wake-up was missed.

While there is nothing to schedule, a sample of the unschedulable pods is filtered again against the
live columns. Queueing hints decide which pods wait; with a wrong hint, a pod that fits would wait
for up to five minutes. Such a pod is woken at once, counted by the event that should have woken it,
and logged, so that the hint can be fixed.

Only pods rejected by Filter plugins are checked: pods held back by Permit or a gate may well fit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from podsched.cache.changes import Change
from podsched.decide.decider import Decider
from podsched.decide.evaluation.selection import Selector
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.term.state import SchedulingState

#: Events remembered to find the one that should have woken a pod.
REMEMBERED = 1024
UNKNOWN_EVENT = "unknown"


@dataclass(frozen=True, slots=True)
class MissedWakeUp:
    """A pod that fits and was not woken; ``event`` is the last that touched the node it fits."""

    pod: PodInfo
    node_name: str
    event: str
    plugins: frozenset[str]


class RecentEvents:
    """The last cluster events; which nodes they happened on is found out when somebody asks."""

    def __init__(self) -> None:
        self._events: deque[tuple[float, Change]] = deque(maxlen=REMEMBERED)

    def note(self, changes: Sequence[Change], now: float) -> None:
        for change in changes:
            self._events.append((now, change))

    def last(self, node_name: str, since: float) -> str:
        """Return the last event on the node after a moment, or else the last event at all."""
        recent = [change for at, change in self._events if at >= since]
        on_node = (change for change in reversed(recent) if _node_of(change) == node_name)
        found = next(on_node, recent[-1] if recent else None)
        return UNKNOWN_EVENT if found is None else found.event.text


def _node_of(change: Change) -> str:
    """Return the name of the node that an event happened on, "" for other objects."""
    obj = change.new if change.new is not None else change.old
    if obj is None or not hasattr(obj, "spec"):
        return ""
    node_name: str = getattr(obj.spec, "node_name", "")
    return node_name or str(obj.metadata.name)


class Auditor:
    """Looks at some unschedulable pods after others, in turn."""

    def __init__(
        self, state: SchedulingState, decider: Decider, recent: RecentEvents, sample: int
    ) -> None:
        self._state = state
        self._decider = decider
        self._recent = recent
        self._sample = sample
        self._at = 0
        self.audited = 0

    def audit(self) -> list[MissedWakeUp]:
        """Return the pods of the next sample that would fit; the caller wakes them."""
        missed = []
        for queued in self._next_sample():
            self.audited += 1
            if (found := self._look_at(queued)) is not None:
                missed.append(found)
        return missed

    def _next_sample(self) -> list[QueuedPodInfo]:
        pods = self._state.queue.unschedulable_pods()
        sample = list(islice(pods, self._at, self._at + self._sample))
        self._at = self._at + len(sample) if len(sample) == self._sample else 0
        return sample

    def _look_at(self, queued: QueuedPodInfo) -> MissedWakeUp | None:
        pod = queued.info
        runtime = self._state.profiles.get(pod.cls.scheduler_name)
        if runtime is None or queued.pending_plugins:
            return None
        filters = {named.name for named in runtime.filter}
        filters |= {named.name for named in runtime.pre_filter}
        if not queued.unschedulable_plugins or not queued.unschedulable_plugins <= filters:
            return None
        # Chosen as the scheduling cycle would, since a nominated pod fits where its class does not.
        choice = Selector(self._decider.evaluation(runtime, pod)).select(pod)
        if choice is None:
            return None
        node_name = self._state.cache.columns.names[choice.row]
        event = self._recent.last(node_name, queued.timestamp)
        return MissedWakeUp(pod, node_name, event, frozenset(queued.unschedulable_plugins))
