"""Report why the units of queues wait, and that they are admitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any, Final

from podsched.api.conditions import FALSE, QUOTA_RESERVED, REASON_UNSCHEDULABLE, TRUE, condition_of
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.lib.taking import take_all
from podsched.queues.assignment import Waiting
from podsched.queues.cycle import Entry
from podsched.queues.objects import Workload
from podsched.term.admission.admission import Admission
from podsched.term.admission.endings import ADMITTED
from podsched.term.admission.units import Unit, unit_group
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_reports import Failure
from podsched.term.cycle.unit_endings import NOT_ADMITTED, REQUEUED, UnitEndings
from podsched.term.writes.pod_group_conditions import QueueCondition

_ADMITTED_TEXT: Final = "The workload is admitted"
#: Max remembered units that are gone, before these are searched and dropped.
_MOST_GONE: Final = 1_000


class UnitReports(TermPart):
    """Writes conditions and events of units, and withdraws nominations that they lose."""

    def __init__(self, parts: TermParts, endings: UnitEndings) -> None:
        super().__init__(parts)
        self._endings = endings
        #: By key of a unit that waits: the last reason and message, and the uids of the PodGroup,
        #: or of the pods, that have been told so. They may be made again under their names.
        self._reported: dict[str, tuple[tuple[str, str], Set[str]]] = {}

    def refresh(self) -> Iterator[None]:
        """Report new problems of units, in steps, and forget units that are gone."""
        for key in take_all(self._admission.new_problems):
            if (problem := self._admission.problems.get(key)) is not None:
                self.waits(key, problem.reason, problem.message)
            yield
        self.withdraw_unheld()
        drop_gone(self._reported, self._admission.units)

    def withdraw_unheld(self) -> None:
        """Withdraw the nominations of units whose quota is kept no more."""
        for key in self._admission.take_unheld():
            self._withdraw(self._admission.units[key])

    def _withdraw(self, unit: Unit) -> None:
        """Withdraw the nominations of a unit, so that others may use the room its victims left."""
        for pod in list(unit.waiting.values()):
            self._reports.withdraw_nomination(pod)

    def waits(self, key: str, reason: Waiting, message: str, *, reported: bool = False) -> None:
        """Report why a unit waits; ``reported``: its pods have been reported already."""
        unit = self._admission.units.get(key)
        if unit is None or not unit.waiting:
            return
        # Only a unit that waits for its victims keeps nodes.
        if reason is not Waiting.PREEMPTED:
            self._withdraw(unit)
        group = unit_group(self._cluster, unit)
        if group is not None and (not group.uid or unit.held):
            group = None  # Of a group that runs, only some pods wait.
        uids = set(unit.waiting) if group is None else {group.uid}
        why = reason, message
        before, told = self._reported.get(key, (why, frozenset()))
        untold = uids - told if before == why else uids
        self._reported[key] = why, uids
        if group is None and not reported:
            for pod in [pod for uid, pod in unit.waiting.items() if uid in untold]:
                self._reports.failed(pod, Failure(REASON_UNSCHEDULABLE, message))
        elif group is not None and untold:
            said = QueueCondition(QUOTA_RESERVED, FALSE, reason, message), NOT_ADMITTED
            self._conditions.write_conditions(group, said)
            self._endings.record(key, "Warning", reason, message)

    def admitted(self, workload: Workload) -> None:
        """Report that a unit, or more pods of it, are admitted."""
        self._reported.pop(workload.key, None)
        unit = self._admission.units.get(workload.key)
        group = None if unit is None else unit_group(self._cluster, unit)
        if group is None:
            return
        reserved = f"Quota reserved in ClusterQueue {workload.queue}"
        known = self._conditions.condition(group, ADMITTED) if group.uid else None
        # A group that grows is admitted already.
        if known is None or known[0] != TRUE:
            waited = max(0.0, self._admission.books.now - _queued_at(self._cluster, workload))
            text = f"{reserved}, wait time since queued was {waited:.0f}s"
            self._endings.record(workload.key, "Normal", QUOTA_RESERVED, text)
            text = f"Admitted by ClusterQueue {workload.queue}, wait time since reservation was 0s"
            self._endings.record(workload.key, "Normal", ADMITTED, text)
        said = (
            QueueCondition(QUOTA_RESERVED, TRUE, QUOTA_RESERVED, reserved),
            QueueCondition(ADMITTED, TRUE, ADMITTED, _ADMITTED_TEXT),
            # Kueue's rule: a new reservation turns Evicted and Preempted False.
            *self._endings.admitted(group),
        )
        self._conditions.write_conditions(group, said)


def _queued_at(cluster: ClusterView, workload: Workload) -> float:
    """Return since when a unit may be admitted: since an eviction or its backoff, if any."""
    group = stored_group(cluster, workload.key)
    requeued = None if group is None else condition_of(group.status, REQUEUED)
    if requeued is None:
        return workload.queued_at
    return float(requeued.last_transition_time.seconds)


def drop_gone(of_units: dict[str, Any], units: Mapping[str, Unit]) -> None:
    """Drop the entries of units that are gone, once there are many."""
    if len(of_units) > 2 * len(units) + _MOST_GONE:
        for key in of_units.keys() - units.keys():
            del of_units[key]


def quota_message(admission: Admission, entry: Entry) -> str:
    """Return why a head has too little quota."""
    if entry.waiting is not Waiting.QUOTA:
        return entry.message
    nodes = admission.snapshot.forest.queues
    root = nodes[entry.queue.name].root
    # Not by all queues of the tree: there may be a thousand, each with a head that waits.
    leaving = sum(
        number
        for name, number in admission.pods.leaving.items()
        if number and nodes[name].root is root
    )
    if not leaving:
        return entry.message
    return f"{entry.message}; {leaving} terminating pod(s) still use quota"
