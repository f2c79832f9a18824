"""A small cluster with storage, and the volume plugins over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from podsched.api.manifest import from_manifest
from podsched.cache.objects import ClusterState
from podsched.cache.pod_class import PodClasses, make_pod_info
from podsched.config.plugin_args import VolumeBindingArgs
from podsched.framework.events import ActionType, ClusterEvent, QueueingHint, Resource
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState, EnqueueExtensions, ObjectPatch, PreFilterResult
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.plugins.node_volume_limits.plugin import NodeVolumeLimits
from podsched.plugins.volume_binding.plugin import VolumeBinding
from podsched.plugins.volume_restrictions import VolumeRestrictions
from podsched.plugins.volume_zone import VolumeZone
from podsched.v1 import objects_pb2 as v1

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
WAIT = "WaitForFirstConsumer"

Manifest = dict[str, Any]


def claim(
    name: str,
    *,
    namespace: str = "default",
    size: str = "1Gi",
    storage_class: str | None = "local",
    volume: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A claim; bound when it has a ``volume``."""
    notes = {**({BIND_COMPLETED: "yes"} if volume else {}), **(annotations or {})}
    spec |= {"accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    if volume:
        spec["volumeName"] = volume
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "7",
            "annotations": notes}  # fmt: skip
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "metadata": meta, "spec": spec,
            "status": {"phase": "Bound" if volume else "Pending"}}  # fmt: skip


def volume(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "local",
    zones: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    modes: Sequence[str] = ("ReadWriteOnce",),
    phase: str = "Available",
    **spec: Any,
) -> Manifest:
    """A volume that, with ``zones``, can be reached from nodes with one of these labels only."""
    spec |= {"accessModes": list(modes), "capacity": {"storage": size},
             "storageClassName": storage_class}  # fmt: skip
    if zones:
        expression = {"key": "zone", "operator": "In", "values": list(zones)}
        spec["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        }
    if not any(source in spec for source in ("csi", "awsElasticBlockStore", "gcePersistentDisk")):
        spec["local"] = {"path": "/x"}
    meta = {"name": name, "labels": dict(labels or {}), "resourceVersion": "5"}
    return {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": meta, "spec": spec,
            "status": {"phase": phase}}  # fmt: skip


def storage_class(
    name: str, provisioner: str = "kubernetes.io/no-provisioner", mode: str = WAIT, **more: Any
) -> Manifest:
    return {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": name},
            "provisioner": provisioner, "volumeBindingMode": mode, **more}  # fmt: skip


def csi_node(name: str, limits: Mapping[str, int], migrated: str = "") -> Manifest:
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": {"count": count}}
        for driver, count in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"drivers": drivers}}  # fmt: skip


def attachment(name: str, node: str, volume: str, attacher: str) -> Manifest:
    return {"kind": "VolumeAttachment", "apiVersion": "storage.k8s.io/v1",
            "metadata": {"name": name},
            "spec": {"attacher": attacher, "nodeName": node,
                     "source": {"persistentVolumeName": volume}}}  # fmt: skip


