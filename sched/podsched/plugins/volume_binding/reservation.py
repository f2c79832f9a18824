"""Bind the volumes of a pod's delayed claims: assume them, write them, and wait for them.

Rules: ``AssumePodVolumes``, ``bindAPIUpdate`` and ``checkBindings`` of kube-scheduler v1.36
(``volumebinding/binder.go``):

    Reserve      reservation()          assumes a volume for each claim, or its provisioning
    PreBind      Reservation.patches()  writes claimRef (static) or the annotation (dynamic)
                 Reservation.check()    PENDING until the volume controller has bound every claim
    Unreserve    Reservation.restore()  withdraws the assumptions

A static binding sets the volume's claimRef; the volume controller then binds the claim. Dynamic
provisioning is requested by the annotation ``volume.kubernetes.io/selected-node`` on the claim. If
the provisioner fails on that node, it removes the annotation, so that another node is chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.api import codec
from podsched.api.objects import copy_of, object_key
from podsched.api.owners import reference_to
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import ObjectPatch
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, error
from podsched.plugins.volume_binding.candidates import affinity_holds, affinity_terms
from podsched.plugins.volumes.claims import (
    ANN_BOUND_BY_CONTROLLER,
    ANN_SELECTED_NODE,
    CLAIM,
    VOLUME,
    get_claim,
    get_volume,
    is_fully_bound,
    not_found,
    refers_to,
)
from podsched.plugins.volumes.csi_translation import (
    Untranslatable,
    in_tree_plugin,
    migrated_plugins,
    translated_affinity,
)
from podsched.v1 import objects_pb2 as v1

PENDING = Status(Code.PENDING, ("binding volumes",))


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """A volume to bind to a claim: ``base`` is the stored object, ``patched`` the bound one."""

    claim: v1.PersistentVolumeClaim
    base: v1.PersistentVolume
    patched: v1.PersistentVolume

    @property
    def is_written(self) -> bool:
        """Whether the stored volume is bound to the claim already."""
        return self.patched is self.base


@dataclass(frozen=True, slots=True)
class Provisioning:
    """A claim for which a volume has to be provisioned.

    ``is_written``: whether the stored claim has the annotation for the node already.
    """

    base: v1.PersistentVolumeClaim
    is_written: bool


class _Failed(Exception):
    """Binding is impossible, so the pod must be scheduled again; caught in ``check``."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """All volumes that have to be bound or provisioned for one pod on one node."""

    node_name: str
    static: tuple[StaticBinding, ...]
    dynamic: tuple[Provisioning, ...]

    def objects(self) -> set[tuple[str, str, str]]:
        """Return kind, namespace and name of the objects that are assumed."""
        volumes = {(VOLUME, "", binding.base.metadata.name) for binding in self.static}
        metas = (claim.base.metadata for claim in self.dynamic)
        return volumes | {(CLAIM, meta.namespace, meta.name) for meta in metas}

    def restore(self, cluster: ClusterView, others: Iterable[Reservation]) -> None:
        """Withdraw the assumptions, but for those that pods with the same claim have made, too."""
        for kind, namespace, name in self.objects().difference(*(o.objects() for o in others)):
            cluster.assumed(kind).restore(namespace, name)

    def patches(self, cluster: ClusterView) -> tuple[ObjectPatch, ...]:
        """Return the patches to write, each only for the resource version that was decided on.

        Without those that another pod with the same claim has written since.
        """
        volumes = [
            _volume_patch(one.base, one.patched)
            for one in self.static
            if not (one.is_written or _is_bound_to(one.claim, one.base.metadata.name, cluster))
        ]
        selected = {"metadata": {"annotations": {ANN_SELECTED_NODE: self.node_name}}}
        claims = [
            _patch(CLAIM, one.base, selected)
            for one in self.dynamic
            if not (one.is_written or _is_selected(one.base, self.node_name, cluster))
        ]
        return (*volumes, *claims)

    def check(self, pod: PodInfo, cluster: ClusterView) -> Status:
        """Return SUCCESS if every claim is bound, ERROR if binding failed, else PENDING.

        Claims behind the first that is not bound are not looked at: until its volume is there, the
        pod could only come back to this node.
        """
        try:
            node = self._node(pod, cluster)
            bound = all(self._is_bound(binding, node, cluster) for binding in self.static) and all(
                self._is_provisioned(claim, node, cluster) for claim in self.dynamic
            )
        except _Failed as why:
            return error(f"binding volumes: {why}")
        return SUCCESS if bound else PENDING

    def _node(self, pod: PodInfo, cluster: ClusterView) -> v1.Node:
        node: v1.Node | None = cluster.get("Node", "", self.node_name)
        if node is None:
            text = f'failed to get node "{self.node_name}": node "{self.node_name}" not found'
            raise _Failed(text)
        if cluster.get("Pod", pod.namespace, pod.name) is None:
            raise _Failed(f'pod does not exist any more: pod "{pod.name}" not found')
        return node

    def _is_bound(self, binding: StaticBinding, node: v1.Node, cluster: ClusterView) -> bool:
        """Return whether a static binding is complete. Raises _Failed if it cannot be."""
        name = binding.base.metadata.name
        volume = get_volume(cluster, name)
        if volume is None:
            raise _Failed(f"failed to check binding: {not_found('persistentvolumes', name)}")
        claim = _claim_now(binding.claim, "failed to check binding", cluster)
        # The informer still has the object that Reserve read: the patch is not to be seen yet.
        if volume is binding.base and not binding.is_written:
            return False
        _check_reachable(volume, node, cluster)
        if volume.spec.claim_ref.uid != binding.claim.metadata.uid:
            raise _Failed(f'ClaimRef got reset for pv "{name}"')
        return is_fully_bound(claim)

    def _is_provisioned(self, mine: Provisioning, node: v1.Node, cluster: ClusterView) -> bool:
        """Return whether the claim's volume was provisioned. Raises _Failed if it cannot be."""
        claim = _claim_now(mine.base, "failed to check provisioning pvc", cluster)
        # As in ``_is_bound``.
        if claim is mine.base and not mine.is_written:
            return False
        name = claim.metadata.name
        if not claim.metadata.annotations:
            raise _Failed(f'selectedNode annotation reset for PVC "{name}"')
        if claim.metadata.annotations.get(ANN_SELECTED_NODE, "") != self.node_name:
            raise _Failed(f'provisioning failed for PVC "{name}"')
        if claim.spec.volume_name:
            volume = get_volume(cluster, claim.spec.volume_name)
            if volume is None:
                # It may be on its way; if it was deleted, the claim is unbound soon
                # (``checkBindings``).
                return False
            _check_reachable(volume, node, cluster)
        return is_fully_bound(claim)


def reservation(
    node_name: str,
    claims: Sequence[str],
    volumes: Mapping[str, str],
    cluster: ClusterView,
) -> Reservation:
    """Assume the volumes of these claims, and return them.

    ``claims``: the keys ("namespace/name") of claims, which must exist. ``volumes``: the existing
    volume of a claim, by its key; for all other claims a volume is to be provisioned.
    """
    static, dynamic = [], []
    for key in claims:
        namespace, _, name = key.partition("/")
        claim = cluster.assumed(CLAIM).get(namespace, name)
        assert claim is not None, key
        if key in volumes:
            static.append(_assume_bound(claim, volumes[key], cluster))
        else:
            dynamic.append(_assume_provisioning(claim, node_name, cluster))
    return Reservation(node_name, tuple(static), tuple(dynamic))


def _assume_bound(
    claim: v1.PersistentVolumeClaim,
    volume_name: str,
    cluster: ClusterView,
) -> StaticBinding:
    volume = cluster.assumed(VOLUME).get("", volume_name)
    base = get_volume(cluster, volume_name)
    assert volume is not None and base is not None, volume_name
    patched = bound_to(volume, claim)
    if patched is not base:
        cluster.assumed(VOLUME).assume(patched)
    return StaticBinding(claim, base, patched)


def _assume_provisioning(
    claim: v1.PersistentVolumeClaim,
    node_name: str,
    cluster: ClusterView,
) -> Provisioning:
    meta = claim.metadata
    base = get_claim(cluster, meta.namespace, meta.name)
    assert base is not None, object_key(claim)
    if base.metadata.annotations.get(ANN_SELECTED_NODE) == node_name:
        return Provisioning(base, is_written=True)
    assumed = copy_of(base)
    assumed.metadata.annotations[ANN_SELECTED_NODE] = node_name
    cluster.assumed(CLAIM).assume(assumed)
    return Provisioning(base, is_written=False)


