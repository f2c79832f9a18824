"""Handle the outcomes of Bind: PostBind and Events of bound pods, undoing of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from podsched.cache.changes import Applied
from podsched.framework.status import Status, error
from podsched.telemetry.tracing import SpanName
from podsched.term.cycle.failure_handler import FailureHandler
from podsched.term.cycle.loop_parts import TermPart, TermParts
from podsched.term.cycle.reserve_permit import run_post_bind
from podsched.term.faulty_pods import PodFault, working_on
from podsched.term.writes.bind_queue import Assignment

BIND_WORDING = 'running Bind plugin "{}"'


class BindOutcomes(TermPart):
    """Handles the outcomes of Bind (``Outcomes``) for one term."""

    def __init__(
        self, parts: TermParts, failures: FailureHandler, ended: Callable[[], None]
    ) -> None:
        """Handle outcomes; ``ended`` is called when the outcome of some assignments is known."""
        super().__init__(parts)
        self._failures = failures
        self._ended = ended
        #: Assignments invalidated by another scheduler's binding, with the revision that shows it.
        self._overtaken: list[tuple[int, Assignment]] = []

    def bind_called(self, assignments: Sequence[Assignment], seconds: float, problem: str) -> None:
        self._meter.bind_called(assignments, seconds, problem)

    def bound(self, assignments: Sequence[Assignment]) -> None:
        """Finish the cycles of pods that are bound: PostBind, event, pods that plugins activate."""
        self._state.after_trial.do(partial(self._bound, assignments, self._clock()))

    def _bound(self, assignments: Sequence[Assignment], now: float) -> None:
        for assignment in assignments:
            try:
                self._finish(assignment)
            except Exception as bug:
                raise PodFault([assignment.pod.pod]) from bug
        self._meter.bound(assignments, now)
        self._notes.bound(assignments, now)
        self._ended()

    def _finish(self, assignment: Assignment) -> None:
        pod = assignment.pod
        if (gone := self._state.cache.finish_binding(pod.uid)) is not None:
            self._state.wake(Applied((gone,)), self._clock())
        self._post_bind(assignment)
        self._activator.activate_wanted(assignment.state)
        message = f"Successfully assigned {pod.key} to {assignment.node_name}"
        self._reports.event(pod, "Normal", "Scheduled", "Binding", message)
        if assignment.group is not None:
            assignment.group.bound(assignment)

    def _post_bind(self, assignment: Assignment) -> None:
        runtime = self._state.profiles[assignment.pod.cls.scheduler_name]
        if not runtime.post_bind:
            return
        began = self._clock()
        self._meter.traces.follow([assignment.queued])
        run_post_bind(runtime, assignment)
        self._meter.traces.phase(assignment.queued, SpanName.POST_BIND, began, self._clock())

    def bind_failed(self, assignment: Assignment, status: Status) -> None:
        runtime = self._state.profiles[assignment.pod.cls.scheduler_name]
        # The plugin that left the binding to the API: the default one, or else a user's.
        left = (named.name for named in runtime.bind if named.traits.binds_every_pod)
        wording = BIND_WORDING.format(next(left, runtime.bind[-1].name))
        self.undo(assignment, error(f"{wording}: {status.message}"))

    def undo(self, assignment: Assignment, status: Status) -> None:
        """Undo an assignment that was not bound."""
        self._state.after_trial.do(partial(self._undo, assignment, status))

    def _undo(self, assignment: Assignment, status: Status) -> None:
        self._ended()
        with working_on(assignment.pod.pod):
            self._failures.undo(assignment, status)

    def overtaken(self, assignment: Assignment, revision: int) -> None:
        self._ended()
        self._meter.binding.bind_overtaken_total.inc()
        self._overtaken.append((revision, assignment))
        # The informer may have shown the other binding before this answer came.
        self.caught_up()

    def caught_up(self) -> None:
        """Return overtaken pods to the queue if the state now includes the other binding.

        Until then they stay assumed, because a new decision would use the same outdated state.
        """
        if self._overtaken:
            self._state.after_trial.do(self._return_overtaken)

    def _return_overtaken(self) -> None:
        seen = self._state.revision
        ready = [a for revision, a in self._overtaken if revision <= seen]
        self._overtaken = [(r, a) for r, a in self._overtaken if r > seen]
        for assignment in ready:
            with working_on(assignment.pod.pod):
                self._failures.undo(assignment, error("overtaken"), try_at_once=True)
