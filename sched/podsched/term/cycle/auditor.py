"""Find pods whose wake-up was missed.

While there is nothing to schedule, a sample of the unschedulable pods is filtered again against the
live columns. Queueing hints decide which pods wait; with a wrong hint, a pod that fits would wait
for up to five minutes. Such a pod is woken at once, counted by the event that should have woken it,
and logged, so that the hint can be fixed.

Only pods rejected by Filter plugins are checked: pods held back by Permit or a gate may well fit.
A member of a PodGroup is checked with its group: it may fit alone. Large groups are left out,
because a check must be over before the event loop's lag is felt. Pods of queues are left out, too:
they also wait for quota, for nodes of flavors, and for domains of their slices.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice

from podsched.cache.changes import Change
from podsched.cache.trial import Trial
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.accelerators.selection import Selector
from podsched.decide.decision import ShouldStop
from podsched.decide.pod_group import PodGroupAttempt
from podsched.decide.pod_group_members import member_order
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import pod_group
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import SUCCESS
from podsched.lib.event_loop import Turn
from podsched.telemetry.logs import get_logger
from podsched.term.admission.units import unit_key
from podsched.term.state import SchedulingState

_log = get_logger("scheduler")

#: Events remembered to find the one that should have woken a pod.
REMEMBERED = 1024
UNKNOWN_EVENT = "unknown"
#: Max members of a group that is checked; a decision for one takes some 60 us.
LARGEST_GROUP = 100
#: Max seconds of processor time for a sample. A group that takes longer is left out: for one that
#: does not fit, other orders of its members and a search may take a second.
LONGEST = 0.01


@dataclass(frozen=True, slots=True)
class MissedWakeUp:
    """A pod that fits and was not woken; ``event`` is the last one on the node that it fits."""

    pod: PodInfo
    node_name: str
    event: str
    plugins: frozenset[str]


class RecentEvents:
    """The last cluster events; nodes of events are computed only in ``last``, which is rare."""

    def __init__(self) -> None:
        self._events: deque[tuple[float, Change]] = deque(maxlen=REMEMBERED)

    def note(self, changes: Sequence[Change], now: float) -> None:
        for change in changes:
            self._events.append((now, change))

    def last(self, node_name: str, since: float) -> str:
        """Return the last event on the node since a time, or else the last event at all."""
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
    """Checks unschedulable pods, a sample at a time, in turn."""

    def __init__(
        self, state: SchedulingState, decider: AcceleratedDecider, recent: RecentEvents, sample: int
    ) -> None:
        self._state = state
        self._decider = decider
        self._recent = recent
        self._sample = sample
        self._at = 0
        self.audited = 0

    async def run(
        self,
        period: float,
        is_busy: Callable[[], bool],
        report: Callable[[int, Sequence[str]], None],
        activate: Callable[[Sequence[PodInfo]], None],
    ) -> None:
        """Check a sample every ``period`` seconds while there is nothing else to do, and wake pods.

        ``report`` gets the number of pods that were checked, and the events of those that fit.
        """
        turn = Turn()
        while True:
            await asyncio.sleep(period)
            await turn.wait()
            if is_busy():
                continue
            before = self.audited
            missed = self.audit(partial(turn.has_lasted, LONGEST))
            turn.end()
            report(self.audited - before, [found.event for found in missed])
            for found in missed:
                _log.warning(
                    "A pod that fits had not been woken",
                    pod=found.pod.key,
                    node=found.node_name,
                    should_have_been_woken_by=found.event,
                    plugins=sorted(found.plugins),
                )
            if missed:
                activate([found.pod for found in missed])

    def audit(self, should_stop: ShouldStop = lambda: False) -> list[MissedWakeUp]:
        """Return the pods of the next sample that would fit; the caller wakes them.

        ``should_stop``: whether to end the sample; the next one goes on there.
        """
        pods = self._state.queue.pending.unschedulable.not_gated()
        sample = list(islice(pods, self._at, self._at + self._sample))
        missed, looked_at, groups = list[MissedWakeUp](), 0, set[str]()
        for queued in sample:
            looked_at += 1
            # A group is checked once, for all of its members.
            if (group := queued.info.group) in groups:
                continue
            if group:
                groups.add(group)
            if (found := self._look_at(queued, should_stop)) is not None:
                missed.append(found)
            if should_stop():
                break
        self.audited += looked_at
        # A short sample is the last of a round through the pods.
        is_last = looked_at == len(sample) < self._sample
        self._at = 0 if is_last else self._at + looked_at
        return missed

    def _look_at(self, queued: QueuedPodInfo, should_stop: ShouldStop) -> MissedWakeUp | None:
        pod = queued.info
        runtime = self._state.profiles.get(pod.cls.scheduler_name)
        # A plugin that returned Pending waits for something that no filter shows.
        if runtime is None or queued.pending_plugins:
            return None
        admission = self._state.admission
        # While queues are read again, their units are not known.
        if admission.is_refreshing or unit_key(pod) in admission.units:
            return None
        if pod.group:
            return self._look_at_group(runtime, queued, should_stop)
        filters = {named.name for named in runtime.filter}
        filters |= {named.name for named in runtime.pre_filter}
        if not queued.unschedulable_plugins or not queued.unschedulable_plugins <= filters:
            return None
        # With a selector: a nominated pod may fit where its class does not.
        choice = Selector(self._decider.evaluation(runtime, pod)).select(pod)
        if choice is None:
            return None
        return self._missed(queued, self._state.cache.columns.names[choice.row])

    def _look_at_group(
        self, runtime: ProfileRuntime, queued: QueuedPodInfo, should_stop: ShouldStop
    ) -> MissedWakeUp | None:
        cache, queue, key = self._state.cache, self._state.queue, queued.info.group
        group = pod_group(cache.cluster, key)
        pending = (queue.pending.get(pod.uid) for pod in cache.cluster.members(key))
        members = [one for one in pending if one is not None and not one.gating_plugin]
        if group is None or len(members) > LARGEST_GROUP:
            return None
        attempt = PodGroupAttempt(
            self._decider,
            cache.cluster,
            runtime,
            group,
            sorted(members, key=member_order),
            cache.scheduled_members(key),
            lambda decision: SUCCESS,
            lambda decision: None,
        )
        rotation = self._decider.rotation
        # The generator is closed before the trial, because it may have inner trials open.
        with (
            Trial(cache) as trial,
            closing(attempt.run(trial, should_stop, preempts=False)) as steps,
        ):
            takes_long = next(steps, True) is None
        # The trial restores the cluster, but not where the next search for nodes starts.
        self._decider.rotation = rotation
        placed = attempt.result.placed
        # Nothing was reserved, so two members may have been given the same volume.
        if (
            takes_long
            or not attempt.result.status.ok
            or any(runtime.reserving(decision.state, decision.queued.info) for decision in placed)
        ):
            return None
        return self._missed(placed[0].queued, placed[0].node_name)

    def _missed(self, queued: QueuedPodInfo, node_name: str) -> MissedWakeUp:
        pod = queued.info
        event = self._recent.last(node_name, queued.timestamp)
        return MissedWakeUp(pod, node_name, event, frozenset(queued.unschedulable_plugins))
