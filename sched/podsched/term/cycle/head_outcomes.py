"""Put back the heads of queues after their attempts, or count them as admitted.

admitted            its pods count in its queue
too little quota    it waits in its queue until quota is released
needs victims       they are evicted; meanwhile it keeps its quota
fits no nodes       it waits for changes of nodes and pods, maybe with a promised start
an error            it is tried again after a pause
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from podsched.decide.pod_group_members import GroupDecision
from podsched.lib.backoff import exponential
from podsched.queues.assignment import Waiting
from podsched.queues.cycle import Cycle, Entry
from podsched.queues.objects import Workload
from podsched.queues.order import Requeue
from podsched.term.admission.gate import Gate
from podsched.term.admission.terms import FlavorTerms, LaterTerms
from podsched.term.cycle.backfilling import Backfilling
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_follow_up import Attempted
from podsched.term.cycle.unit_endings import UnitEndings
from podsched.term.cycle.unit_reports import UnitReports, drop_gone, quota_message

#: Seconds until a unit is tried again whose attempt failed with an error, doubled each time.
FIRST_BACKOFF: Final = 1.0
LONGEST_BACKOFF: Final = 60.0


class HeadOutcomes(TermPart):
    """Handles the outcomes of attempts to admit heads in one term."""

    def __init__(
        self,
        parts: TermParts,
        endings: UnitEndings,
        reports: UnitReports,
        backfilling: Backfilling,
    ) -> None:
        super().__init__(parts)
        self._endings = endings
        self._unit_reports = reports
        self._backfilling = backfilling
        #: Attempts in a row that failed with an error, by the unit's key.
        self._errors: dict[str, int] = {}
        #: By ClusterQueue, the head that blocks its queue and has found no victims. Its quota is
        #: kept also while it is not tried; otherwise later borrowers would starve it.
        self._blocking: dict[str, Entry] = {}

    def forget_gone(self) -> None:
        """Forget the errors of units that are gone."""
        drop_gone(self._errors, self._admission.units)

    def still_blocking(self, heads: Iterable[Workload]) -> list[Entry]:
        """Return the heads that block their queues and share a tree with a head of this cycle."""
        snapshot, turns = self._admission.snapshot, self._admission.turns
        self._blocking = {
            name: entry
            for name, entry in self._blocking.items()
            if name in turns.blocked and entry.workload.key in turns.workloads
        }
        roots = {snapshot.node(head.queue).root for head in heads}
        return [e for name, e in self._blocking.items() if snapshot.node(name).root in roots]

    def wait_for_quota(self, cycle: Cycle, entry: Entry) -> None:
        """Put back a head that has too little quota."""
        workload, reason = entry.workload, entry.requeue
        tried = entry.assignment.tried if entry.untried else None
        if not tried:
            self._admission.reservations.withdraw(workload.key)
        if reason is Requeue.FAILED_AFTER_NOMINATION and not cycle.has_taken:
            # No other head has taken quota in this cycle, so the next one would end the same way.
            reason = Requeue.NO_FIT
        # A reservation may be found after any release.
        lacks = entry.lacks if entry.queue.backfill is None else None
        self._admission.turns.requeue(workload, reason, tried=tried, lacks=lacks)
        if reason is Requeue.NO_CANDIDATES:
            self._blocking[workload.queue] = entry
        waiting = entry.waiting or Waiting.QUOTA
        self._unit_reports.waits(workload.key, waiting, quota_message(self._admission, entry))

    def admit(self, workload: Workload, attempted: Attempted) -> bool:
        """Count the placed pods as admitted; return whether any were."""
        result, chosen = attempted.result, attempted.chosen
        if not result.status.ok or not isinstance(chosen, FlavorTerms):
            return False
        pods = [decision.queued.info for decision in result.placed]
        flavors = {pod.uid: chosen.flavors_of(pod) for pod in pods}
        self._admission.admitted(workload.key, flavors, [pod.key for pod in pods])
        self._unit_reports.admitted(workload)
        return True

    def carry_out(self, cycle: Cycle, entry: Entry, attempted: Attempted) -> bool:
        """Admit a head or put it back, after its attempt; return whether it is admitted."""
        workload = entry.workload
        self._errors.pop(workload.key, None)
        admission, result, chosen = self._admission, attempted.result, attempted.chosen
        if self.admit(workload, attempted):
            return True
        if result.victims is not None and isinstance(chosen, FlavorTerms):
            victims = {one.workload.key for one in chosen.victims}
            # With nodes considered, other victims may have been chosen than by quota alone.
            cycle.taken.keep(workload.queue, chosen.assignment.need, chosen.victims)
            self._endings.preempted(workload, chosen.victims, chosen.notes)
            admission.turns.requeue(workload, Requeue.PENDING_PREEMPTION, parked=True)
            admission.holds.add(workload.key, workload.queue, chosen.assignment.need, victims)
            admission.count(())
            why = chosen.assignment.message or result.status.message
            self._unit_reports.waits(workload.key, Waiting.PREEMPTED, f"{why}. {chosen.message}")
            return False
        kept_out = self._backfilling.kept_out(workload.key, result)
        if result.later and isinstance(chosen, LaterTerms):
            self._backfilling.reserve(workload, chosen, result.later, kept_out)
        else:
            admission.reservations.withdraw(workload.key, kept_out=kept_out)
        self._wait_for_nodes(cycle, entry, result)
        return False

    def _wait_for_nodes(self, cycle: Cycle, entry: Entry, result: GroupDecision) -> None:
        """Put back a head that fits no nodes now, or has been promised a start."""
        workload, reservations = entry.workload, self._admission.reservations
        starts, reason = entry.admitted or entry.preempts, Requeue.NO_FIT
        promised = workload.key in reservations.of
        has_lost = starts or entry.requeue is Requeue.FAILED_AFTER_NOMINATION
        if has_lost and cycle.quota_returns(entry):
            reason = Requeue.FAILED_AFTER_NOMINATION
        elif promised:
            # Units of the same shape are tried, too, because each may get a reservation.
            reason = Requeue.GENERIC
        self._admission.turns.requeue(workload, reason, parked=True, alone=promised)
        self._note_missed(workload.key)
        promise = reservations.promise(workload.key)
        if starts:
            waiting, placement = Waiting.TOPOLOGY, _placement_message(result)
            kept = self._backfilling.kept_node(workload)
            parts = [entry.assignment.message, placement, kept, promise]
            reported = not any((parts[0], kept, promise))
        else:  # Only later starts were tried.
            waiting, parts = entry.waiting or Waiting.QUOTA, [entry.message, promise]
            reported = False
        self._unit_reports.waits(
            workload.key, waiting, "; ".join(filter(None, parts)), reported=reported
        )

    def _note_missed(self, key: str) -> None:
        """Note an event that has helped a unit already, during its attempt.

        It has moved a pod back to the gate, which no later event opens.
        """
        unit, waiting = self._admission.units.get(key), self._state.queue.pending.unschedulable
        for pod in map(waiting.get, unit.waiting if unit is not None else ()):
            if pod is None or pod.gating_plugin != Gate.name:
                continue
            # Only the gate has rejected a pod that was not tried.
            if pod.unschedulable_plugins | pod.pending_plugins > {Gate.name}:
                self._admission.turns.note_helped(key)
                return

    def back_off(self, workload: Workload) -> None:
        """Put back a head whose attempt failed with an error."""
        failed = self._errors[workload.key] = self._errors.get(workload.key, 0) + 1
        pause = exponential(FIRST_BACKOFF, LONGEST_BACKOFF, failed)
        self._admission.turns.back_off(workload, self._admission.books.now + pause)


def _placement_message(result: GroupDecision) -> str:
    """Return why a unit fits no nodes: the reasons of the group and of its first pod."""
    found = next((d.diagnosis.fit_error() for d in result.decisions if d.diagnosis), "")
    return "; ".join(dict.fromkeys(filter(None, (result.status.message, found))))
