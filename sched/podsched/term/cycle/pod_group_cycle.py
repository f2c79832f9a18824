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

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Final, NamedTuple

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision, ShouldStop
from podsched.decide.pod_group import PodGroupAttempt, Turns
from podsched.decide.pod_group_members import GroupDecision, member_order
from podsched.decide.pod_group_terms import Terms, TermsAttempt
from podsched.decide.pod_groups_together import TogetherAttempt
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.pod_groups import (
    REASON_UNSCHEDULABLE,
    Beside,
    GroupTrial,
    PodGroup,
    pod_group,
)
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status, error, unschedulable
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.logs import get_logger
from podsched.term.admission.devices import CLAIM
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_follow_up import (
    VICTIMS_OF,
    Attempted,
    DecidedGroup,
    PodGroupFollowUp,
)
from podsched.term.cycle.pod_group_start import GroupStarts
from podsched.term.cycle.reserve_permit import run_unreserve
from podsched.term.faulty_pods import working_on
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("scheduler")

REASON_SCHEDULERS = (
    "all pods in a single pod group should have the same .spec.schedulerName set, "
    'got: "{}" and "{}"'
)
NOTHING: Final = Beside()


class Candidate(NamedTuple):
    """A unit of a queue, its popped pods, and the terms that it may start on."""

    group: PodGroup
    popped: Sequence[QueuedPodInfo]
    terms: Terms