def bound_to(volume: v1.PersistentVolume, claim: v1.PersistentVolumeClaim) -> v1.PersistentVolume:
    """Return a copy of the volume bound to the claim, or the volume itself if it is bound already.

    Source: ``GetBindVolumeToClaim`` of component-helpers.
    """
    ref = volume.spec.claim_ref
    mine = refers_to((ref.namespace, ref.name, ref.uid), claim)
    if mine and ref.uid == claim.metadata.uid:
        return volume
    bound = copy_of(volume)
    bound.spec.claim_ref.CopyFrom(reference_to(claim))
    if not mine and ANN_BOUND_BY_CONTROLLER not in volume.metadata.annotations:
        bound.metadata.annotations[ANN_BOUND_BY_CONTROLLER] = "yes"
    return bound


def _is_bound_to(claim: v1.PersistentVolumeClaim, volume_name: str, cluster: ClusterView) -> bool:
    """Return whether the stored volume is bound to the claim already."""
    volume = get_volume(cluster, volume_name)
    return volume is not None and bound_to(volume, claim) is volume


def _is_selected(claim: v1.PersistentVolumeClaim, node_name: str, cluster: ClusterView) -> bool:
    """Return whether the stored claim has the annotation for the node already."""
    meta = claim.metadata
    now = get_claim(cluster, meta.namespace, meta.name)
    if now is None or now.metadata.uid != meta.uid:
        return False
    return now.metadata.annotations.get(ANN_SELECTED_NODE) == node_name


def _patch(
    kind: str, base: v1.PersistentVolumeClaim | v1.PersistentVolume, body: Mapping[str, Any]
) -> ObjectPatch:
    meta = base.metadata
    return ObjectPatch(kind, meta.namespace, meta.name, body, meta.resource_version)


def _volume_patch(base: v1.PersistentVolume, patched: v1.PersistentVolume) -> ObjectPatch:
    """Return the patch that sets a volume's claimRef and the added annotations."""
    body: dict[str, Any] = {"spec": {"claimRef": codec.write(patched.spec.claim_ref)}}
    known = base.metadata.annotations
    added = {k: text for k, text in patched.metadata.annotations.items() if k not in known}
    if added:
        body["metadata"] = {"annotations": added}
    return _patch(VOLUME, base, body)


def _claim_now(
    claim: v1.PersistentVolumeClaim, doing: str, cluster: ClusterView
) -> v1.PersistentVolumeClaim:
    meta = claim.metadata
    found = get_claim(cluster, meta.namespace, meta.name)
    # Unlike in kube-scheduler, also if another claim has the name now: it may be bound to a volume
    # that the node does not reach, or never.
    if found is None or found.metadata.uid != meta.uid:
        raise _Failed(f"{doing}: {not_found('persistentvolumeclaims', object_key(claim))}")
    return found


def _check_reachable(volume: v1.PersistentVolume, node: v1.Node, cluster: ClusterView) -> None:
    """Raise _Failed if the volume's node affinity does not match the node."""
    affinity = volume.spec.node_affinity
    plugin = in_tree_plugin(volume.spec)
    csi_node = cluster.get("CSINode", "", node.metadata.name)
    if (
        plugin is not None
        and plugin.migrated
        and csi_node is not None
        and plugin.name in migrated_plugins(csi_node)
    ):
        try:
            affinity = translated_affinity(plugin, volume)
        except Untranslatable as why:
            raise _Failed(f"failed to translate pv to csi: could not translate pv: {why}") from why
    if not affinity_holds(affinity_terms(affinity), node):
        raise _Failed(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node '
            f'"{node.metadata.name}": no matching NodeSelectorTerms'
        )
