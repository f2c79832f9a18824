"""NodeVolumeLimits: as many volumes of a CSI driver on a node as its CSINode allows.

Rules: kube-scheduler v1.36 ``framework/plugins/nodevolumelimits/csi.go``. Volumes are counted once
each, over the pods on the node and its VolumeAttachments. Most nodes are far from their limits, so
the number of references (a counter) settles them; only on the rest are volumes compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from podsched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.nodes import Bools, ClusterView, Int64s, NodeColumns
from podsched.framework.plugin import (
    FIXED_INPUTS,
    NOTHING_READ,
    CycleState,
    Handle,
    PreFilterResult,
    Traits,
)
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.plugins.node_volume_limits.attachable_volumes import (
    AttachableVolumes,
    CannotCount,
    inline_volumes,
)
from podsched.plugins.volumes.claims import (
    CLAIM,
    CLASS,
    VOLUME,
    claims_of,
    pod_claims,
    uses_claim,
    waiting_by_claim,
)
from podsched.plugins.volumes.csi_translation import in_tree_plugin
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) exceed max volume count"

CSI_NODE: Final = "CSINode"
ATTACHMENT: Final = "VolumeAttachment"
_NO_LIMIT: Final = int(np.iinfo(np.int64).max)
_NONE: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class VolumeReferences:
    """Counts volumes that may be attached, the same one as often as it is used."""

    reads_requests: ClassVar[bool] = False

    def counts(self, pod: PodInfo) -> int:
        """Return the number of claims and in-tree volumes of the pod."""
        if not pod.cls.volumes:
            return 0
        return len(pod_claims(pod)) + len(inline_volumes(pod.cls).volumes)


@dataclass(frozen=True, slots=True)
class MayFail:
    """Counts pods whose volumes it may be impossible to determine, which fails the node."""

    reads_requests: ClassVar[bool] = False

    def counts(self, pod: PodInfo) -> int:
        """Return 1 for a pod whose claims or translations have to be checked, else 0."""
        if not pod.cls.volumes:
            return 0
        if inline_volumes(pod.cls).error:
            return 1
        return int(any(claim.ephemeral or not claim.name for claim in pod_claims(pod)))


class NodeTable:
    """The limits and attachments of nodes by name, and as columns over the rows of a cluster."""

    def __init__(self, limits: Mapping[str, Mapping[str, int]], attached: Mapping[str, Any]):
        self.limits = limits
        #: Whether a node limits a driver.
        self.any_limits = any(limits.values())
        #: Node -> (attacher, name of the PersistentVolume).
        self.attached: Mapping[str, Sequence[tuple[str, str]]] = attached
        self._columns: dict[str, Int64s] = {}
        self._of: tuple[NodeColumns, int, int] | None = None

    def __getstate__(self) -> tuple[Any, Any]:
        return self.limits, self.attached

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self.limits, self.attached = state
        self.any_limits = any(self.limits.values())
        self._columns, self._of = {}, None

    def _column(
        self, base: NodeColumns, name: str, read: Callable[[str], int], other: int
    ) -> Int64s:
        """Return ``read`` of each node with a CSINode or attachments, else ``other``; cached."""
        of = (base, base.topology_version, base.size)
        if self._of is None or self._of[0] is not base or self._of[1:] != of[1:]:
            self._of, self._columns = of, {}
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = np.full(base.size, other, dtype=np.int64)
            for node in {*self.limits, *self.attached}:
                row = base.row_of(node)
                if row is not None:
                    column[row] = read(node)
        return column

    def has_csi_node(self, base: NodeColumns) -> Bools:
        """Return whether the node of each row has a CSINode."""
        return self._column(base, "CSINode", lambda node: node in self.limits, 0) > 0

    def has_limits(self, base: NodeColumns) -> Bools:
        """Return whether the node of each row limits any driver."""
        return self._column(base, "limits", lambda node: len(self.limits.get(node, ())), 0) > 0

    def limit(self, base: NodeColumns, driver: str) -> Int64s:
        """Return how many volumes of the driver each row's node allows."""

        def read(node: str) -> int:
            return self.limits.get(node, _NONE).get(driver, _NO_LIMIT)

        return self._column(base, f"limit of {driver}", read, _NO_LIMIT)

    def attachments(self, base: NodeColumns) -> Int64s:
        """Return the number of VolumeAttachments of each row's node."""
        return self._column(base, "attachments", lambda node: len(self.attached.get(node, ())), 0)


@dataclass(frozen=True, slots=True)
class NewVolumes:
    """What the pod would attach (volume -> driver), or why that is unknown."""

    volumes: Mapping[str, str] = field(default_factory=dict)
    code: Code = Code.SUCCESS
    text: str = ""


@dataclass(frozen=True, slots=True)
class LimitState:
    """``new`` is what the pod attaches to nodes without (0) and with (1) a CSINode."""

    table: NodeTable
    volumes: AttachableVolumes
    new: tuple[NewVolumes, NewVolumes]


