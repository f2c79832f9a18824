"""The plugins' handle for simulations and searches on copies of the cluster."""

from __future__ import annotations

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NoWaitingPods


class SimulatedHandle(NoWaitingPods):
    """The plugins' handle on a simulated cluster; random numbers are always 0."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    @property
    def cluster(self) -> ClusterView:
        """The simulated cluster."""
        return self._cluster

    def random(self) -> float:
        """Return 0.0, so that a simulation always has the same result."""
        return 0.0
