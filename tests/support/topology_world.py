"""Random small clusters full of topology: zones, spread constraints and affinity of all kinds.

A ``TopologyWorld`` holds the same things twice: as manifests (``scene``, for plain readings) and
as a cluster for the plugins. Everything follows from the seed.
"""

from __future__ import annotations

import random
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.framework.pods import PodInfo
from support.plain_topology import HOSTNAME, PREFERRED, REQUIRED, ZONE, Manifest, Scene

KEYS = (HOSTNAME, ZONE, "pool")
NAMESPACES = {"default": {"env": "prod"}, "team-a": {"env": "dev", "team": "a"}}
#: One of them is no namespace that the scheduler knows.
ALL_NAMESPACES = ("default", "default", "team-a", "unknown")


class TopologyWorld:
    """Nodes in domains and pods that care about them; ``mutate`` changes one thing."""

    def __init__(self, seed: int, *, nodes: int = 6, pods: int = 12) -> None:
        self.random = random.Random(seed)
        self.cluster = ClusterState()
        self.classes = PodClasses()
        self.scene = Scene([], [], dict(NAMESPACES))
        self.serial = 0
        for name, labels in NAMESPACES.items():
            self._put_namespace(name, labels)
        for _ in range(nodes):
            self.add_node()
        for _ in range(pods):
            self.add_pod()
        for _ in range(self.random.randint(0, 2)):
            self.add_service()

    def info(self, pod: Manifest) -> PodInfo:
        message: Any = from_manifest(pod).message
        return make_pod_info(message, self.classes)

    # ------------------------------------------------------------------ changes

    def mutate(self) -> None:
        """One change of the kinds that happen in a cluster."""
        self.random.choice([
            self.add_pod, self.add_pod, self.add_pod, self.remove_pod, self.remove_pod,
            self.add_node, self.remove_node, self.relabel_node, self.relabel_namespace,
            self.add_service,
        ])()  # fmt: skip

    def add_node(self) -> None:
        node = self.random_node(f"n{self._next()}")
        self.scene.nodes.append(node)
        self.cluster.columns.add_node(self._message(node))

    def remove_node(self) -> None:
        if len(self.scene.nodes) < 3:
            return
        node = self.scene.nodes.pop(self.random.randrange(len(self.scene.nodes)))
        name = node["metadata"]["name"]
        self.scene.placed = [(pod, on) for pod, on in self.scene.placed if on != name]
        self.cluster.columns.remove_node(name)

    def relabel_node(self) -> None:
        at = self.random.randrange(len(self.scene.nodes))
        node = self.random_node(self.scene.nodes[at]["metadata"]["name"])
        self.scene.nodes[at] = node
        self.cluster.columns.update_node(self._message(node))

    def add_pod(self) -> None:
        pod = self.random_pod()
        name = self.random.choice(self.scene.nodes)["metadata"]["name"]
        self.scene.placed.append((pod, name))
        row = self.cluster.columns.row_of(name)
        assert row is not None
        self.cluster.columns.pod_table.add(row, self.info(pod))

    def remove_pod(self) -> None:
        if not self.scene.placed:
            return
        pod, name = self.scene.placed.pop(self.random.randrange(len(self.scene.placed)))
        row = self.cluster.columns.row_of(name)
        assert row is not None
        self.cluster.columns.pod_table.remove(row, self.info(pod))

    def relabel_namespace(self) -> None:
        name = self.random.choice(list(NAMESPACES))
        labels = {"env": self.random.choice(["prod", "dev"])}
        self.scene.namespaces[name] = labels
        self._put_namespace(name, labels)

    def add_service(self) -> None:
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": f"s{self._next()}",
                "namespace": self.random.choice(["default", "team-a"]),
            },
            "spec": {"selector": {"app": self.random.choice("xy")}},
        }
        self.scene.services.append(service)
        self.cluster.put("Service", self._message(service))

    # ------------------------------------------------------------------ random objects

    def random_node(self, name: str) -> Manifest:
        labels = {}
        if self._chance(0.85):
            labels[HOSTNAME] = name
        if self._chance(0.85):
            labels[ZONE] = self.random.choice(["a", "b", "c", ""])
        if self._chance(0.5):
            labels["pool"] = self.random.choice("pq")
        taints = [{"key": "k", "effect": "NoSchedule"}] if self._chance(0.2) else []
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "64", "memory": "64Gi", "pods": "110"}},
        }

    def random_pod(self) -> Manifest:
        name = f"p{self._next()}"
        labels = {}
        if self._chance(0.9):
            labels["app"] = self.random.choice("xy")
        if self._chance(0.5):
            labels["tier"] = self.random.choice(["front", "back"])
        metadata: Manifest = {
            "name": name,
            "namespace": self.random.choice(ALL_NAMESPACES),
            "uid": f"uid-{name}",
            "labels": labels,
        }
        if self._chance(0.15):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        spec: Manifest = {"containers": [{"name": "c", "image": "app:1"}]}
        if self._chance(0.5):
            spec["affinity"] = self.random_affinity()
        if self._chance(0.4):
            spec["topologySpreadConstraints"] = self.random_constraints()
        if self._chance(0.2):
            spec["nodeSelector"] = {"pool": self.random.choice("pq")}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def random_affinity(self) -> Manifest:
        affinity: Manifest = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            some: Manifest = {}
            if self._chance(0.4):
                some[REQUIRED] = [self.random_term() for _ in range(self.random.choice((1, 1, 2)))]
            if self._chance(0.4):
                some[PREFERRED] = [
                    {
                        "weight": self.random.choice((1, 5, 50)),
                        "podAffinityTerm": self.random_term(),
                    }
                    for _ in range(self.random.choice((1, 2)))
                ]
            affinity[kind] = some
        return affinity

    def random_term(self) -> Manifest:
        term: Manifest = {"topologyKey": self.random.choice(KEYS)}
        if self._chance(0.95):
            term["labelSelector"] = self.random_selector()
        if self._chance(0.2):
            term["namespaces"] = self.random.sample(["default", "team-a", "unknown"], 2)
        if self._chance(0.3):
            term["namespaceSelector"] = self.random.choice([
                {},
                {"matchLabels": {"env": "prod"}},
                {"matchExpressions": [{"key": "env", "operator": "NotIn", "values": ["prod"]}]},
                {"matchExpressions": [{"key": "team", "operator": "Exists"}]},
            ])  # fmt: skip
        return term

    def random_selector(self) -> Manifest:
        return self.random.choice([
            {"matchLabels": {"app": "x"}},
            {"matchLabels": {"app": "y"}},
            {"matchLabels": {"app": "x"}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x", "y"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
        ])  # fmt: skip

    def random_constraints(self) -> list[Manifest]:
        found = []
        for key in self.random.sample(KEYS, self.random.choice((1, 1, 2))):
            constraint: Manifest = {
                "maxSkew": self.random.choice((1, 1, 2, 3)),
                "topologyKey": key,
                "whenUnsatisfiable": self.random.choice(["DoNotSchedule", "ScheduleAnyway"]),
            }
            if self._chance(0.95):
                constraint["labelSelector"] = self.random_selector()
            if self._chance(0.3) and constraint["whenUnsatisfiable"] == "DoNotSchedule":
                constraint["minDomains"] = self.random.choice((2, 3, 4))
            for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
                if self._chance(0.4):
                    constraint[policy] = self.random.choice(["Honor", "Ignore"])
            if self._chance(0.3):
                constraint["matchLabelKeys"] = ["tier"]
            found.append(constraint)
        return found

    # ------------------------------------------------------------------ pieces

    def _put_namespace(self, name: str, labels: dict[str, str]) -> None:
        metadata = {"name": name, "labels": labels}
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
        self.cluster.put("Namespace", self._message(manifest))

    def _message(self, manifest: Manifest) -> Any:
        return from_manifest(manifest).message

    def _next(self) -> int:
        self.serial += 1
        return self.serial

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability
