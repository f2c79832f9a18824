"""A bundle: a file with one decision and all its inputs, from which it can be repeated elsewhere.

It has a scenario for ``sched simulate`` (objects, pod, configuration), its result, and the software
versions that computed it. Objects have only the fields that a decision can depend on: no
environment, arguments or data, and only the annotations that plugins read.

    {"bundle": 1, "versions": {...}, "anonymized": false, "scenario": {...}, "result": {...}}

Configured extenders are left out, as they are not called when a decision is repeated.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsched.api.device_claims import released
from podsched.api.kinds import kind_of
from podsched.api.manifest import to_manifest
from podsched.api.objects import AnyObject, key_of
from podsched.api.pod_groups import GROUP_MARKS
from podsched.api.private_fields import LAST_APPLIED
from podsched.api.resources import is_resize_infeasible
from podsched.cache.pod_class import relevant_spec
from podsched.framework.nodes import PREFER_AVOID_PODS
from podsched.lib.bounded_text import SizeExceeded, parse_json
from podsched.v1 import objects_pb2 as v1

FORMAT: Final = 1
#: Bytes of a bundle once it is decompressed: 20,000 nodes with their pods.
MAX_BYTES: Final = 256 << 20
_OF_VOLUMES: Final = ".kubernetes.io/"
#: Kinds that a decision reads, besides Node and Pod.
_READ: Final = frozenset({
    "Namespace", "Service", "ReplicationController", "ReplicaSet", "StatefulSet",
    "PodDisruptionBudget", "PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode",
    "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "PodGroup", "DeviceClass",
    "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceTaintRule",
})  # fmt: skip
#: The spec fields that are packed, for some of these kinds; of other kinds the whole spec is.
_SPECS: Final = {
    "Namespace": (),
    "Service": ("selector",),
    "ReplicationController": ("selector",),
    "ReplicaSet": ("selector",),
    "StatefulSet": ("selector",),
    "PodDisruptionBudget": ("selector",),
}
#: Fields that no decision reads: they may contain credentials, name Secrets, or anything else.
_SECRET: Final = (
    "parameters", "volumeAttributes", "nodeStageSecretRef", "nodePublishSecretRef", "secretRef",
    "controllerPublishSecretRef", "controllerExpandSecretRef", "nodeExpandSecretRef",
    "attachmentMetadata", "options", "dataSource", "dataSourceRef", "data", "networkData",
)  # fmt: skip
#: Maps whose keys users choose.
_MAPS: Final = frozenset({
    "labels", "matchLabels", "selector", "attributes", "capacity", "counters",
})  # fmt: skip
#: Parts of a configuration that no single decision reads.
_UNREAD: Final = frozenset({"extenders", "leaderElection", "clientConnection", "queues"})
_META: Final = ("name", "namespace", "uid", "labels", "ownerReferences", "deletionTimestamp")
_NODE_STATUS: Final = ("allocatable", "images", "conditions", "declaredFeatures")
_POD_STATUS: Final = (
    "phase", "nominatedNodeName", "startTime", "resources", "containerStatuses",
    "initContainerStatuses", "allocatedResources", "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)  # fmt: skip
_CONTAINER_STATUS: Final = ("name", "resources", "allocatedResources")


class BadBundle(ValueError):
    """The file is not a bundle, or has another format."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The parts of a bundle; ``result`` is what ``simulate`` made of the scenario."""

    scenario: Mapping[str, Any]
    result: Mapping[str, Any]
    versions: Mapping[str, str]
    anonymized: bool = False

    def to_bytes(self) -> bytes:
        """Return the file's content: JSON, compressed; the same for the same bundle."""
        document = {
            "bundle": FORMAT,
            "versions": dict(self.versions),
            "anonymized": self.anonymized,
            "scenario": self.scenario,
            "result": self.result,
        }
        text = json.dumps(document, sort_keys=True, separators=(",", ":"))
        return gzip.compress(text.encode(), mtime=0)


def read_bundle(content: bytes) -> Bundle:
    """Read a file's content. Raises BadBundle."""
    try:
        inflate = zlib.decompressobj(wbits=31)
        text = inflate.decompress(content, MAX_BYTES)
        if inflate.unconsumed_tail:
            raise BadBundle(f"more than {MAX_BYTES >> 20} MiB")
        if not inflate.eof:
            # With the checksum.
            raise BadBundle("its end is missing")
        document = parse_json(text)
    except SizeExceeded as error:
        raise BadBundle(str(error)) from error
    except (zlib.error, ValueError) as error:
        if isinstance(error, BadBundle):
            raise
        raise BadBundle("it is not gzipped JSON") from error
    if not isinstance(document, dict) or document.get("bundle") != FORMAT:
        raise BadBundle(f'it has no "bundle": {FORMAT}, which this version of sched reads')
    parts = [document.get(name) for name in ("scenario", "result", "versions")]
    scenario, result, versions = (part if isinstance(part, dict) else None for part in parts)
    if scenario is None or result is None or versions is None:
        raise BadBundle('"scenario", "result" and "versions" are objects')
    return Bundle(scenario, result, versions, bool(document.get("anonymized")))


