"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod uses up more evenly.

Formula: kube-scheduler v1.36 ``noderesources/balanced_allocation.go``: with s = (1 - standard
deviation of the used shares) * 100, truncated, the score is 50 + (50 + s_with - s_without) / 2.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from podsched.config.plugin_args import NodeResourcesBalancedAllocationArgs
from podsched.framework.nodes import Bools, ClusterView, Int64s, JournaledColumns, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.node_resources.free_resources import (
    FEW_ROWS,
    MAX_ALLOCATABLE,
    Amounts,
    ResourceAmounts,
)
from podsched.plugins.node_resources.resource_amounts import (
    NATIVE,
    is_scalar,
    resource_columns,
    weighted_resources,
)
from podsched.plugins.rows.normalize import truncated_quotient

_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation:
    """Score: how much more evenly the node's resources are used with the pod than without."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False, depends_on_feasible=False, projects_class=True
    )

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = weighted_resources(args.resources)
        names = [resource.name for resource in self._resources]
        plain = len(names) == 2 and all(name in NATIVE for name in names)
        self._plain = ResourceAmounts(names) if plain else None
        #: ``_balance`` without the pod, of all rows.
        self._without: Int64s = np.zeros(0, dtype=np.int64)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the requests."""
        return frozenset(pod.cls.requests.items())

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Skip pods that request none of the resources."""
        requests = pod.cls.requests
        if not any(
            requests.get(r.name, 0)
            for r in self._resources
            if r.name in NATIVE or is_scalar(r.name)
        ):
            return SKIP
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 50..100 for two resources; 75 where the pod changes nothing."""
        requests = pod.cls.requests
        live = self._plain.knows(nodes) if self._plain is not None else None
        amounts = self._exact_amounts(live, pod) if live is not None else None
        if amounts is not None:
            return _gain(amounts.at(rows), self._wanted(pod), self._without[rows])
        columns = resource_columns(nodes, rows, self._resources, requests, nonzero=False)
        there = [column.allocatable != 0 for column in columns]
        shares = [np.maximum(column.allocatable, 1) for column in columns]
        size = len(rows)
        balance_with = _balance(
            [_share(c.wanted, s) for c, s in zip(columns, shares, strict=True)], there, size
        )
        balance_without = _balance(
            [_share(c.used, s) for c, s in zip(columns, shares, strict=True)], there, size
        )
        return _HALF + truncated_quotient(_HALF + balance_with - balance_without, np.int64(2))

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Do the same for all rows; what is so without the pod is kept from pod to pod."""
        amounts = self._exact_amounts(nodes, pod)
        if amounts is not None:
            return _gain(amounts, self._wanted(pod), self._without)
        return self.score(state, pod, nodes, np.arange(nodes.size))

    def _wanted(self, pod: PodInfo) -> list[int]:
        return [pod.cls.requests.get(resource.name, 0) for resource in self._resources]

    def _exact_amounts(self, nodes: JournaledColumns, pod: PodInfo) -> Amounts | None:
        """Bring amounts and ``_without`` of all rows up to date, if scores of them are exact."""
        wanted = self._wanted(pod)
        if self._plain is None or not 0 <= min(wanted) <= max(wanted) < MAX_ALLOCATABLE:
            return None
        amounts, changed = self._plain.refresh(nodes)
        if not amounts.exact:
            return None
        self._refresh_without(amounts, changed)
        return amounts

    def _refresh_without(self, amounts: Amounts, changed: Rows | None) -> None:
        if changed is None or len(self._without) != amounts.used.shape[1]:
            self._without = _two_shares(amounts, (0, 0))
        elif len(changed) > FEW_ROWS:
            self._without[changed] = _two_shares(amounts.at(changed), (0, 0))
        else:
            for row in changed.tolist():
                self._without[row] = _two_shares_of_row(amounts, row)


def _gain(amounts: Amounts, wanted: Sequence[int], without: Int64s) -> Int64s:
    """Return 50 + (50 + with - without) / 2, of what is not negative."""
    scores = _two_shares(amounts, wanted)
    scores -= without
    scores += 3 * _HALF
    scores >>= 1
    return scores


def _two_shares(amounts: Amounts, requests: Sequence[int]) -> Int64s:
    """Return ``_balance`` of all rows for two resources that every node has, in 11 passes."""
    shares = amounts.used + np.array(requests, dtype=np.float64)[:, np.newaxis]
    shares /= amounts.allocatable
    np.minimum(shares, 1.0, out=shares)
    deviation = shares[0]
    deviation -= shares[1]
    deviation /= 2
    np.abs(deviation, out=deviation)
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_NODE_SCORE
    balance: Int64s = deviation.astype(np.int64)
    return balance


def _two_shares_of_row(amounts: Amounts, row: int) -> int:
    """Return the same of one row without a pod; NumPy's calls would take ten times as long."""
    first, second = amounts.used.item(0, row), amounts.used.item(1, row)
    first = min(first / amounts.allocatable.item(0, row), 1.0)
    second = min(second / amounts.allocatable.item(1, row), 1.0)
    return int((1.0 - abs((first - second) / 2)) * MAX_NODE_SCORE)


def _share(amount: Int64s, capacity: Int64s) -> NDArray[np.float64]:
    return np.minimum(amount / capacity, 1.0)


def _balance(shares: list[NDArray[np.float64]], there: list[Bools], size: int) -> Int64s:
    """Return (1 - standard deviation) * 100 over the resources that the node has."""
    if len(shares) == 2 and all(column.all() for column in there):
        deviation = np.abs((shares[0] - shares[1]) / 2)
    else:
        deviation = _deviation(shares, there, size)
    return ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _deviation(
    shares: list[NDArray[np.float64]], there: list[Bools], size: int
) -> NDArray[np.float64]:
    count, total = np.zeros(size), np.zeros(size)
    for share, has in zip(shares, there, strict=True):
        count += has
        total += np.where(has, share, 0.0)
    divisor = np.maximum(count, 1.0)
    mean = total / divisor
    squares, first, difference = np.zeros(size), np.zeros(size), np.zeros(size)
    seen = np.zeros(size)
    for share, has in zip(shares, there, strict=True):
        squares += np.where(has, (share - mean) * (share - mean), 0.0)
        difference = np.where(has & (seen == 1), first - share, difference)
        first = np.where(has & (seen == 0), share, first)
        seen += has
    pair = np.abs(difference / 2)
    return np.where(count > 2, np.sqrt(squares / divisor), np.where(count == 2, pair, 0.0))
