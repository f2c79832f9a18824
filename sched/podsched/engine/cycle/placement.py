"""The nodes for a run of pods of one class.

Evaluations are kept per class; choices are made one after another.

``decide`` works on the live columns and assumes what it chooses in a trial, so each pod sees those
before it, and whoever asked may take it all back.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np

from podsched.cache.trial import Trial
from podsched.config.plugins import ExtensionPoint
from podsched.engine.cycle.post_filtering import run_post_filter, try_ahead, try_some
from podsched.engine.evaluation.class_evaluation import ClassEvaluation
from podsched.engine.evaluation.diagnosis import Diagnosis
from podsched.engine.evaluation.dry_run import RemoteDryRun
from podsched.engine.evaluation.filtering import ProfileFilters, Settled, rejected_everywhere
from podsched.engine.evaluation.projections import EvaluationKey, Live, Projections
from podsched.engine.evaluation.sampling import Rotation
from podsched.engine.evaluation.score_details import ScoreDetails, details_of
from podsched.engine.evaluation.selection import Ending, Enough, Placements, Selector
from podsched.engine.evaluation.shared_columns import SharedColumns
from podsched.engine.evaluation.variant_index import VariantIndex
from podsched.engine.evaluation.variants import Variants
from podsched.engine.runtime.plugin_calls import PluginFailure
from podsched.engine.runtime.plugin_metrics import NO_PHASES
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.engine.state import SchedulingState
from podsched.framework.plugin import CycleState, PostFilterResult
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.framework.status import Status

#: Evaluations kept, and their rows: one takes some 30 bytes a row, some 100 where much of it is its
#: own (spreading, normalised scores). So 40 to 130 MB at most from 5,000 nodes on.
MAX_EVALUATIONS = 256
MAX_ROWS = 1_400_000
MIN_EVALUATIONS = 8
#: Evaluations looked at, the latest first, for one to begin a new one with.
MAX_RELATIVES = 4
#: Pods that differ decided on between two turns of other tasks, and the rows looked at for them.
MAX_UNLIKE = 16
MAX_UNLIKE_ROWS = 400_000


_placers = itertools.count(1)

#: The profile's name, and the key in it.
PlacementKey = tuple[str, EvaluationKey]


@dataclass(eq=False, slots=True)
class Decision:
    """The outcome for one pod: a node (already assumed), a diagnosis why none fits, or an error.

    ``total`` is the node's, None where it was not scored; ``feasible`` and ``evaluated`` are
    numbers of nodes, 0 where they are not known.
    """

    queued: QueuedPodInfo
    state: CycleState
    node_name: str = ""
    diagnosis: Diagnosis | None = None
    error: Status | None = None
    total: int | None = None
    feasible: int = 0
    evaluated: int = 0


class KeptDetails(NamedTuple):
    """What one of several decisions was made from: its place among them, and what that cost."""

    place: int
    scores: ScoreDetails
    seconds: float


class RemoteEvaluator(Protocol):
    """Evaluates a class for the first time in other processes; does nothing where it cannot."""

    @property
    def available(self) -> bool:
        """Whether there is anybody to ask."""
        ...

    async def prepare(
        self, evaluation: ClassEvaluation, pod: PodInfo, traceparent: str = ""
    ) -> bool: ...


class Placer:
    """Decides for the pods of one scheduling state."""

    def __init__(
        self,
        state: SchedulingState,
        remote_evaluator: RemoteEvaluator | None = None,
        remote_dry_run: RemoteDryRun | None = None,
    ) -> None:
        """Without the remote ones everything is computed locally."""
        self._state = state
        self._remote_evaluator = remote_evaluator
        self._remote_dry_run = remote_dry_run
        self._selectors: OrderedDict[PlacementKey, Selector] = OrderedDict()
        self._rotation = Rotation()
        cluster = state.cache.cluster
        self._known_keys: dict[PodClass, PlacementKey] = {}
        self._live = Live()
        self._latest: PlacementKey | None = None
        self._runner: tuple[Decision, ProfileFilters] | None = None
        #: Key in ``PodClass.compiled`` of classes that had an evaluation, so that it costs little.
        self._known_class = f"placer {next(_placers)}"
        self._variants = VariantIndex()
        #: Those of the latest evaluation.
        self.phases = NO_PHASES
        #: Where ``decide`` was asked for details: the place of a decision, and its scores.
        self.details: KeptDetails | None = None
        self._projections = {n: Projections(r, cluster) for n, r in state.profiles.items()}
        self._shared = {name: SharedColumns(cluster) for name in state.profiles}

    def key(self, pod: PodInfo) -> PlacementKey:
        """Return what is equal for pods that are decided on alike, while nothing changes."""
        return self._key(pod, self._keys())

    def _key(self, pod: PodInfo, known: dict[PodClass, PlacementKey]) -> PlacementKey:
        """Do the same where nothing has changed since the keys in ``known``."""
        found = known.get(pod.cls)
        if found is None:
            name = pod.cls.scheduler_name
            # A shape belongs to one profile: the scheduler's name is a part of it.
            found = known[pod.cls] = (name, self._projections[name].key(pod, self._live))
        return found

    def _keys(self) -> dict[PodClass, PlacementKey]:
        """Return the keys that are known since the last change in the cluster."""
        if self._live.catch_up(self._state.cache.cluster):
            self._known_keys.clear()
        return self._known_keys

    def alike(self, batch: Sequence[QueuedPodInfo], other: PodInfo) -> bool:
        """Return whether a pod may be decided on together with those of a batch.

        It has their key, or is as they are a variant of what is known or of a class that has been
        decided on before: few of these at a time, since each may take a look at all rows.
        """
        one = batch[0].info
        name = one.cls.scheduler_name
        if name != other.cls.scheduler_name:
            return False
        most = min(MAX_UNLIKE, MAX_UNLIKE_ROWS // (self._state.cache.columns.size + 1))
        known = self._known_class
        if known in one.cls.compiled and known in other.cls.compiled and len(batch) < most:
            return True
        projections = self._projections[name]
        if projections.may_be_alike(one, other):
            return self.key(one) == self.key(other)
        # The key of the other one only if it is of use: when it comes to be the first, it is found
        # anew.
        return len(batch) < most and self._takes_little(one) and self._takes_little(other)

    def _takes_little(self, pod: PodInfo) -> bool:
        """Whether a pod of a new class can be decided on without a first evaluation."""
        key = self._key(pod, self._keys())
        return key in self._selectors or self._variants.of(key, self._kin(pod, key)) is not None

    def evaluation(self, runtime: ProfileRuntime, pod: PodInfo) -> ClassEvaluation:
        """Return the evaluation of pods like this one, made when there is none yet."""
        return self.selector(runtime, pod).evaluation

    def selector(
        self, runtime: ProfileRuntime, pod: PodInfo, key: PlacementKey | None = None
    ) -> Selector:
        """Return what chooses for pods like this one, made when there is none yet."""
        key = self.key(pod) if key is None else key
        found = self._selectors.get(key)
        if found is None:
            evaluation = self._evaluation(runtime, pod, key)
            found = self._selectors[key] = Selector(evaluation, self._rotation)
            while len(self._selectors) > self._most_evaluations:
                self._selectors.popitem(last=False)
        else:
            self._selectors.move_to_end(key)
        return found

    @property
    def _most_evaluations(self) -> int:
        most = min(MAX_EVALUATIONS, MAX_ROWS // (self._state.cache.columns.size + 1))
        return max(MIN_EVALUATIONS, most)

    def _evaluation(
        self, runtime: ProfileRuntime, pod: PodInfo, key: PlacementKey
    ) -> ClassEvaluation:
        name, cluster = runtime.scheduler_name, self._state.cache.cluster
        projections = self._projections[name].by_plugin(pod, key[1])
        made = ClassEvaluation(runtime, cluster, pod.cls, self._shared[name], projections)
        for selector in islice(reversed(self._selectors.values()), MAX_RELATIVES):
            if selector.evaluation.runtime is runtime and made.continue_from(selector.evaluation):
                break
        return made

    def discard(self, pod: PodInfo) -> None:
        """Forget what is known of pods like this one, and of those decided on last."""
        self._selectors.pop(self.key(pod), None)
        self._variants.clear()
        if self._latest is not None:
            self._selectors.pop(self._latest, None)

    async def prepare(self, runtime: ProfileRuntime, pod: PodInfo, traceparent: str = "") -> bool:
        """Have actors evaluate ahead what is much; return whether time has passed meanwhile.

        Locally there is nothing to prepare. ``traceparent`` is the attempt's.
        """
        remote = self._remote_evaluator
        if remote is None or not remote.available:
            return False
        if self._variants_of(pod, self.key(pod)) is not None:
            return False
        return await remote.prepare(self.evaluation(runtime, pod), pod, traceparent)

    @property
    def rotation(self) -> int:
        """Where the next search for feasible nodes starts."""
        return self._rotation.start

    @rotation.setter
    def rotation(self, start: int) -> None:
        self._rotation.start = start

    def decide(
        self,
        trial: Trial,
        runtime: ProfileRuntime,
        batch: Sequence[QueuedPodInfo],
        *,
        enough: Enough = lambda: False,
        details: bool = False,
    ) -> list[Decision]:
        """Decide for the first pods, in their order: for at least one, maybe not for all.

        Each is assumed in the trial, so that those after it see it.
        Ends after a pod that fits nowhere, or that something is to be reserved for. ``enough``:
        whether the pods decided on so far are enough for now; ``details``: keep what one of the
        choices was made from, too.
        """
        self.details = None
        decisions: list[Decision] = []
        goes_on = True
        while goes_on and len(decisions) < len(batch):
            first = not decisions
            left = batch if first else batch[len(decisions) :]
            more, goes_on = self._decide_some(
                trial, runtime, left, enough, details=details and first
            )
            decisions += more
            goes_on = goes_on and not enough()
        return decisions

    def _decide_some(
        self,
        trial: Trial,
        runtime: ProfileRuntime,
        batch: Sequence[QueuedPodInfo],
        enough: Enough,
        *,
        details: bool,
    ) -> tuple[list[Decision], bool]:
        """Decide for the first pods of one key, or for variants; whether the next may follow.

        Keys are asked for as late as this: those that were alike may be so no more.
        """
        key = self._latest = self.key(batch[0].info)
        decided = self._decide_variants(trial, runtime, batch, enough, details=details)
        if decided:
            return decided, True
        selector = self.selector(runtime, batch[0].info, key)
        # Where one of them has found no node, the next hardly will: to look at all that are left
        # for each of them would be quadratic.
        batch = batch[:1] if selector.has_failed else self._of_key(batch, key)
        evaluation = selector.evaluation
        cache = self._state.cache
        names = cache.columns.names

        def commit(pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
            trial.assume_many(pods, [names[row] for row in rows])

        is_new, first = not selector.has_chosen, batch[0].info
        if self._remote_evaluator is None or not self._remote_evaluator.available:
            # Else each has to be prepared by itself.
            first.cls.compiled[self._known_class] = True
        run = selector.select_batch([queued.info for queued in batch], commit, enough)
        tried = len(run.rows) + (run.ending not in (Ending.PLACED, Ending.RESERVED))
        self.phases = evaluation.cost.phases
        runtime.meter.evaluated(evaluation.cost, tried, failed=run.ending is Ending.FAILED)
        scored = run.ending is Ending.PLACED and run.rounds[-1].totals[-1] is not None
        if is_new and scored:
            kin, most = self._kin(first, key), self._most_evaluations
            reserves = selector.reserves(first)
            self._variants.learn(kin, evaluation, first, most, reserves=reserves)
        decisions = _placed(batch, run, evaluation, names)
        if details and run.rounds:
            self._keep_details(evaluation, run)
        if run.ending in (Ending.PLACED, Ending.RESERVED):
            return decisions, run.ending is Ending.PLACED and not selector.reserves(first)
        unplaced = batch[len(decisions)]
        if run.ending is Ending.FAILED and evaluation.failure is not None:
            status = evaluation.failure.status
            decisions.append(Decision(unplaced, evaluation.state, error=status))
        else:
            diagnosis = evaluation.diagnosis()
            all_nodes = diagnosis.num_all_nodes
            decisions.append(
                Decision(unplaced, own_state(evaluation), diagnosis=diagnosis, evaluated=all_nodes)
            )
        return decisions, False

    def _keep_details(self, evaluation: ClassEvaluation, run: Placements) -> None:
        """Keep what the first choice of the last round was made from, if all rows competed."""
        # The scores that the round began with are still there.
        began, last = time.monotonic(), run.rounds[-1]
        if last.totals[0] is None:
            return
        if run.ending in (Ending.PLACED, Ending.RESERVED) and last.feasible == len(
            evaluation.feasible_rows
        ):
            found = details_of(evaluation, last.rows[0])
            if found is not None:
                place = len(run.rows) - len(last.rows)
                self.details = KeptDetails(place, found, time.monotonic() - began)

    def _kin(self, pod: PodInfo, key: PlacementKey) -> Hashable:
        """Return what pods have in common that are variants of each other; None: it has none."""
        name, own = key
        kin = self._projections[name].kin(pod, own)
        return None if kin is None else (name, kin)

    def _variants_of(self, pod: PodInfo, key: PlacementKey) -> Variants | None:
        """Return what decides on a pod of a new key without an evaluation, if there is such."""
        return None if key in self._selectors else self._variants.of(key, self._kin(pod, key))

    def _decide_variants(
        self,
        trial: Trial,
        runtime: ProfileRuntime,
        batch: Sequence[QueuedPodInfo],
        enough: Enough,
        *,
        details: bool,
    ) -> list[Decision]:
        """Decide on the first pods without evaluations, as far as that is certain to be the same.

        Not on several of one key: to these an evaluation is of use.
        """
        keys = self._keys()
        variants = self._variants_of(batch[0].info, self._key(batch[0].info, keys))
        if variants is None:
            return []
        # All keys before the first pod is assumed: that pods are alike does not change meanwhile
        # (``Placer.decide``), and to find them again after each would cost as much as deciding.
        found: dict[PlacementKey, QueuedPodInfo] = {}
        last = None
        for queued in batch:
            key = self._key(queued.info, keys)
            if key in found or self._variants_of(queued.info, key) is not variants:
                if key == last:
                    del found[key]
                break
            found[key], last = queued, key
        decisions: list[Decision] = []
        for key, queued in found.items():
            decision = self._variant(trial, variants, queued, details=details and not decisions)
            if decision is None:
                break
            self._variants.met(key)
            decisions.append(decision)
            if enough():
                break
        if decisions:
            self.phases = variants.cost.phases
            rows = self._state.cache.columns.size * len(decisions)
            runtime.meter.looked_at(rows, all_of_class=True)
            runtime.meter.evaluated(variants.cost, len(decisions), failed=False)
        return decisions

    def _variant(
        self, trial: Trial, variants: Variants, queued: QueuedPodInfo, *, details: bool
    ) -> Decision | None:
        """Decide on a pod without an evaluation of its own, if that is certain to be the same."""
        pod = queued.info
        choice = variants.select(pod, all_totals=details)
        if choice is None:
            return None
        if details:
            with contextlib.suppress(PluginFailure):
                began, found = time.monotonic(), variants.details(pod, choice)
                self.details = KeptDetails(0, found, time.monotonic() - began)
        cache = self._state.cache
        node_name = cache.columns.names[choice.row]
        trial.assume(pod, node_name)
        return Decision(
            queued,
            choice.state,
            node_name,
            total=variants.total(choice),
            feasible=choice.feasible,
            evaluated=cache.node_count,
        )

    def _of_key(self, batch: Sequence[QueuedPodInfo], key: PlacementKey) -> Sequence[QueuedPodInfo]:
        """Return the first of the pods, up to one of another key."""
        first = batch[0].info
        cls, projections = first.cls, self._projections[key[0]]
        for count, queued in enumerate(batch):
            pod = queued.info
            if pod.cls is not cls:
                # Mostly the classes differ, and the key is found anew when it is the pod's turn.
                if not projections.may_be_alike(first, pod) or self.key(pod) != key:
                    return batch[:count]
                cls = pod.cls
        return batch

    async def prepare_post_filter(
        self, runtime: ProfileRuntime, decision: Decision, traceparent: str = ""
    ) -> bool:
        """Have actors try ahead whom a pod may preempt; return whether time has passed.

        If so, decide on the pod again: ``post_filter`` then tries only what is not known by now.
        ``traceparent`` is the attempt's.
        """
        remote = self._remote_dry_run
        if remote is None or not self._sends_dry_runs(decision):
            return False
        return await try_ahead(
            remote,
            runtime,
            decision.state,
            decision.queued.info,
            self._state.cache.cluster,
            # One runner for all rounds: its inputs are those that the state was made from.
            self.runner(runtime, decision),
            traceparent,
        )

    def _sends_dry_runs(self, decision: Decision) -> bool:
        remote = self._remote_dry_run
        if remote is None or decision.diagnosis is None or decision.diagnosis.outcome is None:
            return False
        return remote.worth(len(decision.diagnosis.outcome.rows))

    def try_some(self, runtime: ProfileRuntime, decision: Decision, enough: Enough) -> bool:
        """Try some of the nodes that PostFilter would try; return whether others are left.

        If so, decide on the pod again later, which costs little beside this: then nothing that was
        found rests on a state that is no more. What actors try is not tried here.
        """
        diagnosis = decision.diagnosis
        if diagnosis is None or diagnosis.outcome is None or self._sends_dry_runs(decision):
            return False
        return try_some(
            runtime,
            decision.state,
            decision.queued.info,
            self._state.cache.cluster,
            self.runner(runtime, decision),
            self._state.chance.peek(),
            enough,
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
        cluster, pod = self._state.cache.cluster, decision.queued.info
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
        selector = self._selectors.get(self.key(decision.queued.info))
        inputs = settled = None
        if outcome is None:
            rows = np.flatnonzero(self._state.cache.columns.alive)
            outcome = rejected_everywhere(rows, decision.diagnosis.pre_filter.status)
        elif selector is not None:
            evaluation = selector.evaluation
            inputs = evaluation.last_inputs
            settled = Settled(decision.state, decision.queued.info, evaluation.settled)
        return ProfileFilters(runtime, self._state.cache.cluster, outcome, inputs, settled)


def _placed(
    batch: Sequence[QueuedPodInfo],
    run: Placements,
    evaluation: ClassEvaluation,
    names: Sequence[str],
) -> list[Decision]:
    pods = iter(batch)
    return [
        Decision(
            next(pods),
            own_state(evaluation),
            names[row],
            total=total,
            feasible=part.feasible,
            evaluated=part.evaluated,
        )
        for part in run.rounds
        for row, total in zip(part.rows, part.totals, strict=True)
    ]


def own_state(evaluation: ClassEvaluation) -> CycleState:
    """Return a copy of the class's state for one pod: what plugins add stays with the pod."""
    state = evaluation.state
    return CycleState(dict(state.data), set(state.skip_filter), set(state.skip_score))
