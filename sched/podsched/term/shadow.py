"""Compare the bindings of pods with the decisions of another configuration.

    events of the cluster, in order
        a pod is bound --> decide for the pod as it was before --> same | tied | different | ...
        then, and for all other events --> apply to the shadow's own cache

Each pod is decided in a cluster where all pods bound before it are on their real nodes. So earlier
differences do not cause later ones. A node with the same score as the best counts as ``tied``: the
order of equal nodes means nothing.

Nothing is assumed, reserved, preempted or written, and extenders are not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from podsched.api.objects import Pod, copy_of
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import SchedulerConfiguration
from podsched.decide.accelerators.score_details import details_of
from podsched.decide.accelerators.selection import Selector
from podsched.framework.plugin import PluginFactory
from podsched.framework.pods import PodInfo
from podsched.serve.client.informer import Event
from podsched.term.cycle.decision_notes import Allowance, DecisionSink, digest, score_fields
from podsched.term.cycle.outcomes import ERROR, SCHEDULED, UNSCHEDULABLE
from podsched.term.state import SchedulingState, build_state

#: Phases of pods that are no longer scheduled.
FINISHED = ("Succeeded", "Failed")


class Verdict(StrEnum):
    """How a shadow decision compares with the binding; a label of the metric."""

    SAME = "same"
    TIED = "tied"
    DIFFERENT = "different"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


class Shadow:
    """Follows the cluster, and decides for each pod when another scheduler binds it."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        factories: Mapping[str, PluginFactory],
        sink: DecisionSink | None,
        now: float,
    ) -> None:
        """``sink`` gets the decisions that differ; ``now``: monotonic seconds."""
        self._state: SchedulingState = build_state(config, factories, seed=0)
        self._decider = self._state.decider()
        self._sink = sink
        self._allowance = Allowance(now)

    @property
    def _cache(self) -> Cache:
        return self._state.cache

    def apply(self, event: Event) -> None:
        """Apply an event without deciding."""
        if event.kind == "Lease":
            return
        self._state.set_aside.apply(self._cache, event)

    def decide_and_apply(self, event: Event, revision: int, now: float) -> Verdict | None:
        """Apply an event; if it binds a pod, decide first and return the verdict."""
        pod = self._bound_by(event)
        verdict = None if pod is None else self._decide(*pod, revision, now)
        self.apply(event)
        return verdict

    def _bound_by(self, event: Event) -> tuple[PodInfo, str] | None:
        """Return the pod as it was before the event bound it, and its node; None: no binding."""
        old, new = event.old, event.new
        if not isinstance(new, Pod) or not new.spec.node_name:
            return None
        if isinstance(old, Pod) and old.spec.node_name:
            return None
        if new.metadata.HasField("deletion_timestamp") or new.status.phase in FINISHED:
            return None
        known = self._cache.cluster.pods.get(event.key)
        if known is None:
            # Created and bound within one batch of events.
            before = copy_of(new)
            before.spec.node_name = ""
            known = make_pod_info(before, self._cache.classes)
        if known.cls.scheduler_name not in self._state.profiles or known.node_name:
            return None
        return known, new.spec.node_name

    def _decide(self, pod: PodInfo, node_name: str, revision: int, now: float) -> Verdict:
        runtime = self._state.profiles[pod.cls.scheduler_name]
        selector = self._decider.selector(runtime, pod)
        evaluation = selector.evaluation
        result = selector.select(pod)
        runtime.meter.evaluated(evaluation.cost, 1, failed=evaluation.failure is not None)
        columns, more = self._cache.columns, {"bound_node": node_name}
        if evaluation.failure is not None:
            message = evaluation.failure.status.message
            self._note(pod, (0, 0, "", None), ERROR, message, more, revision, now)
            return Verdict.ERROR
        if result is None:
            diagnosis = evaluation.diagnosis()
            nowhere = (diagnosis.num_all_nodes, 0, "", None)
            self._note(pod, nowhere, UNSCHEDULABLE, diagnosis.fit_error(), more, revision, now)
            return Verdict.UNSCHEDULABLE
        chosen, bound = columns.names[result.row], columns.row_of(node_name)
        if chosen == node_name:
            return Verdict.SAME
        if bound is not None and evaluation.total[bound] == result.total:
            return Verdict.TIED
        details = self._details(selector, result.row, now)
        grounds = (result.evaluated, result.feasible, chosen, result.total)
        self._note(pod, grounds, SCHEDULED, "", more | details, revision, now)
        return Verdict.DIFFERENT

    def _details(self, selector: Selector, row: int, now: float) -> dict[str, Any]:
        found = details_of(selector.evaluation, row) if self._allowance.has_some(now) else None
        return {} if found is None else score_fields(found, self._cache.columns.names)

    def _note(
        self,
        pod: PodInfo,
        grounds: tuple[int, int, str, int | None],
        outcome: str,
        message: str,
        more: Mapping[str, Any],
        revision: int,
        now: float,
    ) -> None:
        """Hand a row of the decision log to the sink; see ``ask.decisions.rows``."""
        if self._sink is None:
            return
        number = self._sink.numbers(1) + 1
        cls = pod.cls
        row = [
            number, cls.namespace, pod.name, pod.uid, 0, cls.scheduler_name, digest(cls), 0,
            revision, *grounds, 1, 0, 0, 0.0, 0.0, now, 0.0, outcome, message, now, dict(more),
        ]  # fmt: skip
        self._sink.put(("row", row), 1)
