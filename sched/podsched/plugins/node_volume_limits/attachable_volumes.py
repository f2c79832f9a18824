"""Find the CSI volumes that a pod attaches to its node, by driver and handle.

Rules: ``filterAttachableVolumes`` of kube-scheduler v1.36 ``framework/plugins/nodevolumelimits``.
A claim counts as its volume or, without one, by the provisioner of its storage class. On nodes with
a CSINode, in-tree volumes count as volumes of the driver that they were migrated to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from podsched.api.objects import object_key
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.plugins.pods import once_per_class
from podsched.plugins.volumes.claims import (
    VOLUME,
    class_of,
    controller_uid,
    get_class,
    get_volume,
    not_found,
    not_owner,
    pod_claims,
)
from podsched.plugins.volumes.csi_translation import (
    BY_NAME,
    Untranslatable,
    in_tree_plugin,
    inline_handle,
    volume_handle,
)
from podsched.plugins.volumes.resolved_claims import UNBOUND, ResolvedClaims
from podsched.v1 import objects_pb2 as v1


class Attachable(NamedTuple):
    """A volume that counts towards a driver's limit; ``driver`` is "" if it does not count.

    ``name`` is "driver/handle". ``migrated`` in-tree volumes count only on nodes with a CSINode.
    """

    name: str
    driver: str
    migrated: bool
    #: The uid of the claim's controlling owner, which must be the pod for an ephemeral volume.
    owner: str | None = None


class CannotCount(Exception):
    """A pod's volumes cannot be determined; the node is rejected with the status ``code``."""

    def __init__(self, code: Code, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Inline:
    """The in-tree volumes that a pod mounts without a claim.

    ``volumes``: those of migrated drivers. ``error``: why one of them has no CSI handle. ``any``:
    whether there are in-tree volumes at all, also of drivers that were not migrated.
    """

    volumes: tuple[Attachable, ...] = ()
    error: str = ""
    any: bool = False


@once_per_class
def inline_volumes(pod: PodInfo) -> Inline:
    """Return the in-tree volumes that the pod mounts without a claim."""
    found, error, some = [], "", False
    for volume in pod.cls.volumes:
        plugin = in_tree_plugin(volume)
        if plugin is None:
            continue
        some = True
        if not plugin.migrated or error:
            continue
        try:
            handle = inline_handle(plugin, volume)
        except Untranslatable as why:
            error = f"converting volume({volume.name}) from inline to csi: {why}"
            continue
        found.append(Attachable(f"{plugin.driver}/{handle}", plugin.driver, True))
    return Inline(tuple(found), error, some)


class AttachableVolumes(ResolvedClaims[Attachable]):
    """Resolves claims to volumes, and volumes to handles."""

    def __init__(self, cluster: ClusterView) -> None:
        super().__init__(cluster)
        self._handles: dict[str, str] = {}

    def read_all(self, cluster: ClusterView) -> None:
        super().read_all(cluster)
        for volume in cluster.list(VOLUME):
            self.csi_handle(volume.metadata.name)

    def forget(self) -> None:
        super().forget()
        self._handles.clear()

    def of(self, pod: PodInfo, *, csi_node: bool, new: bool) -> Mapping[str, str]:
        """Return the driver of each volume that the pod attaches to a node, by the volume's name.

        ``csi_node``: whether the node has a CSINode. ``new``: whether the pod is to be scheduled;
        only then a missing claim is an error. Raises CannotCount.
        """
        found: dict[str, str] = {}
        for mine in pod_claims(pod):
            if not mine.name:
                raise CannotCount(Code.ERROR, "PersistentVolumeClaim had no name")
            volume = self.of_claim(pod.namespace, mine.name)
            if volume is None:
                if not new:
                    continue
                missing = not_found("persistentvolumeclaim", mine.name)
                text = f"looking up PVC {pod.namespace}/{mine.name}: {missing}"
                raise CannotCount(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, text)
            if mine.ephemeral and volume.owner != pod.uid:
                raise CannotCount(Code.ERROR, not_owner(pod, mine.name))
            if volume.driver and (csi_node or not volume.migrated):
                found[volume.name] = volume.driver
        if csi_node:
            inline = inline_volumes(pod)
            found.update((volume.name, volume.driver) for volume in inline.volumes)
            if inline.error:
                raise CannotCount(Code.ERROR, inline.error)
        return found

    def csi_handle(self, volume_name: str) -> str:
        """Return the volume handle of a PersistentVolume; "" if it is not a CSI volume."""
        handle = self._handles.get(volume_name)
        if handle is None:
            volume = None if self.cluster is None else get_volume(self.cluster, volume_name)
            is_csi = volume is not None and volume.spec.HasField("csi")
            handle = volume.spec.csi.volume_handle if is_csi and volume is not None else ""
            self._handles[volume_name] = handle
        return handle

    def behind(self, claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> Attachable:
        driver, handle, migrated = _driver_info(claim, cluster)
        if not driver or not handle:
            driver = ""
        return Attachable(f"{driver}/{handle}", driver, migrated, controller_uid(claim))


def _driver_info(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> tuple[str, str, bool]:
    """Return driver, handle and whether it is migrated (``getCSIDriverInfo``); "" if unknown."""
    name = claim.spec.volume_name
    volume = get_volume(cluster, name) if name else None
    if volume is None:
        return _driver_of_class(claim, cluster)
    if volume.spec.HasField("csi"):
        return volume.spec.csi.driver, volume.spec.csi.volume_handle, False
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.migrated:
        return "", "", False
    try:
        return plugin.driver, volume_handle(plugin, volume), True
    except Untranslatable:
        return "", "", False


def _driver_of_class(
    claim: v1.PersistentVolumeClaim, cluster: ClusterView
) -> tuple[str, str, bool]:
    name = class_of(claim)
    storage_class = get_class(cluster, name) if name else None
    if storage_class is None:
        return "", "", False
    handle = f"{UNBOUND}{object_key(claim)}"
    plugin = BY_NAME.get(storage_class.provisioner)
    if plugin is None:
        return storage_class.provisioner, handle, False
    return (plugin.driver, handle, True) if plugin.migrated else ("", "", False)
