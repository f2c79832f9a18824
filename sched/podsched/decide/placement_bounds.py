"""Rule out placements that cannot hold a pod group, by comparing sums.

A group cannot start in a placement whose free resources are less than what its members request,
even if only the members with the smallest requests are counted, as many as the group needs.
Comparing sums takes a pass over a column, whereas trying a placement takes a decision per member.
Measured with 100 domains of 50 nodes that cannot hold 1,000 members: 20 ms by sums, 10 s by trying.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import ComparesRequests
from podsched.framework.pod_groups import Placement
from podsched.framework.pods import PodInfo


class PlacementBounds:
    """Compares the least that ``needed`` of the members can request with what is free."""

    def __init__(
        self, runtime: ProfileRuntime, nodes: NodeColumns, members: Sequence[PodInfo], needed: int
    ) -> None:
        self._nodes = nodes
        self._needed = needed
        #: The least amount of each resource that a Filter plugin compares.
        self._least: dict[str, int] = {}
        self.plugins = set(runtime.comparing_requests)
        """The names of these plugins: their events may make room."""
        for plugin in runtime.comparing_requests.values():
            self._add(plugin, members)

    def _add(self, plugin: ComparesRequests, members: Sequence[PodInfo]) -> None:
        by_class = {pod.cls: plugin.compared_requests(pod) for pod in members}
        requests = [by_class[pod.cls] for pod in members]
        for resource in set[str]().union(*requests):
            amounts = sorted(request.get(resource, 0) for request in requests)
            least = sum(amounts[: self._needed])
            self._least[resource] = max(least, self._least.get(resource, 0))

    def may_hold(self, placement: Placement) -> bool:
        """Return False if the placement certainly cannot hold the members that are needed."""
        if placement.node_names is None:
            return True
        nodes, rows = self._nodes, placement.rows(self._nodes)
        room = np.maximum(nodes.allowed_pod_number[rows] - nodes.pod_count[rows], 0)
        if room.sum() < self._needed:
            return False
        for resource, least in self._least.items():
            free = nodes.allocatable(resource)[rows] - nodes.requested(resource)[rows]
            # Floats, since sums of bytes may exceed int64; a rounding error is not worth a try.
            if np.maximum(free, 0).sum(dtype=np.float64) * (1 + 1e-9) < least:
                return False
        return True
