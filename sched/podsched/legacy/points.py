"""The scale of priorities: 0 to 10 points; a point counts as a score of ten.

Formulas: kube-scheduler v1.16 ``pkg/scheduler/algorithm/priorities/reduce.go``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsched.framework.plugin import MAX_NODE_SCORE
from podsched.framework.verdicts import Scores
from podsched.plugins.rows.normalize import truncated_quotient

#: kube-scheduler v1.16's ``MaxPriority``.
MAX_PRIORITY: Final = 10
_SCORES_PER_POINT: Final = MAX_NODE_SCORE // MAX_PRIORITY


def as_scores(points: NDArray[np.int64] | NDArray[np.float64]) -> Scores:
    """Return points, truncated as in Go, as scores of 0 to 100."""
    return points.astype(np.int64) * _SCORES_PER_POINT


def normalize_reduce(scores: Scores, *, reverse: bool = False) -> Scores:
    """Map the highest score to 10 points and 0 to 0, or with ``reverse`` the opposite.

    ``NormalizeReduce``; a result depends only on its score and the highest.
    """
    highest = int(scores.max(initial=0))
    if highest <= 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else np.zeros_like(scores)
    points = truncated_quotient(scores * MAX_PRIORITY, np.int64(highest))
    return as_scores(MAX_PRIORITY - points if reverse else points)
