"""The score normalisations that several plugins share, and Go's integer division.

Formulas: kube-scheduler v1.36 ``framework/plugins/helper/normalize_score.go``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from podsched.framework.plugin import MAX_NODE_SCORE
from podsched.framework.verdicts import Scores


def default_normalize(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scale scores so that the largest becomes 100.

    With ``reverse`` the largest becomes 0, and 0 becomes 100. A result depends only on the score
    and the largest score (``Traits.normalizes_by_extremes``).
    """
    if not len(scores):
        return scores
    highest = int(scores.max())
    if highest <= 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = truncated_quotient(scores * MAX_NODE_SCORE, np.int64(highest))
    return MAX_NODE_SCORE - scaled if reverse else scaled


def truncated_quotient(
    dividend: NDArray[np.int64], divisor: NDArray[np.int64] | np.int64
) -> NDArray[np.int64]:
    """Return quotients rounded towards zero, as in Go; the divisors are positive."""
    quotient = dividend // divisor
    # Floor and truncation differ only below zero, after an overflow or with a decreasing shape.
    if len(dividend) and dividend.min() < 0:
        quotient += (dividend < 0) & (quotient * divisor != dividend)
    return quotient
