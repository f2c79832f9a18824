"""Find the CSI volumes that a pod attaches to its node, by driver and handle.

Rules: ``filterAttachableVolumes`` of kube-scheduler v1.36 ``framework/plugins/nodevolumelimits``.
A claim counts as its volume or, without one, by the provisioner of its storage class. On nodes with
a CSINode, in-tree volumes count as volumes of the driver that they were migrated to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from podsched.api.objects import object_key
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.plugins.pods import once_per_class
from podsched.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    class_of,
    controller_uid,
    get_claim,
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
from podsched.v1 import objects_pb2 as v1

#: The prefix of handles of volumes that are not provisioned yet; no real handle has it.
_UNBOUND: Final = "\0"


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


class AttachableVolumes:
    """Resolves claims to volumes, and remembers the results until an object changes.

    A pickled copy, for an evaluation in another process, has the results for all claims and
    volumes.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster: ClusterView | None = cluster
        self._versions: tuple[int, ...] = ()
        self._claims: dict[tuple[str, str], Attachable | None] = {}
        self._handles: dict[str, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        self.refresh()
        if self._cluster is not None:
            for claim in self._cluster.list(CLAIM):
                self._claim(claim.metadata.namespace, claim.metadata.name)
            for volume in self._cluster.list(VOLUME):
                self.csi_handle(volume.metadata.name)
        return {"claims": self._claims, "handles": self._handles}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._cluster, self._versions = None, ()
        self._claims, self._handles = state["claims"], state["handles"]

    def refresh(self) -> None:
        """Forget everything if claims, volumes or classes have changed."""
        if self._cluster is None:
            return
        versions = tuple(self._cluster.version(kind) for kind in (CLAIM, VOLUME, CLASS))
        if versions != self._versions:
            self._versions = versions
            self._claims.clear()
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
            volume = self._claim(pod.namespace, mine.name)
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
            volume = None if self._cluster is None else get_volume(self._cluster, volume_name)
            is_csi = volume is not None and volume.spec.HasField("csi")
            handle = volume.spec.csi.volume_handle if is_csi and volume is not None else ""
            self._handles[volume_name] = handle
        return handle

    def _claim(self, namespace: str, name: str) -> Attachable | None:
        key = (namespace, name)
        if key not in self._claims and self._cluster is not None:
            claim = get_claim(self._cluster, namespace, name)
            self._claims[key] = None if claim is None else _behind(claim, self._cluster)
        return self._claims.get(key)


def _behind(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> Attachable:
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
    handle = f"{_UNBOUND}{object_key(claim)}"
    plugin = BY_NAME.get(storage_class.provisioner)
    if plugin is None:
        return storage_class.provisioner, handle, False
    return (plugin.driver, handle, True) if plugin.migrated else ("", "", False)
