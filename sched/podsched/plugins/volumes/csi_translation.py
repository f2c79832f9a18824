"""Translate in-tree volumes into the CSI volumes that they were migrated to.

Rules: the parts of Kubernetes v1.36 ``csi-translation-lib`` that a scheduler needs (driver, volume
handle, node affinity), and a table of the in-tree plugins with whether their migration is enabled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from podsched.api.node_labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from podsched.api.objects import copy_of
from podsched.v1 import objects_pb2 as v1

ANN_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"

_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_ID: Final = re.compile(r"vol-[^/]*")
_AZURE_SECRET: Final = re.compile(r"azure-storage-account-(.+)-secret")


class Untranslatable(ValueError):
    """The in-tree volume cannot be translated; its author is at fault."""


@dataclass(frozen=True, slots=True)
class InTreePlugin:
    """An in-tree plugin and the CSI driver that replaces it.

    ``handle`` returns the volume handle for a source and, for a PersistentVolume, the volume.
    ``topology_key`` is "" if the node affinity stays the same.
    """

    field: str
    name: str
    driver: str
    topology_key: str
    migrated: bool
    handle: Callable[[Any, v1.PersistentVolume | None], str]


def _gce_handle(source: Any, volume: v1.PersistentVolume | None) -> str:
    labels = volume.metadata.labels if volume is not None else {}
    zones = (labels.get(BETA_ZONE) or labels.get(ZONE) or "").split("__")
    if len(zones) > 1:
        region = _region_of(zones)
        return f"projects/{_UNSPECIFIED}/regions/{region}/disks/{source.pd_name}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{source.pd_name}"


def _region_of(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise Untranslatable(
                "failed to get region from zones: zone in unexpected format, expected: "
                f"{{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise Untranslatable(
            "failed to get region from zones: multiple or no regions gotten from zones, got: "
            f"map[{listed}]"
        )
    return regions.pop()


def _ebs_handle(source: Any, volume: v1.PersistentVolume | None) -> str:
    text: str = source.volume_id
    if not text.startswith("aws://"):
        return text
    try:
        identity = urlsplit(text).path.strip("/")
    except ValueError:
        identity = ""  # Its zone has a bracket, so it is no URL.
    if _EBS_ID.fullmatch(identity) is None:
        raise Untranslatable(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume "
            f"({text})"
        )
    return identity


def _azure_disk_handle(source: Any, volume: v1.PersistentVolume | None) -> str:
    if source.kind.lower() not in ("", "managed"):
        raise Untranslatable(f"kind({source.kind}) is not supported in csi migration")
    return str(source.disk_uri)


def _azure_file_handle(source: Any, volume: v1.PersistentVolume | None) -> str:
    match = _AZURE_SECRET.search(source.secret_name)
    account = match.group(1) if match else source.secret_name
    annotations = volume.metadata.annotations if volume is not None else {}
    group = annotations.get("kubernetes.io/azure-file-resource-group", "")
    return f"{group}#{account}#{source.share_name}#"


def _by_field(name: str) -> Callable[[Any, v1.PersistentVolume | None], str]:
    def handle(source: Any, volume: v1.PersistentVolume | None) -> str:
        return str(getattr(source, name))

    return handle


IN_TREE_PLUGINS: Final = (
    InTreePlugin(
        "gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io",
        "topology.gke.io/zone", True, _gce_handle,
    ),
    InTreePlugin(
        "aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com",
        "topology.ebs.csi.aws.com/zone", True, _ebs_handle,
    ),
    InTreePlugin(
        "cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org",
        "topology.cinder.csi.openstack.org/zone", True, _by_field("volume_id"),
    ),
    InTreePlugin(
        "azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com",
        "", True, _azure_disk_handle,
    ),
    InTreePlugin(
        "azure_file", "kubernetes.io/azure-file", "file.csi.azure.com",
        "", False, _azure_file_handle,
    ),
    InTreePlugin(
        "vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com",
        "", False, _by_field("volume_path"),
    ),
    InTreePlugin(
        "portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com",
        "", True, _by_field("volume_id"),
    ),
)  # fmt: skip
BY_NAME: Final = {plugin.name: plugin for plugin in IN_TREE_PLUGINS}


def in_tree_plugin(source: v1.PersistentVolumeSpec | v1.Volume) -> InTreePlugin | None:
    """Return the in-tree plugin of a volume's source; None for all other volumes."""
    for plugin in IN_TREE_PLUGINS:
        if source.HasField(plugin.field):
            return plugin
    return None


def volume_handle(plugin: InTreePlugin, volume: v1.PersistentVolume) -> str:
    """Return the CSI handle of a PersistentVolume of the plugin. Raises Untranslatable."""
    return plugin.handle(getattr(volume.spec, plugin.field), volume)


def inline_handle(plugin: InTreePlugin, volume: v1.Volume) -> str:
    """Return the CSI handle of a volume in a pod's spec. Raises Untranslatable."""
    return plugin.handle(getattr(volume, plugin.field), None)


def migrated_plugins(csi_node: v1.CSINode) -> frozenset[str]:
    """Return the in-tree plugins that the node has migrated to CSI drivers."""
    listed = csi_node.metadata.annotations.get(ANN_MIGRATED_PLUGINS, "")
    return frozenset(listed.split(",")) if listed else frozenset()


def translated_affinity(plugin: InTreePlugin, volume: v1.PersistentVolume) -> v1.VolumeNodeAffinity:
    """Return the node affinity of the CSI volume: zones are labels with the driver's own key.

    Raises Untranslatable.
    """
    volume_handle(plugin, volume)
    affinity = copy_of(volume.spec.node_affinity)
    if not plugin.topology_key:
        return affinity
    zone, region = _topology_labels(volume, affinity)
    terms = affinity.required.node_selector_terms
    if any(e.key == zone and e.values for term in terms for e in term.match_expressions):
        _rename(affinity, zone, plugin.topology_key)
    elif zone in volume.metadata.labels:
        _add_zones(affinity, plugin.topology_key, volume.metadata.labels[zone].split("__"))
    if region == BETA_REGION:
        _rename(affinity, BETA_REGION, REGION)
    return affinity


def _topology_labels(
    volume: v1.PersistentVolume, affinity: v1.VolumeNodeAffinity
) -> tuple[str, str]:
    keys = {
        expression.key
        for term in affinity.required.node_selector_terms
        for expression in term.match_expressions
    }
    for known in (keys, volume.metadata.labels):
        for zone, region in ((ZONE, REGION), (BETA_ZONE, BETA_REGION)):
            if zone in known:
                return zone, region
    return ZONE, REGION


def _rename(affinity: v1.VolumeNodeAffinity, old: str, new: str) -> None:
    for term in affinity.required.node_selector_terms:
        for expression in term.match_expressions:
            if expression.key == old:
                expression.key = new


def _add_zones(affinity: v1.VolumeNodeAffinity, key: str, zones: list[str]) -> None:
    values = sorted({zone.strip() for zone in zones} - {""})
    if not values:
        return
    if not affinity.required.node_selector_terms:
        affinity.required.node_selector_terms.add()
    for term in affinity.required.node_selector_terms:
        term.match_expressions.add(key=key, operator="In", values=values)
