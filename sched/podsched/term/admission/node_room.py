"""How many pods of a unit fit on the nodes at later times, by requests alone.

A trial on the nodes says exactly whether a unit fits at a time, but takes a millisecond or more. On
a full cluster most times fail for lack of room; this check rules them out without a trial. It is an
upper bound, because it ignores affinity, ports, volumes and devices.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from podsched.framework.nodes import NodeColumns
from podsched.framework.pods import PodClass

#: By node, amounts by resource.
_Amounts = Mapping[str, Mapping[str, int]]


class NodeRoom:
    """The free room of all nodes for the pods of one unit, at times in ascending order."""

    def __init__(
        self,
        nodes: NodeColumns,
        endings: Iterable[tuple[float, str, Mapping[str, int]]],
        pods: Mapping[PodClass, int],
    ) -> None:
        """Read the present nodes; ``pods``: the unit's number of pods of each class.

        ``endings``: for pods that will end, in ascending order: when, on which node, and requests.
        """
        self._nodes = nodes
        self._pods = pods
        self._endings = iter(endings)
        self._next = next(self._endings, None)
        # Read now and not in ``may_fit``: then a trial may be open, with placeholders on the nodes.
        self._free = {
            resource: nodes.allocatable(resource) - nodes.requested(resource)
            for cls in pods
            for resource in cls.requests
        }

    def may_fit(self, least: int, at: float, kept: Collection[_Amounts]) -> bool:
        """Return False if fewer than ``least`` of the pods can have nodes at time ``at``.

        ``at`` is never less than in the last call. ``kept``: the amounts that promised starts take
        then.
        """
        while self._next is not None and self._next[0] <= at:
            self._change(self._next[1], self._next[2], 1)
            self._next = next(self._endings, None)
        for by_node in kept:
            for node, amounts in by_node.items():
                self._change(node, amounts, -1)
        found = sum(self._count(cls, count) for cls, count in self._pods.items())
        for by_node in kept:
            for node, amounts in by_node.items():
                self._change(node, amounts, 1)
        return found >= least

    def _change(self, node: str, amounts: Mapping[str, int], sign: int) -> None:
        row = self._nodes.row_of(node)
        for resource, free in self._free.items() if row is not None else ():
            free[row] += sign * amounts.get(resource, 0)

    def _count(self, cls: PodClass, most: int) -> int:
        """Return how many pods of a class fit on the nodes, ``most`` at most."""
        fit = np.full(len(self._nodes.alive), most, dtype=np.int64)
        for resource, number in cls.requests.items():
            if number:
                np.minimum(fit, self._free[resource] // number, out=fit)
        return min(most, int(fit[self._nodes.alive & (fit > 0)].sum()))
