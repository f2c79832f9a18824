"""Decide from kept evaluations; only rows that changed are evaluated again.

An evaluation (``accelerators.class_evaluation``) has the feasible rows for pods of a key, and
their scores. It is refreshed before each decision or, with look-ahead, before several.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import islice
from typing import ClassVar

from podsched.decide.accelerator import Batch
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.score_details import details_of
from podsched.decide.accelerators.selection import Ending, Placements, Selector
from podsched.decide.accelerators.shared_columns import SharedColumns
from podsched.decide.decision import Decided, Decision, KeptDetails
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.keys import Keys, PlacementKey
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo, QueuedPodInfo

#: Max evaluations and rows kept. An evaluation takes some 30 bytes per row, or 100 if it shares few
#: columns (spreading, normalised scores): at most 40 to 130 MB from 5,000 nodes on.
MAX_EVALUATIONS = 256
MAX_ROWS = 1_400_000
#: Kept even if their rows are more: templates that take turns would otherwise be evaluated from
#: scratch for each pod.
MIN_EVALUATIONS = 8
#: How many of the latest evaluations are tried as the starting point of a new one.
MAX_RELATIVES = 4


class Evaluations:
    """The kept evaluations by key, each with its selector."""

    def __init__(
        self,
        keys: Keys,
        cluster: ClusterView,
        rotation: Rotation,
        *,
        shares_columns: bool,
        looks_ahead: bool,
    ) -> None:
        self.keys = keys
        self._cluster = cluster
        self._rotation = rotation
        self._shares_columns = shares_columns
        self._looks_ahead = looks_ahead
        #: Least recently used first.
        self._selectors: OrderedDict[PlacementKey, Selector] = OrderedDict()
        #: By profile, because weights and plugins differ between profiles.
        self._shared: dict[str, SharedColumns] = {}

    def __contains__(self, key: PlacementKey) -> bool:
        return key in self._selectors

    def get(self, key: PlacementKey) -> Selector | None:
        """Return the selector of a key, if its evaluation is kept."""
        return self._selectors.get(key)

    def selector(
        self, runtime: ProfileRuntime, pod: PodInfo, key: PlacementKey | None = None
    ) -> Selector:
        """Return the selector for pods like this one; create it if there is none."""
        key = self.keys.key(pod) if key is None else key
        found = self._selectors.get(key)
        if found is None:
            evaluation = self._make(runtime, pod, key)
            found = Selector(evaluation, self._rotation, looks_ahead=self._looks_ahead)
            self._selectors[key] = found
            while len(self._selectors) > self.most:
                self._selectors.popitem(last=False)
        else:
            self._selectors.move_to_end(key)
        return found

    @property
    def most(self) -> int:
        """The max number of evaluations."""
        most = min(MAX_EVALUATIONS, MAX_ROWS // (self._cluster.nodes.size + 1))
        return max(MIN_EVALUATIONS, most)

    def _make(self, runtime: ProfileRuntime, pod: PodInfo, key: PlacementKey) -> ClassEvaluation:
        name, cluster = runtime.scheduler_name, self._cluster
        projections = self.keys.projections(name).by_plugin(pod, key[1])
        shared = None
        if self._shares_columns:
            shared = self._shared.setdefault(name, SharedColumns(cluster))
        made = ClassEvaluation(runtime, cluster, pod.cls, shared, projections)
        if not self._shares_columns:
            return made
        for selector in islice(reversed(self._selectors.values()), MAX_RELATIVES):
            # The latest first. ``continue_from`` refuses evaluations that differ in too much.
            if selector.evaluation.runtime is runtime and made.continue_from(selector.evaluation):
                break
        return made

    def discard(self, key: PlacementKey) -> None:
        """Drop the evaluation of a key."""
        self._selectors.pop(key, None)


class Incremental:
    """Decides for pods of one key from their evaluation."""

    name: ClassVar[str] = "incremental"

    def __init__(
        self,
        evaluations: Evaluations,
        cluster: ClusterView,
        learn: Callable[[PodInfo, PlacementKey, Selector], None] | None,
        prepares_elsewhere: Callable[[], bool],
    ) -> None:
        """``learn`` is called for each new evaluation, right after its first choice.

        ``prepares_elsewhere``: whether other processes make first evaluations at present.
        """
        self._evaluations = evaluations
        self._cluster = cluster
        self._learn = learn
        self._prepares_elsewhere = prepares_elsewhere

    def is_ready(self, pod: PodInfo, key: PlacementKey) -> bool:
        return key in self._evaluations

    def try_(self, batch: Batch) -> Decided:
        runtime, key, first = batch.runtime, batch.key, batch.pods[0].info
        selector = self._evaluations.selector(runtime, first, key)
        # If one pod of a key found no node, the next one rarely finds one, so it is decided alone.
        # Going through all the remaining pods for each such pod would be quadratic.
        queued = batch.pods[:1] if selector.places_alone(first) else self._of_key(batch.pods, key)
        evaluation, is_new = selector.evaluation, not selector.has_chosen
        names = self._cluster.nodes.names

        def commit(pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
            batch.trial.assume_many(pods, [names[row] for row in rows])

        run = selector.select_batch([one.info for one in queued], commit, batch.should_stop)
        # The pod that found no node was evaluated, too.
        tried = len(run.rows) + (run.ending not in (Ending.PLACED, Ending.RESERVED))
        runtime.meter.evaluated(evaluation.cost, tried, failed=run.ending is Ending.FAILED)
        # A pod on its nominated node has no total, and its evaluation may not be refreshed.
        scored = run.ending is Ending.PLACED and run.rounds[-1].totals[-1] is not None
        if self._learn is not None and is_new and scored:
            self._learn(first, key, selector)
        decisions = _placed(queued, run, evaluation, names)
        phases = evaluation.cost.phases
        kept = _details(evaluation, run) if batch.details and run.rounds else None
        # Actors prepare only the first pod of a batch. So while they are used, a pod that may need
        # a first evaluation must not join a batch.
        keeps = not self._prepares_elsewhere()
        if run.ending in (Ending.PLACED, Ending.RESERVED):
            goes_on = run.ending is Ending.PLACED and not selector.reserves(first)
            return Decided(decisions, goes_on, phases, kept, keeps)
        decisions.append(_unplaced(queued[len(decisions)], run.ending, evaluation))
        return Decided(decisions, False, phases, kept, keeps)

    def _of_key(self, pods: Sequence[QueuedPodInfo], key: PlacementKey) -> Sequence[QueuedPodInfo]:
        """Return the leading pods that have this key."""
        first, keys = pods[0].info, self._evaluations.keys
        cls = first.cls
        for count, queued in enumerate(pods):
            pod = queued.info
            if pod.cls is not cls:
                # Classes tell most keys apart for less than computing the other pod's key.
                if not keys.may_be_equal(first, pod) or keys.key(pod) != key:
                    return pods[:count]
                cls = pod.cls
        return pods


def _unplaced(queued: QueuedPodInfo, ending: Ending, evaluation: ClassEvaluation) -> Decision:
    if ending is Ending.FAILED and evaluation.failure is not None:
        return Decision(queued, evaluation.state, error=evaluation.failure.status)
    diagnosis = evaluation.diagnosis()
    all_nodes = diagnosis.num_all_nodes
    return Decision(queued, evaluation.state.copy(), diagnosis=diagnosis, evaluated=all_nodes)


def _details(evaluation: ClassEvaluation, run: Placements) -> KeptDetails | None:
    """Return the scores behind the first choice of the last round, if all rows competed."""
    # The evaluation still has the scores from the beginning of the round.
    began, last = time.monotonic(), run.rounds[-1]
    if last.totals[0] is None or run.ending not in (Ending.PLACED, Ending.RESERVED):
        return None
    if last.feasible[0] != len(evaluation.feasible_rows):
        return None
    found = details_of(evaluation, last.rows[0])
    if found is None:
        return None
    return KeptDetails(len(run.rows) - len(last.rows), found, time.monotonic() - began)


def _placed(
    queued: Sequence[QueuedPodInfo],
    run: Placements,
    evaluation: ClassEvaluation,
    names: Sequence[str],
) -> list[Decision]:
    pods = iter(queued)
    # A copy of the state for each pod, because Reserve and the binding cycle write to it.
    return [
        Decision(
            next(pods),
            evaluation.state.copy(),
            names[row],
            total=total,
            feasible=feasible,
            evaluated=part.evaluated,
        )
        for part in run.rounds
        for row, total, feasible in zip(part.rows, part.totals, part.feasible, strict=True)
    ]
