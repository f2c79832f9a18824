"""Priorities by what is requested of a node, with the new pod on it.

Formulas: kube-scheduler v1.16 ``algorithm/priorities``. Requests are those of
``resource_allocation.go``: cpu and memory with 100m and 200Mi for containers without requests,
other resources as requested. Not implemented: volumes as a third share of
BalancedResourceAllocation (BalanceAttachedNodeVolumes, alpha).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from podsched.api.resources import CPU, MEMORY
from podsched.config.legacy.args import RequestedToCapacityRatioPriorityArgs
from podsched.framework.nodes import ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.plugins.rows.normalize import truncated_quotient
from podsched.plugins.without_args import WithoutArgs

_TRAITS: Final = Traits(reads_pods=False, depends_on_feasible=False, projects_class=True)


@dataclass(frozen=True, slots=True)
class Amounts:
    """One resource; ``requested`` includes the new pod. Arrays have shape ``(len(rows),)``."""

    requested: Int64s
    capacity: Int64s

    def least_requested(self) -> Int64s:
        """Return ``(capacity - requested) * 10 / capacity``; 0 where there is not enough."""
        return self._if_enough(self._free(MAX_PRIORITY), 0)

    def most_requested(self) -> Int64s:
        """Return ``requested * 10 / capacity``; 0 where there is not enough."""
        points = self.requested * MAX_PRIORITY // np.maximum(self.capacity, 1)
        return self._if_enough(points, 0)

    def utilization(self) -> Int64s:
        """Return ``100 - (capacity - requested) * 100 / capacity``; 100 where there is too little.

        As in kube-scheduler, the free share is truncated to whole percents.
        """
        return self._if_enough(100 - self._free(100), 100)

    def share(self) -> NDArray[np.float64]:
        """Return ``requested / capacity``; 1 for a node that has none."""
        return np.where(self.capacity == 0, 1.0, self.requested / np.maximum(self.capacity, 1))

    def _free(self, scale: int) -> Int64s:
        free = (self.capacity - self.requested) * scale
        return truncated_quotient(free, np.maximum(self.capacity, 1))

    def _if_enough(self, points: Int64s, otherwise: int) -> Int64s:
        short = (self.capacity == 0) | (self.requested > self.capacity)
        return np.where(short, otherwise, points)


def amounts(nodes: NodeColumns, rows: Rows, pod: PodInfo, resource: str) -> Amounts:
    """Return the amounts of a resource on rows, with the pod there."""
    if resource in (CPU, MEMORY):
        own = pod.cls.nonzero[0 if resource == CPU else 1]
        used = nodes.nonzero_requested(resource)[rows]
    else:
        own = pod.cls.requests.get(resource, 0)
        used = nodes.requested(resource)[rows]
    return Amounts(used + own, nodes.allocatable(resource)[rows])


class _CpuAndMemory(WithoutArgs):
    """A priority by the amounts of cpu and memory."""

    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return pod.cls.nonzero

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        cpu, memory = (amounts(nodes, rows, pod, resource) for resource in (CPU, MEMORY))
        return as_scores(self.points(cpu, memory))

    def points(self, cpu: Amounts, memory: Amounts) -> NDArray[np.int64] | NDArray[np.float64]:
        raise NotImplementedError


class LeastRequestedPriority(_CpuAndMemory):
    """Score: 10 points for an empty node, none for a full one; the mean of cpu and memory."""

    name: ClassVar[str] = "LeastRequestedPriority"

    def points(self, cpu: Amounts, memory: Amounts) -> NDArray[np.int64]:
        return (cpu.least_requested() + memory.least_requested()) // 2


class MostRequestedPriority(_CpuAndMemory):
    """Score: 10 points for a node that the pod fills, none where it does not fit."""

    name: ClassVar[str] = "MostRequestedPriority"

    def points(self, cpu: Amounts, memory: Amounts) -> NDArray[np.int64]:
        return (cpu.most_requested() + memory.most_requested()) // 2


class BalancedResourceAllocation(_CpuAndMemory):
    """Score: 10 points where equal shares of cpu and memory are used.

    ``10 * (1 - abs(cpu - memory))``; 0 where a share is 1 or more.
    """

    name: ClassVar[str] = "BalancedResourceAllocation"

    def points(self, cpu: Amounts, memory: Amounts) -> NDArray[np.float64]:
        one, other = cpu.share(), memory.share()
        points = (1.0 - np.abs(one - other)) * float(MAX_PRIORITY)
        return np.where((one >= 1.0) | (other >= 1.0), 0.0, points)


class RequestedToCapacityRatioPriority:
    """Score by a broken line over the used share; without one, 10 points for an empty node.

    The weighted mean over the resources that score more than 0, rounded half away from zero.
    """

    name: ClassVar[str] = "RequestedToCapacityRatioPriority"
    traits: ClassVar[Traits] = _TRAITS

    def __init__(self, args: RequestedToCapacityRatioPriorityArgs, handle: Handle) -> None:
        shape = [(point.utilization, point.score) for point in args.shape]
        self._line: Int64s = np.array([_on_line(shape, p) for p in range(101)], dtype=np.int64)
        self._resources = [(resource.name, resource.weight) for resource in args.resources]

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return pod.cls.nonzero, frozenset(pod.cls.requests.items())

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
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
