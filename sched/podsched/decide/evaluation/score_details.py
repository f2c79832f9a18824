"""What a choice was made from: the chosen row's scores by plugin, and those of the best others.

Read off an evaluation after the fact, before it is refreshed: nothing is scored for it, so that it
costs some 30 µs at 5,000 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsched.decide.decision import RowScores, ScoreDetails
from podsched.decide.evaluation.class_evaluation import ClassEvaluation
from podsched.decide.evaluation.row_groups import NO_TOTAL
from podsched.framework.verdicts import Rows, Scores

#: Rows of which scores are told beside the chosen one.
RUNNERS_UP = 3


def best_rows(total: Scores, chosen: int, most: int = RUNNERS_UP) -> tuple[Rows, int]:
    """Return the chosen row and the best others, and how many rows share the best total.

    Of equal totals the lowest row first, as choices are made. Rows with NO_TOTAL are left out.
    """
    left = total.copy()
    ties = int(np.count_nonzero(left == left.max())) if len(left) else 0
    rows = [chosen]
    left[chosen] = NO_TOTAL
    for _ in range(most):
        row = int(left.argmax())
        if left[row] == NO_TOTAL:
            break
        rows.append(row)
        left[row] = NO_TOTAL
    return np.array(rows, dtype=np.intp), ties


def details_of(evaluation: ClassEvaluation, chosen: int) -> ScoreDetails | None:
    """Return what a row was chosen from; None where it was not scored: a nominated node."""
    total = evaluation.total
    if chosen >= len(total) or total[chosen] == NO_TOTAL:
        return None
    rows, ties = best_rows(total, chosen)
    columns = [column for column in evaluation.scores.columns if column.active]
    scores = [(column.named.name, column.scores_at(rows).tolist()) for column in columns]
    return put_together(rows, total[rows].tolist(), dict(scores), ties)


def put_together(
    rows: Rows, totals: list[int], scores: Mapping[str, list[int]], ties: int
) -> ScoreDetails:
    """Return the details of rows from their scores by plugin, in the order of the rows."""
    return ScoreDetails(
        tuple(
            RowScores(row, totals[at], {name: of[at] for name, of in scores.items()})
            for at, row in enumerate(rows.tolist())
        ),
        ties,
    )
