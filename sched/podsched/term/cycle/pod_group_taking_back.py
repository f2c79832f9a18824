"""Take pod groups back that are partly bound and cannot be completed: evict their bound members.

A group is taken back if its missing members fit no nodes any more, or if Permit or PreBind rejected
them, or their bindings failed, ``MAX_FAILURES`` times in a row. Until all members are evicted,
pending members are only requeued; then all are tried again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from typing import Final

from podsched.api.conditions import DISRUPTION_TARGET, REASON_PREEMPTION_BY_SCHEDULER, condition_of
from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status, unschedulable
from podsched.telemetry.logs import get_logger
from podsched.term.admission.endings import REASONS
from podsched.term.cycle.evictions import evict_all
from podsched.term.cycle.loop_parts import TermPart, TermParts

#: The reason of the condition DisruptionTarget and of the event on members that are taken back.
REASON_TAKEN_BACK: Final = "PodGroupIncomplete"
MESSAGE_TAKEN_BACK: Final = "too few members of the pod group could be bound"
#: Starts in a row that may fail before a group is taken back.
MAX_FAILURES: Final = 3
_EVICTED: Final = (REASON_TAKEN_BACK, REASON_PREEMPTION_BY_SCHEDULER, *REASONS)

_log = get_logger("scheduler")


class TakingBack(TermPart):
    """Takes the groups of one term back, and knows which members still count as scheduled."""

    def __init__(self, parts: TermParts, victims: Callable[[], Collection[str]]) -> None:
        """``victims`` returns the uids of the pods that are being preempted."""
        super().__init__(parts)
        self._victims = victims
        #: By key, the starts in a row that failed.
        self._failures_of = Counter[str]()
        self.under_way: set[str] = set()
        """The groups whose members are being evicted."""
        #: The uids of evicted members: they no longer count while they are there.
        self._evicted_uids: set[str] = set()

    def scheduled(self, key: str) -> list[PodInfo]:
        """Return the members that have a node, except those that are being evicted.

        If victims of a preemption counted, a member could start beside them and be left alone.
        """
        members = self._state.cache.scheduled_members(key)
        is_partial = key in self._group_outcomes.binding
        if not members:
            return members
        # Evicted members may not be terminating in the cache yet.
        leaving = self._evicted_uids.union(self._victims())
        return [
            pod
            for pod in members
            if pod.uid not in leaving
            and not (pod.terminating and (is_partial or _was_evicted(pod)))
        ]

    def bound(self, key: str) -> list[PodInfo]:
        """Return those of ``scheduled`` whose binding is done."""
        assumed, held = self._state.cache.assumed, self._state.cache.held
        # The informer may not have shown a bound member with its node yet.
        return [
            pod
            for pod in self.scheduled(key)
            if pod.uid not in assumed or held[pod.uid].binding_finished
        ]

    def has_started(self, group: PodGroup) -> bool:
        """Whether enough members have a node, although others may have failed."""
        return len(self.scheduled(group.key)) >= (group.min_count or 0)

    def start_ended(self, key: str, *, started: bool) -> None:
        """Note whether a group has started, now that a start of its members is over."""
        if started:
            self._failures_of.pop(key, None)
        else:
            self._failures_of[key] += 1

    def failed_too_often(self, key: str) -> bool:
        """Whether starts of the group failed several times in a row."""
        return self._failures_of[key] >= MAX_FAILURES

    def begin(self, group: PodGroup, status: Status) -> None:
        """Evict the bound members, unless the group has started; ``status``: why it cannot."""
        if not self.has_started(group) and group.key not in self.under_way:
            self.under_way.add(group.key)
            self._tasks.start(self._take_back(group, status), f"take back {group.key}")

    async def _take_back(self, group: PodGroup, status: Status) -> None:
        await self._state.after_trial.wait()
        bound = self.bound(group.key)
        if bound:
            _log.warning("Taking a pod group back", pod_group=group.key, evicted=len(bound))
            self._evicted_uids &= self._state.cache.held.keys()  # The others are gone.
            status = unschedulable(MESSAGE_TAKEN_BACK)
            parts = REASON_TAKEN_BACK, MESSAGE_TAKEN_BACK, self._evicted
            await evict_all(self._evict, bound, *parts)
            await self._state.after_trial.wait()
        # Before the members are activated: while a group is taken back, they are only requeued.
        self.under_way.discard(group.key)
        self._failures_of.pop(group.key, None)
        self._group_outcomes.binding_ended(group, status)
        self._activator.activate(self._cluster.members(group.key))

    def _evicted(self, pod: PodInfo, was_there: bool) -> None:
        self._evicted_uids.add(pod.uid)
        if was_there:
            what = REASON_TAKEN_BACK, "Evicting", MESSAGE_TAKEN_BACK
            self._reports.event(pod, "Warning", *what)


def _was_evicted(pod: PodInfo) -> bool:
    condition = condition_of(pod.pod.status, DISRUPTION_TARGET)
    return condition is not None and condition.reason in _EVICTED
