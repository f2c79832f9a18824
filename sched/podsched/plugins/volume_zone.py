"""VolumeZone: a node fits if it is in the zones and regions of the pod's bound volumes.

Rules: kube-scheduler v1.36 ``framework/plugins/volumezone``. Nodes without any zone or region label
pass. A beta label of a volume (``failure-domain.beta.kubernetes.io/zone``) is compared with the
node's beta label or, if the node has none, with its GA label (``topology.kubernetes.io/zone``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from podsched.api.node_labels import BETA_REGION, BETA_ZONE, REGION, ZONE
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    NOTHING_READ,
    CycleState,
    PreFilterResult,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code, unresolvable
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.plugins.volumes.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    claim_events,
    class_of,
    get_claim,
    get_class,
    get_volume,
    not_found,
    pod_claims,
)
from podsched.plugins.volumes.resolved_claims import versions
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) had no available volume zone"

TOPOLOGY_LABELS: Final = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_GA_LABELS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION}
#: Separates the zones of a volume that is in several (``volume/helpers.ZonesToSet``).
_SEPARATOR: Final = "__"


@dataclass(frozen=True, slots=True)
class Topology:
    """A zone or region label of a volume, and the values that a node may have for it."""

    key: str
    values: frozenset[str]


class Rejected(Exception):
    """The pod fits no node because of its claims; PreFilter turns it into a Status."""


class VolumeZone(WithoutArgs):
    """PreFilter reads the zones of the pod's volumes, Filter compares them with node labels."""

    name: ClassVar[str] = "VolumeZone"
    traits: ClassVar[Traits] = Traits(reads_pods=False, reads_requests=False, reads_labels=False)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the zones of the volumes, or the reason why the pod fits no node."""
        if not pod_claims(pod):
            return NOTHING_READ
        try:
            return self._topologies(pod, cluster)
        except Rejected as why:
            return str(why)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        if not pod_claims(pod):
            return FIXED_INPUTS
        return versions(cluster)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods whose volumes have no zone; a claim without a volume is unresolvable."""
        try:
            found = self._topologies(pod, cluster)
        except Rejected as why:
            return PreFilterResult(unresolvable(str(why)))
        if not found:
            return PreFilterResult(SKIP)
        state.data[self.name] = found
        return PreFilterResult()

    def _topologies(self, pod: PodInfo, cluster: ClusterView) -> tuple[Topology, ...]:
        """Return the zones and regions of the pod's bound volumes. Raises Rejected."""
        found: dict[Topology, None] = {}
        for mine in pod_claims(pod):
            if mine.ephemeral:
                continue
            if not mine.name:
                raise Rejected("PersistentVolumeClaim had no name")
            claim = get_claim(cluster, pod.namespace, mine.name)
            if claim is None:
                raise Rejected(not_found("persistentvolumeclaim", mine.name))
            if not claim.spec.volume_name:
                _check_delayed(claim, cluster)
                continue
            volume = get_volume(cluster, claim.spec.volume_name)
            if volume is None:
                raise Rejected(not_found("persistentvolume", claim.spec.volume_name))
            found.update(dict.fromkeys(topologies(volume)))
        return tuple(found)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        constrained = np.zeros(len(rows), dtype=np.bool_)
        for key in TOPOLOGY_LABELS:
            constrained |= nodes.label(key)[rows] != ABSENT
        other_zone = np.zeros(len(rows), dtype=np.bool_)
        for topology in state.data[self.name]:
            ids = nodes.label(topology.key)[rows]
            ga_label = _GA_LABELS.get(topology.key)
            if ga_label is not None:
                ids = np.where(ids == ABSENT, nodes.label(ga_label)[rows], ids)
            allowed = [nodes.value_id(value) for value in topology.values]
            other_zone |= ~np.isin(ids, allowed)
        wrong = constrained & other_zone
        return rejecting(wrong, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for classes, nodes, the pod's claims, and volumes whose zones change."""
        changed = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEventWithHint.on(Resource.STORAGE_CLASS, ActionType.ADD, _after_class_added),
            ClusterEventWithHint.on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            claim_events(changed, ephemeral=False),
            ClusterEventWithHint.on(Resource.PERSISTENT_VOLUME, changed, _after_volume_change),
        ]


def _check_delayed(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> None:
    """Raise Rejected unless the unbound claim's class has the mode WaitForFirstConsumer."""
    name = class_of(claim)
    if not name:
        raise Rejected("PersistentVolumeClaim had no pv name and storageClass name")
    storage_class = get_class(cluster, name)
    if storage_class is None:
        raise Rejected(not_found("storageclass.storage.k8s.io", name))
    if not storage_class.volume_binding_mode:
        raise Rejected(f'VolumeBindingMode not set for StorageClass "{name}"')
    if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        raise Rejected("PersistentVolume had no name")


def topologies(volume: v1.PersistentVolume) -> list[Topology]:
    """Return the zone and region labels of a volume; a list with an empty zone is ignored."""
    found = []
    for key in TOPOLOGY_LABELS:
        if key not in volume.metadata.labels:
            continue
        values = frozenset(v.strip() for v in volume.metadata.labels[key].split(_SEPARATOR))
        if "" not in values:
            found.append(Topology(key, values))
    return found


def _after_class_added(
    pod: PodInfo, old: v1.StorageClass | None, new: v1.StorageClass | None
) -> QueueingHint:
    return QueueingHint.of(new is not None and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def _after_volume_change(
    pod: PodInfo, old: v1.PersistentVolume | None, new: v1.PersistentVolume | None
) -> QueueingHint:
    same = old is not None and new is not None and topologies(old) == topologies(new)
    return QueueingHint.of(new is not None and not same)
