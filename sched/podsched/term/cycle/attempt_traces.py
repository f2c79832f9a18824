"""Traces of scheduling attempts: the spans between a pod's entry into the queue and its binding.

    (the pod's context)
     |-- watch                         until the queue has it, from its admission
     '-- scheduling attempt
          |-- queue wait
          |-- evaluate -- PreFilter, Filter, Score -- each run of a plugin
          |-- PostFilter, Reserve, Permit, PreBind -- each run of a plugin
          |-- Bind -- each run of a plugin that may refuse the pod
          |                            its context goes with the call: API request is its child
          '-- PostBind -- each run of a plugin

A pod whose creator traced it has the trace context in an annotation. For other pods, attempts are
sampled here as separate traces. Spans are created afterwards, from times noted during the attempt.
Cost: without tracing one flag is read; for pods without a trace, one dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from podsched.api import trace_context
from podsched.config.plugins import ExtensionPoint
from podsched.decide.decision import Decision
from podsched.decide.runtime.plugin_metrics import NO_PHASES, Phases
from podsched.decide.runtime.run_log import PluginRun, RunLog
from podsched.decide.runtime.run_spans import record_runs
from podsched.framework.pods import QueuedPodInfo
from podsched.telemetry.logs import bind_trace, get_logger
from podsched.telemetry.tracing import NO_SPAN, Span, SpanName, Tracer
from podsched.term.writes.bind_queue import Assignment

_log = get_logger("scheduler")
#: Max attempts recorded per second on request of pod creators. Each takes some 0.5 ms, and everyone
#: who may create pods can request it.
MOST_ASKED = 200
_POINTS: Mapping[str, str] = {ExtensionPoint.PRE_SCORE.label: SpanName.SCORE}


@dataclass(slots=True)
class _Attempt:
    """A recorded attempt; ``asked``: the pod's creator requested it."""

    span: Span
    asked: bool
    bind: Span = NO_SPAN
    #: When the last recorded extension point ended.
    until: float = 0.0


