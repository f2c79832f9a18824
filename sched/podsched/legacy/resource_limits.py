"""ResourceLimitsPriority: nodes that have what the pod's limits allow it to use.

Formula: kube-scheduler v1.16 ``priorities/resource_limits.go``: 1 point where the pod's cpu limit
or its memory limit is set and not above the node's allocatable, else none. A pod's limit is the sum
over its containers, or the highest of an init container.
"""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from typing import ClassVar, cast

import numpy as np

from podsched.api.resources import CPU, MEMORY, Amounts, amounts, to_units
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import as_scores
from podsched.plugins.without_args import WithoutArgs


class ResourceLimitsPriority(WithoutArgs):
    """Score: 1 point where one of the two limits is within the node's allocatable."""

    name: ClassVar[str] = "ResourceLimitsPriority"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the limits."""
        return _limits(pod.cls)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 10 or 0."""
        points = np.zeros(len(rows), dtype=np.int64)
        for resource, limit in zip((CPU, MEMORY), _limits(pod.cls), strict=True):
            if limit:
                points |= limit <= nodes.allocatable(resource)[rows]
        return as_scores(points)


def _limits(cls: PodClass) -> tuple[int, int]:
    """Return the pod's limits: millicores and bytes, 0 for none."""
    found = cls.compiled.get(ResourceLimitsPriority.name)
    if found is None:
        total: Amounts = {}
        for container in cls.spec.containers:
            for name, amount in amounts(container.resources.limits).items():
                total[name] = total.get(name, Fraction(0)) + amount
        for container in cls.spec.init_containers:
            for name, amount in amounts(container.resources.limits).items():
                total[name] = max(total.get(name, amount), amount)
        units = to_units(total)
        found = units.get(CPU, 0), units.get(MEMORY, 0)
        cls.compiled[ResourceLimitsPriority.name] = found
    return cast(tuple[int, int], found)
