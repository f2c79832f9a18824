"""PodGroupPodsCount: prefers the placement with the most members (kube-scheduler v1.36)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import MAX_NODE_SCORE
from podsched.framework.pod_groups import PodGroup, TriedPlacement
from podsched.plugins.without_args import WithoutArgs


class PodGroupPodsCount(WithoutArgs):
    """PlacementScore: the number of members that have a node."""

    name: ClassVar[str] = "PodGroupPodsCount"

    def score_placements(
        self, group: PodGroup, tried: Sequence[TriedPlacement], cluster: ClusterView
    ) -> Sequence[float]:
        """Return the numbers of members with a node, scaled so that the largest is 100."""
        most = max(one.scheduled for one in tried)
        return [one.scheduled * MAX_NODE_SCORE // max(most, 1) for one in tried]
