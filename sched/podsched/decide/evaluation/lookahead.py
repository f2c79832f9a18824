"""What rows would be like with 1, 2, 3… more pods of a class, for many rows at once.

One pass of the plugins over a fork whose rows are copies of the candidates, each with so many pods
added, gives their feasibility and totals:

    fork row        0      1      2      3      4
    base row        4      4      4      7      9
    pods added      1      2      3      1      1
    total           85     79     -1     85     88      -1: does not fit (NO_TOTAL)
    safe            yes    yes    yes    yes    no      no other row's score changes with it

So a batch of equal pods can be placed without an evaluation between one pod and the next, until a
step that is not *safe*: it changes the normalised scores of other rows, and the class has to be
evaluated again.

A row is looked at when it first gets a pod: as many steps ahead as rows of the last batch took
(``depth``), then as many steps more as are known of it, at most MAX_STEPS. Rows that have come as
far are looked at together, and the rows that come next with them, since a pass costs almost the
same for one row and for a hundred. So rows that get few pods (spread strategies) cost little, and
rows that are filled up (bin packing) take few passes.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.evaluation.filtering import filter_one
from podsched.decide.evaluation.row_groups import NO_TOTAL
from podsched.decide.evaluation.scoring import score_one
from podsched.framework.nodes import Bools, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores

#: Steps looked ahead for one row at most in one go.
MAX_STEPS = 64
#: Steps of rows looked at together with one that needs more, in the order of the front.
STEPS_TOGETHER = 192


@dataclass(slots=True)
class LookaheadSteps:
    """A row's totals with 1, 2, … more pods (NO_TOTAL: does not fit), and which steps are safe."""

    totals: list[int] = field(default_factory=list)
    safe: list[bool] = field(default_factory=list)


class LookaheadScores:
    """Looks ahead on demand; valid while the evaluation is not refreshed and nothing changes."""

    def __init__(
        self,
        evaluation: ClassEvaluation,
        pod: PodInfo,
        rows: Rows,
        covered: Collection[str] = (),
        depth: int = 1,
    ) -> None:
        """Look at nothing yet.

        rows: in the order in which they will get pods, if it is known; depth: steps that each of
            them is expected to take. covered: plugins that follow their verdicts themselves.
        """
        self._evaluation = evaluation
        self._covered = covered
        self._pod = pod
        self._front = rows.tolist()
        self._place_of = {row: place for place, row in enumerate(self._front)}
        self._depth = min(depth, MAX_STEPS)
        self.of: dict[int, LookaheadSteps] = {row: LookaheadSteps() for row in self._front}

    def step(self, row: int, pods: int, others: dict[int, int]) -> tuple[int, bool]:
        """Return (total, safe) of the row with ``pods`` more pods.

        ``others``: how many pods rows have got; those that have come as far are looked at together.
        """
        steps_of_row = self.of[row]
        if not steps_of_row.totals:
            self._begin(self._place_of[row])
        if len(steps_of_row.totals) < pods:
            place, depth = self._place_of[row], len(steps_of_row.totals)
            near = [r for r, n in others.items() if len(self.of[r].totals) == n]
            next_ones = self._front[place : place + STEPS_TOGETHER // min(depth, MAX_STEPS)]
            near += [r for r in next_ones if len(self.of[r].totals) == depth]
            rows = np.array(list(dict.fromkeys((row, *near))), dtype=np.intp)
            known = np.array([len(self.of[r].totals) for r in rows.tolist()], dtype=np.int64)
            self._extend(rows, np.clip(known, self._depth, MAX_STEPS), known)
        return steps_of_row.totals[pods - 1], steps_of_row.safe[pods - 1]

    def _begin(self, place: int) -> None:
        """Look at the row at this place and those behind it that are expected to get pods, too."""
        # The front has a row for each pod.
        wanted = self._front[place : place + len(self._front) // self._depth + 1]
        rows = np.array([row for row in wanted if not self.of[row].totals], dtype=np.intp)
        self._extend(rows, np.full(len(rows), self._depth), np.zeros(len(rows), dtype=np.int64))

    def _extend(self, rows: Rows, steps: NDArray[np.int64], known: NDArray[np.int64]) -> None:
        """Add ``steps[i]`` steps to the ``known[i]`` steps of ``rows[i]``."""
        places = np.repeat(np.arange(len(rows)), steps)
        starts = np.cumsum(steps) - steps
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
                safe[gone] &= column.keeps_others_without(base[gone])
            if column.only_nodes:
                sums += column.scores_at(base[places])
                continue
            raw = score_one(column.named, state, self._pod, fork, places)
            if column.normalizes:
                # Where a step is safe the raw score stayed, and so does the normalised one.
                safe[places] &= column.keeps_others(state, base[places], raw)
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
