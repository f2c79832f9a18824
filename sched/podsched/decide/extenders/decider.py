"""Choose a node for a pod that concerns extenders.

``ExtendedDecider`` does what ``decide.decider`` does, but for one pod at a time, and the cluster
may change during its HTTP calls. So only names of nodes are kept across a call. After each call the
class's evaluation is refreshed, and a node remains if the extenders passed it and it fits *now*. If
none remains, but nodes fit that the extenders have not seen, the extenders are called again.

    refresh --> filter (extenders, one after another) --> refresh --> prioritize (all at once)
       ^                          |                                        |
       |                  nothing is left                               refresh
       '--- others fit now -------+-------------- nothing fits now --------+--> best --> assumed
                                  v
                          PostFilter, with the preempt verb between finding candidates and choosing

Source: findNodesThatFitPod and prioritizeNodes of kube-scheduler v1.36. One difference: if
extenders reject a pod's nominated node, they are not called for that node a second time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from podsched.cache.cache import Cache
from podsched.cache.trial import Trial
from podsched.config.plugins import ExtensionPoint
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.selection import Selector
from podsched.decide.decision import Decision
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.extenders.calls import (
    ExtenderClient,
    Extenders,
    run_filters,
    run_preempt,
    run_prioritize,
)
from podsched.decide.extenders.wire import EXTENDER_NAME, ExtenderError
from podsched.decide.post_filtering import POST_FILTER_WORDING, ends_post_filter, merge
from podsched.decide.runtime.plugin_calls import PluginFailure, guarded
from podsched.decide.runtime.profile_runtime import Named, ProfileRuntime
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import Bools
from podsched.framework.plugin import CycleState, PostFilterPlugin, PostFilterResult
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.framework.preemption import PreemptionPlugin
from podsched.framework.status import Status, error
from podsched.framework.verdicts import MAX_REASONS, Reason, Rows
from podsched.telemetry.logs import get_logger
from podsched.v1 import objects_pb2 as v1

_log = get_logger("extenders")

#: Max rounds of calls for one pod in one attempt, if the cluster changes during each.
MAX_TRIES = 3
CHANGED_MEANWHILE = "the cluster changed each time that the extenders were asked"
PREEMPTION_PREFIX = "preemption: "
#: MaxTotalScore of kube-scheduler, and the most that can be recorded.
MAX_TOTAL = 2**63 - 1


class ExtendedDecider:
    """Decides for pods that concern at least one extender."""

    def __init__(
        self,
        cache: Cache,
        decider: AcceleratedDecider,
        extenders: Extenders,
        running: Callable[[int], None],
    ) -> None:
        """Call ``running`` with 1 when a prioritize call begins, and with -1 when it ends."""
        self._cache = cache
        self._decider = decider
        self._extenders = extenders
        self._running = running

    def takes(self, cls: PodClass) -> bool:
        """Return whether pods of this class concern an extender."""
        return bool(self._extenders.deciding(cls.spec))

    async def decide(
        self, runtime: ProfileRuntime, queued: QueuedPodInfo, traceparent: str = ""
    ) -> Decision | None:
        """Return the decision for a pod, its node already assumed.

        None when the pod has been deleted or bound meanwhile. ``traceparent`` is the attempt's.
        """
        clients = self._extenders.deciding(queued.info.cls.spec)
        await self._decider.prepare(runtime, queued.info, traceparent)
        try:
            for _ in range(MAX_TRIES):
                selector = self._decider.selector(runtime, queued.info)
                decision = await _Attempt(selector, queued, clients, self._running).run()
                evaluation = selector.evaluation
                failed = evaluation.failure is not None
                runtime.meter.evaluated(evaluation.cost, 1, failed=failed)
                if self._is_gone(queued.info):
                    return None
                if decision is None:
                    continue
                if decision.node_name:
                    # Opened only after the last call: a trial that is open during a call would
                    # contain the changes that other tasks make meanwhile.
                    with Trial(self._cache) as trial:
                        trial.assume(queued.info, decision.node_name)
                        trial.commit()
                return decision
        except ExtenderError as failure:
            return Decision(queued, CycleState(), error=error(str(failure)))
        return Decision(queued, CycleState(), error=error(CHANGED_MEANWHILE))

    def _is_gone(self, pod: PodInfo) -> bool:
        cache = self._cache
        known = cache.cluster.pods.get(pod.key)
        return known is None or known.uid != pod.uid or pod.uid in cache.held

    # ------------------------------------------------------------------ PostFilter

    async def post_filter(
        self, runtime: ProfileRuntime, decision: Decision
    ) -> PostFilterResult | None:
        """Do what ``AcceleratedDecider`` does; extenders may drop candidates for preemption."""
        spec = decision.queued.info.cls.spec
        clients = [c for c in self._extenders.deciding(spec) if c.config.preempt_verb]
        two_steps = any(isinstance(named.plugin, PreemptionPlugin) for named in runtime.post_filter)
        assert decision.diagnosis is not None
        if not clients or not two_steps or not decision.diagnosis.num_all_nodes:
            return self._decider.post_filter(runtime, decision)
        began = time.monotonic()
        result = await self._run_all(runtime, decision, clients)
        code = result.status.code
        runtime.meter.passed(ExtensionPoint.POST_FILTER, code, time.monotonic() - began)
        return result

    async def _run_all(
        self, runtime: ProfileRuntime, decision: Decision, clients: Sequence[ExtenderClient]
    ) -> PostFilterResult:
        """Do what ``run_post_filter`` does, with the extenders in between."""
        merged = None
        for named in runtime.post_filter:
            try:
                result = await self._run_post_filter(runtime, named, decision, clients)
            except PluginFailure as failure:
                return PostFilterResult(failure.status)
            except ExtenderError as failure:
                return PostFilterResult(error(f"{PREEMPTION_PREFIX}{failure}"))
            merged = merge(merged, result, named.name)
            if ends_post_filter(result.status):
                break
        assert merged is not None
        return merged

    async def _run_post_filter(
        self,
        runtime: ProfileRuntime,
        named: Named[PostFilterPlugin],
        decision: Decision,
        clients: Sequence[ExtenderClient],
    ) -> PostFilterResult:
        plugin, pod = named.plugin, decision.queued.info
        cluster, runner = self._cache.cluster, self._decider.runner(runtime, decision)
        name, wording = named.name, POST_FILTER_WORDING
        if not isinstance(plugin, PreemptionPlugin):
            call = plugin.post_filter
            return named.runs.call(name, wording, call, decision.state, pod, cluster, runner)
        find = plugin.find_candidates
        found = named.runs.call(name, wording, find, decision.state, pod, cluster, runner)
        if isinstance(found, PostFilterResult):
            return found
        left = await run_preempt(clients, pod, found, self._pods_on)
        return guarded(name, wording, plugin.choose_candidate, left, cluster)

    def _pods_on(self, node_name: str) -> Mapping[str, PodInfo] | None:
        columns = self._cache.columns
        row = columns.row_of(node_name)
        return None if row is None else columns.pods(row)


class _Attempt:
    """One round of calls for one pod; ``_refresh`` after each call updates the evaluation."""

    def __init__(
        self,
        selector: Selector,
        queued: QueuedPodInfo,
        clients: Sequence[ExtenderClient],
        running: Callable[[int], None],
    ) -> None:
        self._selector = selector
        self._evaluation: ClassEvaluation = selector.evaluation
        self._queued = queued
        self._pod = queued.info
        self._clients = clients
        self._running = running
        self._rejected: dict[str, Status] = {}
        #: The row of the pod's nominated node, if the pod fits there.
        self._nominated: int | None = None

    async def run(self) -> Decision | None:
        """Return a decision without assuming the pod; None to try again. Raises ExtenderError."""
        ended = self._refresh()
        if ended is None and self._nominated is not None:
            decision = await self._nominee(self._names([self._nominated])[0])
            if decision is not None:
                return decision
        # Also if no node fits: the next search is to start elsewhere. Like kube-scheduler, this
        # counts the nodes before extenders are called.
        sample = self._names(self._selector.sample()) if self._evaluation.is_filtered else []
        if (ended := self._failed() or ended) is not None:
            return ended
        # The nodes that fit before the call; others that fit after it have become feasible since.
        before = set(self._names(self._evaluation.feasible_rows))
        passed = await self._ask([name for name in sample if name not in self._rejected])
        if (ended := self._refresh()) is not None:
            return ended
        # Nodes may have come or been filled during the call. Try again if extenders have not seen
        # some of the nodes that fit now, or if all that they passed are full: ``sample`` may have
        # left out others.
        if not len(self._fitting(passed)):
            others = set(self._names(self._evaluation.feasible_rows)) - before
            return None if others or passed else self._unschedulable()
        return await self._best(passed)

    def _refresh(self) -> Decision | None:
        """Refresh the evaluation; return a decision if no extender needs to be called."""
        evaluation = self._evaluation
        evaluation.refresh(self._pod)
        if (failed := self._failed()) is not None:
            return failed
        if not evaluation.pre_filtered.status.ok:
            return self._unschedulable()
        self._nominated = self._selector.fitting_nominee(self._pod)
        if self._nominated is None and not len(evaluation.feasible_rows):
            return self._unschedulable()
        return None

    def _failed(self) -> Decision | None:
        evaluation = self._evaluation
        if evaluation.failure is None:
            return None
        return Decision(self._queued, evaluation.state, error=evaluation.failure.status)

    async def _nominee(self, name: str) -> Decision | None:
        """Return the nominated node as the decision if the extenders pass it, too."""
        try:
            passed = await self._ask([name])
        except ExtenderError as failure:
            error_text = str(failure)
            _log.info("The nominated node could not be tried", pod=self._pod.key, error=error_text)
            passed = []
        if (ended := self._refresh()) is not None:
            return ended
        if passed and self._nominated is not None and self._nominated == self._row(name):
            return Decision(self._queued, self._evaluation.state.copy(), name)
        return None

    async def _ask(self, names: Sequence[str]) -> list[str]:
        filtered = await run_filters(self._clients, self._pod, self._nodes(names))
        self._rejected.update(filtered.rejected)
        return filtered.passed

    async def _best(self, passed: Sequence[str]) -> Decision | None:
        """Return the best of the nodes that passed."""
        scores: Mapping[str, int] = {}
        rows = self._fitting(passed)
        if len(rows) > 1 and any(client.config.prioritize_verb for client in self._clients):
            nodes = self._nodes(self._names(rows))
            scores = await run_prioritize(self._clients, self._pod, nodes, self._running)
            if (ended := self._refresh()) is not None:
                return ended
            rows = self._fitting(nodes)
        if not len(rows):
            return None
        try:
            totals = self._selector.totals(self._pod, rows).tolist()
        except PluginFailure as failure:
            return Decision(self._queued, self._evaluation.state, error=failure.status)
        names = self._names(rows)
        # Add Python integers: extenders' scores are not bounded, and int64 would overflow.
        sums = [total + scores.get(name, 0) for total, name in zip(totals, names, strict=True)]
        best = sums.index(max(sums))
        return Decision(
            self._queued,
            self._evaluation.state.copy(),
            names[best],
            total=min(max(sums[best], -MAX_TOTAL - 1), MAX_TOTAL),
            feasible=len(rows),
            evaluated=len(self._evaluation.outcome().rows),
        )

    # ------------------------------------------------------------------ nodes and rows

    def _row(self, name: str) -> int | None:
        return self._evaluation.cluster.nodes.row_of(name)

    def _names(self, rows: Iterable[int]) -> list[str]:
        names = self._evaluation.cluster.nodes.names
        return [names[row] for row in rows]

    def _nodes(self, names: Iterable[str]) -> dict[str, v1.Node]:
        nodes = self._evaluation.cluster.nodes
        found = ((name, nodes.row_of(name)) for name in names)
        return {name: nodes.node(row) for name, row in found if row is not None}

    def _fitting(self, names: Iterable[str]) -> Rows:
        """Return the rows of those nodes on which the pod fits, ascending."""
        rows = {self._row(name) for name in names}
        mask = np.isin(self._evaluation.feasible_rows, [row for row in rows if row is not None])
        return self._evaluation.feasible_rows[mask]

    def _unschedulable(self) -> Decision:
        diagnosis = self._evaluation.diagnosis()
        if diagnosis.outcome is not None and self._rejected:
            # The nominated row may be rejected for the class while it fits this pod.
            rows = diagnosis.outcome.rows
            fits = (diagnosis.outcome.plugin == PASSED) | (rows == self._nominated)
            rejections = self._rejections_by_row()
            diagnosis = _with_rejections(diagnosis, diagnosis.outcome, fits, rejections)
        return Decision(self._queued, self._evaluation.state.copy(), diagnosis=diagnosis)

    def _rejections_by_row(self) -> dict[int, Status]:
        found = ((self._row(name), status) for name, status in self._rejected.items())
        return {row: status for row, status in found if row is not None}


def _with_rejections(
    diagnosis: Diagnosis, outcome: FilterOutcome, fits: Bools, rejected: Mapping[int, Status]
) -> Diagnosis:
    """Return the diagnosis with the extenders' rejections of rows on which the pod fits.

    Extenders may give a different reason for every node. A plugin of an outcome has at most
    MAX_REASONS, so extenders count as several plugins of the same name.
    """
    numbers: dict[Reason, int] = {}
    plugin, bits = outcome.plugin.copy(), outcome.bits.copy()
    for place in np.flatnonzero(fits).tolist():
        status = rejected.get(int(outcome.rows[place]))
        if status is None:
            continue
        reason = Reason(status.code, status.message)
        number = numbers.setdefault(reason, len(numbers))
        plugin[place] = len(outcome.plugins) + number // MAX_REASONS
        bits[place] = np.uint64(1 << number % MAX_REASONS)
    known = list(numbers)
    parts = [tuple(known[at : at + MAX_REASONS]) for at in range(0, len(known), MAX_REASONS)]
    merged = FilterOutcome(
        outcome.rows,
        plugin,
        bits,
        (*outcome.plugins, *[EXTENDER_NAME] * len(parts)),
        (*outcome.reasons, *parts),
        outcome.excluded,
    )
    return replace(diagnosis, outcome=merged)
