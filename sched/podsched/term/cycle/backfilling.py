"""Backfill in the admission cycle: protects reserved starts, makes new ones and reports them.

All of it is skipped while no unit has a reservation and no ClusterQueue has backfill. See
``admission.reservations``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, groupby
from typing import Final

import numpy as np

from podsched.api.conditions import FALSE, TRUE
from podsched.decide.pod_group_members import GroupDecision
from podsched.framework.pod_groups import Beside, PodGroup, stored_group
from podsched.framework.pods import PodInfo
from podsched.lib.taking import take_all
from podsched.queues.assignment import Assignment, Waiting
from podsched.queues.backfill.plan import Reservation
from podsched.queues.choices import fitting_into
from podsched.queues.cycle import Entry
from podsched.queues.objects import PODS, Workload
from podsched.queues.order import Requeue
from podsched.queues.quota import Amounts
from podsched.term.admission.reservation_text import RESERVATION, RESERVED, reservation_text
from podsched.term.admission.reserved_devices import MOST_DEVICES
from podsched.term.admission.reserved_ports import port_names
from podsched.term.admission.terms import FlavorTerms, LaterTerms, NodeKinds
from podsched.term.admission.units import Unit, level_of, unit_group
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_deciding import NOTHING
from podsched.term.writes.pod_group_conditions import QueueCondition

#: Reason of the event, and of the condition, of a promise; of the event when it is taken back.
_RESERVED_EVENT: Final = "Normal", "StartReserved"
_WITHDRAWN_EVENT: Final = "Warning", "StartWithdrawn"
#: How reasons begin that a node has too little room.
_NO_ROOM: Final = ("Insufficient ", "Too many pods")


class Backfilling(TermPart):
    """Applies backfill in the admission cycles of one term."""

    def __init__(self, parts: TermParts, kinds: NodeKinds) -> None:
        self._reservations = parts.state.admission.reservations
        super().__init__(parts)
        self._metrics = parts.meter.backfill
        self._kinds = kinds
        profiles = self._state.profiles.values()
        self._restricting = {name for profile in profiles for name in profile.restricting}
        #: By key of the unit: the uid of its PodGroup, or of its pod, whose annotation was written.
        self._carriers: dict[str, str] = {}

    def keep_others(
        self, entry: Entry, terms: Iterable[FlavorTerms], beside: Beside
    ) -> Iterable[FlavorTerms]:
        """Return the terms on which a head delays no reserved start; if there are none, it waits.

        ``beside``: what the method ``beside`` returns.
        """
        if not self._reservations.of:
            return terms
        kept, delay = [], ""
        for one in terms:
            # Terms that need victims are checked by the search for victims.
            found = one.delay() if one.fits else ""
            delay = delay or found
            one.placeholders = [pod for pod, _ in beside.pods]
            if not found:
                kept.append(one)
        if not kept:
            entry.message = delay
            entry.admitted = entry.preempts = False
            entry.waiting, entry.requeue = Waiting.QUOTA, Requeue.NO_FIT
        return kept

    def promised_terms(self, workload: Workload) -> Iterator[FlavorTerms]:
        """Yield the terms that a unit was promised, once its start has come."""
        made = self._reservations.of.get(workload.key)
        admission = self._admission
        if made is None or workload.key not in admission.units or made.start > admission.books.now:
            return
        for one in fitting_into(admission.snapshot, workload, admission.rules, made.usage):
            yield FlavorTerms(self._kinds, workload, one)

    def beside(self, workload: Workload) -> Beside:
        """Return the pods and claims for which a head must leave room from now on."""
        reservations = self._reservations
        return reservations.timetable.beside(workload) if reservations.of else NOTHING

    def kept_node(self, workload: Workload) -> str:
        """Return which node or devices are kept from a head, and for which unit; or ""."""
        reservations = self._reservations
        return reservations.delays.kept_node(workload) if reservations.of else ""

    def terms(
        self, entry: Entry, beside: Beside, taken: Sequence[tuple[str, Amounts]]
    ) -> Iterator[LaterTerms]:
        """Yield the terms on which a head may get a reservation.

        ``beside``: what the method ``beside`` returns. ``taken``: see ``Timetable.later``.
        """
        workload, policy = entry.workload, entry.queue.backfill
        unit = self._admission.units.get(workload.key)
        if policy is None or unit is None or unit.held:
            return
        if entry.untried and not (entry.admitted or entry.preempts):
            return  # It has other flavors, which the next cycle tries.
        reservations = self._reservations
        if not reservations.eligibility.may_promise(workload, policy):
            return
        gone = [pod for pod, _ in beside.pods]
        ahead = partial(reservations.timetable.ahead, workload, gone=gone)
        found = reservations.timetable.later(workload, self._admission.rules, taken)
        for _, same in groupby(found, key=lambda one: one[1].usage):
            first = next(same)
            if self._has_short_slice(unit, first[1]):
                continue
            times = (at for at, _ in chain([first], same))
            yield LaterTerms(self._kinds, workload, first[1], times, ahead)

    def _has_short_slice(self, unit: Unit, assignment: Assignment) -> bool:
        """Whether the last slice of the pods that would start has fewer pods than the others.

        Such a start is not promised: the slice needs room for as many pods as the others have
        (``decide.best_fit``), and only that of its own pods would be kept.
        """
        counts = [pods.count for pods in assignment.pod_sets]
        return any(
            count % size
            for _, size in level_of(self._cluster, unit).slices
            for count in counts
            # Of several shapes, one with fewer pods is a slice of its own size.
            if size and (count > size or len(counts) == 1)
        )

    def kept_out(self, key: str, result: GroupDecision) -> str:
        """Return what else than too little room keeps a unit from its reserved nodes, or ""."""
        old = self._reservations.of.get(key)
        if old is None:
            return ""
        found = (decision.diagnosis for decision in result.decisions)
        for diagnosis in filter(None, found):
            # Where the attempt was restricted to, such as a flavor's nodes, is no reason.
            if self._is_restricted(diagnosis.pre_filter_message):
                continue
            if diagnosis.pre_filter_message:
                return diagnosis.pre_filter_message
            outcome = diagnosis.outcome
            for name in old.nodes if outcome is not None else ():
                assert outcome is not None
                for at in np.flatnonzero(outcome.rows == self._cluster.nodes.row_of(name)).tolist():
                    reasons = outcome.status(at).reasons
                    if any(map(self._is_restricted, reasons)):
                        continue
                    if reasons and not all(one.startswith(_NO_ROOM) for one in reasons):
                        return f"node {name}: {', '.join(reasons)}"
        return ""

    def _is_restricted(self, reason: str) -> bool:
        return any(name in reason for name in self._restricting)

    def reserve(
        self, workload: Workload, chosen: LaterTerms, nodes: Mapping[str, str], kept_out: str
    ) -> None:
        """Promise a start; ``nodes``: of each pod, by uid; ``kept_out``: of that method."""
        amounts: dict[str, Counter[str]] = {}
        waiting = self._admission.units[workload.key].waiting
        for uid, node in nodes.items():
            if uid in waiting:
                here = amounts.setdefault(node, Counter())
                here.update(waiting[uid].cls.requests)
                here.update(port_names(waiting[uid].pod.spec))
                here[PODS] += 1
        made = Reservation(
            workload.queue,
            workload.priority,
            chosen.start,
            workload.seconds,
            chosen.assignment.need,
            {node: {k: v for k, v in here.items() if v} for node, here in amounts.items()},
            chosen.devices,
        )
        if len(chosen.devices) > MOST_DEVICES:
            self._reservations.withdraw(workload.key)
            return
        self._reservations.reserve(workload.key, made, kept_out)

    def report(self) -> None:
        """Write reservations that are new, have changed or have ended."""
        reservations = self._reservations
        for key, change in take_all(reservations.changes).items():
            if change.withdrawn:
                self._metrics.withdrawn_total.labels(change.reason).inc()
            elif change.reservation is not None:
                self._metrics.reserved_total.inc()
            unit = self._admission.units.get(key)
            if unit is None:
                continue
            made = change.reservation
            text = None if made is None else reservation_text(made)
            status = FALSE if change.withdrawn or text is None else TRUE
            self._write(unit, QueueCondition(RESERVED, status, change.reason, change.message), text)
            for pod in unit.waiting.values() if change.withdrawn or text is not None else ():
                what = _WITHDRAWN_EVENT if change.withdrawn else _RESERVED_EVENT
                self._reports.event(pod, *what, "Scheduling", change.message)
        self._write_again()

    def _write_again(self) -> None:
        """Write promises again whose PodGroup or pod was replaced: the next leader reads them."""
        reservations = self._reservations
        for gone in self._carriers.keys() - reservations.of.keys():
            del self._carriers[gone]
        for key, made in reservations.of.items():
            unit = self._admission.units.get(key)
            if unit is None or not unit.waiting or self._is_written(unit):
                continue
            said = QueueCondition(RESERVED, TRUE, "Reserved", reservations.promise(key))
            self._write(unit, said, reservation_text(made))

    def _write(self, unit: Unit, said: QueueCondition, text: str | None) -> None:
        """Write the condition and the annotation of a promise; None: the annotation goes."""
        if (group := self._stored(unit)) is not None:
            self._carriers[unit.key] = group.uid
            self._conditions.write_conditions(group, [said])
            self._conditions.annotate(group, {RESERVATION: text})
            return
        pod = self._carrier(unit) or unit.first
        self._carriers[unit.key] = pod.uid
        self._reports.write_condition(pod, said)
        self._conditions.annotate_pod(pod, {RESERVATION: text})

    def _is_written(self, unit: Unit) -> bool:
        group = self._stored(unit)
        if group is None:
            return self._carrier(unit) is not None
        stored = stored_group(self._cluster, group.key)
        known = self._carriers.get(unit.key) == group.uid
        return known or stored is None or RESERVATION in stored.metadata.annotations

    def _stored(self, unit: Unit) -> PodGroup | None:
        """Return the group of a unit if it has a PodGroup."""
        group = unit_group(self._cluster, unit)
        return group if group is not None and group.uid else None

    def _carrier(self, unit: Unit) -> PodInfo | None:
        """Return the pod that has the promise of its unit, or gets it."""
        known = self._carriers.get(unit.key)
        for pod in chain(unit.waiting.values(), unit.held.values()):
            if pod.uid == known or RESERVATION in pod.pod.metadata.annotations:
                return pod
        return None
