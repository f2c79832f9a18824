"""Evict the units that ``admission.endings`` ends, and report it in their PodGroups' conditions.

Conditions of a unit that is evicted, in order::

    Evicted, Preempted: True    (Requeued: False, if it may not be admitted again yet)
    QuotaReserved, Admitted: False     once its pods are gone; Requeued: True after a preemption
    Requeued: True                     once it may be admitted again
    QuotaReserved, Admitted: True; Evicted, Preempted: False
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from podsched.api.conditions import FALSE, QUOTA_RESERVED, TRUE
from podsched.framework.pod_groups import KIND, PodGroup, pod_group, stored_group
from podsched.framework.pods import PodInfo
from podsched.lib.taking import take_all
from podsched.queues.objects import Workload
from podsched.queues.order import EVICTED_BY_READINESS
from podsched.queues.victims import Victim
from podsched.term.admission.endings import (
    ADMITTED,
    DEACTIVATED,
    EXEC_TIME_EXCEEDED,
    LOCAL_QUEUE_STOPPED,
    PODS_READY,
    PREEMPTED,
    QUEUE_STOPPED,
    Ending,
)
from podsched.term.admission.limits import execution_time
from podsched.term.admission.places import PLACE
from podsched.term.admission.requeuing import DEACTIVATED_BY, EVICTED, REQUEUE_COUNT
from podsched.term.admission.units import shown_key, unit_group
from podsched.term.cycle.evictions import evict_all
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.writes.pod_group_conditions import QueueCondition

REQUEUED: Final = "Requeued"
_NORMAL: Final = "Normal"
_EVICTED_DUE_TO: Final = "EvictedDueTo"
NOT_ADMITTED: Final = QueueCondition(
    ADMITTED, FALSE, "NoReservation", "The workload has no reservation"
)
#: By the reason of an eviction, why the unit may be admitted again: reason and message.
_REQUEUED: Final = {
    EVICTED_BY_READINESS: ("BackoffFinished", "The workload backoff was finished"),
    QUEUE_STOPPED: ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
    LOCAL_QUEUE_STOPPED: (
        "LocalQueueRestarted",
        "The LocalQueue was restarted after being stopped",
    ),
    DEACTIVATED: ("Reactivated", "The workload was reactivated"),
}


class UnitEndings(TermPart):
    """Evicts the units that have to end, and reports it, for one term."""

    def __init__(self, parts: TermParts) -> None:
        super().__init__(parts)
        self._admission.books.epoch = parts.wall() - parts.clock()
        #: The keys of units whose eviction was reported.
        self._reported: set[str] = set()
        #: The uids of pods whose eviction was requested.
        self._requested: set[str] = set()
        #: The keys of units whose annotations are being written. Their pods are evicted after that:
        #: pods that are made again must not be admitted before, maybe by the next leader.
        self._recording: set[str] = set()

    def refresh(self) -> Iterator[None]:
        """Evict units that have to end; write the conditions of units whose state has changed.

        In steps of a unit each: a queue that drains may have thousands, and a new leader enters all
        that wait.
        """
        endings = self._admission.endings
        # First, because they may be evicted for another reason now.
        for key in take_all(endings.spared):
            self._reported.discard(key)
            group = pod_group(self._cluster, key)
            if group is not None and group.uid:
                self._conditions.write_conditions(group, self._not_evicted(group))
            yield
        yield from self._evict_changed()
        for key, ending in take_all(endings.ended).items():
            self._reported.discard(key)
            said = [QueueCondition(QUOTA_RESERVED, FALSE, "PendingEvaluation", ending.message)]
            if ending.reason == PREEMPTED:
                said.append(QueueCondition(REQUEUED, TRUE, PREEMPTED, ending.message))
            self._report(key, *said, NOT_ADMITTED)
            yield
        for key in take_all(endings.become_ready):
            message = "All pods reached readiness and the workload is running"
            self._report(key, QueueCondition(PODS_READY, TRUE, "Started", message))
            yield
        for key in take_all(self._admission.turns.entered):
            self._requeued(key)
            yield
        places = self._admission.requeuing.places
        for pod, text in take_all(places.unwritten).values():
            self._reports.write_condition(pod, QueueCondition(PLACE, TRUE, "MadeAgain", text))
            yield

    def _evict_changed(self) -> Iterator[None]:
        endings = self._admission.endings
        if changed := take_all(endings.changed):
            self._requested &= self._state.cache.held.keys()  # The others are gone.
        # Not all that are being evicted: a queue that drains may have thousands of them for long.
        for key in changed:
            if (ending := endings.current.get(key)) is not None:
                self._end(key, ending)
            yield

    def preempted(
        self, preemptor: Workload, victims: Sequence[Victim], notes: Mapping[str, str]
    ) -> None:
        """Note units that are evicted to make room for another; ``notes``: messages, by key.

        A unit that is being evicted keeps its reason, which decides when it is admitted again.
        """
        endings = self._admission.endings
        for victim in victims:
            workload = victim.workload
            key, message = workload.key, notes[workload.key]
            if workload.evicted or key in endings.current:
                continue
            endings.note_preemption(key, message)
            spared = endings.spared.pop(key, None)
            if spared is not None and spared.message == message:
                continue  # It has been told so: its eviction failed, and is tried again.
            priorities = "; ".join(
                f"{who} effective priority: {one.priority} (base: {one.priority}, boost: 0)"
                for who, one in (("preemptor", preemptor), ("preemptee", workload))
            )
            self.record(key, _NORMAL, f"{_EVICTED_DUE_TO}{PREEMPTED}", message)
            self.record(key, _NORMAL, PREEMPTED, f"{message}; {priorities}")
            name = f"{shown_key(key)} (UID: {workload.uid}) in ClusterQueue {workload.queue}"
            text = f"Preempted workload {name}; {priorities}"
            self.record(preemptor.key, _NORMAL, "PreemptedWorkload", text, or_pod=True)
            self._reported.add(key)
            self._report(
                key,
                QueueCondition(EVICTED, TRUE, PREEMPTED, message),
                QueueCondition(PREEMPTED, TRUE, victim.reason, message),
            )

    def admitted(self, group: PodGroup) -> list[QueueCondition]:
        """Return the conditions of a unit that change because it is admitted."""
        said, endings = self._not_evicted(group), self._admission.endings
        # A group that was ready and grows is ready still: the next leader relies on it.
        if endings.waits_for_ready and group.key not in endings.were_ready:
            text = "Not all pods are ready or succeeded"
            said.append(QueueCondition(PODS_READY, FALSE, "WaitForStart", text))
        return said

    def _not_evicted(self, group: PodGroup) -> list[QueueCondition]:
        """Return the conditions of a unit that change because it is not being evicted any more."""
        said = []
        for type_ in (EVICTED, PREEMPTED):
            known = self._conditions.condition(group, type_)
            if known is not None and known[0] == TRUE:
                text = f"Previously: {known[2]}"
                said.append(QueueCondition(type_, FALSE, QUOTA_RESERVED, text))
        return said

    # ------------------------------------------------------------------ evicting

    def _end(self, key: str, ending: Ending) -> None:
        unit = self._admission.units.get(key)
        if unit is None or not ending.evicts:
            return
        if key not in self._reported:
            self._reported.add(key)
            self._begin(key, ending)
        if key in self._recording:
            return
        assumed = self._state.cache.assumed
        if not assumed.isdisjoint(unit.held):
            self._admission.endings.changed[key] = None  # They are evicted once they are bound.
        pods = [
            pod
            for pod in unit.held.values()
            if pod.uid not in self._requested and not pod.terminating and pod.uid not in assumed
        ]
        if pods:
            self._requested.update(pod.uid for pod in pods)
            evicted = partial(self._evicted, ending)
            evicting = evict_all(self._evict, pods, ending.reason, ending.message, evicted)
            self._tasks.start(evicting, f"evict {key}")

    def _begin(self, key: str, ending: Ending) -> None:
        """Write that a unit is evicted, and set from when on it may be admitted again."""
        reason, message = ending.full_reason, ending.message
        self.record(key, _NORMAL, f"{_EVICTED_DUE_TO}{reason}", message)
        self._report(key, QueueCondition(EVICTED, TRUE, reason, message))
        if ending.reason in _REQUEUED:  # The others may be admitted again at once.
            self._report(key, QueueCondition(REQUEUED, FALSE, ending.reason, message))
        if ending.cause == EXEC_TIME_EXCEEDED:
            longest = execution_time(self._cluster, self._admission.units[key])
            text = f"The maximum execution time ({longest:.0f}s) exceeded"
            self.record(key, "Warning", EXEC_TIME_EXCEEDED, text, or_pod=True)
            self._annotate(key, DEACTIVATED_BY, ending.cause)
        elif ending.late is not None:
            until = self._admission.books.now + self._admission.requeuing.backoff(ending.late)
            self._admission.turns.backoffs.set(key, until)
            self._annotate(key, REQUEUE_COUNT, str(ending.late))

    def _annotate(self, key: str, name: str, value: str) -> None:
        group = pod_group(self._cluster, key)
        if group is not None and group.uid:
            self._recording.add(key)
            self._conditions.annotate(group, {name: value}, partial(self._recorded, key))

    def _recorded(self, key: str, _problem: str) -> None:
        self._recording.discard(key)
        self._admission.endings.changed[key] = None
        self._activator.notify()

    def _evicted(self, ending: Ending, pod: PodInfo, was_there: bool) -> None:
        if was_there:
            reason = f"{_EVICTED_DUE_TO}{ending.full_reason}"
            self._reports.event(pod, _NORMAL, reason, "Evicting", ending.message)

    # ------------------------------------------------------------------ conditions and events

    def record(
        self, key: str, type_: str, reason: str, message: str, *, or_pod: bool = False
    ) -> None:
        """Record an event about a unit's PodGroup; ``or_pod``: without one, about its first pod."""
        group = stored_group(self._cluster, key)
        unit = self._admission.units.get(key)
        pod = (
            None if unit is None else next(iter(unit.waiting.values() or unit.held.values()), None)
        )
        if pod is None or (group is None and not or_pod):
            return
        self._recorder.record(
            pod.pod.metadata if group is None else group.metadata,
            type_=type_,
            reason=reason,
            action="Admitting",
            message=message,
            controller=pod.cls.scheduler_name,
            kind="Pod" if group is None else KIND,
        )

    def _requeued(self, key: str) -> None:
        """Write that a unit may be admitted again."""
        unit = self._admission.units.get(key)
        group = None if unit is None else unit_group(self._cluster, unit)
        known = None if group is None else self._conditions.condition(group, REQUEUED)
        if known is not None and known[0] == FALSE and known[1] in _REQUEUED:
            self._report(key, QueueCondition(REQUEUED, TRUE, *_REQUEUED[known[1]]))

    def _report(self, key: str, *conditions: QueueCondition) -> None:
        group = pod_group(self._cluster, key)
        if group is not None and group.uid:
            self._conditions.write_conditions(group, conditions)
