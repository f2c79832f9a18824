"""The admission cycle: decides which heads of the queues start, by quota and nodes together.

    heads --> nominated (flavors, victims by quota) --> one after another, after what others took:
        too little quota --> waits
        enough quota --> one trial on nodes, flavor by flavor (``PodGroupCycle.admit``)
              fits --> admitted and bound
              fits once victims are gone --> evicts them, keeps quota and nodes, and waits
              fits no nodes --> waits, and nothing is evicted

So no unit has quota without nodes, or nodes without quota.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code
from podsched.lib.due_times import earliest
from podsched.lib.taking import take_all
from podsched.queues.assignment import Mode
from podsched.queues.cycle import Cycle, Entry, nominate
from podsched.term.admission.gate import Gate
from podsched.term.admission.terms import FlavorTerms, NodeKinds, terms_of
from podsched.term.admission.units import Unit, unit_group
from podsched.term.cycle.backfilling import Backfilling
from podsched.term.cycle.head_outcomes import HeadOutcomes
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_cycle import PodGroupCycle
from podsched.term.cycle.pod_group_deciding import NOTHING, Candidate
from podsched.term.cycle.pod_group_follow_up import Attempted
from podsched.term.cycle.queue_statuses import QueueStatuses
from podsched.term.cycle.unit_endings import UnitEndings
from podsched.term.cycle.unit_reports import UnitReports

#: Max pods whose PreEnqueue is called again in one step.
_GATED_AT_ONCE: Final = 100
#: Max pods of heads that are decided together; each pod takes 0.04 ms.
_MOST_TOGETHER: Final = 128


class _Joined(NamedTuple):
    """A head that is decided together with others."""

    entry: Entry
    unit: Unit
    group: PodGroup
    terms: FlavorTerms
    profile: str
    nodes: frozenset[str] | None

    def goes_with(self, others: Sequence[_Joined]) -> bool:
        """Whether this head can be decided together with these."""
        pods = sum(len(one.unit.waiting) for one in others)
        first = others[0]
        return (
            pods + len(self.unit.waiting) <= _MOST_TOGETHER
            and self.profile == first.profile
            and self.nodes is first.nodes
        )


class AdmissionCycle(TermPart):
    """Runs the admission cycles of one term."""

    def __init__(
        self,
        parts: TermParts,
        groups: PodGroupCycle,
        endings: UnitEndings,
        statuses: QueueStatuses,
    ) -> None:
        super().__init__(parts)
        self._groups = groups
        self._endings = endings
        self._statuses = statuses
        self._unit_reports = UnitReports(parts, endings)
        self._kinds = NodeKinds(self._admission, parts.state.cache.classes)
        self._backfilling = Backfilling(parts, self._kinds)
        self._outcomes = HeadOutcomes(parts, endings, self._unit_reports, self._backfilling)
        #: Whether all heads of the last cycle that had quota also found nodes.
        self._all_were_placed = True
        # A standby may have gated pods for queues that are gone by now.
        self._gate_all_again()

    @property
    def has_work(self) -> bool:
        """Whether a queue may have a head to try."""
        return bool(self._admission.turns.ready)

    def next_wakeup(self) -> float | None:
        """Return when there is something to do without a change; None: never."""
        return earliest(self._admission.next_time(), self._statuses.next_time())

    async def refresh(self, now: float) -> None:
        """Apply what has changed in the cluster since the last cycle."""
        admission = self._admission
        were_gated = admission.gate.active
        await self._in_steps(admission.refresh(now))
        if were_gated and not admission.gate.active:
            self._gate_all_again()  # Pods may have come after the last queue has gone.
        # In parts, because each pod calls PreEnqueue, and one change may concern thousands.
        uids = list(take_all(admission.to_gate_again))
        while uids:
            self._state.queue.gate_again(uids[-_GATED_AT_ONCE:], now)
            del uids[-_GATED_AT_ONCE:]
            if uids:
                await self._turn.give_way()
        # After admission, which finds the units that have to be evicted.
        await self._in_steps(self._endings.refresh())
        await self._in_steps(self._statuses.refresh(now))
        self._backfilling.report()
        await self._in_steps(self._unit_reports.refresh())
        self._outcomes.forget_gone()

    def _gate_all_again(self) -> None:
        """Have PreEnqueue run again for all pods it has gated: some may have never been counted."""
        self._admission.to_gate_again |= {
            pod.info.uid: None
            for pod in self._state.queue.pending.unschedulable
            if pod.gating_plugin == Gate.name
        }

    async def _in_steps(self, steps: Iterable[None]) -> None:
        turn = self._turn
        for _ in steps:
            if turn.is_over:  # Mostly it is not, and ``pause`` would be a coroutine for each step.
                await turn.give_way()

    async def run(self, now: float) -> None:
        admission = self._admission
        heads = admission.turns.pop_heads()
        admission.count(())
        blocking, due = self._outcomes.still_blocking(heads), admission.reservations.due()
        cycle = Cycle(admission.snapshot, (), admission.rules, blocking, due)
        # With fair sharing, the quota that one head gets may change which head is next.
        # And if a head of the last cycle found no nodes, a joint decision would probably fail, and
        # all of its heads would be decided twice. Deciding together takes 1.1 instead of 1.6 ms for
        # each gang.
        together = self._all_were_placed and not admission.rules.fair
        self._all_were_placed = True
        joined: list[_Joined] = []
        try:
            for head in heads:
                cycle.add(head)  # This takes long if it has thousands of candidates to preempt.
                await self._turn.pause()
            for entry in cycle.turns():
                joins = self._joins(entry) if together else None
                # This head cannot join those before it, so these are decided first.
                if joined and (joins is None or not joins.goes_with(joined)):
                    await self._decide_together(cycle, joined, now)
                    joined = []
                if not (cycle.is_blocking(entry) or self._is_current(entry)):
                    continue
                cycle.take(entry)
                if cycle.is_blocking(entry):
                    continue
                if joins is not None and entry.admitted:
                    joined.append(joins)
                    continue
                # Heads before it may have found no nodes; then it may use the quota they left.
                if joined and not await self._decide_together(cycle, joined, now):
                    entry = cycle.take_again(entry)
                joined = []
                await self._decide(cycle, entry, now)
                await self._turn.pause()
            if joined:
                await self._decide_together(cycle, joined, now)
        except BaseException:
            # The snapshot still counts quota that heads of this cycle took and no unit has got.
            admission.outdated = True
            raise
        cycle.taken.end()
        self._unit_reports.withdraw_unheld()
        admission.try_reserved()
        self._backfilling.report()

    def _is_current(self, entry: Entry) -> bool:
        """Whether a head has not changed since it was popped, and is no victim of another head.

        If it has, its queue has what it asks for now.
        """
        return self._admission.turns.workloads.get(entry.workload.key) is entry.workload

    def _joins(self, entry: Entry) -> _Joined | None:
        """Return a head that may be decided together with others; None: only alone.

        Such a head needs no victims, no topology and no tolerations of flavors, and all of its pods
        are admitted and may use the same nodes.
        """
        workload = entry.workload
        unit = self._admission.units.get(workload.key)
        if entry.mode is not Mode.FIT or unit is None or unit.held or not unit.waiting:
            return None
        # While starts are promised, each head is decided alone: nodes must stay free for them.
        if self._admission.reservations.of:
            return None
        group = unit_group(self._cluster, unit)
        if group is None or not self._groups.is_new(group.key):
            return None
        terms = next(terms_of(self._kinds, workload, entry.assignment))
        if len(terms.members) < len(unit.waiting) or terms.group(group).has_topology:
            return None
        pods = {pod.cls.id: pod for pod in unit.waiting.values()}.values()
        places = {(pod.cls.scheduler_name, terms.nodes_of(pod)) for pod in pods}
        if len(places) > 1 or any(map(terms.tolerations, pods)):
            return None
        return _Joined(entry, unit, group, terms, *places.pop())

    async def _decide_together(self, cycle: Cycle, joined: Sequence[_Joined], now: float) -> bool:
        """Decide for heads that have quota; return whether all have been placed."""
        units = [
            Candidate(one.group, self._pop(one.unit.key, one.unit.waiting, now), one.terms)
            for one in joined
        ]
        await self._turn.pause()
        attempted = await self._groups.admit_together(units, joined[0].nodes, now)
        for one in joined:
            # Admission counts the placed pods, so the cycle must not count them, too.
            cycle.taken.withdraw(one.entry)
        if attempted is None:
            self._all_were_placed = False
            for one in joined:
                await self._decide(cycle, cycle.take_again(one.entry), now)
            return False
        for one, of_unit in zip(joined, attempted, strict=True):
            # No pause before this, so that one write has these conditions and those of the start.
            self._carry_out(cycle, one.entry, of_unit)
        await self._turn.pause()
        return True

    async def complete(self, key: str, now: float) -> None:
        """Decide for the missing members of a gang that may be partly bound, or take it back.

        Those of a queue need quota, too; the members that are bound have theirs.
        """
        admission = self._admission
        workload, terms, passing = admission.turns.workloads.get(key), None, ""
        beside = NOTHING
        if workload is not None:
            queue = admission.snapshot.queues[workload.queue]
            assignment, _ = nominate(admission.snapshot, queue, workload, admission.rules)
            if assignment.mode is Mode.FIT:
                found = terms_of(self._kinds, workload, assignment)
                # Its nodes may be others than those that the last leader chose.
                beside = self._backfilling.beside(workload)
                terms = (one for one in found if one.fits and not one.delay())
                passing = key
        with self._admission.gate.lets_pass(passing):
            popped = self._groups.pop_members(key, now)
        attempted = await self._groups.complete(key, popped, now, terms, beside)
        if attempted is not None and workload is not None:
            self._outcomes.admit(workload, attempted)

    async def _decide(self, cycle: Cycle, entry: Entry, now: float) -> None:
        workload, planned = entry.workload, self._backfilling
        unit = self._admission.units.get(workload.key)
        if entry.admitted or entry.preempts or entry.queue.backfill is not None:
            # The attempt searches victims without the unit's own usage. Afterwards ``admitted``
            # counts the placed pods, or ``hold`` keeps the quota.
            cycle.taken.withdraw(entry)
        beside = planned.beside(workload)
        terms: Iterable[FlavorTerms] = ()
        if entry.admitted or entry.preempts:
            found = terms_of(self._kinds, workload, entry.assignment)
            terms = chain(found, planned.promised_terms(workload))
            terms = planned.keep_others(entry, terms, beside)
        starts = entry.admitted or entry.preempts
        later = planned.terms(entry, beside, list(cycle.taken.held.values()))
        # Only the first: computing the others takes long, and most of them are never tried.
        first_later = [*islice(later, 1)]
        if not starts and not first_later:
            self._outcomes.wait_for_quota(cycle, entry)
            return
        group = None if unit is None or not unit.waiting else unit_group(self._cluster, unit)
        if unit is None or group is None:
            return
        popped = self._pop(workload.key, list(unit.waiting), now)
        attempted = await self._groups.admit(
            group, popped, chain(terms, first_later, later), now, beside
        )
        if attempted is None or attempted.result.status.code is Code.ERROR:
            self._outcomes.back_off(workload)
            return
        self._carry_out(cycle, entry, attempted)

    def _carry_out(self, cycle: Cycle, entry: Entry, attempted: Attempted) -> None:
        if not self._outcomes.carry_out(cycle, entry, attempted):
            self._all_were_placed = False

    def _pop(self, key: str, uids: Iterable[str], now: float) -> list[QueuedPodInfo]:
        """Pop the pods of a unit from the queue, except those that other plugins gate."""
        with self._admission.gate.lets_pass(key):
            return self._state.queue.attempts.pop_members(list(uids), now)
