"""A decider with all accelerators, and PostFilter with the evaluations that they have kept.

The accelerators are listed in ``AcceleratedDecider.__init__``. To remove one, remove its line.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

import numpy as np

from podsched.config.plugins import ExtensionPoint
from podsched.decide.accelerator import Accelerator
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.incremental import Evaluations, Incremental
from podsched.decide.accelerators.selection import Selector
from podsched.decide.accelerators.sharding import RemoteEvaluator
from podsched.decide.accelerators.variant_decisions import VariantDecisions
from podsched.decide.best_fit import Domains
from podsched.decide.decider import Decider
from podsched.decide.decision import Decision, ShouldStop
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.evaluation.filtering import ProfileFilters, Settled, rejected_everywhere
from podsched.decide.evaluation.projections import StampedCluster
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.keys import Keys
from podsched.decide.post_filtering import run_post_filter, try_ahead, try_some
from podsched.decide.runtime.group_plugins import group_plugins
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import PostFilterResult
from podsched.framework.pods import PodInfo


class AcceleratedDecider(Decider):
    """Decides for the pods of one cluster, and finds victims for pods that fit nowhere."""

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
        if "remote" in without:
            remote_evaluator = remote_dry_run = None
        keys, rotation = Keys(profiles, cluster), Rotation()
        self._evaluations = Evaluations(
            keys,
            cluster,
            rotation,
            shares_columns="shared" not in without,
            looks_ahead="lookahead" not in without,
        )
        # Created even if it is left out, because ``prepare`` asks it: without ``learn`` it knows no
        # variants.
        self._variants = VariantDecisions(self._evaluations, cluster)
        self._remote_evaluator = remote_evaluator
        learn = None if "variants" in without else self._variants.learn

        def is_remote() -> bool:
            return remote_evaluator is not None and remote_evaluator.available

        # Variants come first, because ``Incremental`` leaves nothing to those after it.
        accelerators: list[Accelerator] = [
            self._variants,
            Incremental(self._evaluations, cluster, learn, is_remote),
        ]
        used = [one for one in accelerators if one.name not in without]
        super().__init__(cluster, keys, rotation, used)
        self._chance = chance
        self._remote_dry_run = remote_dry_run
        #: The filters for the latest decision that went to PostFilter.
        self._runner: tuple[Decision, ProfileFilters] | None = None
        #: The domains by levels, at a version of the nodes' labels.
        self._domains: dict[tuple[str, ...], Domains] = {}
        self._domains_version = -1

    # ------------------------------------------------------------------ evaluations

    def evaluation(self, runtime: ProfileRuntime, pod: PodInfo) -> ClassEvaluation:
        """Return the evaluation of pods like this one; create it if there is none."""
        return self.selector(runtime, pod).evaluation

    def selector(self, runtime: ProfileRuntime, pod: PodInfo) -> Selector:
        """Return the selector for pods like this one; create it if there is none."""
        return self._evaluations.selector(runtime, pod)

    def domains(self, levels: tuple[str, ...]) -> Domains:
        """Return the domains of the nodes by the labels of levels."""
        nodes = self._cluster.nodes
        if self._domains_version != nodes.topology_version:
            self._domains_version, self._domains = nodes.topology_version, {}
        if levels not in self._domains:
            self._domains[levels] = Domains(nodes, levels)
        return self._domains[levels]

    def discard(self, pod: PodInfo) -> None:
        """Drop the evaluations of pods like this one and of the pods decided last."""
        self._evaluations.discard(self.key(pod))
        # Clear all variants: the index cannot find those that came from a dropped evaluation, and
        # this happens only after a bug.
        self._variants.clear()
        if self._latest is not None:
            self._evaluations.discard(self._latest)

    def drop_all(self) -> None:
        """Drop everything. Others may still refer to the decider, but must not use it any more."""
        vars(self).clear()

    async def prepare(self, runtime: ProfileRuntime, pod: PodInfo, traceparent: str = "") -> bool:
        """Let actors make a large first evaluation; return whether time has passed meanwhile.

        Local evaluation needs no preparation. ``traceparent`` is that of the attempt.
        """
        evaluator = self._remote_evaluator
        if evaluator is None or not evaluator.available:
            return False
        # A variant needs no evaluation, so there is nothing to prepare.
        if self._variants.of(pod, self.key(pod)) is not None:
            return False
        return await evaluator.prepare(self.evaluation(runtime, pod), pod, traceparent)

    # ------------------------------------------------------------------ PostFilter

    async def prepare_post_filter(
        self, runtime: ProfileRuntime, decision: Decision, traceparent: str = ""
    ) -> bool:
        """Let actors dry-run preemption for a pod; return whether time has passed.

        If so, decide the pod again: ``post_filter`` then tries only nodes without a known result.
        ``traceparent`` is that of the attempt.
        """
        remote = self._remote_dry_run
        # Before anything is planned: planning in vain took a third of a preemptor's CPU.
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
        """Run the PostFilter plugins for a pod that fits no node (``run_post_filter``).

        Return None if the profile has no such plugin or the cluster has no nodes.
        """
        assert decision.diagnosis is not None
        # kube-scheduler's ErrNoNodesAvailable is not a FitError, so PostFilter does not run.
        if not decision.diagnosis.num_all_nodes:
            return None
        if not runtime.post_filter:
            return None
        runner = self.runner(runtime, decision)
        cluster, pod = self._cluster, decision.queued.info
        began = time.monotonic()
        result = run_post_filter(runtime.post_filter, decision.state, pod, cluster, runner)
        code = result.status.code
        runtime.meter.passed(ExtensionPoint.POST_FILTER, code, time.monotonic() - began)
        return result

    def give_back(self, runtime: ProfileRuntime, decision: Decision) -> None:
        """Call the PostFilter plugins that do not preempt, for a member of a group.

        Victims are chosen for the whole group, but each member may have to give something back: a
        plugin leaves patches in the state of the decision, such as one that deallocates devices.
        """
        preempting = {named.name for named in group_plugins(runtime).post_filter}
        plugins = [named for named in runtime.post_filter if named.name not in preempting]
        if plugins and decision.diagnosis is not None and decision.diagnosis.num_all_nodes:
            state, pod = decision.state, decision.queued.info
            run_post_filter(plugins, state, pod, self._cluster, self.runner(runtime, decision))

    def runner(self, runtime: ProfileRuntime, decision: Decision) -> ProfileFilters:
        """Return the profile's filters, for PostFilter plugins of a pod that does not fit."""
        if self._runner is None or self._runner[0] is not decision:
            self._runner = decision, self._make_runner(runtime, decision)
        return self._runner[1]

    def _make_runner(self, runtime: ProfileRuntime, decision: Decision) -> ProfileFilters:
        assert decision.diagnosis is not None
        outcome = decision.diagnosis.outcome
        # ``get`` and not ``selector``, which would begin an evaluation. If none is kept (after the
        # reference decided), ``inputs`` is unknown, so plugins cannot reuse their dry runs.
        selector = self._evaluations.get(self.key(decision.queued.info))
        inputs = settled = None
        if outcome is None:
            rows = np.flatnonzero(self._cluster.nodes.alive)
            outcome = rejected_everywhere(rows, decision.diagnosis.pre_filter.status)
        elif selector is not None:
            evaluation = selector.evaluation
            inputs = evaluation.inputs.last
            settled = Settled(decision.state, decision.queued.info, evaluation.settled)
        return ProfileFilters(runtime, self._cluster, outcome, inputs, settled)