class PodGroupCycle(TermPart):
    """The cycles of pod groups of one term."""

    def __init__(
        self,
        parts: TermParts,
        failures: FailureHandler,
        binding: BindingCycle,
        follow_up: FollowUp,
        carrying_out: PodGroupFollowUp,
        starts: GroupStarts,
    ) -> None:
        super().__init__(parts)
        self._failures = failures
        self._binding = binding
        self._follow_up = follow_up
        self._starts = starts
        self._carrying_out = carrying_out
        #: Of the running attempt, by uid: the members that were placed.
        self._assignments: dict[str, Assignment] = {}
        #: The group whose decision is being carried out.
        self._decided: DecidedGroup | None = None
        #: The running attempt, if it is about a unit of a queue.
        self._attempted: Attempted | None = None
        self._scheduled_before = 0
        #: Pods and claims that hold room for others during the running attempt.
        self._beside = NOTHING

    async def schedule(self, popped: Sequence[QueuedPodInfo], now: float) -> None:
        """Decide for the group of popped members, and carry the decision out.

        The other pending members are popped, too. If an unexpected exception is raised, the
        attempts of all members fail.
        """
        others = self.pop_members(popped[0].info.group, now)
        members = self._follow_up.not_skipped([*popped, *others])
        if members:
            self._attempted = None
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
        await self._schedule_beside(beside, members, now, group, terms)
        return self._attempted

    def is_new(self, key: str) -> bool:
        """Whether no member of a group is bound, being bound or being taken back."""
        starts = self._starts
        return not (
            key in self._conditions.binding or key in starts.taking_back or starts.scheduled(key)
        )

    def pop_members(self, key: str, now: float) -> list[QueuedPodInfo]:
        """Pop the members of a group that are in the queue, except gated ones."""
        uids = [pod.uid for pod in self._cluster.members(key)]
        return self._state.queue.pop_members(uids, now)

    async def admit_together(
        self, units: Sequence[Candidate], nodes: frozenset[str] | None, now: float
    ) -> Sequence[Attempted] | None:
        """Decide for units of one profile as ``admit`` would for one after another.

        ``nodes``: the only nodes that all their pods may use; None: all. Return None if not all of
        them can start now; then their pods are back in the queue.
        """
        members = [self._follow_up.not_skipped(one.popped) for one in units]
        for of_unit in members:
            of_unit.sort(key=member_order)
        flat = [queued for of_unit in members for queued in of_unit]
        results = None
        if all(members):
            results = await self._decide_together(units, members, nodes, now)
        if results is None:
            self._follow_up.return_untried(flat)
            return None
        attempted = [Attempted(*one) for one in zip(results, (u.terms for u in units), strict=True)]
        runtime = self._state.profiles[flat[0].info.cls.scheduler_name]
        self._scheduled_before = 0
        await self._turn.pause()
        for one, of_unit, outcome in zip(units, members, attempted, strict=True):
            self._attempted, self._decided = outcome, None
            with self._guarded(of_unit), working_on(of_unit[0].info.pod):
                await self._carry_out(runtime, one.group, of_unit, outcome.result)
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
        self._attempted = None
        members = self._follow_up.not_skipped(popped)
        group = pod_group(self._cluster, key)
        if group is None:
            self._state.queue.return_unattempted(members, self._clock())
            return None
        if members and not self._starts.failed_too_often(key):
            await self._schedule_beside(beside, members, now, group, terms)
            return self._attempted
        self._state.queue.return_unattempted(members, self._clock())
        self._starts.take_back(group, unschedulable(REASON_UNSCHEDULABLE))
        return None

    async def _schedule_beside(
        self,
        beside: Beside,
        members: list[QueuedPodInfo],
        now: float,
        group: PodGroup,
        terms: Iterable[Terms] | None,
    ) -> None:
        self._attempted = None
        with working_on(members[0].info.pod):
            self._beside = beside
            await self._schedule_guarded(members, now, group, terms)
            self._beside = NOTHING

    async def _schedule_guarded(
        self,
        members: list[QueuedPodInfo],
        now: float,
        unit: PodGroup | None = None,
        terms: Iterable[Terms] | None = None,
    ) -> None:
        # Members that were taken out of other queues come in no order.
        members.sort(key=member_order)
        self._decided = None
        with self._guarded(members):
            await self._schedule(members, now, unit, terms)

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
            self._decided.start.over = True  # All members are undone below.
        for queued in members:
            pod = queued.info
            self._decider.discard(pod)
            if pod.uid not in in_flight or pod.uid in self._binding.waiting:
                continue
            if pod.uid in self._state.cache.assumed:
                runtime = self._state.profiles[pod.cls.scheduler_name]
                self._failures.undo(runtime, self._assignments[pod.uid], status, at_once=True)
            else:
                self._failures.fail_with_error(queued, status.message)

    async def _schedule(
        self,
        members: list[QueuedPodInfo],
        now: float,
        unit: PodGroup | None,
        terms: Iterable[Terms] | None,
    ) -> None:
        key = members[0].info.group
        names = list(dict.fromkeys(queued.info.cls.scheduler_name for queued in members))
        self._meter.popped(members, now)
        if len(names) > 1:
            for queued in members:
                self._failures.fail_with_error(queued, REASON_SCHEDULERS.format(*names[:2]))
            return
        group = unit or pod_group(self._cluster, key)
        runtime = self._state.profiles[names[0]]
        if group is None or key in self._starts.taking_back:
            # If the group was deleted since they were popped, PreEnqueue keeps them until it is
            # back. If it is being taken back, they are activated afterwards.
            counting = {named.name for named in group_plugins(runtime).feasible}
            for queued in members:
                self._meter.traces.end(queued)
                self._failures.requeue(queued, counting, set())
            return
        result = await self._decide(runtime, group, members, now, terms)
        if result is None:
            return
        await self._carry_out(runtime, group, members, result)

    async def _carry_out(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        result: GroupDecision,
    ) -> None:
        self._decided = DecidedGroup(
            runtime,
            group,
            members,
            result,
            self._assignments,
            self._scheduled_before,
            self._attempted,
        )
        await self._carrying_out.carry_out(self._decided)

    async def _decide(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        popped_at: float,
        terms: Iterable[Terms] | None,
    ) -> GroupDecision | None:
        """Return the decision, with the placed members assumed; None to decide again at once."""
        began = self._clock()
        self._meter.traces.follow(members)
        self._notes.began(began)
        self._assignments = {}
        attempt = self._attempt_of(runtime, group, members, terms)
        # A gang that is partly bound must not wait for victims to leave.
        is_binding = group.key in self._conditions.binding
        run = partial(attempt.run, preempts=not is_binding)
        if not await self._run(runtime, run, lambda: [attempt.result]):
            self._follow_up.return_untried(members)
            return None
        result = attempt.result
        if isinstance(attempt, TermsAttempt):
            self._attempted = Attempted(result, attempt.chosen)
            self._note_terms(result, attempt.chosen)
        self._note(
            runtime,
            group,
            members,
            result,
            popped_at,
            began,
            self._clock(),
            is_binding=is_binding,
        )
        return result

    async def _decide_together(
        self,
        units: Sequence[Candidate],
        members: Sequence[list[QueuedPodInfo]],
        nodes: frozenset[str] | None,
        popped_at: float,
    ) -> Sequence[GroupDecision] | None:
        """Return the decisions, with all members assumed; None if not all units can start."""
        flat = [queued for of_unit in members for queued in of_unit]
        runtime, began = self._state.profiles[flat[0].info.cls.scheduler_name], self._clock()
        for of_unit in members:
            self._meter.popped(of_unit, popped_at)
        self._meter.traces.follow(flat)
        self._notes.began(began)
        self._assignments = {}
        attempts = [
            self._make_attempt(runtime, one.group, (), of_unit, one.terms)
            for one, of_unit in zip(units, members, strict=True)
        ]
        attempt = TogetherAttempt(self._decider, runtime, attempts, nodes)

        def outcome() -> Sequence[GroupDecision]:
            return [one.result for one in attempts] if attempt.all_start else []

        try:
            kept = await self._run(runtime, attempt.run, outcome)
        except FenceLost:
            raise
        except Exception as bug:
            # The caller now decides for each unit alone, so that only the one at fault fails.
            _log.error("A decision for several pod groups failed", error=repr(bug), exc_info=bug)
            for queued in flat:
                self._decider.discard(queued.info)
            kept = False
        results = outcome() if kept else []
        if not results:
            self._notes.dropped()
            return None
        each = (self._clock() - began) / len(flat)
        for one, of_unit, result in zip(units, members, results, strict=True):
            self._note_terms(result, one.terms)
            ended = began + each * len(of_unit)
            self._note(runtime, one.group, of_unit, result, popped_at, began, ended)
            began = ended
        return results

    async def _run(
        self,
        runtime: ProfileRuntime,
        run: Callable[[GroupTrial, ShouldStop], Turns],
        results: Callable[[], Sequence[GroupDecision]],
    ) -> bool:
        """Run an attempt in a trial; keep the trial unless a placed member has gone meanwhile.

        ``results`` returns the decision for each group. Return whether the trial is kept.
        """
        # The generator is closed before the trial, because it may have inner trials open.
        with Trial(self._state.cache) as trial, closing(run(trial, self._should_stop)) as steps:
            try:
                for pod, node_name in self._beside.pods:
                    trial.assume(pod, node_name)
                for claim in self._beside.claims:
                    trial.put(CLAIM, claim)
                for _ in steps:
                    await self._turn.give_way()
            except BaseException:
                # The trial rolls back the assumptions, but not what plugins have reserved.
                for assignment in reversed(self._assignments.values()):
                    run_unreserve(runtime, assignment)
                raise
            placed = [decision for result in results() for decision in result.placed]
            if all(map(self._is_there, placed)):
                for pod, _ in self._beside.pods:
                    trial.remove(pod)
                for claim in self._beside.claims:
                    trial.delete(CLAIM, claim.metadata.namespace, claim.metadata.name)
                trial.commit()
                return True
            # Members went while other tasks ran; the others may not be enough.
            for assignment in reversed(self._assignments.values()):
                run_unreserve(runtime, assignment)
            self._assignments = {}
            trial.roll_back()
            return False

    def _note(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        result: GroupDecision,
        popped_at: float,
        began: float,
        ended: float,
        *,
        is_binding: bool = False,
    ) -> None:
        """Note and count a decision; ``is_binding``: see ``DecisionNotes.decided``."""
        profile, decisions = runtime.scheduler_name, _in_order(result.decisions, members)
        self._notes.decided(
            profile,
            decisions,
            popped_at,
            began,
            ended,
            group=group.key,
            group_is_binding=is_binding,
        )
        self._meter.decided(profile, result.decisions, began, ended)
        self._meter.pod_group_decided(profile, _result_label(result), began, ended)

    def _attempt_of(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        terms: Iterable[Terms] | None,
    ) -> PodGroupAttempt | TermsAttempt:
        scheduled = self._starts.scheduled(group.key)
        self._scheduled_before = len(scheduled)
        make = partial(self._make_attempt, runtime, group, scheduled)
        return make(members) if terms is None else TermsAttempt(make, members, terms, VICTIMS_OF)

    def _make_attempt(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        scheduled: Sequence[PodInfo],
        members: Sequence[QueuedPodInfo],
        terms: Terms | None = None,
    ) -> PodGroupAttempt:
        def reserve(decision: Decision) -> Status:
            assignment = self._follow_up.assignment(decision)
            status = self._follow_up.reserve(runtime, assignment)
            if status.ok:
                self._assignments[decision.queued.info.uid] = assignment
            else:
                # Plugins before the one that failed have reserved.
                run_unreserve(runtime, assignment)
            return status

        def unreserve(decision: Decision) -> None:
            run_unreserve(runtime, self._assignments.pop(decision.queued.info.uid))

        return PodGroupAttempt(
            self._decider,
            self._cluster,
            runtime,
            group if terms is None else terms.group(group),
            members,
            scheduled,
            reserve,
            unreserve,
            None if terms is None else terms.nodes_of,
        )

    def _note_terms(self, result: GroupDecision, chosen: Terms | None) -> None:
        """Keep the terms on which a unit starts; its bindings write them."""
        if result.status.ok and chosen is not None:
            for decision in result.placed:
                pod = decision.queued.info
                assignment = self._assignments[pod.uid]
                assignment.annotations = chosen.annotations(pod)
                assignment.tolerations = chosen.tolerations(pod)

    def _is_there(self, decision: Decision) -> bool:
        """Whether a placed member still exists and has no node."""
        pod = decision.queued.info
        known = self._cluster.pods.get(pod.key)
        return known is not None and known.uid == pod.uid and not known.pod.spec.node_name


def _in_order(
    decisions: Sequence[Decision], members: Sequence[QueuedPodInfo]
) -> Sequence[Decision]:
    """Return decisions in the order of the members; the last pass may have had another order.

    The decision log keeps this order, so that the decision can be repeated from it.
    """
    order = {queued.info.uid: place for place, queued in enumerate(members)}
    return sorted(decisions, key=lambda decision: order[decision.queued.info.uid])


def _result_label(result: GroupDecision) -> str:
    """Return the metrics' ``result``."""
    if result.status.ok:
        return "scheduled"
    if result.status.code is Code.ERROR:
        return "error"
    return "waiting_on_preemption" if result.victims is not None else "unschedulable"
