"""Random small clusters with all that predicates and priorities of Policy files look at."""

from __future__ import annotations

import json
import random
from typing import Any

from podsched.cache.objects import ClusterState
from podsched.v1 import objects_pb2 as v1
from support import plain_legacy as plain
from support.engine_world import EFFECTS, IMAGES, node, pod
from support.plugin_world import cluster

LABELS = ("app", "tier")
RACK, RETIRING = "rack", "retiring"
HOSTNAME = "kubernetes.io/hostname"


class LegacyWorld:
    """The same cluster as messages (``plain``) and as the plugins see it (``state``)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        nodes = [self.node(f"n{i}") for i in range(self.random.randint(1, 6))]
        pods = {n.metadata.name: [] for n in nodes}
        for number in range(self.random.randint(0, 10)):
            name = self.random.choice(nodes).metadata.name
            pods[name].append(self.pod(f"p{number}", name))
        self.plain = plain.Plain(nodes, pods)
        self.state: ClusterState = cluster(*nodes, pods=[p for on in pods.values() for p in on])
        for number in range(self.random.randint(0, 3)):
            service = v1.Service(metadata=v1.ObjectMeta(name=f"s{number}", namespace="default"))
            service.spec.selector.update(self.labels())
            self.plain.services.append(service)
            self.state.put("Service", service)
        for number in range(self.random.randint(0, 2)):
            controller = v1.ReplicationController()
            controller.metadata.name, controller.metadata.namespace = f"rc{number}", "default"
            controller.spec.selector.update(self.labels())
            self.plain.controllers.append(controller)
            self.state.put("ReplicationController", controller)
        self._put_storage()

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def labels(self) -> dict[str, str]:
        return {key: self.random.choice("ab") for key in LABELS if self.chance(0.6)}

    def node(self, name: str) -> v1.Node:
        pick = self.random.choice
        labels = {HOSTNAME: name}
        for key in (plain.ZONE, plain.REGION, RACK, RETIRING):
            if self.chance(0.6):
                labels[key] = pick("xyz")
        if self.chance(0.3):
            labels["beta.kubernetes.io/instance-type"] = pick(["m5.large", "m4.large", "t3.nano"])
        allocatable = {
            "cpu": pick(["1", "2", "500m", "0"]),
            "memory": pick(["1Gi", "4Gi", "700Mi"]),
            "pods": "20",
            "example.com/gpu": pick(["0", "2", "5"]),
        }
        if self.chance(0.3):
            allocatable["attachable-volumes-aws-ebs"] = pick(["0", "1", "3"])
        made = node(
            name,
            labels=labels,
            taints=[
                {"key": pick("kl"), "effect": pick(EFFECTS)}
                for _ in range(self.random.randint(0, 3))
            ],
            allocatable=allocatable,
            images=[image for image in IMAGES if self.chance(0.5)],
            unschedulable=self.chance(0.2),
        )
        for kind in ("Ready", "NetworkUnavailable", "MemoryPressure", "DiskPressure"):
            if self.chance(0.7):
                made.status.conditions.add(type=kind, status=pick(["True", "False", "Unknown"]))
        if self.chance(0.4):
            controller = {"kind": pick(["ReplicaSet", "Job"]), "uid": pick("12")}
            entries = [{"podSignature": {"podController": controller}}]
            made.metadata.annotations[plain.AVOID] = json.dumps({"preferAvoidPods": entries})
        return made

    def pod(self, name: str, node_name: str = "") -> v1.Pod:
        pick = self.random.choice
        requests = {"cpu": pick(["100m", "300m"]), "memory": pick(["200Mi", "500Mi"])}
        if self.chance(0.3):
            requests["example.com/gpu"] = "1"
        resources = {"requests": requests, "limits": {"cpu": "1", "memory": pick(["1Gi", "8Gi"])}}
        container: dict[str, Any] = {"name": "c", "image": pick([*IMAGES])}
        if self.chance(0.7):
            container["resources"] = resources
        spec: dict[str, Any] = {
            "containers": [container],
            "tolerations": [{"key": pick("kl"), "operator": "Exists"} for _ in range(2)][
                : self.random.randint(0, 2)
            ],
            "affinity": self.affinity(),
            "volumes": [self.volume(i) for i in range(self.random.randint(0, 3))],
            "topologySpreadConstraints": [self.constraint(key) for key in (RACK, HOSTNAME)][
                : self.random.randint(0, 2)
            ],
        }
        if node_name:
            spec["nodeName"] = node_name
        elif self.chance(0.3):
            spec["nodeSelector"] = {RACK: pick("xyz")}
        made = pod(name, spec, labels=self.labels())
        if self.chance(0.5):
            made.metadata.owner_references.add(
                api_version="apps/v1", kind=pick(["ReplicaSet", "Job"]), name="o", uid=pick("12"),
                controller=True,
            )  # fmt: skip
        if node_name and self.chance(0.2):
            made.metadata.deletion_timestamp.seconds = 1
        return made

    def affinity(self) -> dict[str, Any]:
        pick = self.random.choice

        def term() -> dict[str, Any]:
            wanted = {pick(LABELS): pick("ab")}
            return {"labelSelector": {"matchLabels": wanted}, "topologyKey": pick([RACK, HOSTNAME])}

        preferred = "preferredDuringSchedulingIgnoredDuringExecution"
        required = "requiredDuringSchedulingIgnoredDuringExecution"

        def weighted() -> list[dict[str, Any]]:
            number = self.random.randint(0, 2)
            return [
                {"weight": self.random.randint(1, 9), "podAffinityTerm": term()}
                for _ in range(number)
            ]

        expression = {"key": RACK, "operator": "In", "values": [pick("xyz")]}
        return {
            "nodeAffinity": {
                preferred: [
                    {
                        "weight": self.random.randint(1, 20),
                        "preference": {"matchExpressions": [expression]},
                    }
                ]
            },
            "podAffinity": {preferred: weighted(), required: [term()] if self.chance(0.2) else []},
            "podAntiAffinity": {preferred: weighted()},
        }

    def volume(self, number: int) -> dict[str, Any]:
        pick = self.random.choice
        name = f"v{number}"
        disk = {"readOnly": self.chance(0.5)}
        return pick(
            [
                {"name": name, "awsElasticBlockStore": {"volumeID": pick("ab"), **disk}},
                {"name": name, "gcePersistentDisk": {"pdName": pick("ab"), **disk}},
                {"name": name, "persistentVolumeClaim": {"claimName": f"c{pick('01234')}"}},
                {"name": name, "emptyDir": {}},
            ]
        )

    def constraint(self, key: str) -> dict[str, Any]:
        return {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": self.random.choice("ab")}},
        }

    def _put_storage(self) -> None:
        self.plain.classes = {"ebs": "kubernetes.io/aws-ebs", "other": "example.com/disks"}
        for name, provisioner in self.plain.classes.items():
            made = v1.StorageClass(provisioner=provisioner)
            made.metadata.name = name
            self.state.put("StorageClass", made)
        for name in ("pv0", "pv1"):
            volume = v1.PersistentVolume()
            volume.metadata.name = name
            if name == "pv0":
                volume.spec.aws_elastic_block_store.volume_id = "a"
            self.plain.volumes[name] = volume
            self.state.put("PersistentVolume", volume)
        for number in range(4):
            claim = v1.PersistentVolumeClaim()
            claim.metadata.name, claim.metadata.namespace = f"c{number}", "default"
            claim.spec.volume_name = ("pv0", "pv1", "", "gone")[number]
            claim.spec.storage_class_name = self.random.choice(["ebs", "other"])
            self.plain.claims[f"c{number}"] = claim
            self.state.put("PersistentVolumeClaim", claim)
