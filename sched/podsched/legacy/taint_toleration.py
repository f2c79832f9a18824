"""TaintTolerationPriority: nodes with few PreferNoSchedule taints that the pod does not tolerate.

Formula: kube-scheduler v1.16 ``priorities/taint_toleration.go``: ``10 * (1 - count / max)``.
"""

from __future__ import annotations

from typing import ClassVar

from podsched.framework.plugin import CycleState
from podsched.framework.verdicts import Scores
from podsched.legacy.points import normalize_reduce
from podsched.plugins.taint_toleration import TaintToleration


class TaintTolerationPriority(TaintToleration):
    """TaintToleration's Score, on the scale of priorities."""

    name: ClassVar[str] = "TaintTolerationPriority"

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        """Map no such taint to 10 points, the highest number to none."""
        return normalize_reduce(scores, reverse=True)
