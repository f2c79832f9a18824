"""The scheduling cycle of a pod group: assumes its pending members together, or requeues them all.

    one member popped --> the others are taken from the queue, too
        --> a trial (``decide.pod_group``), kept if the group may start
              started --> Permit --> the members that have a node are bound in one batch
              waits for victims --> members nominated, victims evicted, members requeued
              does not fit --> every member requeued with its own reason, or the group's
        --> the PodGroup's condition PodGroupScheduled

If a group does not fit, members that would fit are requeued with the plugins that rejected the
other members. So the events that may help those wake these, too.

Source: ``schedule_one_podgroup.go`` of kube-scheduler v1.36. There such a group is tried again
without a pause, hundreds of times a second; here it waits for an event, like a pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from podsched.decide.pod_group_members import GroupDecision, member_order
from podsched.decide.pod_group_terms import Terms
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.framework.pod_groups import REASON_UNSCHEDULABLE, Beside, PodGroup, pod_group
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import SUCCESS, error, unschedulable
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.logs import get_logger
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_deciding import NOTHING, Candidate, GroupDeciding, PoppedGroup
from podsched.term.cycle.pod_group_follow_up import Attempted, DecidedGroup, PodGroupFollowUp
from podsched.term.cycle.pod_group_start import GroupStarts
from podsched.term.cycle.pod_group_taking_back import TakingBack
from podsched.term.faulty_pods import working_on

_log = get_logger("scheduler")

REASON_SCHEDULERS = (
    "all pods in a single pod group should have the same .spec.schedulerName set, "
    'got: "{}" and "{}"'
)


class PodGroupCycle(TermPart):
    """Runs the cycles of pod groups of one term."""

    def __init__(
        self,
        parts: TermParts,
        failures: FailureHandler,
        binding: BindingCycle,
        follow_up: FollowUp,
        carrying_out: PodGroupFollowUp,
        starts: GroupStarts,
        taking_back: TakingBack,
    ) -> None:
        super().__init__(parts)
        self._failures = failures
        self._binding = binding
        self._follow_up = follow_up
        self._starts = starts
        self._taking_back = taking_back
        self._carrying_out = carrying_out
        self._deciding = GroupDeciding(parts, follow_up)
        #: The group whose decision is being carried out.
        self._decided: DecidedGroup | None = None
        #: The running attempt, if it is about a unit of a queue.
        self._attempted: Attempted | None = None

    async def schedule(self, popped: Sequence[QueuedPodInfo], now: float) -> None:
        """Decide for the group of popped members, and carry the decision out.

        The other pending members are popped, too. If an unexpected exception is raised, the
        attempts of all members fail.
        """
        others = self.pop_members(popped[0].info.group, now)
        members = self._follow_up.not_skipped([*popped, *others])
        if members:
            await self._schedule_guarded(members, now)

    async def admit(
        self,
        group: PodGroup,
        popped: Sequence[QueuedPodInfo],
        terms: Iterable[Terms],
        now: float,
        beside: Beside = NOTHING,
    ) -> Attempted | None:
        """Decide for popped pods of a unit that may be admitted on ``terms``; see ``Terms``.

        ``beside``: pods and claims that are in the trial, because their room is kept for others.
        Return None if nothing was decided: the pods are gone, or have to be decided again.
        """
        members = self._follow_up.not_skipped(popped)
        if not members:
            return None
        with working_on(members[0].info.pod):
            await self._schedule_guarded(members, now, group, terms, beside)
        return self._attempted

    def is_new(self, key: str) -> bool:
        """Whether no member of a group is bound, being bound or being taken back."""
        taking_back = self._taking_back
        is_partial = key in self._group_outcomes.binding or key in taking_back.under_way
        return not (is_partial or taking_back.scheduled(key))

    def pop_members(self, key: str, now: float) -> list[QueuedPodInfo]:
        """Pop the members of a group that are in the queue, except gated ones."""
        uids = [pod.uid for pod in self._cluster.members(key)]
        return self._state.queue.attempts.pop_members(uids, now)

    def resume(self) -> None:
        """Withdraw nominations of gangs that are too small now. Call it when the term begins."""
        nominator = self._cluster.nominator
        keys = {pod.group for node in nominator.nodes() for pod in nominator.pods(node)}
        for key in keys - {""}:
            if self._missing(key) > 0:
                self._withdraw(key)

    def lost_member(self, key: str) -> None:
        """Withdraw the nominations of a gang if it is too small now: it reserves nothing then."""
        # Only when it becomes too small, since thousands may be deleted.
        if self._missing(key) == 1:
            self._withdraw(key)

    def _missing(self, key: str) -> int:
        """Return how many members a gang lacks besides those that exist."""
        group = pod_group(self._cluster, key)
        minimum = 0 if group is None else group.min_count or 0
        return minimum - len(self._cluster.members(key))

    def _withdraw(self, key: str) -> None:
        for pod in self._cluster.members(key):
            self._reports.withdraw_nomination(pod)

    async def admit_together(
        self, units: Sequence[Candidate], nodes: frozenset[str] | None, now: float
    ) -> Sequence[Attempted] | None:
        """Decide for units of one profile as ``admit`` would for one after another.

        ``nodes``: the only nodes that all their pods may use; None: all. Return None if not all of
        them can start now; then their pods are back in the queue.
        """
        for one in units:
            name = one.popped[0].info.cls.scheduler_name
            await self._prepare(self._state.profiles[name], one.popped)
        members = [self._follow_up.not_skipped(one.popped) for one in units]
        for of_unit in members:
            of_unit.sort(key=member_order)
        flat = [queued for of_unit in members for queued in of_unit]
        results = None
        if all(members):
            results = await self._deciding.decide_together(units, members, nodes, now)
        if results is None:
            self._follow_up.return_untried(flat)
            return None
        attempted = [Attempted(*one) for one in zip(results, (u.terms for u in units), strict=True)]
        runtime = self._state.profiles[flat[0].info.cls.scheduler_name]
        await self._turn.pause()
        for one, of_unit, outcome in zip(units, members, attempted, strict=True):
            self._attempted, self._decided = outcome, None
            with self._guarded(of_unit), working_on(of_unit[0].info.pod):
                of_group = PoppedGroup(runtime, one.group, of_unit, now)
                await self._carry_out(of_group, outcome.result)
        return attempted

    async def complete(
        self,
        key: str,
        popped: Sequence[QueuedPodInfo],
        now: float,
        terms: Iterable[Terms] | None = None,
        beside: Beside = NOTHING,
    ) -> Attempted | None:
        """Decide for the missing members of a gang that may be partly bound, or take it back.

        Return the outcome if it is decided on ``terms``. ``beside``: as in ``admit``.
        """
        members = self._follow_up.not_skipped(popped)
        group = pod_group(self._cluster, key)
        taking_back = self._taking_back
        # Another client may have bound what was missing.
        started = group is not None and len(taking_back.bound(key)) >= (group.min_count or 0)
        if group and members and not started and not taking_back.failed_too_often(key):
            with working_on(members[0].info.pod):
                await self._schedule_guarded(members, now, group, terms, beside)
            return self._attempted
        self._state.queue.attempts.return_unattempted(members, self._clock())
        if group is None:
            # Else a group that gets its name would count as partly bound, with these failures.
            self._group_outcomes.binding.discard(key)
            taking_back.start_ended(key, started=True)
        elif started:
            taking_back.start_ended(key, started=True)
            self._group_outcomes.binding_ended(group, SUCCESS)
        else:
            taking_back.begin(group, unschedulable(REASON_UNSCHEDULABLE))
        return None

    async def _schedule_guarded(
        self,
        members: list[QueuedPodInfo],
        now: float,
        unit: PodGroup | None = None,
        terms: Iterable[Terms] | None = None,
        beside: Beside = NOTHING,
    ) -> None:
        # Members that were taken out of other queues come in no order.
        members.sort(key=member_order)
        self._attempted, self._decided = None, None
        with self._guarded(members):
            await self._schedule(members, now, unit, terms, beside)

    @contextmanager
    def _guarded(self, members: Sequence[QueuedPodInfo]) -> Iterator[None]:
        """Let the attempts of all members fail if the block raises an unexpected exception."""
        try:
            yield
        except FenceLost:
            raise
        except Exception as bug:
            self._give_up(members, bug)

    def _give_up(self, members: Sequence[QueuedPodInfo], bug: Exception) -> None:
        _log.error(
            "A pod group cycle failed",
            pod_group=members[0].info.group,
            error=repr(bug),
            exc_info=bug,
        )
        in_flight = {flight.pod.info.uid for flight in self._state.queue.in_flight}
        status = error(f"pod group cycle failed: {bug!r}")
        if self._decided is not None and self._decided.start is not None:
            self._decided.start.abandon(status)  # The members are undone below.
        for queued in members:
            pod = queued.info
            self._decider.discard(pod)
            if pod.uid not in in_flight or pod.uid in self._binding.waiting:
                continue
            if pod.uid in self._state.cache.assumed:
                self._failures.undo(self._deciding.assignments[pod.uid], status, at_once=True)
            else:
                self._failures.fail_with_error(queued, status.message)

    async def _schedule(
        self,
        members: list[QueuedPodInfo],
        now: float,
        unit: PodGroup | None,
        terms: Iterable[Terms] | None,
        beside: Beside,
    ) -> None:
        key = members[0].info.group
        names = list(dict.fromkeys(queued.info.cls.scheduler_name for queued in members))
        self._meter.popped(members, now)
        if len(names) > 1:
            # As in kube-scheduler, the name that differs comes before that of the first member.
            for queued in members:
                self._failures.fail_with_error(queued, REASON_SCHEDULERS.format(names[1], names[0]))
            return
        group = unit or pod_group(self._cluster, key)
        runtime = self._state.profiles[names[0]]
        if group is None or key in self._taking_back.under_way:
            # If the group was deleted since they were popped, PreEnqueue keeps them until it is
            # back. If it is being taken back, they are activated afterwards.
            counting = {named.name for named in group_plugins(runtime).feasible}
            for queued in members:
                self._meter.traces.end(queued)
                self._failures.requeue(queued, counting, set())
            return
        if await self._prepare(runtime, members):
            members = self._follow_up.not_skipped(members)
            if not members:
                return
        scheduled = self._taking_back.scheduled(group.key)
        of_group = PoppedGroup(runtime, group, members, now)
        attempted = await self._deciding.decide(of_group, scheduled, terms, beside)
        if attempted is None:
            # A member has gone meanwhile. If it was the last one that a gang lacks, none comes.
            self._starts.decide_first(key)
            return
        if terms is not None:
            self._attempted = attempted
        await self._carry_out(of_group, attempted.result)

    async def _carry_out(self, popped: PoppedGroup, result: GroupDecision) -> None:
        assignments, attempted = self._deciding.assignments, self._attempted
        self._decided = DecidedGroup(
            popped.runtime, popped.group, popped.members, result, assignments, attempted
        )
        await self._carrying_out.carry_out(self._decided)
