"""A full cluster whose pods preempt each other, decided twice: with actors' help and without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import load_config
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.decision import Decision
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.evaluation.filtering import ProfileFilters
from podsched.decide.runtime.plugin_handle import Chance
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.plugin import NoWaitingPods, PostFilterResult
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.plugins.default_preemption.dry_run import Budgets, dry_run
from podsched.plugins.default_preemption.plugin import DefaultPreemption
from podsched.registry import factories
from podsched.v1 import objects_pb2 as v1
from support.deciding import decide
from support.engine_world import World, container, pod


class Handle(NoWaitingPods):
    """Chance as the test wants it."""

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.chance = 0.0

    def random(self) -> float:
        return self.chance


class PreemptionWorld(World):
    """Pods of the last template, of high priority, are preemptors; the others fill the nodes.

    ``wanted``: candidates at which a search ends.
    """

    def __init__(self, seed: int, *, nodes: int = 12, wanted: int = 3) -> None:
        super().__init__(seed, nodes=nodes)
        self.handle = Handle(self.cluster)
        self.wanted = wanted
        everyone = {"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}
        apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [everyone]}}
        self.templates = [
            {"containers": [container({"cpu": "500m"})], "priority": 0},
            {"containers": [container({"cpu": "900m"}, ports=[8080])], "priority": 5},
            {"containers": [container({"memory": "700Mi"})], "priority": 10, "affinity": apart},
            {"containers": [container({"cpu": "1"}, ports=[8080])], "priority": 100},
        ]
        self.local = self.decider(None)
        self.remote: tuple[ProfileRuntime, AcceleratedDecider] = self.local

    def pending(self, template: int | None = None) -> PodInfo:
        """Labelled by template, since budgets choose by labels."""
        chosen = self.random.randrange(4) if template is None else template
        message = pod(self.name("pod"), self.templates[chosen], labels={"app": str(chosen)})
        return make_pod_info(message, self.cache.classes)

    def decider(self, trials: RemoteDryRun | None) -> tuple[ProfileRuntime, AcceleratedDecider]:
        """A decider with plugins of its own, which share no memory with another's."""
        args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": self.wanted}
        config: dict[str, Any] = {
            "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}]
        }
        profile = load_config(config).profiles[0]
        runtime = ProfileRuntime(profile, factories(), self.handle)
        profiles = {runtime.scheduler_name: runtime}
        return runtime, AcceleratedDecider(self.cache.cluster, profiles, Chance(0), None, trials)

    def fill(self) -> None:
        """Pods of low priority, started at various times, until little fits anywhere."""
        for name in [name for name in self.cluster.nodes.names if name]:
            for _ in range(self.random.randrange(8)):
                filler = self.pending(self.random.randrange(3))
                filler.start_time = float(self.random.choice((0, 50, 100)))
                self.cache.assume(filler, name)
                self.placed.append(filler)

    def change(self) -> None:
        """Something that changes whom preemption would cost: nodes, pods, budgets, times."""
        kind = self.random.random()
        if kind < 0.7:
            self.mutate()
        elif kind < 0.85 and self.placed:
            number = self.random.randrange(len(self.placed))
            placed = self.placed[number]
            # As the cache does when an update of the pod arrives. Always another time: if nothing
            # changes, cached results keep the former object of the same pod, rightly.
            started = replace(placed, start_time=placed.start_time + self.random.randrange(1, 100))
            row = self.cluster.nodes.row_of(placed.node_name)
            assert row is not None
            self.cache.columns.pod_table.replace(row, started)
            self.placed[number] = started
        else:
            self.cluster.put("PodDisruptionBudget", self._budget())

    def _budget(self) -> v1.PodDisruptionBudget:
        found = v1.PodDisruptionBudget()
        found.metadata.namespace, found.metadata.name = "default", self.random.choice("ab")
        found.spec.selector.match_labels["app"] = self.random.choice("01")
        found.status.disruptions_allowed = self.random.randrange(4)
        if self.placed:
            found.status.disrupted_pods[self.random.choice(self.placed).name].seconds = 1
        return found

    def check_memory(
        self, runtime: ProfileRuntime, runner: ProfileFilters, decision: Decision
    ) -> None:
        """Whatever is known ahead of PostFilter is what trying it now comes to."""
        plugin = runtime.plugins["DefaultPreemption"]
        assert isinstance(plugin, DefaultPreemption)
        cluster, pending = self.cluster, decision.queued.info
        live = np.flatnonzero(cluster.nodes.alive)
        known, _ = plugin.node_search.dry_runs.cached(pending, cluster, live, runner)
        rows = np.array([*known.candidates, *known.rejected], dtype=np.intp)
        budgets = Budgets(cluster.list("PodDisruptionBudget"))
        fresh = dry_run(decision.state, pending, cluster.nodes, rows, runner, budgets)
        assert known == fresh

    async def both(
        self, *, honest: bool = True
    ) -> tuple[PostFilterResult | None, PostFilterResult | None, bool]:
        """What comes of one preemptor with actors' help, without, and whether they were asked.

        (None, None, ...) when the pod fits. ``honest``: what the actors say is checked, all of it.
        """
        self.handle.chance = self.random.random()
        queued = QueuedPodInfo(self.pending(3), 0.0)
        runtime, decider = self.remote
        [decision] = decide(self.cache, decider, runtime, [queued])
        asked = False
        if decision.diagnosis is not None:
            asked = await decider.prepare_post_filter(runtime, decision)
            if asked:
                [decision] = decide(self.cache, decider, runtime, [queued])
        if decision.diagnosis is None:
            self.placed.append(queued.info)
            return None, None, asked
        if honest:
            self.check_memory(runtime, decider.runner(runtime, decision), decision)
        found = decider.post_filter(runtime, decision)
        runtime, decider = self.decider(None)
        [alone] = decide(self.cache, decider, runtime, [queued])
        return found, decider.post_filter(runtime, alone), asked
