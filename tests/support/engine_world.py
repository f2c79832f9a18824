"""Small random clusters and pods for tests of deciding and of plugins.

A ``World`` holds a cache and a profile; ``World.mutate`` makes one random change of the kinds that
happen in a cluster. Everything follows from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import load_config
from podsched.config.plugins import ExtensionPoint, PluginSpec
from podsched.decide.accelerators.class_evaluation import ClassEvaluation
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import Handle, Plugin, PluginFactory
from podsched.framework.pods import PodInfo
from podsched.registry import factories
from podsched.v1 import objects_pb2 as v1

MIB = 1024 * 1024
IMAGES = {"app:1": 300 * MIB, "base:2": 900 * MIB, "tiny:latest": 5 * MIB}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STRATEGIES: tuple[dict[str, Any], ...] = (
    {"type": "LeastAllocated"},
    {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}, {"name": "memory"}]},
    {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "cpu"}, {"name": "example.com/gpu", "weight": 2}],
        "requestedToCapacityRatio": {
            "shape": [{"utilization": 0, "score": 2}, {"utilization": 70, "score": 9},
                      {"utilization": 100, "score": 1}]
        },
    },
)  # fmt: skip


def node(name: str, **parts: Any) -> v1.Node:
    """A node from ``labels``, ``taints``, ``allocatable``, ``images``, ``unschedulable``."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": parts.get("labels", {})},
        "spec": {
            "taints": parts.get("taints", []),
            "unschedulable": parts.get("unschedulable", False),
        },
        "status": {
            "allocatable": parts.get("allocatable", {"cpu": "4", "memory": "8Gi", "pods": "10"}),
            "images": [
                {"names": [image], "sizeBytes": IMAGES[image]} for image in parts.get("images", ())
            ],
        },
    }
    message = from_manifest(manifest).message
    assert isinstance(message, v1.Node)
    return message


def pod(name: str, spec: Mapping[str, Any] | None = None, **metadata: Any) -> v1.Pod:
    """A pod from a spec as a manifest has it; one container asking 100m and 256Mi otherwise."""
    requests = {"cpu": "100m", "memory": "256Mi"}
    container = {"name": "c", "image": "app:1", "resources": {"requests": requests}}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {"containers": [container], **(spec or {})},
    }
    message = from_manifest(manifest).message
    assert isinstance(message, v1.Pod)
    return message


def container(
    requests: Mapping[str, str] | None = None, image: str = "app:1", ports: Sequence[int] = ()
) -> dict[str, Any]:
    """A container of a manifest."""
    return {
        "name": f"c-{image}-{len(ports)}",
        "image": image,
        "resources": {"requests": dict(requests or {})},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }


def _factory(plugin: type) -> PluginFactory:
    def make(args: Any, handle: Handle) -> Plugin:
        made: Plugin = plugin()
        return made

    return make


