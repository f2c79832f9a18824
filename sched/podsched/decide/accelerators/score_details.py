"""The scores behind a choice: those of the chosen row and of the best other rows, by plugin.

They are read from an evaluation before its next refresh, without scoring again, so this costs some
30 µs at 5,000 nodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.accelerators.totals import NO_TOTAL
from podsched.decide.decision import RowScores, ScoreDetails
from podsched.framework.verdicts import Rows, Scores

#: Number of rows whose scores are kept besides the chosen row's.
RUNNERS_UP = 3


def best_rows(total: Scores, chosen: int) -> tuple[Rows, int]:
    """Return the chosen row and the best others, and how many rows share the best total.

    Among equal totals lower rows come first, as in choices. Rows with NO_TOTAL are left out.
    """
    left = total.copy()
    ties = int(np.count_nonzero(left == left.max())) if len(left) else 0
    rows = [chosen]
    left[chosen] = NO_TOTAL
    for _ in range(RUNNERS_UP):
        row = int(left.argmax())
        if left[row] == NO_TOTAL:
            break
        rows.append(row)
        left[row] = NO_TOTAL
    return np.array(rows, dtype=np.intp), ties


def details_of(evaluation: ClassEvaluation, chosen: int) -> ScoreDetails | None:
    """Return the scores behind a choice; None if the row (a nominated node) was not scored."""
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
