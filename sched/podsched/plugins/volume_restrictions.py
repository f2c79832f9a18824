"""VolumeRestrictions: only one pod of a node mounts a disk, only one pod a ReadWriteOncePod claim.

Rules: kube-scheduler v1.36 ``framework/plugins/volumerestrictions``. Pods that use a disk or a
claim are counted per node (``PodQuery``). So in a dry run of preemption that removes these pods, it
is free.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    NOTHING_READ,
    CycleState,
    PreFilterResult,
    Remedy,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code, unresolvable
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.plugins.pods import node_or_nominated, once_per_class
from podsched.plugins.volumes.claims import (
    CLAIM,
    READ_WRITE_ONCE_POD,
    PodClaim,
    claim_events,
    claims_of,
    get_claim,
    not_found,
    pod_claims,
)
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON_DISK = "node(s) had no available disk"
REASON_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod"
)


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a pod mounts without a claim.

    ``monitors`` is only for RBD, whose ``name`` is (pool, image).
    """

    kind: str
    name: Hashable
    read_only: bool
    monitors: frozenset[str] = frozenset()

    def conflicts(self, other: Disk) -> bool:
        """Return whether a node cannot mount both: they are one disk, and one of them writes."""
        if self.kind != other.kind or self.name != other.name:
            return False
        if self.kind == "rbd" and not self.monitors & other.monitors:
            return False
        # An EBS volume can be attached only once, even read-only.
        return self.kind == "ebs" or not (self.read_only and other.read_only)


def disks_of(volumes: Iterable[v1.Volume]) -> tuple[Disk, ...]:
    """Return the disks among the volumes of a pod."""
    found = []
    for volume in volumes:
        if volume.HasField("gce_persistent_disk"):
            pd = volume.gce_persistent_disk
            found.append(Disk("pd", pd.pd_name, pd.read_only))
        elif volume.HasField("aws_elastic_block_store"):
            ebs = volume.aws_elastic_block_store
            found.append(Disk("ebs", ebs.volume_id, ebs.read_only))
        elif volume.HasField("iscsi"):
            found.append(Disk("iscsi", volume.iscsi.iqn, volume.iscsi.read_only))
        elif volume.HasField("rbd"):
            rbd = volume.rbd
            monitors = frozenset(rbd.monitors)
            found.append(Disk("rbd", (rbd.pool, rbd.image), rbd.read_only, monitors))
    return tuple(found)


@once_per_class
def _disks(pod: PodInfo) -> tuple[Disk, ...]:
    return disks_of(pod.cls.volumes)


def _conflict(mine: Iterable[Disk], theirs: Sequence[Disk]) -> bool:
    return any(disk.conflicts(other) for disk in mine for other in theirs)


@dataclass(frozen=True, slots=True)
class ConflictingDisks:
    """Counts pods with a disk that conflicts with one of these."""

    reads_requests: ClassVar[bool] = False

    disks: tuple[Disk, ...]

    def counts(self, pod: PodInfo) -> int:
        return int(bool(pod.cls.volumes) and _conflict(self.disks, _disks(pod)))


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """Counts pods of a namespace that mount a claim."""

    reads_requests: ClassVar[bool] = False

    namespace: str
    claim: str

    def counts(self, pod: PodInfo) -> int:
        if pod.namespace != self.namespace:
            return 0
        return int(any(c.name == self.claim and not c.ephemeral for c in pod_claims(pod)))


@dataclass(frozen=True, slots=True)
class ClaimReferences:
    """Counts volumes whose claim has one of these names.

    It ignores the namespace, as kube-scheduler's AddPod and RemovePod do.
    """

    reads_requests: ClassVar[bool] = False

    claims: frozenset[str]

    def counts(self, pod: PodInfo) -> int:
        return sum(c.name in self.claims and not c.ephemeral for c in pod_claims(pod))


@dataclass(frozen=True, slots=True)
class _State:
    """``claims``: the pod's ReadWriteOncePod claims; ``in_use``: how many of them a pod mounts."""

    disks: tuple[Disk, ...]
    claims: frozenset[str]
    in_use: int


class VolumeRestrictions(WithoutArgs):
    """PreFilter counts the pod's ReadWriteOncePod claims in use, Filter rejects nodes by it."""

    name: ClassVar[str] = "VolumeRestrictions"
    traits: ClassVar[Traits] = Traits(
        reads_pods=False,
        reads_requests=False,
        reads_labels=False,
        remedies=frozenset({Remedy.PODS_ELSEWHERE}),
    )

    def concern(self, pod: PodInfo, cluster: ClusterView) -> Callable[[PodInfo], bool]:
        """Return a function that tells whether another pod mounts one of the pod's claims."""
        uses = self._uses(pod, cluster)
        return lambda other: any(isinstance(use, ClaimUse) and use.counts(other) for use in uses)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the disks, and the ReadWriteOncePod claims or the name of a missing claim."""
        if not pod.cls.volumes:
            return NOTHING_READ
        return _disks(pod), self._uses(pod, cluster)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        if not pod_claims(pod):
            return FIXED_INPUTS
        uses = self._uses(pod, cluster)
        if isinstance(uses, str):
            return (cluster.version(CLAIM),)
        nodes = cluster.nodes
        return (cluster.version(CLAIM), *(nodes.counter_version(use) for use in uses))

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods without disks and without a claim in use; a missing claim is unresolvable."""
        disks = _disks(pod)
        uses = self._uses(pod, cluster)
        if isinstance(uses, str):
            return PreFilterResult(unresolvable(not_found("persistentvolumeclaim", uses)))
        in_use = sum(bool(cluster.nodes.counter(use).any()) for use in uses)
        if not disks and not in_use:
            return PreFilterResult(SKIP)
        claims = frozenset(use.claim for use in uses)
        state.data[self.name] = _State(disks, claims, in_use)
        return PreFilterResult()

    def _uses(self, pod: PodInfo, cluster: ClusterView) -> tuple[ClaimUse, ...] | str:
        """Return the pod's distinct ReadWriteOncePod claims, or the name of a missing claim."""
        found: dict[ClaimUse, None] = {}
        for mine in pod_claims(pod):
            if mine.ephemeral:
                continue
            claim = get_claim(cluster, pod.namespace, mine.name)
            if claim is None:
                return mine.name
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                found[ClaimUse(pod.namespace, mine.name)] = None
        return tuple(found)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        mine: _State = state.data[self.name]
        verdicts = Verdicter(len(rows))
        free = verdicts.bits == 0
        if mine.disks:
            taken = nodes.counter(ConflictingDisks(mine.disks))[rows] > 0
            verdicts.flag(taken, Code.UNSCHEDULABLE, REASON_DISK)
            free = ~taken
        if mine.claims:
            # A claim in use rejects every node. A fork's row sees it as free after its user was
            # removed from this row (kube-scheduler's ``conflictingPVCRefCount``).
            delta = nodes.own_delta(ClaimReferences(mine.claims))
            in_use = mine.in_use > 0 if delta is None else mine.in_use + delta[rows] > 0
            verdicts.flag(free & in_use, Code.UNSCHEDULABLE, REASON_IN_USE)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods that used a disk or claim, new nodes and new claims."""
        gone, added = ActionType.DELETE, ActionType.ADD
        return [
            ClusterEventWithHint.on(Resource.POD, gone, _after_pod_deleted, index=_waiting_by_use),
            ClusterEventWithHint.on(Resource.NODE, added),
            claim_events(added, ephemeral=False),
        ]


def _after_pod_deleted(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    if old is None or not node_or_nominated(old):
        return QueueingHint.SKIP
    # Unlike in kube-scheduler, also a pod of another namespace: it may have had the disk.
    if _conflict(_disks(pod), disks_of(old.spec.volumes)):
        return QueueingHint.QUEUE
    mine = {claim.name for claim in pod_claims(pod) if not claim.ephemeral}
    theirs = claims_of(old.spec.volumes, old.metadata.name)
    is_near = old.metadata.namespace == pod.namespace
    return QueueingHint.of(is_near and any(c.name in mine and not c.ephemeral for c in theirs))


def _waiting_by_use() -> KeyedIndex:
    """Return an index of the waiting pods by the disks and claims that they need."""

    def used(old: v1.Pod | None, new: v1.Pod | None) -> list[Hashable]:
        if old is None:
            return []
        meta, volumes = old.metadata, old.spec.volumes
        return _uses(meta.namespace, disks_of(volumes), claims_of(volumes, meta.name))

    return KeyedIndex(lambda pod: _uses(pod.namespace, _disks(pod), pod_claims(pod)), used)


def _uses(namespace: str, disks: Iterable[Disk], claims: Iterable[PodClaim]) -> list[Hashable]:
    return [
        *((disk.kind, disk.name) for disk in disks),
        *((namespace, claim.name) for claim in claims),
    ]
