"""Choose nodes for batches of pods: ask the accelerators first, then the reference.

``decide`` works on the live columns and assumes each pod in a trial. So each pod sees the pods
before it, and the caller may roll everything back.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import numpy as np

from podsched.config.plugins import ExtensionPoint
from podsched.decide.accelerator import Accelerator, Batch
from podsched.decide.accelerators.incremental import Evaluations, Incremental
from podsched.decide.accelerators.variant_decisions import VariantDecisions
from podsched.decide.decision import Decided, Decision, KeptDetails, ShouldStop
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.evaluation.filtering import ProfileFilters, Settled, rejected_everywhere
from podsched.decide.evaluation.projections import StampedCluster
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.evaluation.selection import Selector
from podsched.decide.keys import Keys, PlacementKey
from podsched.decide.post_filtering import run_post_filter, try_ahead, try_some
from podsched.decide.reference import Reference
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.plugin_metrics import NO_PHASES
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.trial import Trial

#: Max pods of different keys decided per event-loop turn, and max rows evaluated for them.
MAX_DISTINCT: Final = 16
MAX_DISTINCT_ROWS: Final = 400_000

_deciders = itertools.count(1)


class RemoteEvaluator(Protocol):
    """Makes the first evaluation of a class in other processes; does nothing if it cannot."""

    @property
    def available(self) -> bool:
        """Whether other processes are available."""
        ...

    async def prepare(
        self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str = ""
    ) -> bool: ...


class Decider:
    """Decides for the pods of one cluster."""

    def __init__(
        self,
        cluster: StampedCluster,
        profiles: Mapping[str, ProfileRuntime],
        chance: Chance,
        remote_evaluator: RemoteEvaluator | None = None,
        remote_dry_run: RemoteDryRun | None = None,
        *,
        without: Collection[str] = (),
    ) -> None:
        """Compute everything locally if no remote evaluators are given.

        ``without``: accelerators to disable; the decisions stay the same.
        """
        self._cluster, self._chance = cluster, chance
        if "remote" in without:
            remote_evaluator = remote_dry_run = None
        self._remote_evaluator = remote_evaluator
        self._remote_dry_run = remote_dry_run
        self._rotation = Rotation()
        self._keys = Keys(profiles, cluster)
        self._evaluations = Evaluations(
            self._keys,
            cluster,
            self._rotation,
            shares_columns="shared" not in without,
            looks_ahead="lookahead" not in without,
        )
        self._reference = Reference(cluster, self._rotation)
        self._variants = VariantDecisions(self._evaluations, cluster)
        learn = None if "variants" in without else self._variants.learn
        self._incremental = Incremental(self._evaluations, cluster, learn)
        self._accelerators: list[Accelerator] = [
            one for one in (self._variants, self._incremental) if one.name not in without
        ]
        self._latest: PlacementKey | None = None
        self._runner: tuple[Decision, ProfileFilters] | None = None
        #: Key in ``PodClass.compiled`` that marks classes decided before.
        self._known_class = f"decider {next(_deciders)}"
        #: The phases of the latest evaluation.
        self.phases = NO_PHASES
        #: If ``decide`` was asked for details: the index of a decision, and its scores.
        self.details: KeptDetails | None = None

    # ------------------------------------------------------------------ which pods go together

    def key(self, pod: PodInfo) -> PlacementKey:
        """Return a key that is equal for pods that get the same decision, while nothing changes."""
        return self._keys.key(pod)

    def may_join(self, batch: Sequence[QueuedPodInfo], other: PodInfo) -> bool:
        """Return whether a pod may join a batch.

        True if it shares the batch's evaluation key, or if neither it nor the first pod of the
        batch needs a first evaluation. Of the latter only a few may join, since each may need a
        pass over all rows.
        """
        one = batch[0].info
        if one.cls.scheduler_name != other.cls.scheduler_name:
            return False
        most = min(MAX_DISTINCT, MAX_DISTINCT_ROWS // (self._cluster.nodes.size + 1))
        known = self._known_class
        if known in one.cls.compiled and known in other.cls.compiled and len(batch) < most:
            return True
        if self._keys.may_be_equal(one, other):
            return self.key(one) == self.key(other)
        # Compute the other pod's key last: it is computed again when that pod comes first.
        return len(batch) < most and self._takes_little(one) and self._takes_little(other)

    def _takes_little(self, pod: PodInfo) -> bool:
        """Whether a pod can be decided without a first evaluation."""
        key = self.key(pod)
        return key in self._evaluations or self._variants.of(pod, key) is not None

    # ------------------------------------------------------------------ evaluations

    def evaluation(self, runtime: ProfileRuntime, pod: PodInfo) -> ClassEvaluation:
        """Return the evaluation of pods like this one; create it if there is none."""
        return self.selector(runtime, pod).evaluation

    def selector(self, runtime: ProfileRuntime, pod: PodInfo) -> Selector:
        """Return the selector for pods like this one; create it if there is none."""
        return self._evaluations.selector(runtime, pod)

    def discard(self, pod: PodInfo) -> None:
        """Drop the evaluations of pods like this one and of the pods decided last."""
        self._evaluations.discard(self.key(pod))
        self._variants.clear()
        if self._latest is not None:
            self._evaluations.discard(self._latest)

    async def prepare(self, runtime: ProfileRuntime, pod: PodInfo, traceparent: str = "") -> bool:
        """Let actors make a large first evaluation; return whether time has passed meanwhile.

        Local evaluation needs no preparation. ``traceparent`` is that of the attempt.
        """
        remote = self._remote_evaluator
        if remote is None or not remote.available:
            return False
        if self._variants.of(pod, self.key(pod)) is not None:
            return False
        return await remote.prepare(self.evaluation(runtime, pod), pod, traceparent)

    @property
    def rotation(self) -> int:
        """Where the next search for feasible nodes starts."""
        return self._rotation.start

    @rotation.setter
    def rotation(self, start: int) -> None:
        self._rotation.start = start

    # ------------------------------------------------------------------ decisions

    def decide(
        self,
        trial: Trial,
        runtime: ProfileRuntime,
        batch: Sequence[QueuedPodInfo],
        *,
        should_stop: ShouldStop = lambda: False,
        details: bool = False,
    ) -> list[Decision]:
        """Decide for the first pods in order: at least one, possibly not all.

        Each is assumed in the trial, so that later pods see it. Stops after a pod that fits
        nowhere or that a plugin reserves something for, and when ``should_stop`` returns True.
        ``details``: also keep the scores behind one of the choices.
        """
        self.details = None
        decisions: list[Decision] = []
        goes_on = True
        while goes_on and len(decisions) < len(batch):
            first = not decisions
            left = batch if first else batch[len(decisions) :]
            # Compute keys only now: pods that had equal keys before a decision may differ after it.
            key = self._latest = self.key(left[0].info)
            decided = self._decide_some(
                Batch(trial, runtime, left, key, should_stop, details and first)
            )
            decisions += decided.decisions
            self.phases = decided.phases
            if first:
                self.details = decided.details
            goes_on = decided.goes_on and not should_stop()
        return decisions

    def _decide_some(self, batch: Batch) -> Decided:
        """Ask the accelerators for the first pods, else the reference for the first one."""
        for accelerator in self._accelerators:
            decided = accelerator.try_(batch)
            if decided is None:
                continue
            prepared = self._remote_evaluator is not None and self._remote_evaluator.available
            if not prepared and accelerator is self._incremental:
                # Without ``incremental`` no evaluation is kept, so each pod has to be prepared.
                batch.pods[0].info.cls.compiled[self._known_class] = True
            return decided
        return self._reference.decide(batch.trial, batch.runtime, batch.pods[0])

    # ------------------------------------------------------------------ PostFilter

    async def prepare_post_filter(
        self, runtime: ProfileRuntime, decision: Decision, traceparent: str = ""
    ) -> bool:
        """Let actors dry-run preemption for a pod; return whether time has passed.

        If so, decide the pod again: ``post_filter`` then tries only nodes without a known result.
        ``traceparent`` is that of the attempt.
        """
        remote = self._remote_dry_run
        if remote is None or not self._sends_dry_runs(decision):
            return False
        return await try_ahead(
            remote,
            runtime,
            decision.state,
            decision.queued.info,
            self._cluster,
            # One runner for all rounds, so that its inputs are those that the state was made from.
            self.runner(runtime, decision),
            traceparent,
        )

    def _sends_dry_runs(self, decision: Decision) -> bool:
        remote = self._remote_dry_run
        if remote is None or decision.diagnosis is None or decision.diagnosis.outcome is None:
            return False
        return remote.worth(len(decision.diagnosis.outcome.rows))

    def try_some(
        self, runtime: ProfileRuntime, decision: Decision, should_stop: ShouldStop
    ) -> bool:
        """Try some of the nodes that PostFilter would try; return whether others are left.

        If so, decide the pod again later, so that no result rests on outdated state; that costs
        little compared with the dry runs. Nodes that actors try are not tried here.
        """
        diagnosis = decision.diagnosis
        if diagnosis is None or diagnosis.outcome is None or self._sends_dry_runs(decision):
            return False
        return try_some(
            runtime,
            decision.state,
            decision.queued.info,
            self._cluster,
            self.runner(runtime, decision),
            self._chance.peek(),
            should_stop,
        )

    def post_filter(self, runtime: ProfileRuntime, decision: Decision) -> PostFilterResult | None:
        """Return the result of the first PostFilter plugin that succeeds, else of the last.

        None when there is none.
        """
        assert decision.diagnosis is not None
        if not decision.diagnosis.num_all_nodes:
            return None
        if not runtime.post_filter:
            return None
        runner = self.runner(runtime, decision)
        cluster, pod = self._cluster, decision.queued.info
        began = time.monotonic()
        result = run_post_filter(runtime, decision.state, pod, cluster, runner)
        code = result.status.code
        runtime.meter.passed(ExtensionPoint.POST_FILTER, code, time.monotonic() - began)
        return result

    def runner(self, runtime: ProfileRuntime, decision: Decision) -> ProfileFilters:
        """Return the profile's filters, for PostFilter plugins of a pod that does not fit."""
        if self._runner is None or self._runner[0] is not decision:
            self._runner = decision, self._make_runner(runtime, decision)
        return self._runner[1]

    def _make_runner(self, runtime: ProfileRuntime, decision: Decision) -> ProfileFilters:
        assert decision.diagnosis is not None
        outcome = decision.diagnosis.outcome
        selector = self._evaluations.get(self.key(decision.queued.info))
        inputs = settled = None
        if outcome is None:
            rows = np.flatnonzero(self._cluster.nodes.alive)
            outcome = rejected_everywhere(rows, decision.diagnosis.pre_filter.status)
        elif selector is not None:
            evaluation = selector.evaluation
            inputs = evaluation.last_inputs
            settled = Settled(decision.state, decision.queued.info, evaluation.settled)
        return ProfileFilters(runtime, self._cluster, outcome, inputs, settled)
