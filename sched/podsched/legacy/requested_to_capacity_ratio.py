"""RequestedToCapacityRatioPriority: a score that follows a broken line over the used share.

Formula: kube-scheduler v1.16 ``priorities/requested_to_capacity_ratio.go``: the line at
``100 - (capacity - requested) * 100 / capacity`` percent, 100 for what does not fit; the weighted
mean over the resources that score more than 0, rounded half away from zero.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.config.legacy_args import RequestedToCapacityRatioPriorityArgs
from podsched.framework.nodes import ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import as_scores
from podsched.legacy.requested_amounts import amounts


class RequestedToCapacityRatioPriority:
    """Score by the configured shape; without one, 10 points for an empty node."""

    name: ClassVar[str] = "RequestedToCapacityRatioPriority"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False, depends_on_feasible=False, projects_class=True
    )

    def __init__(self, args: RequestedToCapacityRatioPriorityArgs, handle: Handle) -> None:
        shape = [(point.utilization, point.score) for point in args.shape]
        self._line: Int64s = np.array([_on_line(shape, p) for p in range(101)], dtype=np.int64)
        self._resources = [(resource.name, resource.weight) for resource in args.resources]

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return what scores count of the requests."""
        return pod.cls.nonzero, frozenset(pod.cls.requests.items())

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        total = np.zeros(len(rows), dtype=np.int64)
        weights = np.zeros(len(rows), dtype=np.int64)
        for name, weight in self._resources:
            points = self._line[amounts(nodes, rows, pod, name).utilization()]
            total += points * weight
            weights += np.where(points > 0, weight, 0)
        return as_scores(np.floor(total / np.maximum(weights, 1) + 0.5))


def _on_line(shape: list[tuple[int, int]], percent: int) -> int:
    """Return the points at a used share (``buildBrokenLinearFunction``)."""
    before = shape[0]
    for at, (utilization, score) in enumerate(shape):
        if percent <= utilization:
            if at == 0:
                return score
            rise, run = score - before[1], utilization - before[0]
            step = abs(rise) * (percent - before[0]) // run
            return before[1] + (step if rise >= 0 else -step)
        before = utilization, score
    return before[1]
