"""MaxEBSVolumeCount, MaxGCEPDVolumeCount, MaxAzureDiskVolumeCount and MaxCinderVolumeCount.

Rule: kube-scheduler v1.16 ``predicates.MaxPDVolumeCountChecker``: the number of distinct
disks on the node, including the pod's, is at most the node's allocatable
``attachable-volumes-...``. Without that, the limit is ``maxVolumes`` (a Policy takes it from
``KUBE_MAX_PD_VOLS``), else the cloud's default. A pod without such disks fits.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import numpy as np

from podsched.api.node_labels import BETA_INSTANCE_TYPE, INSTANCE_TYPE
from podsched.api.objects import object_key
from podsched.config.legacy.args import MaxVolumeCountArgs
from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import ABSENT, ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Handle, PreFilterResult, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import SKIP, Code, error
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.plugins.rows.matching import distinct
from podsched.plugins.volumes.claims import class_of, get_class, get_volume, pod_claims
from podsched.plugins.volumes.resolved_claims import UNBOUND, ResolvedClaims, current, versions
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) exceed max volume count"

#: Instances of these types attach fewer EBS volumes.
_NITRO: Final = re.compile(r"^[cmr]5.*|t3|z1d")
_NITRO_LIMIT: Final = 25


@dataclass(frozen=True, slots=True)
class Disk:
    """A cloud's disks: where volumes have them, and the provisioner that makes them."""

    field: str
    id_field: str
    provisioner: str

    def id_of(self, source: v1.Volume | v1.PersistentVolumeSpec) -> str | None:
        """Return the disk's id; None for another kind of volume."""
        if not source.HasField(self.field):
            return None
        return str(getattr(getattr(source, self.field), self.id_field))

    def inline(self, cls: PodClass) -> frozenset[str]:
        """Return the ids of the disks that pods of the class mount without a claim."""
        if not cls.spec.volumes:
            return frozenset()
        found = (self.id_of(volume) for volume in cls.spec.volumes)
        return frozenset(name for name in found if name is not None)


@dataclass(frozen=True, slots=True)
class DiskReferences:
    """Counts volumes that may be such disks, the same one as often as it is used."""

    disk: Disk

    def counts(self, pod: PodInfo) -> int:
        """Return the number of the pod's claims and own disks."""
        if not pod.cls.spec.volumes:
            return 0
        return len(pod_claims(pod)) + len(self.disk.inline(pod.cls))


class CountedVolumes(ResolvedClaims[str]):
    """Resolves pods' volumes to ids.

    Rule: kube-scheduler v1.16 ``predicates.MaxPDVolumeCountChecker.filterVolumes``: a claim whose
    volume is not known counts as one of its own, if its storage class is the cloud's; a claim that
    is missing does not count.
    """

    def __init__(self, disk: Disk, cluster: ClusterView) -> None:
        super().__init__(cluster)
        self._disk = disk

    def of(self, pod: PodInfo) -> Iterator[str]:
        """Yield the ids of the pod's disks. Raises ValueError for a claim without a name."""
        yield from self._disk.inline(pod.cls)
        for mine in pod_claims(pod):
            if not mine.name:
                raise ValueError("PersistentVolumeClaim had no name")
            volume = self.of_claim(pod.namespace, mine.name)
            if volume is not None:
                yield volume

    def behind(self, claim: v1.PersistentVolumeClaim, cluster: ClusterView) -> str | None:
        bound = claim.spec.volume_name
        volume = get_volume(cluster, bound) if bound else None
        if volume is not None:
            return self._disk.id_of(volume.spec)
        storage_class = get_class(cluster, class_of(claim))
        if storage_class is None or storage_class.provisioner != self._disk.provisioner:
            return None
        return f"{UNBOUND}{object_key(claim)}"


@dataclass(frozen=True, slots=True)
class _State:
    new: frozenset[str]
    volumes: CountedVolumes


