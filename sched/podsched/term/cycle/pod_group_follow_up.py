"""Carries out the decision for a pod group: starts it, nominates its members, or requeues them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from podsched.decide.decision import Decision
from podsched.decide.pod_group_members import GroupDecision
from podsched.decide.pod_group_terms import Terms
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pod_groups import REASON_UNSCHEDULABLE, PodGroup
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import Code, unschedulable
from podsched.term.admission.gate import Gate
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.pod_group_start import GroupStart, GroupStarts
from podsched.term.cycle.pod_group_taking_back import TakingBack
from podsched.term.cycle.preemption import Preemption
from podsched.term.writes.bind_queue import Assignment

#: The plugin that finds the victims of units of queues.
VICTIMS_OF: Final = Gate.name
#: kube-scheduler's text at Permit, where the members that fit wait for the others.
_WAITED = "one or more plugins asked to wait and no plugin rejected pod"


class Attempted(NamedTuple):
    """The outcome for a unit of a queue, and the terms on which it starts or has found victims."""

    result: GroupDecision
    chosen: Terms | None


@dataclass(eq=False, slots=True)
class DecidedGroup:
    """A pod group with its decision, whose placed members are assumed.

    ``assignments``: of the placed members, by uid. ``attempted``: None for a group of no queue.
    ``start``: set once members start.
    """

    runtime: ProfileRuntime
    group: PodGroup
    members: Sequence[QueuedPodInfo]
    result: GroupDecision
    assignments: Mapping[str, Assignment]
    attempted: Attempted | None
    start: GroupStart | None = None


class PodGroupFollowUp(TermPart):
    """Carries out the decisions for pod groups of one term."""

    def __init__(
        self,
        parts: TermParts,
        failures: FailureHandler,
        follow_up: FollowUp,
        starts: GroupStarts,
        taking_back: TakingBack,
    ) -> None:
        super().__init__(parts)
        self._failures = failures
        self._follow_up = follow_up
        self._starts = starts
        self._taking_back = taking_back

    async def carry_out(self, decided: DecidedGroup) -> None:
        """Bind, nominate or requeue the members, and write the group's condition."""
        runtime, group, result = decided.runtime, decided.group, decided.result
        # Before any member returns to the queue: PreEnqueue has to hold all of them back.
        if result.victims is not None:
            self._preempt(decided)
        if result.status.ok:
            placed = [decided.assignments[d.queued.info.uid] for d in result.placed]
            # Without GangScheduling there is no minimum, so such a group is never partly bound.
            counts = group_plugins(runtime).feasible
            starting = group if counts else replace(group, min_count=None)
            decided.start = self._starts.begin(starting, placed)
        decisions = {decision.queued.info.uid: decision for decision in result.decisions}
        # Not for each member: the decisions of all are read.
        rejecting = set[str]() if result.status.ok else result.rejecting
        for queued in decided.members:
            if self._should_stop():
                # If a member is deleted meanwhile, its binding fails.
                await self._turn.give_way()
            decision = decisions.get(queued.info.uid)
            if decision is None:
                self._return_untried(queued, decided)
                continue
            if decided.start is not None and decision.node_name:
                assignment = decided.assignments[queued.info.uid]
                if self._follow_up.permit(runtime, assignment, result.status):
                    decided.start.ready(assignment)
            else:
                self._fail(decision, decided, rejecting)
            self._activator.activate_wanted(decision.state)
        if decided.start is not None:
            decided.start.all_asked()
        # Not while bindings are under way: members that are bound later would be left alone.
        if not result.status.ok and self._starts.is_incomplete(group.key):
            self._taking_back.begin(group, result.status)
        self._group_outcomes.decided(group, result.status)

    def _return_untried(self, queued: QueuedPodInfo, decided: DecidedGroup) -> None:
        """Return a member that was tried on no node to the queue, with the group's reason."""
        result, status = decided.result, decided.result.status
        if status.ok:  # The group starts without it, as quota permits.
            self._follow_up.return_untried([queued])
            return
        if status.code is Code.ERROR:
            self._failures.fail_with_error(queued, status.message)
            return
        nominated = result.nominations.get(queued.info.uid, "") if result.victims else ""
        self._follow_up.nominate(queued.info, nominated)
        plugins = {status.plugin} - {""}
        if decided.attempted is not None and not plugins:
            # A unit of a queue that needs victims was tried on no nodes, so no plugin has rejected
            # it. If it has found none, it may be that nodes have no room without them either.
            plugins = {VICTIMS_OF}
            if decided.attempted.chosen is None and not result.decisions:
                plugins.update(decided.runtime.filter_names)
        self._follow_up.reject(queued, status.message, plugins, set(), nominated)

    def _fail(self, decision: Decision, decided: DecidedGroup, rejecting: set[str]) -> None:
        """Return a member without a node to the queue, with its own reason or the group's.

        ``rejecting``: the plugins that rejected other members.
        """
        queued, failure, result = decision.queued, decision.error, decided.result
        nominated = _nomination(queued, result)
        # An error of one member ends the attempts of all, as in kube-scheduler.
        if decision.diagnosis is not None and result.status.code is not Code.ERROR:
            if not result.status.ok:
                self._decider.give_back(decided.runtime, decision)
            post_filter = PostFilterResult(unschedulable(_message(decided)), nominated)
            self._follow_up.no_node_fits(decided.runtime, decision, post_filter)
            if result.status.ok and decided.attempted is None:
                # No victims were searched for it, because the group starts without it.
                self._activator.back_off([queued.info])
            return
        # It found a node, but Reserve rejected it, or the group cannot start with those that did.
        self._patches.write(decision.state, queued.info, try_again=True)
        if failure is not None and failure.code is Code.ERROR:
            self._failures.fail_with_error(queued, failure.message)
            return
        if result.status.code is Code.ERROR:
            self._failures.fail_with_error(queued, result.status.message)
            return
        if failure is not None:
            message, rejectors = failure.message, {failure.plugin}
        else:
            # It waits for the events that may help the members without a node: the group then
            # starts with it.
            reasons = (REASON_UNSCHEDULABLE, result.waiting.message, _WAITED)
            message = ", ".join(filter(None, reasons))
            rejectors = {result.waiting.plugin, *rejecting}
        self._follow_up.nominate(queued.info, nominated)
        self._follow_up.reject(queued, message, rejectors - {""}, set(), nominated)

    def _preempt(self, decided: DecidedGroup) -> None:
        """Start evicting the victims; PreEnqueue holds the members back meanwhile."""
        result = decided.result
        assert result.victims is not None
        pods, plugin = tuple(queued.info for queued in decided.members), result.preempting_plugin
        listener = decided.runtime.eviction_listeners.get(plugin)
        terms = None if decided.attempted is None else decided.attempted.chosen
        note = None if terms is None else terms.note
        preemption = Preemption(pods, "", result.victims, plugin, listener, decided.group, note)
        nodes = result.nominations
        self._follow_up.preempt(
            preemption, [(pod, nodes[pod.uid]) for pod in pods if pod.uid in nodes]
        )


def _message(decided: DecidedGroup) -> str:
    """Return the text that is added to the reasons of members that fit no node."""
    if decided.attempted is not None:
        result, chosen = decided.attempted
        return "" if result.victims is None or chosen is None else chosen.message
    plugins = group_plugins(decided.runtime).post_filter
    return next((named.plugin.member_message(decided.group) for named in plugins), "")


def _nomination(queued: QueuedPodInfo, result: GroupDecision) -> str | None:
    """Return the node that a member is nominated to, "" for none; None: as before."""
    if result.victims is not None:
        return result.nominations.get(queued.info.uid, "")
    return None if result.status.ok or result.waits_for_victims else ""
