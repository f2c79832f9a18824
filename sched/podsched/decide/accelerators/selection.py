"""Choose nodes for pods of one evaluation key, one pod or a batch at a time.

The lowest row with the highest total wins, so that choices are reproducible; kube-scheduler takes
any of the best. If a pod fits its nominated node, that node wins without evaluating the others
(evaluateNominatedNode).

A batch of equal pods is placed exactly as if one after another (property test). Each round
refreshes the evaluation once, then places as many pods as ``BatchLookahead`` is certain about, or
else only the first one:

    refresh --> look ahead --> commit (assume) --> learn --> refresh ...
                    |             ^
                    '-- nothing --+-- best row for one pod
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from podsched.decide.accelerators.batch_lookahead import BatchLookahead
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.decision import ShouldStop
from podsched.decide.evaluation.nominated_rows import nominated_row
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.sampling import Rotation
from podsched.decide.evaluation.scoring import run_pre_score, run_score
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.filter_outcome import PASSED
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: Max pods placed between two evaluations, because look-ahead forks grow with their number.
MAX_ROUND = 512

#: ``commit(pods, rows)`` assumes each pod on its row's node, in order.
Commit = Callable[[Sequence[PodInfo], Sequence[int]], None]


class Ending(Enum):
    """Why a batch of pods ended."""

    PLACED = "every pod has a node, or enough of them"
    RESERVED = "a plugin has to reserve for the last pod before the next is looked at"
    UNSCHEDULABLE = "no node fits the next pod"
    FAILED = "a plugin failed for the next pod"


class ScheduleResult(NamedTuple):
    """A row for a pod, and how many nodes were evaluated and feasible; kube-scheduler's name.

    ``total`` is the row's score, None if it was not scored because it is the nominated node.
    """

    row: int
    feasible: int
    evaluated: int
    total: int | None = None


class Placements(NamedTuple):
    """The rows for the first ``len(rows)`` pods of a batch, and why the batch ended there.

    ``rounds`` groups the same rows by the refresh that they are based on.
    """

    rows: list[int]
    ending: Ending
    rounds: Sequence[Round]


class Round(NamedTuple):
    """Rows chosen after one refresh: for each its total, and how many rows were feasible then.

    ``evaluated``: nodes that were looked at for each pod.
    """

    rows: Sequence[int]
    totals: Sequence[int | None]
    feasible: Sequence[int]
    evaluated: int


class Selector:
    """Chooses for the pods of one evaluation key."""

    def __init__(
        self,
        evaluation: ClassEvaluation,
        rotation: Rotation | None = None,
        *,
        looks_ahead: bool = True,
    ) -> None:
        """``looks_ahead``: place several pods between two refreshes where that is exact."""
        self.evaluation = evaluation
        self._looks_ahead = looks_ahead
        #: Whether a batch has been placed.
        self.has_chosen = False
        #: Whether the last batch ended with a pod that found no node.
        self.has_failed = False
        self._rotation = rotation or Rotation()
        self._lookahead = BatchLookahead(evaluation)

    # ------------------------------------------------------------------ one pod

    def select(self, pod: PodInfo) -> ScheduleResult | None:
        """Return the row for one pod; None if none fits or ``evaluation`` failed."""
        self.evaluation.refresh(pod)
        return self._choose(pod)

    def _choose(self, pod: PodInfo) -> ScheduleResult | None:
        evaluation = self.evaluation
        if evaluation.failure is not None:
            if evaluation.is_filtered:  # kube-scheduler scores after the search.
                self.sample()
            return None
        if not evaluation.pre_filtered.status.ok:
            return None
        nominated = self.fitting_nominee(pod)
        if nominated is not None:
            return ScheduleResult(nominated, 1, 1)
        return self._best(pod)

    def fitting_nominee(self, pod: PodInfo) -> int | None:
        """Return the row of the pod's nominated node if the pod fits there, after a refresh.

        If it does not fit, the row no longer counts as feasible. A row that fits the class may not
        fit this pod, because different nominated pods count for it.
        """
        row = nominated_row(self.evaluation.cluster, pod)
        # A nomination counts only within the nodes that PreFilter allows: a unit of a queue may be
        # nominated to a node of another flavor.
        if row is None or not self.evaluation.allows(row):
            return None
        outcome = self.evaluation.filter_row(pod, row)
        if outcome.plugin[0] == PASSED:
            return row
        # Until the next refresh only: for other pods of the class the row may fit.
        self.evaluation.override_row(row, outcome)
        return None

    def sample(self) -> Rows:
        """Return the feasible rows to be scored, ascending: all or a part, maybe none.

        Call it once for each search, because the next one starts where this one stopped. If a
        Filter failed on a node of this search, there are none, and ``evaluation`` has the failure.
        """
        return self._sample(self.evaluation.feasible_rows)[0]

    def totals(self, pod: PodInfo, rows: Rows) -> Scores:
        """Return the totals of feasible rows if only these compete. Raises PluginFailure."""
        evaluation = self.evaluation
        if len(rows) == len(evaluation.feasible_rows):
            return evaluation.total[rows]
        # A copy: PreScore for a part of the rows must not replace what the evaluation relies on.
        state = evaluation.state.copy()
        run_pre_score(evaluation.runtime, state, pod, evaluation.cluster, rows)
        return run_score(evaluation.runtime, state, pod, evaluation.cluster.nodes, rows).total

    def _sample(self, feasible: Rows) -> tuple[Rows, int]:
        evaluation = self.evaluation
        feasibility = evaluation.feasibility
        allowed = None if feasibility.node_names is None else feasibility.candidates()
        rows, evaluated, failed = self._rotation.sample(
            evaluation.cluster, evaluation.runtime.profile, feasible, allowed, feasibility.failed
        )
        if failed is not None:
            evaluation.failure = feasibility.rejections.failure(failed)
            return NO_ROWS, evaluated
        return rows, evaluated

    def _best(self, pod: PodInfo) -> ScheduleResult | None:
        evaluation = self.evaluation
        feasible = evaluation.feasible_rows
        rows, evaluated = self._sample(feasible)
        if not len(rows):
            return None
        if len(rows) == len(feasible):
            # Rows that are not feasible have a lower total than any other.
            row, total = evaluation.scores.totals.best()
            return ScheduleResult(row, len(rows), evaluated, total)
        try:
            totals = self.totals(pod, rows)
        except PluginFailure as failure:
            evaluation.failure = failure
            return None
        place = int(totals.argmax())
        return ScheduleResult(int(rows[place]), len(rows), evaluated, int(totals[place]))

    # ------------------------------------------------------------------ a batch of pods

    def select_batch(
        self, pods: Sequence[PodInfo], commit: Commit, should_stop: ShouldStop = lambda: False
    ) -> Placements:
        """Place pods of the class, as if one after another.

        Ends early if a pod finds no node (``evaluation`` then has the reason), after a pod for
        which a plugin reserves something, and after a round if ``should_stop`` returns True.
        """
        self.has_chosen, self.has_failed = True, False
        placed: list[int] = []
        rounds: list[Round] = []
        while len(placed) < len(pods):
            left = pods[len(placed) : len(placed) + MAX_ROUND]
            round_ = self._round(left)
            if round_ is None:
                self.has_failed = True
                failed = self.evaluation.failure is not None
                ending = Ending.FAILED if failed else Ending.UNSCHEDULABLE
                return Placements(placed, ending, rounds)
            rows = round_.rows
            rounds.append(round_)
            # Before ``learn``, which compares the inputs before and after the pods were assumed.
            commit(left[: len(rows)], rows)
            if self._looks_ahead and len(pods) > 1 and round_.totals[0] is not None:
                # If no pod is left there is nothing to look ahead for, and single pods would pay
                # for learning. A pod on its nominated node teaches nothing about the class.
                self._lookahead.learn(left[0])
            placed += rows
            if len(placed) < len(pods) and self.reserves(left[0]):
                return Placements(placed, Ending.RESERVED, rounds)
            if should_stop():
                break
        return Placements(placed, Ending.PLACED, rounds)

    def reserves(self, pod: PodInfo) -> bool:
        """Whether a plugin reserves something for pods like this, which the next one must see."""
        return bool(self._lookahead.reserving(pod))

    def places_alone(self, pod: PodInfo) -> bool:
        """Whether it is already known that the round ends after this pod."""
        return self.has_failed or (self.has_chosen and self._lookahead.stops_after(pod))

    def _round(self, pods: Sequence[PodInfo]) -> Round | None:
        """Return the rows for the first of the pods: at least one, or None if it has none."""
        first, evaluation = pods[0], self.evaluation
        nominated = nominated_row(evaluation.cluster, first)
        if nominated is not None and evaluation.fits_row(first, nominated):
            # No other row matters, so none is refreshed.
            return Round([nominated], [None], [1], 1)
        evaluation.refresh(first)
        if evaluation.failure is None and len(evaluation.feasible_rows):
            ahead = self._looks_ahead and len(pods) > 1
            chosen = self._lookahead.place(pods) if ahead else None
            if chosen is not None and chosen.rows:
                # Only without a percentage: then the sample has all rows, and nothing rotates.
                evaluated = self._sample(evaluation.feasible_rows)[1]
                return Round(chosen.rows, chosen.totals, chosen.feasible, evaluated)
        result = self._choose(first)
        if result is None:
            return None
        return Round([result.row], [result.total], [result.feasible], result.evaluated)