class World:
    """A cache of random nodes and pods, and a profile to evaluate pods with."""

    def __init__(
        self,
        seed: int,
        *,
        nodes: int = 12,
        percentage: int | None = None,
        strategy: Mapping[str, Any] | None = None,
        scores: Mapping[str, type] | None = None,
        scoring: bool = True,
    ) -> None:
        """``scores``: score plugins of the test's own, by name, enabled beside the default ones.

        ``scoring``: whether the default ones are enabled.
        """
        self.scores = scores or {}
        self.scoring = scoring
        self.random = random.Random(seed)
        self.cache = Cache()
        self.cluster = self.cache.cluster
        self.serial = 0
        self.placed: list[PodInfo] = []
        self.nominees: list[PodInfo] = []
        for _ in range(nodes):
            self.cache.placed.add_node(self.random_node())
        self.runtime = self.profile(strategy or self.random.choice(STRATEGIES), percentage)
        self.templates = [self.random_spec() for _ in range(4)]

    def profile(self, strategy: Mapping[str, Any], percentage: int | None) -> ProfileRuntime:
        args = {"scoringStrategy": strategy}
        named = [{"name": name} for name in self.scores]
        disabled = [] if self.scoring else [{"name": "*"}]
        plugins = {"score": {"enabled": named, "disabled": disabled}}
        fit = [{"name": "NodeResourcesFit", "args": args}]
        config: dict[str, Any] = {"profiles": [{"pluginConfig": fit, "plugins": plugins}]}
        if percentage is not None:
            config["percentageOfNodesToScore"] = percentage
        at = frozenset({ExtensionPoint.SCORE})
        known = {name: PluginSpec(name, at) for name in self.scores}
        own = {name: _factory(plugin) for name, plugin in self.scores.items()}
        profile = load_config(config, known_plugins=known).profiles[0]
        return ProfileRuntime(profile, {**factories(), **own}, SimulatedHandle(self.cluster))

    def evaluation(self, pending: PodInfo) -> ClassEvaluation:
        return ClassEvaluation(self.runtime, self.cluster, pending.cls)

    # ------------------------------------------------------------------ random objects

    def name(self, kind: str) -> str:
        self.serial += 1
        return f"{kind}-{self.serial:03}"

    def random_node(self, name: str = "") -> v1.Node:
        pick = self.random
        name = name or self.name("node")
        zone = pick.choice("abc")
        labels = {"kubernetes.io/hostname": name, "zone": zone, "topology.kubernetes.io/zone": zone}
        if pick.random() < 0.5:
            labels["disk"] = pick.choice(["ssd", "hdd"])
        if pick.random() < 0.5:
            labels["gen"] = str(pick.randint(1, 9))
        taints = [
            {"key": pick.choice("kl"), "value": pick.choice("12"), "effect": pick.choice(EFFECTS)}
            for _ in range(pick.choice((0, 0, 0, 1, 1, 2)))
        ]
        allocatable = {
            "cpu": pick.choice(["1", "2", "3900m", "8"]),
            "memory": pick.choice(["1Gi", "4Gi", "16Gi"]),
            "pods": str(pick.choice([1, 3, 10])),
        }
        if pick.random() < 0.3:
            allocatable["example.com/gpu"] = str(pick.randint(1, 4))
        images = [image for image in IMAGES if pick.random() < 0.4]
        return node(
            name, labels=labels, taints=taints, allocatable=allocatable, images=images,
            unschedulable=pick.random() < 0.1,
        )  # fmt: skip

    def random_spec(self) -> dict[str, Any]:
        pick = self.random
        spec: dict[str, Any] = {"containers": [self.random_container()]}
        if pick.random() < 0.3:
            spec["containers"].append(self.random_container() | {"name": "second"})
        if pick.random() < 0.3:
            spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
        if pick.random() < 0.3:
            spec["nodeSelector"] = {"zone": pick.choice("abc")}
        if pick.random() < 0.4:
            spec["affinity"] = {"nodeAffinity": self.random_affinity()}
        spec["priority"] = pick.choice((0, 0, 5, 10))
        return spec

    def random_container(self) -> dict[str, Any]:
        pick = self.random
        requests = {}
        if pick.random() < 0.8:
            requests["cpu"] = pick.choice(["100m", "250m", "1", "0"])
        if pick.random() < 0.8:
            requests["memory"] = pick.choice(["64Mi", "500Mi", "2Gi"])
        if pick.random() < 0.15:
            requests["example.com/gpu"] = "1"
        ports = [pick.choice([8080, 9090])] if pick.random() < 0.2 else []
        return container(requests, pick.choice(list(IMAGES)), ports)

    def random_affinity(self) -> dict[str, Any]:
        pick = self.random
        expressions = [
            {"key": "disk", "operator": "In", "values": ["ssd"]},
            {"key": "disk", "operator": "DoesNotExist"},
            {"key": "gen", "operator": "Gt", "values": ["3"]},
            {"key": "zone", "operator": "NotIn", "values": ["a"]},
        ]
        affinity: dict[str, Any] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": pick.randint(1, 100), "preference": {"matchExpressions": [e]}}
                for e in pick.sample(expressions, 2)
            ]
        }
        if pick.random() < 0.4:
            term = {"matchExpressions": [pick.choice(expressions)]}
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {
                "nodeSelectorTerms": [term]
            }
        return affinity

    def pending(self, template: int | None = None) -> PodInfo:
        """A new pending pod of a template."""
        spec = self.templates[self.random.randrange(4) if template is None else template]
        return make_pod_info(pod(self.name("pod"), spec), self.cache.classes)

    # ------------------------------------------------------------------ changes

    def mutate(self) -> None:
        """One random change of the cluster."""
        pick = self.random
        names = [n for n in self.cluster.nodes.names if n]
        change = pick.choice(("add", "add", "add", "remove", "node", "new", "gone", "nominate"))
        if change == "add" and names:
            added = self.pending()
            self.cache.assume(added, pick.choice(names))
            self.placed.append(added)
        elif change == "remove" and self.placed:
            self.cache.forget(self.placed.pop(pick.randrange(len(self.placed))))
        elif change == "node" and names:
            self.cache.placed.add_node(self.random_node(pick.choice(names)))
        elif change == "new":
            self.cache.placed.add_node(self.random_node())
        elif change == "gone" and len(names) > 3:
            self._remove_node(pick.choice(names))
        elif change == "nominate":
            self._renominate(names)

    def _remove_node(self, name: str) -> None:
        for there in [p for p in self.placed if p.node_name == name]:
            self.placed.remove(there)
            self.cache.forget(there)
        self.cache.placed.remove_node(name)

    def _renominate(self, names: list[str]) -> None:
        if self.nominees and self.random.random() < 0.5:
            self.cluster.nominator.delete(self.nominees.pop().uid)
        elif names:
            nominee = self.pending()
            self.nominees.append(nominee)
            self.cluster.nominator.add(nominee, self.random.choice(names))
