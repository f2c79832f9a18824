"""What a priority counts as requested on each row, against what the node has.

Rule: kube-scheduler v1.16 ``priorities/resource_allocation.go``: cpu and memory with 100m and
200Mi for containers without requests, other resources as requested.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from podsched.api.resources import CPU, MEMORY
from podsched.framework.nodes import Int64s, NodeColumns
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.legacy.points import MAX_PRIORITY
from podsched.plugins.rows.normalize import truncated_quotient


@dataclass(frozen=True, slots=True)
class Amounts:
    """One resource; ``requested`` includes the new pod. Arrays have shape ``(len(rows),)``."""

    requested: Int64s
    capacity: Int64s

    def least_requested(self) -> Int64s:
        """Return ``(capacity - requested) * 10 / capacity``; 0 where there is not enough."""
        free = (self.capacity - self.requested) * MAX_PRIORITY
        points = truncated_quotient(free, np.maximum(self.capacity, 1))
        return np.where((self.capacity == 0) | (self.requested > self.capacity), 0, points)

    def most_requested(self) -> Int64s:
        """Return ``requested * 10 / capacity``; 0 where there is not enough."""
        points = self.requested * MAX_PRIORITY // np.maximum(self.capacity, 1)
        return np.where((self.capacity == 0) | (self.requested > self.capacity), 0, points)

    def utilization(self) -> Int64s:
        """Return ``100 - (capacity - requested) * 100 / capacity``; 100 where there is too little.

        As kube-scheduler rounds it: what is free is cut to whole percents.
        """
        free = truncated_quotient(
            (self.capacity - self.requested) * 100, np.maximum(self.capacity, 1)
        )
        return np.where((self.capacity == 0) | (self.requested > self.capacity), 100, 100 - free)


def amounts(nodes: NodeColumns, rows: Rows, pod: PodInfo, resource: str) -> Amounts:
    """Return the amounts of a resource on rows, with the pod there."""
    if resource in (CPU, MEMORY):
        own = pod.cls.nonzero[0 if resource == CPU else 1]
        used = nodes.nonzero_requested(resource)[rows]
    else:
        own = pod.cls.requests.get(resource, 0)
        used = nodes.requested(resource)[rows]
    return Amounts(used + own, nodes.allocatable(resource)[rows])
