"""BalancedResourceAllocation: prefers nodes of which cpu and memory are used to the same share.

Formula: kube-scheduler v1.16 ``priorities/balanced_resource_allocation.go``:
``10 * (1 - abs(cpu - memory))`` of the used shares; 0 where one of them is 1 or more, or the node
has none of it. Not part of it: volumes as a third share (BalanceAttachedNodeVolumes, alpha).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.legacy.requested_amounts import Amounts, amounts
from podsched.plugins.without_args import WithoutArgs


class BalancedResourceAllocation(WithoutArgs):
    """Score: 10 points where both shares are equal."""

    name: ClassVar[str] = "BalancedResourceAllocation"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False, depends_on_feasible=False, projects_class=True
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return what scores count of the requests."""
        return pod.cls.nonzero

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        cpu = _share(amounts(nodes, rows, pod, CPU))
        memory = _share(amounts(nodes, rows, pod, MEMORY))
        points = (1.0 - np.abs(cpu - memory)) * float(MAX_PRIORITY)
        return as_scores(np.where((cpu >= 1.0) | (memory >= 1.0), 0.0, points))


def _share(of: Amounts) -> NDArray[np.float64]:
    share = of.requested / np.maximum(of.capacity, 1)
    return np.where(of.capacity == 0, 1.0, share)
