"""Compute the totals of rows with 1, 2, 3… more pods of a class, for many rows at once.

A fork has several copies of each candidate row, each with a number of pods added. One pass of the
plugins over the fork gives feasibility and totals:

    fork row        0      1      2      3      4
    base row        4      4      4      7      9
    pods added      1      2      3      1      1
    total           85     79     -1     85     88      -1: does not fit (NO_TOTAL)
    safe            yes    yes    yes    yes    no      no other row's score changes with it

So a batch of equal pods can be placed without an evaluation after each pod, until a step is not
*safe*: it changes the normalised scores of other rows, and the class must be evaluated again.

Steps of a row are computed when it first gets a pod: as many steps as rows of the last batch took
(``depth``). When these are used up, their number is doubled, up to MAX_STEPS at a time. Rows at the
same step are computed together, and with them the next rows, because a pass costs almost the same
for one row and for a hundred. So rows that get few pods (spreading) cost little, and rows that are
filled up (bin packing) take few passes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.decide.accelerators.totals import NO_TOTAL
from podsched.decide.evaluation.filtering import filter_one
from podsched.decide.evaluation.scoring import score_one
from podsched.framework.nodes import Bools, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: Max steps computed for one row at a time.
MAX_STEPS = 64
#: Max steps of other rows computed together with a row that needs more, in the order of the top.
STEPS_TOGETHER = 192


@dataclass(slots=True)
class LookaheadSteps:
    """A row's totals with 1, 2, … more pods (NO_TOTAL: does not fit), and which steps are safe."""

    totals: list[int] = field(default_factory=list)
    safe: list[bool] = field(default_factory=list)


class LookaheadScores:
    """Computes steps on demand; valid until the evaluation is refreshed or anything changes."""

    def __init__(
        self,
        evaluation: ClassEvaluation,
        pod: PodInfo,
        rows: Rows,
        covered: Collection[str] = (),
        depth: int = 1,
    ) -> None:
        """Compute nothing yet.

        rows: the top rows, in the order in which they are expected to get pods.
        depth: the expected number of steps of each row.
        covered: plugins that look ahead themselves.
        """
        self._evaluation = evaluation
        self._covered = covered
        self._pod = pod
        self._top = rows.tolist()
        self._place_of = {row: place for place, row in enumerate(self._top)}
        self._depth = min(depth, MAX_STEPS)
        self.of: dict[int, LookaheadSteps] = {row: LookaheadSteps() for row in self._top}

    def step(self, row: int, pods: int, others: dict[int, int]) -> tuple[int, bool]:
        """Return (total, safe) of the row with ``pods`` more pods.

        ``others``: pods placed on each row so far; rows at the same step are computed together.
        """
        steps_of_row = self.of[row]
        if not steps_of_row.totals:
            self._begin(self._place_of[row])
        if len(steps_of_row.totals) < pods:
            place, depth = self._place_of[row], len(steps_of_row.totals)
            # Rows that have used up their steps, too, will need the next ones soon.
            near = [r for r, n in others.items() if len(self.of[r].totals) == n]
            # The more steps a row gets, the fewer rows share the pass: this bounds the fork.
            next_ones = self._top[place : place + STEPS_TOGETHER // min(depth, MAX_STEPS)]
            near += [r for r in next_ones if len(self.of[r].totals) == depth]
            rows = np.array(list(dict.fromkeys((row, *near))), dtype=np.intp)
            known = np.array([len(self.of[r].totals) for r in rows.tolist()], dtype=np.int64)
            # As many steps as a row has already, so that their number doubles.
            self._extend(rows, np.clip(known, self._depth, MAX_STEPS), known)
        return steps_of_row.totals[pods - 1], steps_of_row.safe[pods - 1]

    def _begin(self, place: int) -> None:
        """Compute the row at this place and the following rows that are expected to get pods."""
        # There is one top row per pod.
        wanted = self._top[place : place + len(self._top) // self._depth + 1]
        rows = np.array([row for row in wanted if not self.of[row].totals], dtype=np.intp)
        self._extend(rows, np.full(len(rows), self._depth), np.zeros(len(rows), dtype=np.int64))

    def _extend(self, rows: Rows, steps: NDArray[np.int64], known: NDArray[np.int64]) -> None:
        """Add ``steps[i]`` steps to the ``known[i]`` steps of ``rows[i]``."""
        places = np.repeat(np.arange(len(rows)), steps)
        starts = np.cumsum(steps) - steps
        # Row ``i`` is repeated for each of its steps, with known[i] + 1, known[i] + 2, ... pods.
        copies = np.arange(len(places)) - starts[places] + known[places] + 1
        repeated = rows[places]
        nodes = self._evaluation.cluster.nodes
        fork = nodes.fork(repeated)
        fork.add_copies(self._pod, copies)
        totals, safe = self._evaluate(fork, repeated)
        of = self.of
        for row, total, is_safe in zip(
            repeated.tolist(), totals.tolist(), safe.tolist(), strict=True
        ):
            steps_of_row = of[row]
            steps_of_row.totals.append(total)
            steps_of_row.safe.append(is_safe)

    def _evaluate(self, fork: NodeColumns, base: Rows) -> tuple[Scores, Bools]:
        places = self._feasible(fork, len(base))
        totals = np.full(len(base), NO_TOTAL, dtype=np.int64)
        safe = np.ones(len(base), dtype=np.bool_)
        gone = np.ones(len(base), dtype=np.bool_)
        gone[places] = False
        sums = np.zeros(len(places), dtype=np.int64)
        evaluation = self._evaluation
        state = evaluation.state
        for column in evaluation.scores.columns:
            if not column.active:
                continue
            if gone.any():
                safe[gone] &= keeps_others_without(column, base[gone])
            # Pods do not change these scores.
            if column.only_nodes:
                sums += column.scores_at(base[places])
                continue
            raw = score_one(column.named, state, self._pod, fork, places)
            if column.normalizes:
                # In a safe step the raw score does not change, so neither do the normalised scores.
                # A score that moves between the extremes would be safe, too, but proving that would
                # require tracking which rows hold an extreme.
                safe[places] &= raw == column.raw[base[places]]
                sums += column.scores_at(base[places])
            else:
                inside = (raw >= MIN_NODE_SCORE) & (raw <= MAX_NODE_SCORE)
                safe[places] &= inside
                sums += np.where(inside, raw, 0) * column.named.weight
        totals[places] = sums if evaluation.scores.columns else 1
        return totals, safe

    def _feasible(self, fork: NodeColumns, size: int) -> Rows:
        places: Rows = np.arange(size)
        for column in self._evaluation.feasibility.columns:
            if not column.active or column.only_nodes or not len(places):
                continue
            if column.named.name in self._covered:
                continue
            verdicts = filter_one(column.named, self._evaluation.state, self._pod, fork, places)
            if verdicts.reasons:
                places = places[verdicts.bits == 0]
        return places


def keeps_others_without(column: ScoreColumn, rows: Rows) -> Bools:
    """Return for each row whether no other row's score changes if the row becomes infeasible."""
    if column.depends_on_feasible:
        return np.zeros(len(rows), dtype=np.bool_)
    # If all raw scores are equal, the extremes stay the same without any of the rows.
    if not column.normalizes or (column.by_extremes and column.low == column.high):
        return np.ones(len(rows), dtype=np.bool_)
    if not column.by_extremes:
        return np.zeros(len(rows), dtype=np.bool_)
    # A row that holds an extreme may be the only one. Counting the others would be a pass over all.
    raw = column.raw[rows]
    return np.not_equal(raw, column.low) & np.not_equal(raw, column.high)