class _Room(NamedTuple):
    """New volumes of a driver, and how many more a node's limit allows."""

    new: int
    left: int


class NodeVolumeLimits:
    """PreFilter resolves the pod's volumes, Filter counts those on the nodes that may be full."""

    name: ClassVar[str] = "NodeVolumeLimits"
    #: It tells volumes apart, but pods of one class mount the same ones.
    traits: ClassVar[Traits] = Traits(reads_pods=False, reads_requests=False, reads_labels=False)

    def __init__(self, args: None, handle: Handle) -> None:
        self._table: tuple[Hashable, NodeTable] | None = None
        self._volumes: tuple[ClusterView, AttachableVolumes] | None = None

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the volumes; where no node has a limit, only whether they can be counted."""
        if not _concerns(pod):
            return NOTHING_READ
        volumes = self._attachable(cluster)
        new = (_new_volumes(volumes, pod, False), _new_volumes(volumes, pod, True))
        wrong = tuple((one.code, one.text) for one in new)
        if not self._nodes(cluster).any_limits:
            return wrong
        return (wrong, *(frozenset(one.volumes.items()) for one in new))

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of claims, volumes, classes, CSINodes and VolumeAttachments."""
        if not _concerns(pod):
            return FIXED_INPUTS
        kinds = (CLAIM, VOLUME, CLASS, CSI_NODE, ATTACHMENT)
        return tuple(cluster.version(kind) for kind in kinds)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods that attach nothing a limit could apply to."""
        if not _concerns(pod):
            return PreFilterResult(SKIP)
        volumes = self._attachable(cluster)
        new = (_new_volumes(volumes, pod, False), _new_volumes(volumes, pod, True))
        state.data[self.name] = LimitState(self._nodes(cluster), volumes, new)
        return PreFilterResult()

    def _attachable(self, cluster: ClusterView) -> AttachableVolumes:
        if self._volumes is None or self._volumes[0] is not cluster:
            self._volumes = (cluster, AttachableVolumes(cluster))
        volumes = self._volumes[1]
        volumes.refresh()
        return volumes

    def _nodes(self, cluster: ClusterView) -> NodeTable:
        versions = (id(cluster), cluster.version(CSI_NODE), cluster.version(ATTACHMENT))
        if self._table is None or self._table[0] != versions:
            self._table = (versions, _table(cluster))
        return self._table[1]

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes that would exceed a limit; evicting pods would help."""
        mine: LimitState = state.data[self.name]
        base = nodes.base
        of_base = rows if base is nodes else nodes.base_rows[rows]
        verdicts = Verdicter(len(rows))
        has_csi_node = mine.table.has_csi_node(base)[of_base]
        for present, new in zip((False, True), mine.new, strict=True):
            if new.text:
                verdicts.flag(has_csi_node == present, new.code, new.text)
        with_csi_node = mine.new[1]
        if not with_csi_node.volumes or with_csi_node.text:
            return verdicts.done()
        limited = mine.table.has_limits(base)[of_base]
        over = self._maybe_over(mine, nodes, rows, of_base) & limited
        for index in np.flatnonzero(over).tolist():
            row = int(rows[index])
            found = _count(mine, nodes.pods(row), nodes.names[row])
            if found is not None:
                here = np.zeros(len(rows), dtype=np.bool_)
                here[index] = True
                verdicts.flag(here, *found)
        return verdicts.done()

    def _maybe_over(self, mine: LimitState, nodes: NodeColumns, rows: Rows, of_base: Rows) -> Bools:
        base = nodes.base
        over: Bools = nodes.counter(MayFail())[rows] > 0
        at_most = nodes.counter(VolumeReferences())[rows] + mine.table.attachments(base)[of_base]
        for driver, number in Counter(mine.new[1].volumes.values()).items():
            over |= at_most > mine.table.limit(base, driver)[of_base] - number
        return over

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return for each driver the new volumes, and how many more the node's limit allows."""
        mine: LimitState = state.data[self.name]
        drivers = sorted(set(mine.new[1].volumes.values()))
        wanted = np.zeros((len(drivers), len(rows)), dtype=np.int64)
        left = np.zeros_like(wanted)
        for index, row in enumerate(rows.tolist()):
            name = nodes.names[row]
            if name not in mine.table.limits:
                continue
            try:
                rooms = _rooms(mine, nodes.pods(row), name)
            except CannotCount:
                continue
            for at, driver in enumerate(drivers):
                if (room := rooms.get(driver)) is not None:
                    wanted[at, index], left[at, index] = room
        return [
            Requirement(f"volumes of {driver}", "", wanted[at], left[at])
            for at, driver in enumerate(drivers)
        ]

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for CSINodes that allow more, pods and attachments that go, the pod's claims."""
        added = ClusterEvent(Resource.CSI_NODE, ActionType.ADD)
        updated = ClusterEvent(Resource.CSI_NODE, ActionType.UPDATE)
        pod = ClusterEvent(Resource.POD, ActionType.DELETE)
        claim = ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, ActionType.ADD)
        attachment = ClusterEvent(Resource.VOLUME_ATTACHMENT, ActionType.DELETE)
        return [
            ClusterEventWithHint(added),
            ClusterEventWithHint(updated, _after_csi_node_updated),
            ClusterEventWithHint(pod, _after_pod_deleted),
            ClusterEventWithHint(claim, _after_claim_added, index=waiting_by_claim),
            ClusterEventWithHint(attachment, _after_attachment_deleted),
        ]


