"""The scheduling cycle: takes a batch of popped pods to assumed, or back to the queue.

    popped --skipped (deleted, bound)------------------------------------------> done
    popped --no node fits--> PostFilter (evictions) --> status, event, requeued
    popped --error---------------------------------> status, event, requeued (error backoff)
    popped --assumed--> Reserve --> Permit --> the binding cycle
                           '----------'--rejected--> undone, requeued

There is no await between deciding for a pod and assuming it, so the state that was read cannot
change in between. The cycle awaits only remote evaluators, extenders and its next turn.

Source: schedulingCycle in ``schedule_one.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.cache.trial import Trial
from podsched.decide.decision import Decision
from podsched.decide.extenders.decider import ExtendedDecider
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import CycleState, PostFilterResult
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import error
from podsched.serve.client.errors import FenceLost
from podsched.telemetry.logs import get_logger
from podsched.telemetry.tracing import SpanName
from podsched.term.cycle.binding_cycle import BindingCycle
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.follow_up import FollowUp
from podsched.term.cycle.loop_parts import TermPart, TermParts

_log = get_logger("scheduler")

#: Max seconds that popped pods wait while extenders are called for the pods before them. Then they
#: return to the queue, because more important pods may have arrived.
MAX_WAIT_FOR_EXTENDERS = 0.1
#: How many popped pods are checked for deletion after other tasks have run. Checking all remaining
#: pods each time would be quadratic if each pod takes long, as preemptors do: 117 checks for each.
_CHECKED = 64


class SchedulingCycle(TermPart):
    """Runs the scheduling cycles of one term."""

    def __init__(
        self, parts: TermParts, failures: FailureHandler, binding: BindingCycle, follow_up: FollowUp
    ) -> None:
        super().__init__(parts)
        self._failures = failures
        self._binding = binding
        self._follow_up = follow_up
        self._extended: ExtendedDecider | None = None
        if parts.extenders is not None:
            running = parts.meter.scheduler.goroutines.labels("prioritizing_extender").inc
            self._extended = ExtendedDecider(
                parts.state.cache, parts.decider, parts.extenders, running
            )

    async def schedule(self, batch: Sequence[QueuedPodInfo], now: float) -> None:
        """Decide for a batch of popped pods of one profile, and carry out the decisions.

        If an unexpected exception is raised, only the attempt of the current pod fails.
        """
        try:
            await self._schedule(batch, now)
        except FenceLost:
            raise
        except Exception as bug:
            self._give_up(batch, bug)

    def _give_up(self, batch: Sequence[QueuedPodInfo], bug: Exception) -> None:
        """Fail the attempt of the pod at fault; try the other popped pods again at once.

        Pods are decided in order, so the first pod that is not assumed is at fault. Evaluations of
        pods like the first may be incomplete, so they are dropped.
        """
        first = batch[0].info
        self._decider.discard(first)
        # Pods that are no longer in flight, or are at Permit, were handled before the bug.
        in_flight = {flight.pod.info.uid for flight in self._state.queue.in_flight}
        begun = [
            q for q in batch if q.info.uid in in_flight and q.info.uid not in self._binding.waiting
        ]
        assumed = [q for q in begun if q.info.uid in self._state.cache.assumed]
        others = [q for q in begun if q.info.uid not in self._state.cache.assumed]
        _log.error(
            "A scheduling cycle failed",
            pod=(others or assumed or batch)[0].key,
            error=repr(bug),
            exc_info=bug,
        )
        status = error(f"scheduling cycle failed: {bug!r}")
        for queued in assumed:
            decision = Decision(queued, CycleState(), queued.info.node_name)
            assignment = self._follow_up.assignment(decision)
            self._failures.undo(assignment, status, at_once=True)
        for queued in others[:1]:
            self._failures.fail_with_error(queued, status.message)
        self._follow_up.return_untried(others[1:])

    async def _schedule(self, batch: Sequence[QueuedPodInfo], now: float) -> None:
        pods = self._follow_up.not_skipped(batch)
        if not pods:
            return
        # The pods of a batch are of one profile (``Decider.may_join``).
        runtime = self._state.profiles[pods[0].info.cls.scheduler_name]
        self._meter.popped(pods, now)
        if self._extended is not None and self._extended.takes(pods[0].info.cls):
            await self._schedule_extended(self._extended, runtime, pods, now)
            return
        unchecked: list[QueuedPodInfo] = []
        while pods or unchecked:
            if not pods:
                pods, unchecked = unchecked[:_CHECKED], unchecked[_CHECKED:]
                pods = self._follow_up.not_skipped(pods)
                continue
            pods = await self._schedule_some(runtime, pods, now)
            # Do not yield after each pod that fits nowhere: the evictions and statuses of
            # preemptors would go out in small batches (312 instead of 147 to 194 calls that evict
            # for 1,000 preemptors).
            if (pods or unchecked) and self._turn.is_over:
                await self._turn.give_way()
                # Other tasks have run, so every pod is checked again, a part of them at a time.
                pods, unchecked = [], pods + unchecked

    async def _schedule_some(
        self, runtime: ProfileRuntime, pods: list[QueuedPodInfo], popped_at: float
    ) -> list[QueuedPodInfo]:
        """Decide for the first pods; return the others that can still be scheduled.

        It may return all pods, if the first fits nowhere and is to be decided again later.
        """
        first = pods[0]
        waited = await self._prepare(runtime, [first])
        # ``or waited`` comes last: actors must get their work even if time has passed already.
        if await self._decider.prepare(runtime, first.info, self._meter.traces.of(first)) or waited:
            # Time has passed, so some of the pods may be gone.
            pods = self._follow_up.not_skipped(pods)
            if not pods:
                return pods
        decisions = self._decide(runtime, pods, popped_at)
        if not decisions:
            return pods
        remaining = pods[len(decisions) :]
        # Only the last can be without a node, because the decider stops there.
        unplaced = decisions.pop() if decisions[-1].diagnosis is not None else None
        self._carry_out(runtime, decisions)
        if unplaced is not None:
            remaining = await self._carry_out_unplaced(runtime, unplaced, remaining, popped_at)
        return remaining

    def _decide(
        self,
        runtime: ProfileRuntime,
        pods: Sequence[QueuedPodInfo],
        popped_at: float,
        *,
        at_once: bool = False,
    ) -> list[Decision]:
        """Decide for the first pods.

        Return no decision if the first pod fits nowhere and its preemption has too many dry runs
        for one turn. They are made in parts, with other tasks in between. Each part begins with a
        new decision; only the last decision is reported. ``at_once``: do not divide the dry runs.
        """
        began, profile = self._clock(), runtime.scheduler_name
        self._meter.traces.follow(pods)
        details = self._notes.began(began)
        with Trial(self._state.cache) as trial:
            try:
                decisions = self._decider.decide(
                    trial, runtime, pods, should_stop=self._should_stop, details=details
                )
            finally:
                # Commit after a failure, too: the pods assumed so far show which pod is at fault.
                trial.commit()
        now = self._clock()
        # In one piece, dry runs on 100 nodes with 30 pods each hold the event loop for 50 ms.
        if not at_once and self._decider.try_some(runtime, decisions[-1], self._should_stop):
            # The last pod is decided again later; by then more of its dry runs have been made.
            decisions.pop()
            if not decisions:
                self._notes.dropped()
                return decisions
        self._notes.decided(profile, decisions, popped_at, began, now)
        self._meter.decided(profile, decisions, began, now, self._decider.phases)
        return decisions

    def _carry_out(self, runtime: ProfileRuntime, decisions: Sequence[Decision]) -> None:
        ready = []
        for decision in decisions:
            if decision.error is not None:
                self._failures.fail_with_error(decision.queued, decision.error.message)
            elif decision.diagnosis is not None:
                self._follow_up.no_node_fits(
                    runtime, decision, self._post_filter(runtime, decision)
                )
            else:
                assignment = self._follow_up.assignment(decision)
                status = self._follow_up.reserve(runtime, assignment)
                if self._follow_up.permit(runtime, assignment, status):
                    ready.append(assignment)
            self._activator.activate_wanted(decision.state)
        # Together, so that they share calls of the API.
        self._binding.bind(ready, at_once=True)

    async def _carry_out_unplaced(
        self,
        runtime: ProfileRuntime,
        decision: Decision,
        others: list[QueuedPodInfo],
        popped_at: float,
    ) -> list[QueuedPodInfo]:
        """Handle a pod that fits nowhere, after actors have made its preemption dry runs.

        The dry runs take time: the pod may fit by now, and it and the others may be gone. Return
        the other pods that still exist.
        """
        queued, decisions = decision.queued, [decision]
        traceparent = self._meter.traces.of(queued)
        if await self._decider.prepare_post_filter(runtime, decision, traceparent):
            others = self._follow_up.not_skipped(others)
            decisions = []
            if not self._follow_up.skip(queued):
                decisions = self._decide(runtime, [queued], popped_at, at_once=True)
        self._carry_out(runtime, decisions)
        return others

    async def _schedule_extended(
        self,
        extended: ExtendedDecider,
        runtime: ProfileRuntime,
        pods: Sequence[QueuedPodInfo],
        popped_at: float,
    ) -> None:
        """Decide for one pod after another, because extenders are called for each."""
        for at, queued in enumerate(pods):
            began = self._clock()
            if at and began - popped_at > MAX_WAIT_FOR_EXTENDERS:
                self._follow_up.return_untried(pods[at:])
                return
            if at and self._follow_up.skip(queued):
                continue
            self._notes.began(began)
            decision = await extended.decide(runtime, queued, self._meter.traces.of(queued))
            # The pod was deleted or bound during the calls; ``skip`` ends its attempt.
            if decision is None:
                self._follow_up.skip(queued)
                continue
            now, profile = self._clock(), runtime.scheduler_name
            self._notes.decided(profile, [decision], popped_at, began, now)
            self._meter.decided(profile, [decision], began, now)
            if decision.diagnosis is None:
                self._carry_out(runtime, [decision])
                continue
            result = await extended.post_filter(runtime, decision)
            if not self._follow_up.skip(queued):
                self._follow_up.no_node_fits(runtime, decision, result)
            self._activator.activate_wanted(decision.state)

    def _post_filter(self, runtime: ProfileRuntime, decision: Decision) -> PostFilterResult | None:
        traces, queued = self._meter.traces, decision.queued
        began = self._clock()
        traces.follow([queued])
        result = self._decider.post_filter(runtime, decision)
        traces.phase(queued, SpanName.POST_FILTER, began, self._clock())
        return result