class _MaxVolumeCount:
    """Filter: the node can attach the pod's disks in addition to its own."""

    name: ClassVar[str]
    #: It tells volumes apart, but pods of one class mount the same ones.
    traits: ClassVar[Traits] = Traits(reads_pods=False)
    disk: ClassVar[Disk]
    resource: ClassVar[str]
    default_limit: ClassVar[int]

    def __init__(self, args: MaxVolumeCountArgs, handle: Handle) -> None:
        self._max_volumes = args.max_volumes
        self._volumes: CountedVolumes | None = None

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the ids of the pod's disks, or the reason why they are unknown."""
        if not pod.cls.spec.volumes:
            return frozenset()
        try:
            return frozenset(self._resolver(cluster).of(pod))
        except ValueError as why:
            return str(why)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of claims, volumes and storage classes."""
        return versions(cluster) if pod.cls.spec.volumes else ()

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Resolve the pod's volumes; skip pods without such disks."""
        if not pod.cls.spec.volumes:
            return PreFilterResult(SKIP)
        volumes = self._resolver(cluster)
        try:
            new = frozenset(volumes.of(pod))
        except ValueError as why:
            return PreFilterResult(error(str(why)))
        if not new:
            return PreFilterResult(SKIP)
        state.data[self.name] = _State(new, volumes)
        return PreFilterResult()

    def _resolver(self, cluster: ClusterView) -> CountedVolumes:
        self._volumes = current(self._volumes, cluster, partial(CountedVolumes, self.disk))
        return self._volumes

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that would exceed their limit; evicting pods would help.

        The number of references shows that most nodes are within their limit; disks are compared
        only on the others.
        """
        mine: _State = state.data[self.name]
        limits = self.limits(nodes, rows)
        at_most = nodes.counter(DiskReferences(self.disk))[rows] + len(mine.new)
        over = np.zeros(len(rows), dtype=np.bool_)
        for index in np.flatnonzero(at_most > limits).tolist():
            there: set[str] = set()
            for other in nodes.pods(int(rows[index])).values():
                if other.cls.spec.volumes:
                    there.update(mine.volumes.of(other))
            over[index] = len(there) + len(mine.new - there) > limits[index]
        return rejecting(over, Code.UNSCHEDULABLE, REASON)

    def limits(self, nodes: NodeColumns, rows: Rows) -> Int64s:
        """Return how many such disks each row's node can attach."""
        declared = nodes.allocatable(self.resource)[rows]
        silent = [
            i
            for i in np.flatnonzero(declared == 0).tolist()
            if self.resource not in nodes.node(int(rows[i])).status.allocatable
        ]
        limits = declared.copy()
        limits[silent] = self.defaults(nodes, rows)[silent]
        return limits

    def defaults(self, nodes: NodeColumns, rows: Rows) -> Int64s:
        """Return the limits of nodes that declare none."""
        return np.full(len(rows), self._max_volumes or self.default_limit, dtype=np.int64)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods that go, nodes that come or allow more, and claims."""
        claim = ClusterEvent(
            Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD | ActionType.UPDATE_OTHER
        )
        node = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint.on(Resource.POD, ActionType.DELETE),
            ClusterEventWithHint.on(Resource.NODE, node),
            ClusterEventWithHint(claim),
        ]


class MaxEBSVolumeCount(_MaxVolumeCount):
    """AWS EBS volumes: 39 on a node, 25 on a Nitro instance."""

    name: ClassVar[str] = "MaxEBSVolumeCount"
    disk: ClassVar[Disk] = Disk("aws_elastic_block_store", "volume_id", "kubernetes.io/aws-ebs")
    resource: ClassVar[str] = "attachable-volumes-aws-ebs"
    default_limit: ClassVar[int] = 39

    def defaults(self, nodes: NodeColumns, rows: Rows) -> Int64s:
        """Return the limits by the nodes' instance types."""
        limits = super().defaults(nodes, rows)
        if not self._max_volumes:
            for key in (BETA_INSTANCE_TYPE, INSTANCE_TYPE):
                types = nodes.label(key)[rows]
                for value in distinct(types[types != ABSENT]).tolist():
                    if _NITRO.search(nodes.value(value)):
                        limits[types == value] = _NITRO_LIMIT
        return limits


class MaxGCEPDVolumeCount(_MaxVolumeCount):
    """GCE persistent disks: 16 on a node."""

    name: ClassVar[str] = "MaxGCEPDVolumeCount"
    disk: ClassVar[Disk] = Disk("gce_persistent_disk", "pd_name", "kubernetes.io/gce-pd")
    resource: ClassVar[str] = "attachable-volumes-gce-pd"
    default_limit: ClassVar[int] = 16


class MaxAzureDiskVolumeCount(_MaxVolumeCount):
    """Azure disks: 16 on a node."""

    name: ClassVar[str] = "MaxAzureDiskVolumeCount"
    disk: ClassVar[Disk] = Disk("azure_disk", "disk_name", "kubernetes.io/azure-disk")
    resource: ClassVar[str] = "attachable-volumes-azure-disk"
    default_limit: ClassVar[int] = 16


class MaxCinderVolumeCount(_MaxVolumeCount):
    """Cinder volumes: 256 on a node."""

    name: ClassVar[str] = "MaxCinderVolumeCount"
    disk: ClassVar[Disk] = Disk("cinder", "volume_id", "kubernetes.io/cinder")
    resource: ClassVar[str] = "attachable-volumes-cinder"
    default_limit: ClassVar[int] = 256
