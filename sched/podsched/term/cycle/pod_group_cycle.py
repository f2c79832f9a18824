"""The cycle of a pod group: takes its pending members to assumed together, or back to the queue.

    one member popped --> the others are taken from the queue, too
        --> a trial (``decide.pod_group``), kept if the group may start
              started --> Permit --> the members that have a node are bound in one batch
              waits for victims --> members nominated, victims evicted, members requeued
              does not fit --> every member requeued with its own reason, or the group's
        --> the PodGroup's condition PodGroupScheduled

A member that fits although its group does not waits for the events that may help the members that
do not fit: the plugins that rejected those are asked whether an event makes room for it, too.

Source: ``schedule_one_podgroup.go`` of kube-scheduler v1.36. There such a group is tried again
without a pause, hundreds of times a second; here it waits for an event, like a pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import NamedTuple

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision
from podsched.decide.pod_group import (
    GroupDecision,
    PodGroupAttempt,
    member_order,
)
from podsched.decide.pod_group_terms import Terms, TermsAttempt
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pod_groups import REASON_UNSCHEDULABLE, PodGroup, pod_group
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code, Status, error, unschedulable
from podsched.lib.event_loop import ROUND, Turn
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.logs import get_logger
from podsched.term.admission.admission import AdmissionGate
from podsched.term.cycle.activation import Activator
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.decision_notes import DecisionNotes
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import LoopParts
from podsched.term.cycle.pod_group_start import GroupStart, GroupStarts
from podsched.term.cycle.preemption import Preemption
from podsched.term.cycle.reserve_permit import run_unreserve
from podsched.term.faulty_pods import working_on
from podsched.term.writes.bind_queue import Assignment
from podsched.term.writes.pod_group_conditions import PodGroupConditions

_log = get_logger("scheduler")

REASON_SCHEDULERS = (
    "all pods in a single pod group should have the same .spec.schedulerName set, "
    'got: "{}" and "{}"'
)
#: kube-scheduler's text at Permit, where the members that fit wait for the others.
_WAITED = "one or more plugins asked to wait and no plugin rejected pod"


class Attempted(NamedTuple):
    """The outcome for a unit of a queue, and the terms that it starts on, or has victims by."""

    result: GroupDecision
    chosen: Terms | None

    @property
    def message(self) -> str:
        """The text that is added to the reasons of a pod that fits no node."""
        if self.result.victims is None or self.chosen is None:
            return ""
        return self.chosen.message


class PodGroupCycle:
    """The cycles of pod groups of one term."""

    def __init__(
        self,
        parts: LoopParts,
        failures: FailureHandler,
        binding: BindingCycle,
        follow_up: FollowUp,
        notes: DecisionNotes,
        activator: Activator,
        conditions: PodGroupConditions,
        starts: GroupStarts,
        clock: Callable[[], float],
        turn: Turn,
    ) -> None:
        self._state = parts.state
        self._decider = parts.decider
        self._meter = parts.meter
        self._failures = failures
        self._binding = binding
        self._follow_up = follow_up
        self._notes = notes
        self._activator = activator
        self._conditions = conditions
        self._starts = starts
        self._clock = clock
        self._turn = turn
        #: Of the running attempt, by uid: the members that were placed.
        self._assignments: dict[str, Assignment] = {}
        self._start: GroupStart | None = None
        #: The running attempt, if it is about a unit of a queue.
        self._attempted: Attempted | None = None
        self._scheduled_before = 0

    async def schedule(self, popped: Sequence[QueuedPodInfo], now: float) -> None:
        """Decide for the group of popped members, and carry the decision out.

        The other pending members are popped, too. If an unexpected exception is raised, the
        attempts of all members fail.
        """
        known = {queued.info.uid for queued in popped}
        uids = [pod.uid for pod in self._state.cache.cluster.members(popped[0].info.group)]
        others = self._state.queue.pop_members((uid for uid in uids if uid not in known), now)
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
    ) -> Attempted | None:
        """Decide for popped pods of a unit that may be admitted on ``terms``; see ``Terms``.

        Return None if nothing was decided: the pods are gone, or have to be decided again.
        """
        members = self._follow_up.not_skipped(popped)
        if not members:
            return None
        self._attempted = None
        with working_on(members[0].info.pod):
            await self._schedule_guarded(members, now, group, terms)
        return self._attempted

    def pop_members(self, key: str, now: float) -> list[QueuedPodInfo]:
        """Take the pending members of a group out of the queue, as far as they are not gated."""
        uids = [pod.uid for pod in self._state.cache.cluster.members(key)]
        return self._state.queue.pop_members(uids, now)

    async def complete(
        self,
        key: str,
        popped: Sequence[QueuedPodInfo],
        now: float,
        terms: Iterable[Terms] | None = None,
    ) -> Attempted | None:
        """Decide for the missing members of a gang that may be partly bound, or take it back.

        Return the outcome if it is decided on ``terms``.
        """
        self._attempted = None
        members = self._follow_up.not_skipped(popped)
        group = pod_group(self._state.cache.cluster, key)
        if group is None:
            self._state.queue.return_unattempted(members, self._clock())
            return None
        if members and not self._starts.failed_too_often(key):
            with working_on(members[0].info.pod):
                await self._schedule_guarded(members, now, group, terms)
            return self._attempted
        self._state.queue.return_unattempted(members, self._clock())
        self._starts.take_back(group, unschedulable(REASON_UNSCHEDULABLE))
        return None

    async def _schedule_guarded(
        self,
        members: list[QueuedPodInfo],
        now: float,
        unit: PodGroup | None = None,
        terms: Iterable[Terms] | None = None,
    ) -> None:
        # Members that were taken out of other queues come in no order.
        members.sort(key=member_order)
        self._start = None
        try:
            await self._schedule(members, now, unit, terms)
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
        in_flight = {queued.info.uid for queued in self._state.queue.in_flight()}
        status = error(f"pod group cycle failed: {bug!r}")
        if self._start is not None:
            self._start.over = True  # All members are undone below.
        for queued in members:
            pod = queued.info
            self._decider.discard(pod)
            if pod.uid not in in_flight or self._binding.has(pod.uid):
                continue
            if self._state.cache.is_assumed(pod.uid):
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
        key, names = members[0].info.group, _scheduler_names(members)
        self._meter.popped(members, now)
        if len(names) > 1:
            for queued in members:
                self._failures.fail_with_error(queued, REASON_SCHEDULERS.format(*names[:2]))
            return
        group = unit or pod_group(self._state.cache.cluster, key)
        runtime = self._state.profiles[names[0]]
        if group is None or self._starts.is_taken_back(key):
            # If the group was deleted since they were popped, PreEnqueue keeps them until it is
            # back. If it is being taken back, they are activated afterwards.
            counting = {named.name for named in group_plugins(runtime).feasible}
            for queued in members:
                self._meter.postponed(queued)
                self._failures.requeue(queued, counting, set())
            return
        result = await self._decide(runtime, group, members, now, terms)
        if result is None:
            return
        await self._carry_out(runtime, group, members, result)

    # ------------------------------------------------------------------ the decision

    async def _decide(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        popped_at: float,
        terms: Iterable[Terms] | None,
    ) -> GroupDecision | None:
        """Return the decision, with the placed members assumed; None to decide again at once."""
        cache, began = self._state.cache, self._clock()
        self._meter.traces.follow(members)
        self._notes.began(began)
        self._assignments = {}
        attempt = self._attempt_of(runtime, group, members, popped_at, terms)
        # A gang that is partly bound must not wait for victims to leave.
        is_binding = self._starts.may_be_partial(group.key)
        # The generator is closed before the trial: it may have trials of its own open.
        with (
            Trial(cache) as trial,
            closing(attempt.run(trial, self._enough, preempts=not is_binding)) as steps,
        ):
            try:
                for _ in steps:
                    await self._turn.give_way()
            except BaseException:
                # The trial rolls back the assumptions, but knows nothing of what plugins have
                # reserved.
                for assignment in reversed(self._assignments.values()):
                    run_unreserve(runtime, assignment)
                raise
            result = attempt.result
            if not all(self._is_there(decision) for decision in result.placed):
                # Members went while other tasks ran; the others may not be enough.
                for decision in reversed(result.placed if result.status.ok else []):
                    self._unreserve(runtime, decision)
                trial.roll_back()
                self._state.queue.return_unattempted(members, self._clock())
                for queued in members:
                    self._meter.postponed(queued)
                return None
            trial.commit()
        if isinstance(attempt, TermsAttempt):
            self._note_terms(result, attempt.chosen)
        now, profile = self._clock(), runtime.scheduler_name
        decisions = _in_order(result.decisions, members)
        self._notes.decided(
            profile, decisions, popped_at, began, now, group=group.key, group_is_binding=is_binding
        )
        self._meter.decided(profile, result.decisions, began, now)
        self._meter.pod_group_decided(profile, _result_label(result), began, now)
        return result

    def _attempt_of(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        popped_at: float,
        terms: Iterable[Terms] | None,
    ) -> PodGroupAttempt | TermsAttempt:
        scheduled = self._starts.scheduled(group.key)
        self._scheduled_before = len(scheduled)
        parts = self._decider, self._state.cache.cluster, runtime

        def reserve(decision: Decision) -> Status:
            assignment = self._follow_up.assignment(decision, popped_at)
            status = self._follow_up.reserve(runtime, assignment)
            if status.ok:
                self._assignments[decision.queued.info.uid] = assignment
            else:
                # Plugins before the one that failed have reserved.
                run_unreserve(runtime, assignment)
            return status

        def attempt_for(of: Sequence[QueuedPodInfo], terms: Terms | None = None) -> PodGroupAttempt:
            unreserve = partial(self._unreserve, runtime)
            adapted = group if terms is None else terms.group(group)
            nodes_of = None if terms is None else terms.nodes_of
            return PodGroupAttempt(*parts, adapted, of, scheduled, reserve, unreserve, nodes_of)

        if terms is None:
            return attempt_for(members)
        return TermsAttempt(attempt_for, members, terms, AdmissionGate.name)

    def _unreserve(self, runtime: ProfileRuntime, decision: Decision) -> None:
        run_unreserve(runtime, self._assignments.pop(decision.queued.info.uid))

    def _note_terms(self, result: GroupDecision, chosen: Terms | None) -> None:
        """Keep the terms on which a unit starts; its bindings write them."""
        self._attempted = Attempted(result, chosen)
        if result.status.ok and chosen is not None:
            for decision in result.placed:
                pod = decision.queued.info
                assignment = self._assignments[pod.uid]
                assignment.annotations = chosen.annotations(pod)
                assignment.tolerations = chosen.tolerations(pod)

    def _enough(self) -> bool:
        return self._turn.has_lasted(ROUND)

    def _is_there(self, decision: Decision) -> bool:
        """Whether a placed member still exists and has no node."""
        pod = decision.queued.info
        known = self._state.cache.cluster.pods.get(pod.key)
        return known is not None and known.uid == pod.uid and not known.pod.spec.node_name

    # ------------------------------------------------------------------ what follows

    async def _carry_out(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        result: GroupDecision,
    ) -> None:
        started = result.status.ok
        if result.victims is not None:
            self._preempt(runtime, group, members, result)
        rejecting = set[str]() if started else result.rejecting
        if started:
            placed = [self._assignments[d.queued.info.uid] for d in result.placed]
            self._start = self._starts.begin(runtime, group, self._scheduled_before, placed)
        decided = {decision.queued.info.uid: decision for decision in result.decisions}
        for queued in members:
            if self._enough():
                # If a member is deleted meanwhile, its binding fails.
                await self._turn.give_way()
            decision = decided.get(queued.info.uid)
            if decision is None:
                self._return_untried(queued, result)
            elif self._start is not None and decision.node_name:
                assignment = self._assignments[queued.info.uid]
                if self._follow_up.permit(runtime, assignment, result.status):
                    self._start.ready(assignment)
            else:
                self._fail(runtime, group, decision, result, rejecting)
            if decision is not None:
                self._activator.activate_wanted(decision.state)
        if not started and self._starts.may_be_partial(group.key):
            self._starts.take_back(group, result.status)
        self._conditions.decided(group, result.status)

    def _return_untried(self, queued: QueuedPodInfo, result: GroupDecision) -> None:
        """Return a member that was not tried on any node to the queue, for the group's reason."""
        status = result.status
        if status.ok:  # The group starts without it, as quota permits.
            self._meter.postponed(queued)
            self._state.queue.return_unattempted([queued], self._clock())
            return
        if status.code is Code.ERROR:
            self._failures.fail_with_error(queued, status.message)
            return
        nominated = result.nominations.get(queued.info.uid, "") if result.victims else ""
        self._follow_up.nominate(queued.info, nominated)
        self._follow_up.reject(queued, status.message, {status.plugin} - {""}, set(), nominated)

    def _fail(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        decision: Decision,
        result: GroupDecision,
        rejecting: set[str],
    ) -> None:
        """Return a member without a node to the queue, for its own reason or for the group's."""
        queued, failure = decision.queued, decision.error
        nominated = self._nomination(queued, result)
        if decision.diagnosis is not None:
            if not result.status.ok:
                self._decider.give_back(runtime, decision)
            plugins = group_plugins(runtime).post_filter
            messages = (named.plugin.member_message(group) for named in plugins)
            message = next(messages, "") if self._attempted is None else self._attempted.message
            post_filter = PostFilterResult(unschedulable(message), nominated)
            self._follow_up.no_node_fits(runtime, decision, post_filter)
            return
        self._follow_up.write(decision)
        if failure is not None and failure.code is Code.ERROR:
            self._failures.fail_with_error(queued, failure.message)
            return
        if result.status.code is Code.ERROR:
            self._failures.fail_with_error(queued, result.status.message)
            return
        if failure is not None:
            message, rejectors = failure.message, {failure.plugin}
        else:
            reasons = (REASON_UNSCHEDULABLE, result.waiting.message, _WAITED)
            message = ", ".join(filter(None, reasons))
            rejectors = {result.waiting.plugin, *rejecting}
        self._follow_up.nominate(queued.info, nominated)
        self._follow_up.reject(queued, message, rejectors - {""}, set(), nominated)

    def _nomination(self, queued: QueuedPodInfo, result: GroupDecision) -> str | None:
        """Return the node that a member is nominated to, "" for none; None: as before."""
        if result.victims is not None:
            return result.nominations.get(queued.info.uid, "")
        return None if result.status.ok or result.waits_for_victims else ""

    def _preempt(
        self,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        result: GroupDecision,
    ) -> None:
        """Start evicting the victims; PreEnqueue holds the members back meanwhile."""
        assert result.victims is not None
        pods, plugin = tuple(queued.info for queued in members), result.preempting_plugin
        listener = runtime.eviction_listeners.get(plugin)
        terms = None if self._attempted is None else self._attempted.chosen
        note = None if terms is None else terms.note
        preemption = Preemption(pods, "", result.victims, plugin, listener, group, note)
        nodes = result.nominations
        self._follow_up.preempt(
            preemption, [(pod, nodes[pod.uid]) for pod in pods if pod.uid in nodes]
        )


def _in_order(
    decisions: Sequence[Decision], members: Sequence[QueuedPodInfo]
) -> Sequence[Decision]:
    """Return decisions in the order of the members, with which a decision can be repeated.

    The last pass over the members may have had another order.
    """
    order = {queued.info.uid: place for place, queued in enumerate(members)}
    return sorted(decisions, key=lambda decision: order[decision.queued.info.uid])


def _scheduler_names(members: Sequence[QueuedPodInfo]) -> list[str]:
    return list(dict.fromkeys(queued.info.cls.scheduler_name for queued in members))


def _result_label(result: GroupDecision) -> str:
    """Return the metrics' ``result``."""
    if result.status.ok:
        return "scheduled"
    if result.status.code is Code.ERROR:
        return "error"
    return "waiting_on_preemption" if result.victims is not None else "unschedulable"
