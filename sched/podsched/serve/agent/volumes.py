"""Decides how to bind and provision volumes, as Kubernetes' volume controller does.

Pure: takes objects, and returns the next writes. Each write causes an event that leads to the next
write, so a binding (first the volume, then the claim) can be resumed after any of them.
Source: pkg/controller/volume/persistentvolume (pv_controller.go, index.go) of Kubernetes 1.36, and
the external provisioner for the simulated provisioners.

    claim                                                    decision
    it names no class, and there is a default class          set the default class
    it names a volume that suits it, or whose claimRef       bind to that volume
    names it
    a volume's claimRef names it (set by user or scheduler)  bind to that volume
    class binds immediately, available volumes fit           bind to the smallest
    class waits for a consumer, no node selected yet         keep Pending
    class has a provisioner                                  annotate; provision if simulated here
    volume                                                   decision
    no claimRef, or one without a uid                        Available
    claimRef to a claim that names it                        Bound
    claimRef to a claim that has another volume              Available; a claimRef of a user stays,
                                                             without a uid; deleted if provisioned,
                                                             as below
    claimRef to a deleted claim                              Released; or deleted, if the policy is
                                                             Delete and it was provisioned here

Non-goals: storage, resizing, protection finalizers, attaching.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsched.api import quantity
from podsched.api.codec import write
from podsched.api.node_labels import ZONE
from podsched.api.objects import (
    CSINode,
    Node,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from podsched.api.owners import reference_to
from podsched.api.selectors import SelectorError, compile_selector
from podsched.api.storage_classes import default_class, names_class
from podsched.serve.agent.volume_index import BIND_COMPLETED, VolumeIndex, is_available, size_of
from podsched.serve.client.cluster import object_patch
from podsched.v1.api_pb2 import DeleteRequest, PatchRequest

PROVISIONER = "podsched.io/hollow"
"""The provisioner that agents simulate by default."""
NO_PROVISIONER = "kubernetes.io/no-provisioner"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"


Effect = PatchRequest | DeleteRequest | PersistentVolume
"""A write: the patch of a claim or volume, the deletion of a volume, or a new volume."""


@dataclass(frozen=True, slots=True)
class View:
    """The current objects; claims and volumes by key, and indexed."""

    claims: Mapping[str, PersistentVolumeClaim]
    volumes: Mapping[str, PersistentVolume]
    classes: Mapping[str, StorageClass]
    nodes: Mapping[str, Node]
    csi_nodes: Mapping[str, CSINode]
    index: VolumeIndex
    provisioners: Collection[str] = (PROVISIONER,)


@dataclass(slots=True)
class Round:
    """Decides about claims and volumes one by one, and assigns no volume twice.

    Objects may change between two decisions.
    """

    view: View
    _assigned: set[str] = field(default_factory=set)
    _available: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    # ------------------------------------------------------------------ volumes

    def sync_volume(self, name: str) -> list[Effect]:
        """Return the next writes for a volume; empty if none is needed."""
        volume = self.view.volumes.get(name)
        if volume is None or volume.metadata.HasField("deletion_timestamp"):
            return []
        ref = volume.spec.claim_ref
        if not volume.spec.HasField("claim_ref") or not ref.uid:
            return _phase(volume, "Available")
        claim = self.view.claims.get(f"{ref.namespace}/{ref.name}")
        if claim is None or claim.metadata.uid != ref.uid:
            return self._released(volume)
        if claim.spec.volume_name == name:
            return _phase(volume, "Bound")
        if not claim.spec.volume_name:
            return []
        if self._is_deleted_after_use(volume):
            return [_deletion(volume)]
        return [_unbound(volume)]

    def _released(self, volume: PersistentVolume) -> list[Effect]:
        if self._is_deleted_after_use(volume):
            return [_deletion(volume)]
        if volume.spec.persistent_volume_reclaim_policy == "Recycle":
            return [_unbound(volume)]
        return _phase(volume, "Released")

    def _is_deleted_after_use(self, volume: PersistentVolume) -> bool:
        policy = volume.spec.persistent_volume_reclaim_policy
        provisioner = volume.metadata.annotations.get(PROVISIONED_BY, "")
        return policy == "Delete" and provisioner in self.view.provisioners

    # ------------------------------------------------------------------ claims

    def sync_claim(self, key: str) -> list[Effect]:
        """Return the next writes for a claim; empty if none is needed or possible yet."""
        claim = self.view.claims.get(key)
        if claim is None or claim.metadata.HasField("deletion_timestamp"):
            return []
        if _has(claim, BIND_COMPLETED):
            return self._sync_bound(claim)
        if claim.spec.volume_name:
            volume = self.view.volumes.get(claim.spec.volume_name)
            if volume is None or not _may_be_requested(volume, claim):
                return []
            return self._bind(volume, claim)
        if not names_class(claim):
            default = default_class(self.view.classes.values())
            if default:
                return [object_patch(claim, {"spec": {"storageClassName": default}})]
        waits = self._waits_for_consumer(claim)
        volume = self._match(claim, only_prebound=waits)
        if volume is not None:
            return self._bind(volume, claim)
        if waits and not claim.metadata.annotations.get(SELECTED_NODE):
            return []
        return self._provision(claim)

    def _sync_bound(self, claim: PersistentVolumeClaim) -> list[Effect]:
        volume = self.view.volumes.get(claim.spec.volume_name)
        if volume is None or not _may_be_bound(volume, claim):
            return _phase(claim, "Lost")
        return self._bind(volume, claim)

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        found = self.view.classes.get(claim.spec.storage_class_name)
        return found is not None and found.volume_binding_mode == "WaitForFirstConsumer"

    def _bind(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> list[Effect]:
        """Return the write that binds the volume, or the claim if the volume is already bound."""
        self._assigned.add(volume.metadata.name)
        ref = volume.spec.claim_ref
        if ref.uid != claim.metadata.uid or volume.status.phase != "Bound":
            return [_volume_bound(volume, claim)]
        return _claim_bound(claim, volume)

    # ------------------------------------------------------------------ matching

    def _match(
        self, claim: PersistentVolumeClaim, *, only_prebound: bool
    ) -> PersistentVolume | None:
        """Return the volume that already names the claim, else the smallest that fits."""
        named = self.view.index.volumes_for.of(f"{claim.metadata.namespace}/{claim.metadata.name}")
        prebound = [
            volume
            for name in named
            if (volume := self.view.volumes.get(name)) is not None
            and _is_for(volume, claim)
            and _fits(volume, claim)
        ]
        if prebound:
            return min(prebound, key=lambda volume: (size_of(volume), volume.metadata.name))
        if only_prebound:
            return None
        try:
            selector = compile_selector(claim.spec.selector)
        except SelectorError:
            return None
        anything = not claim.spec.HasField("selector")
        available = self.available_of(claim.spec.storage_class_name)
        for place in range(bisect_left(available, (_wanted(claim), "")), len(available)):
            name = available[place][1]
            volume = self.view.volumes.get(name)
            if volume is None or name in self._assigned or not is_available(volume):
                continue
            if _fits(volume, claim) and (anything or selector.matches(volume.metadata.labels)):
                del available[place]
                return volume
        return None

    def available_of(self, class_name: str) -> list[tuple[int, str]]:
        """Return the available volumes of a class that this round leaves, sorted by size."""
        found = self._available.get(class_name)
        if found is None:
            sizes = self.view.index.available.of(class_name)
            found = self._available[class_name] = sorted((s, name) for name, s in sizes.items())
        return found

    # ------------------------------------------------------------------ provisioning

    def _provision(self, claim: PersistentVolumeClaim) -> list[Effect]:
        """Return the next write of a claim's provisioning; empty if its class has no provisioner.

        First the claim is annotated with the provisioner, then the volume is created.
        """
        found = self.view.classes.get(claim.spec.storage_class_name)
        if found is None or found.provisioner in ("", NO_PROVISIONER):
            return []
        if claim.metadata.annotations.get(STORAGE_PROVISIONER) != found.provisioner:
            annotations: dict[str, str | None] = {
                STORAGE_PROVISIONER: found.provisioner,
                BETA_STORAGE_PROVISIONER: found.provisioner,
            }
            return [_annotate(claim, annotations)]
        if found.provisioner not in self.view.provisioners:
            return []
        if f"pvc-{claim.metadata.uid}" in self.view.volumes:
            return []
        terms = self._topology(claim, found)
        if terms is None:
            # Like the external provisioner: make the scheduler select another node.
            return [_annotate(claim, {SELECTED_NODE: None})]
        return [provisioned(claim, found, terms)]

    def _topology(
        self, claim: PersistentVolumeClaim, found: StorageClass
    ) -> list[NodeSelectorTerm] | None:
        """Return where a volume is accessible ([]: anywhere), None if not on the selected node."""
        name = claim.metadata.annotations.get(SELECTED_NODE, "")
        if not name:
            return [
                _term({e.key: e.values for e in term.match_label_expressions})
                for term in found.allowed_topologies
            ]
        node = self.view.nodes.get(name)
        if node is None:
            return None
        keys = topology_keys(self.view.csi_nodes.get(name), found.provisioner)
        return topology_at(node, found, keys or ())


def topology_keys(node: CSINode | None, driver: str) -> Sequence[str] | None:
    """Return the labels by which a driver tells nodes apart; None if it is not on the node."""
    drivers = node.spec.drivers if node is not None else ()
    return next((one.topology_keys for one in drivers if one.name == driver), None)


def topology_at(
    node: Node, found: StorageClass, keys: Sequence[str]
) -> list[NodeSelectorTerm] | None:
    """Return where a volume for a node is accessible ([]: anywhere), None if not on that node.

    ``keys``: the driver's; without any, those of the class, else the zone.
    """
    labels = node.metadata.labels
    allowed = [term for term in found.allowed_topologies if _allows(term, labels)]
    if found.allowed_topologies:
        if not allowed:
            return None
        keys = keys or [e.key for e in allowed[0].match_label_expressions]
    keys = [key for key in keys or (ZONE,) if key in labels]
    return [_term({key: [labels[key]] for key in keys})] if keys else []


def provisioned(
    claim: PersistentVolumeClaim, found: StorageClass, terms: Sequence[NodeSelectorTerm]
) -> PersistentVolume:
    """Return the volume that a class's provisioner creates for a claim; it names the claim."""
    volume = PersistentVolume()
    volume.metadata.name = f"pvc-{claim.metadata.uid}"
    volume.metadata.annotations[PROVISIONED_BY] = found.provisioner
    spec = volume.spec
    spec.capacity["storage"] = claim.spec.resources.requests["storage"]
    spec.access_modes.extend(claim.spec.access_modes)
    spec.persistent_volume_reclaim_policy = found.reclaim_policy or "Delete"
    spec.storage_class_name = found.metadata.name
    spec.mount_options.extend(found.mount_options)
    spec.volume_mode = claim.spec.volume_mode
    if attributes_class := claim.spec.volume_attributes_class_name:
        spec.volume_attributes_class_name = attributes_class
    spec.claim_ref.CopyFrom(reference_to(claim))
    spec.csi.driver = found.provisioner
    spec.csi.volume_handle = volume.metadata.name
    if terms:
        spec.node_affinity.required.node_selector_terms.extend(terms)
    return volume


