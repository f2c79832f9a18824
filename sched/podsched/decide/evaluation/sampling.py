"""percentageOfNodesToScore: how many feasible nodes are scored, and where the search begins.

If it is unset, every feasible node is scored: over columns that is cheap and gives the best choice.
0 means kube-scheduler's adaptive percentage (numFeasibleNodesToFind), 10 % at 5,000 nodes. It is a
percentage of the nodes that PreFilter allows. If it is set, but nothing compares the nodes
(``Profile.compares_nodes``), the first feasible node is taken (findNodesThatPassFilters). If only
some nodes are scored, they are taken from all zones in turn (``ordered_rows``), and the next pod's
search starts where this one stopped (nextStartNodeIndex), even if it ended with an error. Nodes
beyond that place are not searched: that a Filter fails there is no error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from podsched.config.profiles import Profile
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.framework.nodes import ClusterView
from podsched.framework.verdicts import Rows

#: minFeasibleNodesToFind and minFeasibleNodesPercentageToFind of kube-scheduler.
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5


def num_feasible_nodes_to_find(percentage: int | None, num_all_nodes: int) -> int:
    """Return how many feasible nodes are scored; None: all, 0: the adaptive percentage."""
    if percentage is None or percentage >= 100 or num_all_nodes < MIN_FEASIBLE_NODES:
        return num_all_nodes
    # 50 % of few nodes, one percent less for each 125 nodes, and never below 5 %.
    if percentage == 0:
        percentage = max(MIN_FEASIBLE_PERCENTAGE, 50 - num_all_nodes // 125)
    return max(num_all_nodes * percentage // 100, MIN_FEASIBLE_NODES)


class Sample(NamedTuple):
    """The feasible rows to score, ascending, and how many nodes the search covered.

    ``failed``: the first row of the search on which a Filter failed.
    """

    rows: Rows
    evaluated: int
    failed: int | None = None


class Rotation:
    """The node at which the next search starts; all profiles share it, as in kube-scheduler."""

    def __init__(self) -> None:
        self.start = 0

    def sample(
        self,
        cluster: ClusterView,
        profile: Profile,
        feasible: Rows,
        allowed: Rows | None = None,
        failed: Rows = NO_ROWS,
    ) -> Sample:
        """Search for feasible nodes, and move the start of the next search.

        ``feasible``: ascending rows of the live columns, maybe none; ``allowed``: the rows that
        PreFilter allows, None for all; ``failed``: those on which a Filter failed.
        """
        alive, percentage = cluster.nodes.alive, profile.percentage_of_nodes_to_score
        candidates = int(np.count_nonzero(alive)) if allowed is None else len(allowed)
        if percentage is None:
            # Every node is searched, wherever the search starts, so the start stays.
            return Sample(feasible, candidates, int(failed[0]) if len(failed) else None)
        taken, processed, first_failed = feasible, candidates, None
        wanted = 1
        if profile.compares_nodes:
            wanted = num_feasible_nodes_to_find(percentage, candidates)
        if (len(feasible) and wanted < candidates) or len(failed):
            order = cluster.nodes.ordered_rows
            if allowed is not None:
                order = order[np.isin(order, allowed)]
            rows, searched = self._search(order, feasible, wanted)
            # Ascending, because of equal totals the lowest row is to win.
            taken, processed = np.sort(rows), len(searched)
            if len(failed) and len(met := searched[np.isin(searched, failed)]):
                first_failed = int(met[0])
                # kube-scheduler counts only nodes with a result.
                processed -= len(met)
        # The next search starts after the nodes that this one covered. As in kube-scheduler, the
        # number of all nodes limits the start, even if this search went through fewer.
        self.start = (self.start + processed) % max(1, _nodes_in_placement(cluster))
        return Sample(taken, processed, first_failed)

    def _search(self, order: Rows, feasible: Rows, wanted: int) -> tuple[Rows, Rows]:
        """Return the first ``wanted`` feasible rows, and all rows that the search covered.

        ``order``: the rows to search in their order before rotation; ``feasible``: some of them.
        """
        start = self.start % len(order)
        rotated = np.concatenate([order[start:], order[:start]])
        fits = np.zeros(int(order.max()) + 1, dtype=np.bool_)
        fits[feasible] = True
        places = np.flatnonzero(fits[rotated])[:wanted]
        covered = int(places[-1]) + 1 if len(places) == wanted else len(order)
        return rotated[places], rotated[:covered]


def _nodes_in_placement(cluster: ClusterView) -> int:
    """Return the number of nodes, or of those to which a pod group's try is restricted."""
    placement, nodes = cluster.placement, cluster.nodes
    if placement is None:
        return int(np.count_nonzero(nodes.alive))
    return sum(nodes.row_of(name) is not None for name in placement)
