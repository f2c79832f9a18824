"""VolumeBinding: a node fits if it can use the pod's bound volumes and has volumes for the others.

Rules: kube-scheduler v1.36 ``framework/plugins/volumebinding``. A claim is in one of three states:

* *bound*: the node must match its volume's node affinity;
* *immediate*: unbound, and the volume controller must bind it before the pod can be scheduled;
* *delayed*: unbound, and its class has the mode WaitForFirstConsumer. When a node is chosen, an
  existing volume is bound to the claim (static), or a volume is provisioned there (dynamic).

Reserve assumes the volumes of delayed claims (``framework.assumed_objects``). PreBind writes them
and waits for the volume controller (``reservation``). There are no scores: they belong to the
feature gate StorageCapacityScoring, which is off.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence, Set
from dataclasses import dataclass
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import numpy as np

from podsched.api.node_selectors import NodeTerms
from podsched.config.plugin_args import VolumeBindingArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import Bools, ClusterView, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    NOTHING_READ,
    CycleState,
    Handle,
    PreBindPlan,
    PreFilterResult,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, SUCCESS, Code, Status, error, unresolvable
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.plugins.rows.matching import named
from podsched.plugins.volume_binding.candidates import (
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    KnownVolumes,
    MatchingFailed,
    UnboundClaim,
    affinity_terms,
    unbound_claim,
    volume_limit,
)
from podsched.plugins.volume_binding.matching import NO_VOLUME, match_affinity, match_claims
from podsched.plugins.volume_binding.reservation import Reservation, reservation
from podsched.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    WAIT_FOR_FIRST_CONSUMER,
    claim_events,
    claim_keys,
    claims_of,
    class_of,
    controller_uid,
    get_claim,
    get_class,
    is_fully_bound,
    not_found,
    not_owner,
    pod_claims,
)
from podsched.plugins.volumes.csi_translation import (
    ANN_MIGRATED_PLUGINS,
    Untranslatable,
    in_tree_plugin,
    migrated_plugins,
    translated_affinity,
)
from podsched.v1 import objects_pb2 as v1

REASON_BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
REASON_NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
REASON_NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
REASON_VOLUME_NOT_EXIST = (
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
REASON_UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"
WAITING_FOR_CLAIM = (
    'waiting for ephemeral volume controller to create the persistentvolumeclaim "{}"'
)
CLAIM_LOST = 'persistentvolumeclaim "{}" bound to non-existent persistentvolume "{}"'

CSI_NODE = "CSINode"

_KINDS = (CLAIM, VOLUME, CLASS, CSI_NODE, CSI_DRIVER, CSI_STORAGE_CAPACITY)

#: By cluster, the reservations of pods whose binding cycle is running, by uid. Pods of several
#: profiles may share a claim.
_reserved: Final = WeakKeyDictionary[ClusterView, dict[str, Reservation]]()


@dataclass(frozen=True, slots=True)
class BoundVolume:
    """The node affinity of a bound claim's volume.

    ``migrated_nodes`` use an in-tree volume through its CSI driver; there, the node affinity is
    ``translated``. ``untranslatable``: why it could not be translated; "" if it could.
    """

    affinity: NodeTerms | None
    migrated_nodes: frozenset[str] = frozenset()
    translated: NodeTerms | None = None
    untranslatable: str = ""


@dataclass(frozen=True, slots=True)
class BindingState:
    """The volumes of the pod's bound claims (None: it does not exist), and its delayed claims."""

    bound: tuple[BoundVolume | None, ...]
    unbound: tuple[UnboundClaim, ...]


