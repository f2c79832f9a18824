"""The changes that a decision may make to the cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from podsched.framework.pods import PodInfo


class Trial(Protocol):
    """Changes to the cluster that are committed or rolled back together (``cache.trial.Trial``).

    The caller of a decision begins the trial, and commits it or rolls it back.
    """

    def assume(self, pod: PodInfo, node_name: str) -> None:
        """Count a waiting pod on a node."""

    def assume_many(self, pods: Sequence[PodInfo], node_names: Sequence[str]) -> None:
        """Count waiting pods on nodes, each pod after those before it."""