class VolumeWorld:
    """Nodes by labels, storage objects by manifests, pods by their volumes."""

    def __init__(self, nodes: Mapping[str, Mapping[str, str]], *objects: Manifest) -> None:
        self.cluster = ClusterState()
        self.classes = PodClasses()
        self.state = CycleState()
        for name, labels in nodes.items():
            node = v1.Node()
            node.metadata.name = name
            node.metadata.labels.update(labels)
            node.status.allocatable.update({"cpu": "4", "memory": "8Gi", "pods": "20"})
            self.cluster.columns.add_node(node)
        self.put(*objects)
        self.restrictions = VolumeRestrictions()
        self.limits = NodeVolumeLimits(None, self)
        self.binding = VolumeBinding(VolumeBindingArgs(), self)
        self.zone = VolumeZone()

    def random(self) -> float:
        return 0.0

    def put(self, *objects: Manifest) -> None:
        """Adds or replaces storage objects, as an informer would."""
        for manifest in objects:
            self.cluster.put(manifest["kind"], from_manifest(manifest).message)

    def pod(
        self,
        name: str,
        *claims: str,
        volumes: Sequence[Manifest] = (),
        namespace: str = "default",
        priority: int = 0,
    ) -> PodInfo:
        """A pod that mounts claims and other volumes, known to the cluster."""
        mounted = [
            {"name": f"c{i}", "persistentVolumeClaim": {"claimName": c}}
            for i, c in enumerate(claims)
        ]
        mounted += [{"name": f"v{i}", **source} for i, source in enumerate(volumes)]
        manifest = {
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
            "spec": {"priority": priority, "containers": [{"name": "main", "image": "app"}],
                     "volumes": mounted},
        }  # fmt: skip
        message = from_manifest(manifest).message
        assert isinstance(message, v1.Pod)
        info = make_pod_info(message, self.classes)
        self.cluster.pods[info.key] = info
        return info

    def run(self, pod: PodInfo, node: str) -> PodInfo:
        """Counts the pod on a node."""
        row = self.cluster.columns.row_of(node)
        assert row is not None
        self.cluster.columns.pod_table.add(row, pod)
        return pod

    def row(self, node: str) -> int:
        row = self.cluster.columns.row_of(node)
        assert row is not None
        return row

    def pre_filter(self, plugin: Any, pod: PodInfo) -> PreFilterResult:
        result: PreFilterResult = plugin.pre_filter(self.state, pod, self.cluster)
        return result

    def filter(
        self, plugin: Any, pod: PodInfo, nodes: NodeColumns | None = None
    ) -> dict[str, Status]:
        """What Filter says of each node after a PreFilter that passes."""
        before = self.pre_filter(plugin, pod).status
        columns = nodes if nodes is not None else self.cluster.columns
        rows = np.flatnonzero(columns.alive)
        names = [columns.names[row] for row in rows.tolist()]
        if before.skipped:
            return dict.fromkeys(names, Status())
        assert before.ok, before
        verdicts = plugin.filter(self.state, pod, columns, rows)
        return {name: verdicts.status(i) for i, name in enumerate(names)}

    def rejected(self, plugin: Any, pod: PodInfo) -> dict[str, tuple[str, ...]]:
        """The nodes that Filter rejects, with the reasons."""
        return {n: s.reasons for n, s in self.filter(plugin, pod).items() if not s.ok}

    def write(self, *patches: ObjectPatch) -> None:
        """Writes patches as the API would, with the informer's event following at once."""
        for patch in patches:
            known = self.cluster.get(patch.kind, patch.namespace, patch.name)
            assert known is not None
            assert patch.resource_version == known.metadata.resource_version
            message = type(known)()
            message.CopyFrom(known)
            body = patch.merge_patch
            notes = body.get("metadata", {}).get("annotations", {})
            message.metadata.annotations.update(notes)
            message.metadata.resource_version = str(int(known.metadata.resource_version) + 1)
            ref = body.get("spec", {}).get("claimRef")
            if ref is not None:
                message.spec.claim_ref.namespace = ref["namespace"]
                message.spec.claim_ref.name = ref["name"]
                message.spec.claim_ref.uid = ref["uid"]
            self.cluster.put(patch.kind, message)


def hint_on(plugin: EnqueueExtensions, pod: PodInfo, old: Any, new: Any) -> QueueingHint:
    """What the plugin's hint says of an object that was added, changed or deleted.

    Pods have a node.
    """
    kind = (new or old).DESCRIPTOR.name.replace("Pod", "AssignedPod")
    resource = next(one for one in Resource if one.value.rpartition("/")[2] == kind)
    changed = ActionType.ADD if old is None else ActionType.UPDATE
    event = ClusterEvent(resource, ActionType.DELETE if new is None else changed)
    registered = next(r for r in plugin.events_to_register() if r.event.matches(event))
    assert registered.hint is not None
    return registered.hint(pod, old, new)