def _concerns(pod: PodInfo) -> bool:
    return bool(pod_claims(pod)) or (bool(pod.cls.volumes) and inline_volumes(pod.cls).any)


def _new_volumes(volumes: AttachableVolumes, pod: PodInfo, csi_node: bool) -> NewVolumes:
    try:
        return NewVolumes(volumes.of(pod, csi_node=csi_node, new=True))
    except CannotCount as why:
        return NewVolumes(code=why.code, text=str(why))


def _table(cluster: ClusterView) -> NodeTable:
    limits = {csi.metadata.name: _limits(csi) for csi in cluster.list(CSI_NODE)}
    attached: dict[str, list[tuple[str, str]]] = {}
    for attachment in cluster.list(ATTACHMENT):
        spec = attachment.spec
        if spec.attacher and spec.source.HasField("persistent_volume_name"):
            entry = (spec.attacher, spec.source.persistent_volume_name)
            attached.setdefault(spec.node_name, []).append(entry)
    return NodeTable(limits, attached)


def _limits(csi_node: v1.CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable.HasField("count")
    }


def _count(
    mine: LimitState, pods: Mapping[str, PodInfo], node_name: str
) -> tuple[Code, str] | None:
    """Return what is wrong with one node that has a CSINode with limits."""
    try:
        rooms = _rooms(mine, pods, node_name)
    except CannotCount as why:
        return why.code, str(why)
    if any(room.new > room.left for room in rooms.values()):
        return Code.UNSCHEDULABLE, REASON
    return None


def _rooms(mine: LimitState, pods: Mapping[str, PodInfo], node_name: str) -> dict[str, _Room]:
    """Return by driver what a node with limits has left. Raises CannotCount."""
    attached: dict[str, str] = {}
    for other in pods.values():
        if other.cls.volumes:
            attached.update(mine.volumes.of(other, csi_node=True, new=False))
    counts = Counter(attached.values())
    also = {
        f"{attacher}/{handle}": attacher
        for attacher, volume in mine.table.attached.get(node_name, ())
        if (handle := mine.volumes.csi_handle(volume))
    }
    counts.update(driver for name, driver in also.items() if name not in attached)
    # A volume that only an attachment knows of counts beside the same one of the new pod.
    new = Counter(d for name, d in mine.new[1].volumes.items() if name not in attached)
    limits = mine.table.limits[node_name]
    return {d: _Room(n, limits[d] - counts[d]) for d, n in new.items() if d in limits}


def _after_csi_node_updated(
    pod: PodInfo, old: v1.CSINode | None, new: v1.CSINode | None
) -> QueueingHint:
    if old is None or new is None:
        return QueueingHint.SKIP
    before = _limits(old)
    grown = any(count > before.get(driver, 0) for driver, count in _limits(new).items())
    return QueueingHint.QUEUE if grown else QueueingHint.SKIP


def _after_pod_deleted(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    if old is None or not (old.spec.node_name or old.status.nominated_node_name):
        return QueueingHint.SKIP
    volumes = old.spec.volumes
    if claims_of(volumes, old.metadata.name) or any(in_tree_plugin(v) for v in volumes):
        return QueueingHint.QUEUE
    return QueueingHint.SKIP


def _after_claim_added(
    pod: PodInfo, old: v1.PersistentVolumeClaim | None, new: v1.PersistentVolumeClaim | None
) -> QueueingHint:
    if new is None or not uses_claim(pod, new):
        return QueueingHint.SKIP
    return QueueingHint.QUEUE


def _after_attachment_deleted(
    pod: PodInfo, old: v1.VolumeAttachment | None, new: v1.VolumeAttachment | None
) -> QueueingHint:
    # kube-scheduler v1.36 overlooks pods with ephemeral volumes alone; they would wait for nothing.
    if pod_claims(pod):
        return QueueingHint.QUEUE
    drivers = {plugin.driver for v in pod.cls.volumes if (plugin := in_tree_plugin(v))}
    freed = old is not None and old.spec.attacher in drivers
    return QueueingHint.QUEUE if freed else QueueingHint.SKIP
