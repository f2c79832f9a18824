"""Decide for pod groups in trials, which are kept if the groups may start."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import Final, NamedTuple

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision, ShouldStop
from podsched.decide.pod_group import PodGroupAttempt, Turns
from podsched.decide.pod_group_members import GroupDecision
from podsched.decide.pod_group_terms import Terms, TermsAttempt
from podsched.decide.pod_groups_together import TogetherAttempt
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import CycleState
from podsched.framework.pod_groups import Beside, GroupTrial, PodGroup
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.status import Code, Status
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.logs import get_logger
from podsched.term.admission.devices import CLAIM
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_follow_up import VICTIMS_OF, Attempted
from podsched.term.cycle.reserve_permit import run_unreserve
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("scheduler")

NOTHING: Final = Beside()


class Candidate(NamedTuple):
    """A unit of a queue, its popped pods, and the terms that it may start on."""

    group: PodGroup
    popped: Sequence[QueuedPodInfo]
    terms: Terms


class PoppedGroup(NamedTuple):
    """A group with its members that were popped, and when."""

    runtime: ProfileRuntime
    group: PodGroup
    members: Sequence[QueuedPodInfo]
    at: float


class GroupDeciding(TermPart):
    """Decides for the pod groups of one term."""

    def __init__(self, parts: TermParts, follow_up: FollowUp) -> None:
        super().__init__(parts)
        self._follow_up = follow_up
        #: Of the latest attempt, by uid: the members that were placed.
        self.assignments: dict[str, Assignment] = {}

    async def decide(
        self,
        popped: PoppedGroup,
        scheduled: Sequence[PodInfo],
        terms: Iterable[Terms] | None,
        beside: Beside,
    ) -> Attempted | None:
        """Return the decision, with the placed members assumed; None to decide again at once.

        ``scheduled``: members that have a node. ``beside``: what is in the trial, too.
        """
        began, members, key = self._clock(), popped.members, popped.group.key
        self._meter.traces.follow(members)
        self._notes.began(began)
        self.assignments = {}
        make = partial(self._make_attempt, popped.runtime, popped.group, scheduled)
        attempt = make(members) if terms is None else TermsAttempt(make, members, terms, VICTIMS_OF)
        # A gang that is partly bound must not wait for victims to leave.
        is_binding = key in self._group_outcomes.binding
        run = partial(attempt.run, preempts=not is_binding)
        async with self._trial():
            kept = await self._run(popped.runtime, run, lambda: [attempt.result], beside)
            result = attempt.result
            chosen = attempt.chosen if isinstance(attempt, TermsAttempt) else None
            if kept:
                self._note_terms(result, chosen)
                self._note(popped, result, began, self._clock(), is_binding=is_binding)
        if kept:
            return Attempted(result, chosen)
        self._follow_up.return_untried(members)
        return None

    async def decide_together(
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
        self.assignments = {}
        attempts = [
            self._make_attempt(runtime, one.group, (), of_unit, one.terms)
            for one, of_unit in zip(units, members, strict=True)
        ]
        attempt = TogetherAttempt(self._decider, runtime, attempts, nodes)

        def outcome() -> Sequence[GroupDecision]:
            return [one.result for one in attempts] if attempt.all_start else []

        async with self._trial():
            try:
                kept = await self._run(runtime, attempt.run, outcome, NOTHING)
            except FenceLost:
                raise
            except Exception as bug:
                # The caller now decides for each unit alone, so that only the one at fault fails.
                _log.error("A decision for several groups failed", error=repr(bug), exc_info=bug)
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
                of_group = PoppedGroup(runtime, one.group, of_unit, popped_at)
                self._note(of_group, result, began, ended)
                began = ended
            return results

    @asynccontextmanager
    async def _trial(self) -> AsyncIterator[None]:
        """Do what waits for the end of a trial after the block, which also notes the decision.

        Other tasks run then, and the decision has not seen what they change.
        """
        try:
            yield
        finally:
            await self._state.after_trial.trial_ended(self._turn, self._tasks.fail)

    async def _run(
        self,
        runtime: ProfileRuntime,
        run: Callable[[GroupTrial, ShouldStop], Turns],
        results: Callable[[], Sequence[GroupDecision]],
        beside: Beside,
    ) -> bool:
        """Run an attempt in a trial; keep it unless a placed member or its node has gone meanwhile.

        ``results`` returns the decision for each group. Return whether the trial is kept.
        """
        # The generator is closed before the trial, because it may have inner trials open.
        with Trial(self._state.cache) as trial, closing(run(trial, self._should_stop)) as steps:
            try:
                for pod, node_name in beside.pods:
                    trial.assume(pod, node_name)
                for claim in beside.claims:
                    trial.put(CLAIM, claim)
                for _ in steps:
                    with self._state.after_trial.others_run():
                        await self._turn.give_way()
            except BaseException:
                # The trial rolls back the assumptions, but not what plugins have reserved.
                for assignment in reversed(self.assignments.values()):
                    run_unreserve(runtime, assignment)
                raise
            placed = [decision for result in results() for decision in result.placed]
            if all(map(self._is_there, placed)):
                # They kept room during the decision only, so they must not be committed.
                for pod, _ in beside.pods:
                    trial.remove(pod)
                for claim in beside.claims:
                    trial.delete(CLAIM, claim.metadata.namespace, claim.metadata.name)
                trial.commit()
                return True
            # Members or nodes went while other tasks ran; the others may not be enough.
            for assignment in reversed(self.assignments.values()):
                run_unreserve(runtime, assignment)
            self.assignments = {}
            trial.roll_back()
            return False

    def _note(
        self,
        popped: PoppedGroup,
        result: GroupDecision,
        began: float,
        ended: float,
        *,
        is_binding: bool = False,
    ) -> None:
        """Note and count a decision; ``is_binding``: see ``DecisionNotes.decided``."""
        key, profile = popped.group.key, popped.runtime.scheduler_name
        decisions = _of_members(result.decisions, popped.members)
        self._notes.decided(
            profile, decisions, popped.at, began, ended, group=key, group_is_binding=is_binding
        )
        self._meter.decided(profile, result.decisions, began, ended)
        self._meter.pod_group_decided(profile, _result_label(result), began, ended)

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
                self.assignments[decision.queued.info.uid] = assignment
            else:
                # Plugins before the one that failed have reserved.
                run_unreserve(runtime, assignment)
            return status

        def unreserve(decision: Decision) -> None:
            run_unreserve(runtime, self.assignments.pop(decision.queued.info.uid))

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
                assignment = self.assignments[pod.uid]
                assignment.annotations = chosen.annotations(pod)
                assignment.tolerations = chosen.tolerations(pod)

    def _is_there(self, decision: Decision) -> bool:
        """Whether a placed member can still be bound, and the node where it is placed exists."""
        pod = decision.queued.info
        known = self._cluster.pods.get(pod.key)
        if known is None or self._cluster.nodes.row_of(decision.node_name) is None:
            return False
        # With finalizers a pod that is being deleted may stay for long.
        is_bound = bool(known.pod.spec.node_name)
        return known.uid == pod.uid and not is_bound and not known.terminating


def _of_members(
    decisions: Sequence[Decision], members: Sequence[QueuedPodInfo]
) -> Sequence[Decision]:
    """Return a decision for each member in their order; the last pass may have had another order.

    The decision log keeps this order, so that the decision can be repeated from it. No node was
    evaluated for a member without a decision, such as one whose victims must leave for its quota.
    """
    known = {decision.queued.info.uid: decision for decision in decisions}
    return [known.get(one.info.uid) or Decision(one, CycleState()) for one in members]


def _result_label(result: GroupDecision) -> str:
    """Return the metrics' ``result``."""
    if result.status.ok:
        return "scheduled"
    if result.status.code is Code.ERROR:
        return "error"
    return "waiting_on_preemption" if result.victims is not None else "unschedulable"