def _term(values: Mapping[str, Iterable[str]]) -> NodeSelectorTerm:
    term = NodeSelectorTerm()
    for key, allowed in values.items():
        term.match_expressions.add(key=key, operator="In", values=allowed)
    return term


def _allows(term: TopologySelectorTerm, labels: Mapping[str, str]) -> bool:
    return all(labels.get(e.key) in e.values for e in term.match_label_expressions)


# ---------------------------------------------------------------------------------- conditions


def _has(item: PersistentVolume | PersistentVolumeClaim, annotation: str) -> bool:
    return annotation in item.metadata.annotations


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether the volume's claimRef is this claim (IsVolumeBoundToClaim)."""
    ref = volume.spec.claim_ref
    if (ref.namespace, ref.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return ref.uid in ("", claim.metadata.uid)


def _may_be_bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return not volume.spec.HasField("claim_ref") or _is_for(volume, claim)


def _may_be_requested(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a claim may be bound to the volume that it names (checkVolumeSatisfyClaim)."""
    if volume.spec.HasField("claim_ref"):
        return _is_for(volume, claim)
    return volume.spec.storage_class_name == claim.spec.storage_class_name and _fits(volume, claim)


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether modes, attributes and size fit; volumes that name the claim need no more."""
    wanted, offered = claim.spec, volume.spec
    if volume.metadata.HasField("deletion_timestamp"):
        return False
    if (wanted.volume_mode or "Filesystem") != (offered.volume_mode or "Filesystem"):
        return False
    if wanted.volume_attributes_class_name != offered.volume_attributes_class_name:
        return False
    if not set(wanted.access_modes) <= set(offered.access_modes):
        return False
    return size_of(volume) >= _wanted(claim)


def _wanted(claim: PersistentVolumeClaim) -> int:
    """Return the bytes that a claim requests. Raises QuantityError."""
    return quantity.value(claim.spec.resources.requests.get("storage", "0"))


# ---------------------------------------------------------------------------------- writes


def _phase(item: PersistentVolume | PersistentVolumeClaim, phase: str) -> list[Effect]:
    if item.status.phase == phase:
        return []
    return [object_patch(item, {"status": {"phase": phase}})]


def _annotate(claim: PersistentVolumeClaim, annotations: Mapping[str, str | None]) -> PatchRequest:
    return object_patch(claim, {"metadata": {"annotations": annotations}})


def _deletion(volume: PersistentVolume) -> DeleteRequest:
    """Return the deletion of a volume if it is still at this version."""
    metadata = volume.metadata
    request = DeleteRequest(kind="PersistentVolume", name=metadata.name)
    request.preconditions.uid = metadata.uid
    request.preconditions.resource_version = int(metadata.resource_version or 0)
    return request


def _unbound(volume: PersistentVolume) -> PatchRequest:
    """Return the patch that makes a volume available again: to its claim, if a user named that."""
    patch = {
        "metadata": {"annotations": {BOUND_BY_CONTROLLER: None}},
        "spec": {"claimRef": None if _has(volume, BOUND_BY_CONTROLLER) else {"uid": None}},
        "status": {"phase": "Available"},
    }
    return object_patch(volume, patch)


def _volume_bound(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PatchRequest:
    """Return the patch that binds a volume to a claim."""
    ref, known = reference_to(claim), volume.spec.claim_ref
    shown = write(ref)
    # Fields set by a scheduler are kept (GetBindVolumeToClaim).
    if (known.namespace, known.name, known.uid) == (ref.namespace, ref.name, ref.uid):
        shown = {"namespace": ref.namespace, "name": ref.name}
    patch: dict[str, Any] = {"spec": {"claimRef": shown}, "status": {"phase": "Bound"}}
    if not volume.spec.HasField("claim_ref"):
        patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
    return object_patch(volume, patch)


def _claim_bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> list[Effect]:
    """Return the patch that binds a claim to a bound volume; empty if it is bound already."""
    name = volume.metadata.name
    bound = claim.status.phase == "Bound" and claim.spec.volume_name == name
    if bound and _has(claim, BIND_COMPLETED):
        return []
    annotations = {BIND_COMPLETED: "yes"}
    if not claim.spec.volume_name:
        annotations[BOUND_BY_CONTROLLER] = "yes"
    status = {
        "phase": "Bound",
        "accessModes": list(volume.spec.access_modes),
        "capacity": dict(volume.spec.capacity),
    }
    patch = {
        "metadata": {"annotations": annotations},
        "spec": {"volumeName": name},
        "status": status,
    }
    return [object_patch(claim, patch)]
