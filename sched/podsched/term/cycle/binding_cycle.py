"""The binding cycle: takes a pod from assumed to bound.

    assumed, reserved --(Permit waits, or PreBind has to act)--> own task: Permit --> PreBind
         |                                                                   |
         '------------------ most pods --------------------> bind <----------'
                                                               |
        extender that binds such pods --> Bind plugins --> BindPods, in batches --> PostBind

If a pod is rejected, preempted or fails with an error, its assumption is undone and it returns to
the queue. An exception of a task ends the term and is attributed to the pod (``PodFault``).

Source: bindingCycle and bind in ``schedule_one.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from podsched.decide.extenders.calls import ExtenderClient
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.term.cycle.bind_outcomes import BIND_WORDING, BindOutcomes
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.waiting_cycles import WaitingCycles
from podsched.term.faulty_pods import working_on
from podsched.term.writes.bind_queue import Assignment, BindQueue
from podsched.term.writes.extender_binding import ExtenderBindings

#: While more assignments than this wait to be bound, no pods are popped: to assume further ahead
#: gains nothing, and a failover would lose more.
MAX_AHEAD = 1024
#: Seconds between two checks in ``settled``, for outcomes that no event announces.
_LOOK_EVERY = 0.02


class BindingCycle(TermPart):
    """Runs the binding cycles of one term.

    ``waiting``: the pods at Permit or PreBind. ``outcomes`` handles the outcomes of Bind.
    """

    def __init__(self, parts: TermParts, failures: FailureHandler) -> None:
        super().__init__(parts)
        self._extenders = parts.extenders
        self._failures = failures
        self._room = asyncio.Event()
        self._held = 0
        self.outcomes = BindOutcomes(parts, failures, self._room.set)
        self._queue = BindQueue(parts.binder, parts.fence, self.outcomes)
        self.waiting = WaitingCycles(parts, failures, self.bind)
        self._with_extenders = ExtenderBindings(
            parts.cluster, parts.state.cache, parts.changes, parts.state.after_trial
        )

    def start(self) -> None:
        self._queue.start(self._tasks)
        self.waiting.start()

    # ------------------------------------------------------------------ how much is under way

    @property
    def ahead(self) -> int:
        """The number of assignments at Bind that were not sent yet, or are with an extender."""
        return len(self._queue) + len(self._with_extenders) + self._held

    def hold(self, count: int) -> None:
        """Count ``count`` assignments as ahead until ``release``; their group is being recorded."""
        self._held += count

    def release(self, count: int) -> None:
        self._held -= count
        self._room.set()

    @property
    def under_way(self) -> int:
        """The number of batches of bindings under way, and of pods at Permit or PreBind."""
        return self._queue.calls + len(self.waiting)

    @property
    def revision(self) -> int:
        """A revision that includes all bindings known to be done."""
        return max(self._queue.revision, self._with_extenders.revision)

    async def settled(self, longest: float) -> None:
        """Return once the outcome of every assignment at Bind is known.

        Wait at most ``longest`` seconds for pods at Permit or PreBind.
        """
        deadline = self._clock() + longest
        while self.ahead or self._queue.calls or (self.waiting and self._clock() < deadline):
            self._room.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_EVERY):
                    await self._room.wait()

    async def ask_again(self) -> None:
        """Find out the outcome of bindings that were under way when a bug ended the term.

        Raises:
            FenceLost: another replica leads.
        """
        await self._queue.ask_again()
        await self._with_extenders.ask_again()

    async def close(self) -> None:
        """End the remaining work after the term's tasks have ended."""
        await self._with_extenders.close()

    async def wait_for_room(self) -> None:
        """Wait until there is room to assume more pods."""
        while self.ahead > MAX_AHEAD:
            self._room.clear()
            await self._room.wait()

    # ------------------------------------------------------------------ Bind

    def bind(self, assignments: Sequence[Assignment], *, at_once: bool = False) -> None:
        """Bind pods of a profile: by an extender that binds such pods, else by the Bind plugins.

        ``at_once``: the pods were just assumed and are still in flight in the queue.
        """
        self._meter.traces.binding(assignments, self._clock())
        if self._extenders is not None:
            assignments = [a for a in assignments if not self._start_extender(a)]
        if assignments:
            self._bind_by_plugins(assignments, at_once=at_once)

    def _bind_by_plugins(self, assignments: Sequence[Assignment], *, at_once: bool) -> None:
        runtime = self._state.profiles[assignments[0].pod.cls.scheduler_name]
        if asks_bind_plugins(runtime):
            assignments = [a for a in assignments if self._is_taken(runtime, a, at_once=at_once)]
        if at_once:
            # Not earlier, because a rejected pod in flight needs the events since its pop.
            self._state.queue.in_flight.done(*[a.queued.info.uid for a in assignments])
        # Then the loop goes on to decide at once, and those bindings may share the call.
        others_follow = at_once and len(self._state.queue.pending.active) > 0
        self._queue.submit(assignments, others_follow=others_follow)

    def _is_taken(self, runtime: ProfileRuntime, assignment: Assignment, *, at_once: bool) -> bool:
        self._meter.traces.follow([assignment.queued])
        status = run_bind(runtime, assignment)
        self._meter.traces.bind_plugins_ran(assignment.queued)
        if not status.ok:
            # Members of a group may have held their room for long before they come here.
            at_once = at_once and assignment.group is None
            self._failures.undo(assignment, status, at_once=at_once)
        return status.ok

    def _start_extender(self, assignment: Assignment) -> bool:
        """Return False when no extender binds this pod."""
        assert self._extenders is not None
        binders = self._extenders.binders(assignment.pod.cls.spec)
        if not binders:
            return False
        # Not after the call, which may take long: until then all events would be kept.
        self._state.queue.in_flight.done(assignment.pod.uid)
        self._with_extenders.ask(binders[0], assignment)
        self._tasks.start(
            self._bind_by_extender(assignment, binders[0]),
            f"wait for the extender that binds {assignment.pod.key}",
            ended=lambda task: self._state.after_trial.do(
                partial(self._extender_ended, assignment, task)
            ),
        )
        return True

    async def _bind_by_extender(self, assignment: Assignment, client: ExtenderClient) -> None:
        with working_on(assignment.pod.pod):
            status = await self._with_extenders.outcome(client, assignment)
        # As in kube-scheduler, the plugins bind a pod whose ignorable extender has failed.
        if status.skipped:
            self._bind_by_plugins([assignment], at_once=False)
        elif status.ok:
            self.outcomes.bound([assignment])
        else:
            self.outcomes.undo(assignment, status)

    def _extender_ended(self, assignment: Assignment, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return  # The term is over.
        self._with_extenders.settled(assignment)
        self._room.set()
        if (bug := task.exception()) is not None:
            status = error(f"extender bind failed: {bug.__cause__ or bug!r}")
            self._failures.undo(assignment, status)


def asks_bind_plugins(runtime: ProfileRuntime) -> bool:
    """Whether a plugin may refuse or skip a pod; False if the default binder comes first."""
    # Without any plugin, ``run_bind`` returns the error that no plugin has accepted the pod.
    return not runtime.bind or not runtime.bind[0].traits.binds_every_pod


def run_bind(runtime: ProfileRuntime, assignment: Assignment) -> Status:
    """Call the Bind plugins in order. Return SUCCESS if one accepts the pod, else why it does not.

    Source: RunBindPlugins in ``framework/runtime/framework.go`` of kube-scheduler v1.36, with its
    messages. If no plugin accepts the pod, v1.36 has an empty message; here it is the message of
    older releases.
    """
    for named in runtime.bind:
        if named.traits.binds_every_pod:
            return SUCCESS
        call: Callable[..., Status] = named.plugin.bind
        state, pod, node = assignment.state, assignment.pod, assignment.node_name
        try:
            status = named.runs.call(named.name, BIND_WORDING, call, state, pod, node)
        except PluginFailure as failure:
            return failure.status
        if status.skipped:
            continue
        if status.ok:
            return SUCCESS
        if status.code.rejects:
            return status.by(named.name)
        text = f"{BIND_WORDING.format(named.name)}: {status.message}"
        return replace(status, code=Code.ERROR, reasons=(text,), plugin=named.name)
    return error(f"bind status: {Code.SKIP.text}, ")