def scenario_of(
    objects: Iterable[AnyObject], pod: v1.Pod, config: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Return the scenario of a pod's decision, with only the fields that it can depend on.

    The pod itself is not among the objects. A bound pod is decided on as if it were pending: its
    nodeName is removed, and its claims are released. ``config``: a KubeSchedulerConfiguration, None
    for the default.
    """
    packed = [
        _packed(_released(obj, pod))
        for obj in objects
        if not (isinstance(obj, v1.Pod) and key_of(obj) == key_of(pod))
        and (isinstance(obj, v1.Pod | v1.Node) or kind_of(obj).name in _READ)
    ]
    wanted = _pod(pod)
    wanted["spec"].pop("nodeName", None)
    scenario: dict[str, Any] = {"id": key_of(pod), "objects": packed, "pod": wanted}
    if config is not None:
        scenario["config"] = {k: v for k, v in config.items() if k not in _UNREAD}
    return scenario


def _released(obj: AnyObject, pod: v1.Pod) -> AnyObject:
    """Return a claim of a bound pod as it is without the pod, and other objects as they are."""
    if not isinstance(obj, v1.ResourceClaim) or not pod.spec.node_name:
        return obj
    return released(obj, pod.metadata.uid) or obj


def _packed(obj: AnyObject) -> dict[str, Any]:
    if isinstance(obj, v1.Pod):
        return _pod(obj)
    manifest: dict[str, Any] = to_manifest(obj)
    meta = manifest["metadata"]
    avoided = meta.get("annotations", {}).get(PREFER_AVOID_PODS)
    manifest["metadata"] = _only(meta, _META)
    if isinstance(obj, v1.Node):
        if avoided is not None:
            manifest["metadata"]["annotations"] = {PREFER_AVOID_PODS: avoided}
        manifest["spec"] = _only(manifest.get("spec", {}), ("taints", "unschedulable"))
        manifest["status"] = _only(manifest.get("status", {}), _NODE_STATUS)
        conditions = manifest["status"].get("conditions", [])
        manifest["status"]["conditions"] = [_only(c, ("type", "status")) for c in conditions]
        return manifest
    kind = kind_of(obj).name
    if kind in _SPECS:
        manifest["spec"] = _only(manifest.get("spec", {}), _SPECS[kind])
    # Annotations say whether a claim is bound, and which node its volume is provisioned for.
    kept = {k: v for k, v in meta.get("annotations", {}).items() if _OF_VOLUMES in k}
    kept.pop(LAST_APPLIED, "")
    if kept:
        manifest["metadata"]["annotations"] = kept
    packed: dict[str, Any] = _without_secrets(manifest)
    return packed


def _without_secrets(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_secrets(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {
        key: item if key in _MAPS else _without_secrets(item)
        for key, item in part.items()
        if key not in _SECRET
    }


def _pod(pod: v1.Pod) -> dict[str, Any]:
    relevant = v1.Pod()
    relevant.metadata.CopyFrom(pod.metadata)
    relevant.spec.CopyFrom(relevant_spec(pod.spec))
    relevant.spec.node_name = pod.spec.node_name
    if pod.spec.HasField("scheduling_group"):
        relevant.spec.scheduling_group.CopyFrom(pod.spec.scheduling_group)
    relevant.status.CopyFrom(pod.status)
    manifest: dict[str, Any] = to_manifest(relevant)
    if "volumes" in manifest["spec"]:
        manifest["spec"]["volumes"] = _without_secrets(manifest["spec"]["volumes"])
    annotations = _only(manifest["metadata"].get("annotations", {}), GROUP_MARKS)
    manifest["metadata"] = _only(manifest["metadata"], _META)
    if annotations:
        manifest["metadata"]["annotations"] = annotations
    status = _only(manifest.get("status", {}), _POD_STATUS)
    for field in ("containerStatuses", "initContainerStatuses"):
        if field in status:
            status[field] = [_only(one, _CONTAINER_STATUS) for one in status[field]]
    if is_resize_infeasible(pod):
        status["conditions"] = [{"type": "PodResizePending", "reason": "Infeasible"}]
    manifest["status"] = status
    return manifest


def _only(part: Mapping[str, Any], fields: Iterable[str]) -> dict[str, Any]:
    return {field: part[field] for field in fields if field in part}
