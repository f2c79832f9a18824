"""NodeResourcesBalancedAllocation: prefers nodes whose resources are used more evenly with the pod.

Formula (kube-scheduler v1.36 ``noderesources/balanced_allocation.go``)::

    share   = min(1, requested / allocatable), for each resource
    balance = (1 - standard deviation of the shares) * 100, truncated
    score   = 50 + (50 + balance with the pod - balance without it) / 2
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from podsched.api.resources import CPU, MEMORY
from podsched.config.plugin_args import NodeResourcesBalancedAllocationArgs
from podsched.framework.nodes import Bools, ClusterView, Int64s, JournaledColumns, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    MAX_NODE_SCORE,
    CycleState,
    Handle,
    ProvidedDevices,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.node_resources.node_amounts import (
    Floats,
    SharedAmounts,
    balance_of,
    exact_amounts,
)
from podsched.plugins.node_resources.resource_amounts import (
    NATIVE,
    ScoredDevices,
    is_scalar,
    resource_columns,
)
from podsched.plugins.rows.normalize import truncated_quotient

_HALF = MAX_NODE_SCORE // 2


class NodeResourcesBalancedAllocation:
    """Score compares the balance of the node's resources with and without the pod."""

    name: ClassVar[str] = "NodeResourcesBalancedAllocation"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
        reads_labels=False,
        reads_volumes=False,
    )

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        self._resources = args.resources
        names = sorted(resource.name for resource in self._resources)
        self._amounts = SharedAmounts() if names == [CPU, MEMORY] else None
        self._scored = ScoredDevices(self._resources)

    def leave_to(self, devices: ProvidedDevices) -> None:
        """Count the devices of another plugin as resources."""
        self._scored.leave_to(devices)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return FIXED_INPUTS, unless devices count."""
        version = self._scored.version(pod.cls, cluster)
        return FIXED_INPUTS if version is None else version

    @property
    def is_plain(self) -> bool:
        """Whether it reads only cpu and memory, the default."""
        return self._amounts is not None

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the requests."""
        return pod.cls.amounts.requested

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
        state.data[self.name] = self._scored.counts(pod.cls, cluster)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 50 to 100 for two resources; 75 if the pod changes nothing."""
        requests = pod.cls.requests
        live = self._amounts.known(nodes) if self._amounts is not None else None
        if live is not None and live.exact and (wanted := exact_amounts(requests)) is not None:
            allocatable, used = live.allocatable.take(rows, 1), live.used.take(rows, 1)
            return _gain(allocatable, used, wanted, live.balance[rows])
        columns = resource_columns(
            nodes, rows, self._resources, requests, nonzero=False, devices=state.data[self.name]
        )
        there = [column.allocatable != 0 for column in columns]
        shares = [np.maximum(column.allocatable, 1) for column in columns]
        size = len(rows)
        balance_with = _balance(
            [_share(c.wanted, s) for c, s in zip(columns, shares, strict=True)], there, size
        )
        balance_without = _balance(
            [_share(c.used, s) for c, s in zip(columns, shares, strict=True)], there, size
        )
        gained = _HALF + truncated_quotient(_HALF + balance_with - balance_without, np.int64(2))
        # A sum of requests that overflowed is negative, and its balance far below 0.
        return np.clip(gained, 0, MAX_NODE_SCORE)

    def score_all(self, state: CycleState, pod: PodInfo, nodes: JournaledColumns) -> Scores:
        """Score all rows; ``NodeAmounts`` keeps the balance without the pod current."""
        live = self._amounts.of(nodes) if self._amounts is not None else None
        if (
            live is not None
            and live.exact
            and (wanted := exact_amounts(pod.cls.requests)) is not None
        ):
            return _gain(live.allocatable, live.used, wanted, live.balance)
        return self.score(state, pod, nodes, np.arange(nodes.size))


def _gain(allocatable: Floats, used: Floats, wanted: Sequence[int], without: Int64s) -> Int64s:
    """Return 50 + (50 + with - without) / 2, which is never negative.

    Shapes: ``allocatable`` and ``used`` ``(2, rows)``, ``without`` ``(rows,)``: the balance without
    the pod.
    """
    scores = balance_of(allocatable, used + np.array(wanted, dtype=np.float64)[:, np.newaxis])
    # 50 + (50 + change) / 2 is (150 + change) / 2: fewer passes, all in place.
    scores -= without
    scores += 3 * _HALF
    scores >>= 1
    return scores


def _share(amount: Int64s, capacity: Int64s) -> NDArray[np.float64]:
    return np.minimum(amount / capacity, 1.0)


def _balance(shares: list[NDArray[np.float64]], there: list[Bools], size: int) -> Int64s:
    """Return the balance of each row, over the resources that its node has.

    ``there``: for each resource, whether the row has it.
    """
    if len(shares) == 2 and all(column.all() for column in there):
        deviation = np.abs((shares[0] - shares[1]) / 2)
    else:
        deviation = _deviation(shares, there, size)
    return ((1.0 - deviation) * MAX_NODE_SCORE).astype(np.int64)


def _deviation(
    shares: list[NDArray[np.float64]], there: list[Bools], size: int
) -> NDArray[np.float64]:
    """Return the standard deviation of the used shares over the resources that a node has.

    For two resources it is half of their difference, as kube-scheduler computes it; the general
    formula can round differently.
    """
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
