"""Small crowded clusters in which a pod fits nowhere for all kinds of reasons, as messages.

``World.fits`` builds a cluster of the messages each time and asks the profile's plugins: slow, and
knows nothing of how changes are looked for.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from podsched.api.manifest import from_manifest, to_manifest
from podsched.ask.explain.changes.question import Question
from podsched.cache.cache import Cache
from podsched.cache.pod_class import make_pod_info
from podsched.config.load import default_config
from podsched.decide.evaluation.filtering import run_filters
from podsched.decide.evaluation.pre_filtering import run_pre_filter
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.simulated_handle import SimulatedHandle
from podsched.framework.plugin import CycleState
from podsched.registry import BUILT_IN
from podsched.v1 import objects_pb2 as v1
from support.plain_topology import HOSTNAME, REQUIRED, ZONE, Manifest

PROFILE = default_config().profiles[0]


@dataclass
class World:
    """Nodes, pods on them, nominated pods, and the pod that waits."""

    pending: Manifest
    nodes: list[v1.Node] = field(default_factory=list)
    pods: list[v1.Pod] = field(default_factory=list)

    def question(self) -> Question:
        cache, runtime = self._cluster()
        return Question(runtime, cache, make_pod_info(message(self.pending), cache.classes))

    def fits(self) -> set[str]:
        """The nodes that the pod fits."""
        if self.pending["spec"].get("schedulingGates"):
            return set()
        cache, runtime = self._cluster()
        cluster = cache.cluster
        pod, state = make_pod_info(message(self.pending), cache.classes), CycleState()
        pre = run_pre_filter(runtime, state, pod, cluster)
        if not pre.status.ok:
            return set()
        nodes, names = cluster.columns, cluster.columns.names
        rows = [
            r
            for r in nodes.node_table.live_rows
            if pre.node_names is None or names[r] in pre.node_names
        ]
        some = np.array(rows, dtype=np.intp)
        outcome = run_filters(runtime, state, pod, nodes, some, cluster)
        return {names[row] for row in some[outcome.plugin == -1]}

    def _cluster(self) -> tuple[Cache, ProfileRuntime]:
        cache = Cache()
        for node in self.nodes:
            cache.apply("Node", None, node)
        for pod in self.pods:
            cache.apply("Pod", None, pod)
        return cache, ProfileRuntime(PROFILE, BUILT_IN, SimulatedHandle(cache.cluster))

    # ------------------------------------------------------------------ other worlds

    def with_spec(self, **parts: Any) -> World:
        pending = copy.deepcopy(self.pending)
        pending["spec"] |= parts
        return replace(self, pending=pending)

    def patched(self, patch: Any) -> World:
        return replace(self, pending=_merged(self.pending, patch))

    def without(self, keys: Iterable[str]) -> World:
        gone = set(keys)
        kept = [p for p in self.pods if f"{p.metadata.namespace}/{p.metadata.name}" not in gone]
        assert len(kept) == len(self.pods) - len(gone)
        return replace(self, pods=kept)

    def uncordoned(self, name: str) -> World:
        def changed(node: v1.Node) -> v1.Node:
            if node.metadata.name != name:
                return node
            manifest: Any = to_manifest(node)
            manifest["spec"].pop("unschedulable")
            taints = manifest["spec"].get("taints", [])
            kept = [t for t in taints if t["key"] != "node.kubernetes.io/unschedulable"]
            manifest["spec"]["taints"] = kept
            return message(manifest)

        return replace(self, nodes=[changed(node) for node in self.nodes])

    def with_one_more(self, like: str) -> World:
        manifest: Any = next(to_manifest(n) for n in self.nodes if n.metadata.name == like)
        manifest["metadata"]["name"] = "one-more"
        if HOSTNAME in manifest["metadata"].get("labels", {}):
            manifest["metadata"]["labels"][HOSTNAME] = "one-more"
        spec = manifest.setdefault("spec", {})
        spec.pop("unschedulable", None)
        taints = spec.get("taints", [])
        spec["taints"] = [t for t in taints if not t["key"].startswith("node.kubernetes.io/")]
        daemons = []
        for one in self.pods:
            if one.spec.node_name == like and any(
                owner.kind == "DaemonSet" for owner in one.metadata.owner_references
            ):
                daemon = v1.Pod()
                daemon.CopyFrom(one)
                daemon.metadata.name += "-more"
                daemon.metadata.uid += "-more"
                daemon.spec.node_name = "one-more"
                daemons.append(daemon)
        return replace(self, nodes=[*self.nodes, message(manifest)], pods=[*self.pods, *daemons])


def message(manifest: Any) -> Any:
    return from_manifest(manifest).message


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value)
    return result


# ---------------------------------------------------------------------------------- random worlds


#: What gets in the way of most pods of a world: where everything does, nothing helps.
MATTERS = ("taints", "cordons", "requests", "selector", "node affinity", "terms", "spread", "gates")


class _Maker:
    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.matter = self.pick.choice(MATTERS)

    def chance(self, probability: float, matter: str = "") -> bool:
        return self.pick.random() < (0.8 if matter and matter == self.matter else probability)

    def node(self, name: str) -> v1.Node:
        pick = self.pick
        labels = {HOSTNAME: name, ZONE: pick.choice("ab")}
        if self.chance(0.5):
            labels["disk"] = pick.choice(["ssd", "hdd"])
        taints = []
        if self.chance(0.1, "taints"):
            taints.append({"key": "k", "value": pick.choice("12"), "effect": "NoSchedule"})
        if self.chance(0.1):
            taints.append({"key": "l", "effect": "NoExecute"})
        cordoned = self.chance(0.1, "cordons")
        if cordoned and self.chance(0.7):
            taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
        allocatable = {
            "cpu": pick.choice(["1", "2"]),
            "memory": pick.choice(["1Gi", "2Gi"]),
            "pods": pick.choice(["2", "5", "5"]),
        }
        if self.chance(0.3):
            allocatable["example.com/gpu"] = "1"
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints} | ({"unschedulable": True} if cordoned else {}),
            "status": {"allocatable": allocatable},
        }
        made: v1.Node = message(manifest)
        return made

    def pod(self, name: str, **spec: Any) -> Manifest:
        pick = self.pick
        requests = {"cpu": pick.choice(["100m", "300m", "700m"])}
        if self.chance(0.7):
            requests["memory"] = pick.choice(["100Mi", "600Mi"])
        container: Manifest = {"name": "c", "resources": {"requests": requests}}
        if self.chance(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
        labels = {"app": pick.choice("xy")}
        if self.chance(0.3):
            labels["tier"] = "front"
        metadata: Manifest = {"name": name, "namespace": "default", "uid": name, "labels": labels}
        full: Manifest = {"containers": [container], **spec}
        if self.chance(0.15):
            full["affinity"] = {"podAntiAffinity": {REQUIRED: [self.term()]}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": full}

    def term(self) -> Manifest:
        wanted = self.pick.choice([{"app": "x"}, {"app": "y"}, {"tier": "front"}])
        return {
            "topologyKey": self.pick.choice([HOSTNAME, ZONE]),
            "labelSelector": {"matchLabels": wanted},
        }

    def placed(self, number: int, names: Sequence[str]) -> v1.Pod:
        manifest = self.pod(f"p{number}", priority=self.pick.choice([0, 0, 5]))
        if self.chance(0.1):
            manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if self.chance(0.15):
            owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d"}
            manifest["metadata"]["ownerReferences"] = [owner | {"controller": True}]
        on = self.pick.choice(names)
        if self.chance(0.08):
            manifest["status"] = {"nominatedNodeName": on}
            # Filter is skipped for a pod that no term of a placed pod is about, whatever terms
            # nominated pods have (as in kube-scheduler): on forks it is not.
            manifest["spec"].pop("affinity", None)
        else:
            manifest["spec"]["nodeName"] = on
        made: v1.Pod = message(manifest)
        return made

    def pending(self) -> Manifest:
        pick = self.pick
        pod = self.pod("waits")
        spec = pod["spec"]
        container = spec["containers"][0]
        container["resources"]["requests"]["cpu"] = pick.choice(["100m", "500m"])
        if self.chance(0.1, "requests"):
            container["resources"]["requests"]["cpu"] = pick.choice(["900m", "1500m", "3"])

        if self.chance(0.1):
            container["resources"]["requests"]["example.com/gpu"] = "1"
        if self.chance(0.2):
            second = {"name": "second", "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}}}
            spec["containers"].append(second)
        if self.chance(0.1, "selector"):
            spec["nodeSelector"] = {"disk": pick.choice(["ssd", "nvme"])}
        affinity = spec.setdefault("affinity", {})
        if self.chance(0.1, "node affinity"):
            affinity["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": self.node_terms()}}
        if self.chance(0.1):
            affinity["podAffinity"] = {REQUIRED: [self.term()]}
        if self.chance(0.1, "terms"):
            affinity["podAntiAffinity"] = {
                REQUIRED: [self.term() for _ in range(pick.choice([1, 2]))]
            }
        if self.chance(0.1, "spread"):
            spec["topologySpreadConstraints"] = [self.constraint()]
        if self.chance(0.05, "gates"):
            spec["schedulingGates"] = [{"name": "example.com/wait"}]
        return pod

    def node_terms(self) -> list[Manifest]:
        wanted = [
            {"key": ZONE, "operator": "In", "values": [self.pick.choice("abc")]},
            {"key": "disk", "operator": "Exists"},
            {"key": "gen", "operator": "Exists"},
        ]
        return [
            {"matchExpressions": self.pick.sample(wanted, self.pick.choice([1, 2]))}
            for _ in range(self.pick.choice([1, 1, 2]))
        ]

    def constraint(self) -> Manifest:
        found = {
            "maxSkew": 1,
            "topologyKey": self.pick.choice([HOSTNAME, ZONE]),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": self.pick.choice("xy")}},
        }
        if self.chance(0.4):
            found["nodeTaintsPolicy"] = "Honor"
        return found


def random_world(seed: int) -> World:
    """A world of four nodes and some ten pods in which all kinds of demands get in the way."""
    maker = _Maker(seed)
    nodes = [maker.node(f"n{number}") for number in range(4)]
    names = [node.metadata.name for node in nodes]
    pods = [maker.placed(number, names) for number in range(maker.pick.randint(2, 10))]
    return World(maker.pending(), nodes, pods)
