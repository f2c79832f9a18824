"""The plugins' handle for simulations, searches on copies of the cluster, and shards."""

from __future__ import annotations

from dataclasses import dataclass

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import NoWaitingPods


@dataclass(frozen=True, slots=True)
class SimulatedHandle(NoWaitingPods):
    """The plugins' handle where no pod waits."""

    cluster: ClusterView

    def random(self) -> float:
        """Return 0.0, so that a simulation always has the same result."""
        return 0.0
