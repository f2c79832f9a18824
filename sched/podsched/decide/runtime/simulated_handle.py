"""The plugins' handle where nothing is really scheduled: simulations, searches on copies."""

from __future__ import annotations

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NoWaitingPods


class SimulatedHandle(NoWaitingPods):
    """The plugins' handle on a simulated cluster; chance always says 0."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    @property
    def cluster(self) -> ClusterView:
        """The cluster of the scenario."""
        return self._cluster

    def random(self) -> float:
        """0.0: a simulation has the same result every time."""
        return 0.0
