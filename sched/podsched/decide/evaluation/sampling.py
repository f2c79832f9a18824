"""percentageOfNodesToScore: how many feasible nodes are scored, and where the search begins.

If it is unset, every feasible node is scored: over columns that is cheap and gives the best choice.
0 means kube-scheduler's adaptive percentage (numFeasibleNodesToFind), 10 % at 5,000 nodes. If only
some nodes are scored, the next pod's search starts where this one stopped (nextStartNodeIndex).
"""

from __future__ import annotations

import numpy as np

from podsched.framework.verdicts import Rows

#: minFeasibleNodesToFind and minFeasibleNodesPercentageToFind of kube-scheduler.
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5


def num_feasible_nodes_to_find(percentage: int | None, num_all_nodes: int) -> int:
    """Return how many feasible nodes are scored; None: all, 0: the adaptive percentage."""
    if percentage is None or percentage >= 100 or num_all_nodes < MIN_FEASIBLE_NODES:
        return num_all_nodes
    if percentage == 0:
        percentage = max(MIN_FEASIBLE_PERCENTAGE, 50 - num_all_nodes // 125)
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Rotation:
    """The node at which the next search starts; all profiles share it, as in kube-scheduler."""

    def __init__(self) -> None:
        self.start = 0

    def take(self, order: Rows, feasible: Rows, wanted: int) -> tuple[Rows, int]:
        """Return the first ``wanted`` feasible rows, and how many nodes the search covered.

        ``order``: the rows with a node, ascending; ``feasible``: some of them.
        """
        start = self.start % len(order)
        rotated = np.concatenate([order[start:], order[:start]])
        fits = np.zeros(int(order.max()) + 1, dtype=np.bool_)
        fits[feasible] = True
        places = np.flatnonzero(fits[rotated])[:wanted]
        processed = int(places[-1]) + 1 if len(places) == wanted else len(order)
        self.advance(processed, len(order))
        return rotated[places], processed

    def advance(self, processed: int, num_all_nodes: int) -> None:
        """Start the next search after the nodes that this one covered."""
        self.start = (self.start + processed) % max(num_all_nodes, 1)
