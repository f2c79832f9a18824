"""InterPodAffinityPriority: nodes near the pods that preferred terms, of either side, want near.

Formula: kube-scheduler v1.16 ``priorities/interpod_affinity.go``:
``10 * (sum - min) / (max - min)``, where min and max begin at 0. So a node is worth 10 points only
if its sum is the highest and positive, and none only if it is the lowest and negative, or 0.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from podsched.framework.plugin import CycleState
from podsched.framework.verdicts import Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.plugins.inter_pod_affinity.plugin import InterPodAffinity


class InterPodAffinityPriority(InterPodAffinity):
    """InterPodAffinity's sums, on the scale of priorities."""

    name: ClassVar[str] = "InterPodAffinityPriority"

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map the lowest sum, 0 at most, to no points and the highest, 0 at least, to 10."""
        lowest, highest = int(scores.min(initial=0)), int(scores.max(initial=0))
        if lowest == highest:
            return np.zeros_like(scores)
        share = (scores - lowest).astype(np.float64) / float(highest - lowest)
        return as_scores(float(MAX_PRIORITY) * share)
