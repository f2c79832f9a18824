"""A topology world with a profile, usable as ``engine_world.World``."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from podsched.config.load import default_config
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.pods import PodInfo
from podsched.registry import factories
from support.plain_topology import Manifest
from support.topology_world import TopologyWorld


class Evaluated:
    """A topology world with the default profile, usable as ``engine_world.World``."""

    def __init__(self, seed: int, **sizes: int) -> None:
        self.world = TopologyWorld(seed, **sizes)
        self.cluster = self.world.cluster
        handle = SimulatedHandle(self.cluster)
        self.runtime = ProfileRuntime(default_config().profiles[0], factories(), handle)

    def evaluation(self, pod: PodInfo) -> ClassEvaluation:
        return ClassEvaluation(self.runtime, self.cluster, pod.cls)

    def commit(self, pods: Sequence[PodInfo], rows: Sequence[int]) -> None:
        for pod, row in zip(pods, rows, strict=True):
            self.cluster.columns.pod_table.add(row, pod)

    def copies(self, pod: Manifest, count: int) -> list[PodInfo]:
        """Equal pods with names of their own; none is being deleted, as such are not scheduled."""
        found = []
        for number in range(count):
            one: Any = copy.deepcopy(pod)
            one["metadata"] |= {"name": f"copy-{number}", "uid": f"copy-{number}"}
            one["metadata"].pop("deletionTimestamp", None)
            found.append(self.world.info(one))
        return found