class AttemptTraces:
    """Records the attempts that are running, if they are traced, by the pod's uid."""

    def __init__(self, tracer: Tracer, runs: RunLog) -> None:
        self._tracer = tracer
        self._runs = runs
        self._attempts: dict[str, _Attempt] = {}
        #: A second of the clock, and the attempts that creators requested in it.
        self._asked = (0, 0)

    def popped(self, pods: Sequence[QueuedPodInfo], now: float) -> None:
        """Begin the attempts of pods that have left the queue."""
        if self._tracer.enabled:
            for queued in pods:
                self._begin(queued, now)

    def _begin(self, queued: QueuedPodInfo, now: float) -> None:
        info, tracer = queued.info, self._tracer
        context = trace_context.context_of(info.pod.metadata.annotations)
        if context and not self._may_ask(now):
            return
        span = tracer.start(
            SpanName.ATTEMPT,
            parent=context,
            at=queued.timestamp,
            attributes={"pod": info.key, "attempt": queued.attempts},
        )
        if not span.recording:
            return
        admitted = trace_context.admitted_at(info.pod.metadata.annotations)
        if admitted and queued.attempts == 1:
            # Clocks of two machines may disagree.
            began = min(tracer.monotonic(admitted), queued.timestamp)
            tracer.resume(SpanName.WATCH, context, at=began).end(queued.timestamp)
        span.child(SpanName.QUEUE_WAIT, queued.timestamp, now)
        self._attempts[info.uid] = _Attempt(span, bool(context))

    def _may_ask(self, now: float) -> bool:
        """Count an attempt that the pod's creator requested; False if there are too many."""
        second, count = self._asked
        count = count + 1 if second == int(now) else 1
        self._asked = (int(now), count)
        return count <= MOST_ASKED

    def of(self, queued: QueuedPodInfo) -> str:
        """Return the context of a pod's attempt, "" when it is not recorded."""
        attempt = self._attempts.get(queued.info.uid)
        return attempt.span.context if attempt is not None else ""

    # ------------------------------------------------------------------ phases

    def follow(self, pods: Sequence[QueuedPodInfo]) -> None:
        """Record the runs of plugins from now on, if one of the pods is traced.

        Ends with the next ``decided``, ``phase`` or ``bind_plugins_ran``; do not await anything
        before. Log lines written meanwhile have the trace's id.
        """
        if not self._attempts:
            return
        context = next(filter(None, map(self.of, pods)), "")
        if context:
            self._runs.follow()
            bind_trace(context)

    def _followed(self) -> Sequence[PluginRun]:
        if self._runs.runs is None:
            return ()
        bind_trace("")
        return self._runs.take()

    def decided(
        self,
        profile: str,
        decisions: Sequence[Decision],
        began: float,
        ended: float,
        phases: Phases = NO_PHASES,
    ) -> None:
        """Record that pods of one profile were decided together.

        The runs of plugins go into the trace of the first traced pod.
        """
        runs = self._followed()
        for decision in decisions if self._attempts else ():
            attempt = self._attempts.get(decision.queued.info.uid)
            if attempt is None:
                continue
            evaluate = attempt.span.start_child(SpanName.EVALUATE, began)
            if runs:
                _record_evaluation(evaluate, runs)
            elif phases.began >= began:
                _record_phases(evaluate, phases)
            runs = ()
            evaluate.end(
                ended, {"pods": len(decisions), "profile": profile, "node": decision.node_name}
            )

    def phase(
        self,
        queued: QueuedPodInfo,
        name: SpanName,
        began: float,
        ended: float,
        error: str = "",
        runs: Sequence[PluginRun] = (),
    ) -> None:
        """Record that a pod has passed an extension point.

        ``runs``: the runs of plugins, if ``follow`` could not record them (across awaits).
        """
        attempt = self._attempts.get(queued.info.uid) if self._attempts else None
        if attempt is not None:
            span = attempt.span.start_child(name, began)
            record_runs(span, runs or self._followed())
            span.end(ended, error=error)
            attempt.until = ended

    # ------------------------------------------------------------------ ends

    def binding(self, assignments: Sequence[Assignment], now: float) -> None:
        """Begin Bind; the spans of its calls are children of it."""
        for assignment in assignments if self._attempts else ():
            attempt = self._attempts.get(assignment.pod.uid)
            if attempt is not None:
                attempt.bind = attempt.span.start_child(SpanName.BIND, now)
                assignment.traceparent = attempt.bind.context

    def bind_plugins_ran(self, queued: QueuedPodInfo) -> None:
        """Record the runs of Bind plugins that were followed."""
        attempt = self._attempts.get(queued.info.uid) if self._attempts else None
        if attempt is not None:
            record_runs(attempt.bind, self._followed())

    def bound(self, assignment: Assignment, now: float) -> None:
        if self._attempts:
            self.end(assignment.queued, at=now, node=assignment.node_name)

    def end(
        self, queued: QueuedPodInfo, error: str = "", at: float | None = None, node: str = ""
    ) -> None:
        """End an attempt; ``error``: why the pod is not bound to ``node``."""
        attempt = self._attempts.pop(queued.info.uid, None)
        if attempt is None:
            return
        self._followed()
        attempt.bind.end(at, error=error)
        # PostBind comes after the time at which the pod was bound.
        over = at if at is None else max(at, attempt.until)
        attempt.span.end(over, {"node": node} if node else None, error)
        level = _log.info if attempt.asked else _log.debug
        outcome = error or ("bound" if node else "postponed")
        level(
            "Traced a scheduling attempt",
            pod=queued.info.key,
            node=node,
            attempt=queued.attempts,
            outcome=outcome,
            trace_id=trace_context.trace_id(attempt.span.context),
        )

    def end_all(self, error: str) -> None:
        """End all attempts, because the work of the term has ended."""
        attempts, self._attempts = self._attempts, {}
        for attempt in attempts.values():
            attempt.bind.end(error=error)
            attempt.span.end(error=error)


def _record_phases(evaluate: Span, phases: Phases) -> None:
    """Record the extension points of an evaluation whose runs are in another pod's trace."""
    evaluate.child(SpanName.PRE_FILTER, phases.began, phases.pre_filtered)
    evaluate.child(SpanName.FILTER, phases.pre_filtered, phases.filtered)
    evaluate.child(SpanName.SCORE, phases.filtered, phases.scored)


def _record_evaluation(evaluate: Span, runs: Sequence[PluginRun]) -> None:
    """Record the extension points of an evaluation, with the runs at each.

    A batch may have several evaluations, one after the other; PreScore is a part of Score.
    """
    for point, group in groupby(runs, lambda run: _POINTS.get(run.point, run.point)):
        within = list(group)
        span = evaluate.start_child(point, within[0].began)
        record_runs(span, within)
        span.end(within[-1].ended)