class VolumeBinding:
    """PreFilter reads the claims, Filter matches nodes, Reserve and PreBind bind volumes."""

    name: ClassVar[str] = "VolumeBinding"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False, reads_requests=False, reads_labels=False, binds_volumes=True
    )

    def __init__(self, args: VolumeBindingArgs, handle: Handle) -> None:
        self._handle = handle
        self._bind_timeout = float(args.bind_timeout_seconds)
        self._volumes = KnownVolumes()
        self._reserved = _reserved.setdefault(handle.cluster, {})

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the affinities of bound volumes, or the claims themselves if one is unbound."""
        claims = pod_claims(pod)
        if not claims:
            return NOTHING_READ
        wrong = _unusable_claim(pod, cluster)
        if wrong:
            return wrong
        try:
            found = self._read_claims(pod, cluster)
        except MatchingFailed as why:
            return why.args
        if found is not None and not found.unbound:
            return found.bound
        return pod.namespace, claims, found is None

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        if not pod_claims(pod):
            return FIXED_INPUTS
        assumed = (cluster.assumed(kind).version for kind in (CLAIM, VOLUME))
        return (*assumed, *(cluster.version(kind) for kind in _KINDS))

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods without claims; a missing, terminating or immediate claim rejects the pod."""
        if not pod_claims(pod):
            return PreFilterResult(SKIP)
        wrong = _unusable_claim(pod, cluster)
        if wrong:
            return PreFilterResult(unresolvable(wrong))
        try:
            found = self._read_claims(pod, cluster)
        except MatchingFailed as why:
            return PreFilterResult(error(str(why)))
        if found is None:
            return PreFilterResult(unresolvable(REASON_UNBOUND_IMMEDIATE))
        state.data[self.name] = found
        return PreFilterResult()

    def _read_claims(self, pod: PodInfo, cluster: ClusterView) -> BindingState | None:
        """Return the claims; None if an immediate claim is unbound. Raises MatchingFailed."""
        bound: list[BoundVolume | None] = []
        delayed: list[v1.PersistentVolumeClaim] = []
        immediate = False
        for mine in pod_claims(pod):
            claim = cluster.assumed(CLAIM).get(pod.namespace, mine.name)
            if claim is None:
                raise MatchingFailed(f'error getting PVC "{pod.namespace}/{mine.name}"')
            if is_fully_bound(claim):
                bound.append(_bound_volume(claim, cluster))
            # A claim that names its volume already is left to the volume controller, in any mode
            # (``GetPodVolumeClaims``).
            elif _waits_for_pod(claim, cluster) and not claim.spec.volume_name:
                delayed.append(claim)
            else:
                immediate = True
        if immediate:
            return None
        unbound = []
        for claim in delayed:
            volumes = self._volumes.of_class(cluster, class_of(claim))
            unbound.append(unbound_claim(claim, volumes, cluster))
        return BindingState(tuple(bound), tuple(unbound))

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that cannot use a bound volume or have no volume for a delayed claim."""
        mine: BindingState = state.data[self.name]
        verdicts = Verdicter(len(rows))
        unresolvably = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        conflict, gone, failed = _check_bound(mine.bound, nodes, rows, verdicts)
        ok = ~failed
        verdicts.flag(conflict & ok, unresolvably, REASON_NODE_CONFLICT)
        if mine.unbound:
            matching = match_claims(mine.unbound, nodes, rows)
            verdicts.flag(~matching.satisfied & ok, unresolvably, REASON_BIND_CONFLICT)
            verdicts.flag(~matching.enough_storage & ok, unresolvably, REASON_NOT_ENOUGH_SPACE)
        verdicts.flag(gone & ok, unresolvably, REASON_VOLUME_NOT_EXIST)
        return verdicts.done()

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return, for each claim, whether the node can use its volume, or has one for it."""
        mine: BindingState = state.data[self.name]
        cluster, found = self._handle.cluster, []
        claims = [
            claim
            for mine_of_pod in pod_claims(pod)
            if (claim := cluster.assumed(CLAIM).get(pod.namespace, mine_of_pod.name))
        ]
        bound = [claim for claim in claims if is_fully_bound(claim)]
        for claim, volume in zip(bound, mine.bound, strict=True):
            wrong = np.any(_check_bound([volume], nodes, rows, Verdicter(len(rows))), axis=0)
            what = (
                f"persistentvolume {claim.spec.volume_name}, to which claim {claim.metadata.name}"
            )
            found.append(Requirement.met(f"{what} is bound, within reach", ~wrong))
        for waiting in mine.unbound:
            alone = match_claims([waiting], nodes, rows)
            what = f"persistentvolumeclaim {waiting.key}:"
            found.append(
                Requirement.met(f"{what} a volume to bind or to provision", alone.satisfied)
            )
            found.append(Requirement.met(f"{what} storage to provision it", alone.enough_storage))
        if len(mine.unbound) > 1:
            together = match_claims(mine.unbound, nodes, rows)
            ok = together.satisfied & together.enough_storage
            found.append(Requirement.met(f"volumes for {len(mine.unbound)} claims at once", ok))
        return found

    # ------------------------------------------------------------------ binding

    def reserves(self, state: CycleState, pod: PodInfo) -> bool:
        """Return whether the pod has a delayed claim; for bound claims, Reserve does nothing."""
        mine = state.data.get(self.name)
        return isinstance(mine, BindingState) and bool(mine.unbound)

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        """Assume volumes for the pod's delayed claims, or that they are being provisioned.

        The claims are read and matched again, because the cluster may have changed since Filter.
        """
        cluster = self._handle.cluster
        mine = state.data.get(self.name)
        if not isinstance(mine, BindingState) or not mine.unbound:
            return SUCCESS
        try:
            now = self._read_claims(pod, cluster)
        except MatchingFailed as why:
            return error(str(why))
        row = cluster.nodes.row_of(node_name)
        if now is None or row is None:
            return error(f'no pod volumes found for node "{node_name}"')
        if not now.unbound:
            return SUCCESS
        matching = match_claims(now.unbound, cluster.nodes, np.array([row], dtype=np.intp))
        if not (matching.satisfied[0] and matching.enough_storage[0]):
            return error(f'volumes of node "{node_name}" were taken by another pod')
        volumes: dict[str, str] = {}
        for claim, chosen in matching.chosen:
            index = int(chosen[0])
            if index != NO_VOLUME:
                volumes[claim.key] = (*claim.prebound, *claim.candidates)[index].name
        # A pod may mount a claim several times.
        keys = list(dict.fromkeys(claim.key for claim in now.unbound))
        self._reserved[pod.uid] = reservation(node_name, keys, volumes, cluster)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        reserved = self._reserved.pop(pod.uid, None)
        if reserved is not None:
            reserved.restore(self._handle.cluster, self._reserved.values())

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> Status:
        return SUCCESS if pod.uid in self._reserved else SKIP

    def pre_bind(
        self, state: CycleState, pod: PodInfo, node_name: str, cluster: ClusterView
    ) -> PreBindPlan:
        """Return a plan: write what Reserve assumed, then wait until every claim is bound."""
        reserved = self._reserved.get(pod.uid)
        if reserved is None:
            return PreBindPlan()

        def wait(now: ClusterView) -> Status:
            status = reserved.check(pod, now)
            if status.ok:
                self._reserved.pop(pod.uid, None)
            return status

        return PreBindPlan(patches=reserved.patches(cluster), wait=wait, timeout=self._bind_timeout)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for changes of nodes, claims, volumes, classes, CSINodes and capacities."""
        changed = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEventWithHint.on(Resource.STORAGE_CLASS, changed, _after_class_change),
            claim_events(changed),
            ClusterEventWithHint.on(Resource.PERSISTENT_VOLUME, changed),
            ClusterEventWithHint.on(Resource.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            ClusterEventWithHint.on(Resource.CSI_NODE, changed, _after_csi_node_change),
            ClusterEventWithHint.on(
                Resource.CSI_DRIVER, ActionType.UPDATE | ActionType.DELETE, _after_driver_change
            ),
            ClusterEventWithHint.on(Resource.CSI_STORAGE_CAPACITY, changed, _after_capacity_change),
            # kube-scheduler does not register for pods that give back what they had reserved: a
            # pod that needs it waits for the next flush.
            ClusterEventWithHint.on(
                Resource.ASSIGNED_POD,
                ActionType.DELETE,
                self._after_pod_gone,
                index=lambda: KeyedIndex(claim_keys, lambda old, new: self._given_back(old)),
            ),
        ]

    def _after_pod_gone(self, pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
        given_back = self._given_back(old)
        helps = given_back is None or not given_back.isdisjoint(claim_keys(pod))
        return QueueingHint.of(helps)

    def _given_back(self, gone: v1.Pod | None) -> Set[tuple[str, str]] | None:
        """Return the unbound claims of a pod that lost its node, by namespace and name.

        None: a volume may be free again that other claims may get.
        """
        if gone is None:
            return frozenset()
        cluster, namespace, found = self._handle.cluster, gone.metadata.namespace, set()
        for mounted in claims_of(gone.spec.volumes, gone.metadata.name):
            claim = get_claim(cluster, namespace, mounted.name)
            if claim is not None and is_fully_bound(claim):
                continue
            if claim is None or any(
                volume.ref is None for volume in self._volumes.of_class(cluster, class_of(claim))
            ):
                return None
            found.add((namespace, mounted.name))
        return found


def _unusable_claim(pod: PodInfo, cluster: ClusterView) -> str:
    """Return why the pod fits no node because of one of its claims; "" if all are usable."""
    for mine in pod_claims(pod):
        name = mine.name
        claim = get_claim(cluster, pod.namespace, name)
        if claim is None:
            missing = not_found("persistentvolumeclaim", name)
            return WAITING_FOR_CLAIM.format(name) if mine.ephemeral else missing
        if claim.status.phase == "Lost":
            return CLAIM_LOST.format(name, claim.spec.volume_name)
        if claim.metadata.HasField("deletion_timestamp"):
            return f'persistentvolumeclaim "{name}" is being deleted'
        if mine.ephemeral and controller_uid(claim) != pod.uid:
            return not_owner(pod, name)
    return ""


def _bound_volume(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> BoundVolume | None:
    """Read the volume of a bound claim; None if it does not exist."""
    volume = cluster.assumed(VOLUME).get("", claim.spec.volume_name)
    if volume is None:
        return None
    affinity = affinity_terms(volume.spec.node_affinity)
    plugin = in_tree_plugin(volume.spec)
    if plugin is None or not plugin.migrated:
        return BoundVolume(affinity)
    nodes = frozenset(
        csi_node.metadata.name
        for csi_node in cluster.list(CSI_NODE)
        if plugin.name in migrated_plugins(csi_node)
    )
    try:
        translated = affinity_terms(translated_affinity(plugin, volume))
    except Untranslatable as why:
        return BoundVolume(affinity, nodes, None, f"could not translate pv: {why}")
    return BoundVolume(affinity, nodes, translated)


def _waits_for_pod(claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> bool:
    """Return whether the claim's class has WaitForFirstConsumer. Raises MatchingFailed."""
    name = class_of(claim)
    storage_class = get_class(cluster, name) if name else None
    if storage_class is None:
        return False
    if not storage_class.volume_binding_mode:
        raise MatchingFailed(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _check_bound(
    bound: Sequence[BoundVolume | None], nodes: NodeColumns, rows: Rows, verdicts: Verdicter
) -> tuple[Bools, Bools, Bools]:
    """Return (affinity conflict, volume missing, failed) by row; the first failing claim decides.

    Adds the errors of failed rows to ``verdicts``.
    """
    conflict = np.zeros(len(rows), dtype=np.bool_)
    gone, failed = conflict.copy(), conflict.copy()
    for volume in bound:
        undecided = ~(conflict | gone | failed)
        if volume is None:
            # No row is left to decide, as a missing volume is missing everywhere.
            gone |= undecided
            break
        matches = match_affinity(volume.affinity, nodes, rows)
        if volume.migrated_nodes:
            migrated = named(nodes, rows, volume.migrated_nodes)
            if volume.untranslatable:
                wrong = undecided & migrated
                verdicts.flag(wrong, Code.ERROR, volume.untranslatable)
                failed |= wrong
            else:
                translated = match_affinity(volume.translated, nodes, rows)
                matches = np.where(migrated, translated, matches)
        conflict |= undecided & ~matches
    return conflict, gone, failed


def _after_class_change(
    pod: PodInfo, old: v1.StorageClass | None, new: v1.StorageClass | None
) -> QueueingHint:
    changed = old is None or new is None or old.allowed_topologies != new.allowed_topologies
    return QueueingHint.of(new is not None and changed)


def _after_csi_node_change(
    pod: PodInfo, old: v1.CSINode | None, new: v1.CSINode | None
) -> QueueingHint:
    if old is None or new is None:
        return QueueingHint.of(new is not None)
    before = old.metadata.annotations.get(ANN_MIGRATED_PLUGINS, "")
    return QueueingHint.of(before != new.metadata.annotations.get(ANN_MIGRATED_PLUGINS, ""))


def _after_driver_change(
    pod: PodInfo, old: v1.CSIDriver | None, new: v1.CSIDriver | None
) -> QueueingHint:
    # kube-scheduler skips all pods without an inline CSI volume of the driver. But the capacity
    # that a pod lacked was for a claim, so such pods would wait for the next flush.
    was_checked = old is not None and old.spec.storage_capacity
    is_checked = new is not None and new.spec.storage_capacity
    return QueueingHint.of(was_checked and not is_checked)


def _after_capacity_change(
    pod: PodInfo, old: v1.CSIStorageCapacity | None, new: v1.CSIStorageCapacity | None
) -> QueueingHint:
    if new is None:
        return QueueingHint.SKIP
    if old is None:
        return QueueingHint.QUEUE
    before, now = volume_limit(old), volume_limit(new)
    return QueueingHint.of(now is not None and (before is None or now > before))
