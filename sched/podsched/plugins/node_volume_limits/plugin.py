"""NodeVolumeLimits: limits the volumes of each CSI driver on a node, as its CSINode says.

Rules: kube-scheduler v1.36 ``framework/plugins/nodevolumelimits/csi.go``. A volume that several
pods on the node or its VolumeAttachments refer to counts once, so volumes have to be compared. Most
nodes are far from their limits, though. So the number of references, an upper bound that the cache
counts (``VolumeReferences``), is compared with the limit first, and volumes only where it exceeds
the limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
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
from podsched.plugins.pods import node_or_nominated
from podsched.plugins.rows.base_rows import rows_of_base
from podsched.plugins.volumes.claims import claim_events, claims_of, pod_claims
from podsched.plugins.volumes.csi_translation import in_tree_plugin
from podsched.plugins.volumes.resolved_claims import current, versions
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) exceed max volume count"

CSI_NODE: Final = "CSINode"
ATTACHMENT: Final = "VolumeAttachment"
_NO_LIMIT: Final = int(np.iinfo(np.int64).max)
_NONE: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True)
class VolumeReferences:
    """Counts the claims and in-tree volumes of pods; a volume that two pods use counts twice."""

    reads_requests: ClassVar[bool] = False

    def counts(self, pod: PodInfo) -> int:
        if not pod.cls.volumes:
            return 0
        return len(pod_claims(pod)) + len(inline_volumes(pod).volumes)


@dataclass(frozen=True, slots=True)
class MayFail:
    """Counts pods whose volumes may be undeterminable (CannotCount); then the node is rejected."""

    reads_requests: ClassVar[bool] = False

    def counts(self, pod: PodInfo) -> int:
        if not pod.cls.volumes:
            return 0
        if inline_volumes(pod).error:
            return 1
        return int(any(claim.ephemeral or not claim.name for claim in pod_claims(pod)))


@dataclass(frozen=True, slots=True)
class _Read:
    """Computes one number per node from its CSINode or VolumeAttachments, for a column.

    With ``driver``, it is the node's limit for this driver. Two ways of reading share the rule:
    ``__call__`` from the objects of a node, ``of`` from a ``NodeTable``.
    """

    what: str
    driver: str | None = None

    def of(self, limits: Mapping[str, int] | None, attached: Sequence[Any]) -> int:
        """Return the number of a node."""
        if self.driver is not None:
            return (limits or _NONE).get(self.driver, _NO_LIMIT)
        if self == ATTACHED:
            return len(attached)
        return int(limits is not None) if self == HAS_CSI_NODE else len(limits or ())

    def __call__(self, objects: Collection[Any]) -> int:
        """Return the number of a node from its CSINode or, for ATTACHED, its VolumeAttachments."""
        if self == ATTACHED:
            return len(objects)
        return self.of(_limits(next(iter(objects))) if objects else None, ())


HAS_CSI_NODE: Final = _Read("CSINode")
LIMITS: Final = _Read("limits")
ATTACHED: Final = _Read("attachments")


class NodeTable:
    """The limits and VolumeAttachments of nodes by name, and as columns over rows.

    A ``CurrentNodeTable`` that is pickled, for an evaluation in another process, becomes one.
    """

    def __init__(
        self,
        limits: Mapping[str, Mapping[str, int]],
        attached: Mapping[str, Sequence[tuple[str, str]]],
    ) -> None:
        self._limits, self._attached = limits, attached
        self._columns: dict[Hashable, Int64s] = {}
        self._of: tuple[NodeColumns, int, int] | None = None

    def __getstate__(self) -> tuple[Any, Any]:
        return self._limits, self._attached

    def __setstate__(self, state: tuple[Any, Any]) -> None:
        self._limits, self._attached = state
        self._columns, self._of = {}, None

    def limits(self, node_name: str) -> Mapping[str, int] | None:
        """Return the node's limit for each driver; None if the node has no CSINode."""
        return self._limits.get(node_name)

    def attached(self, node_name: str) -> Sequence[tuple[str, str]]:
        """Return (attacher, PersistentVolume) of each VolumeAttachment of a node."""
        return self._attached.get(node_name, ())

    def column(self, base: NodeColumns, read: _Read) -> Int64s:
        """Return the number of each row's node."""
        version = (base, base.topology_version, base.size)
        if self._of != version:
            self._of, self._columns = version, {}
        column = self._columns.get(read)
        if column is None:
            column = self._columns[read] = np.full(base.size, read(()), dtype=np.int64)
            for node in {*self._limits, *self._attached}:
                row = base.row_of(node)
                if row is not None:
                    column[row] = read.of(self.limits(node), self.attached(node))
        return column


class CurrentNodeTable:
    """A ``NodeTable`` that reads the cluster, so it is always current.

    A changed CSINode or attachment counts as a change of its node's row.
    """

    def __init__(self, cluster: ClusterView) -> None:
        self._csi_nodes = cluster.by_node(CSI_NODE, _named)
        self._attachments = cluster.by_node(ATTACHMENT, _attached_to)
        self.cluster = cluster

    def __reduce__(self) -> tuple[type[NodeTable], tuple[Any, Any]]:
        limits = {name: self.limits(name) for name in self._csi_nodes.nodes}
        attached = {name: self.attached(name) for name in self._attachments.nodes}
        return NodeTable, (limits, attached)

    def limits(self, node_name: str) -> Mapping[str, int] | None:
        found = self._csi_nodes.of(node_name)
        return _limits(next(iter(found))) if found else None

    def attached(self, node_name: str) -> Sequence[tuple[str, str]]:
        return [_attached(one) for one in self._attachments.of(node_name)]

    def column(self, base: NodeColumns, read: _Read) -> Int64s:
        return (self._attachments if read == ATTACHED else self._csi_nodes).column(read)


@dataclass(frozen=True, slots=True)
class NewVolumes:
    """The drivers of the volumes that the pod would attach, by volume, or why they are unknown."""

    volumes: Mapping[str, str] = field(default_factory=dict)
    code: Code = Code.SUCCESS
    text: str = ""


@dataclass(frozen=True, slots=True)
class LimitState:
    """The plugin's entry in CycleState.

    ``new``: the volumes that the pod attaches to a node without, and with, a CSINode.
    """

    table: NodeTable | CurrentNodeTable
    volumes: AttachableVolumes
    new: tuple[NewVolumes, NewVolumes]


class _Room(NamedTuple):
    """The number of a pod's new volumes of a driver, and the number that the limit still allows."""

    new: int
    left: int


class NodeVolumeLimits:
    """PreFilter finds the pod's volumes, Filter counts the volumes on nodes that may be full."""

    name: ClassVar[str] = "NodeVolumeLimits"
    #: Look-ahead is possible, because pods of one class mount the same volumes.
    traits: ClassVar[Traits] = Traits(reads_pods=False, reads_requests=False, reads_labels=False)

    def __init__(self, args: None, handle: Handle) -> None:
        self._table: CurrentNodeTable | None = None
        self._volumes: AttachableVolumes | None = None

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the volumes; if no node has a limit, only whether they can be counted."""
        if not _concerns(pod):
            return NOTHING_READ
        new = self._new_volumes(pod, cluster)
        wrong = tuple((one.code, one.text) for one in new)
        if not self._nodes(cluster).column(cluster.nodes, LIMITS).any():
            return wrong
        return (wrong, *(frozenset(one.volumes.items()) for one in new))

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of claims, volumes and classes.

        CSINodes and VolumeAttachments belong to a node's row (``ClusterView.by_node``).
        """
        if not _concerns(pod):
            return FIXED_INPUTS
        return versions(cluster)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Find the pod's volumes; skip pods without claims and in-tree volumes."""
        if not _concerns(pod):
            return PreFilterResult(SKIP)
        new = self._new_volumes(pod, cluster)
        state.data[self.name] = LimitState(self._nodes(cluster), self._attachable(cluster), new)
        return PreFilterResult()

    def _new_volumes(self, pod: PodInfo, cluster: ClusterView) -> tuple[NewVolumes, NewVolumes]:
        """Return the pod's volumes on nodes without, and with, a CSINode."""
        volumes = self._attachable(cluster)
        return _new_volumes(volumes, pod, False), _new_volumes(volumes, pod, True)

    def _attachable(self, cluster: ClusterView) -> AttachableVolumes:
        self._volumes = current(self._volumes, cluster, AttachableVolumes)
        return self._volumes

    def _nodes(self, cluster: ClusterView) -> CurrentNodeTable:
        if self._table is None or self._table.cluster is not cluster:
            self._table = CurrentNodeTable(cluster)
        return self._table

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes on which a limit would be exceeded; preemption can help there."""
        mine: LimitState = state.data[self.name]
        base = nodes.base
        of_base = rows_of_base(nodes, rows)
        verdicts = Verdicter(len(rows))
        has_csi_node = mine.table.column(base, HAS_CSI_NODE)[of_base] > 0
        for present, new in zip((False, True), mine.new, strict=True):
            if new.text:
                verdicts.flag(has_csi_node == present, new.code, new.text)
        with_csi_node = mine.new[1]
        if not with_csi_node.volumes or with_csi_node.text:
            return verdicts.done()
        limited = mine.table.column(base, LIMITS)[of_base] > 0
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
        """Return the rows whose volumes must be compared: references may exceed a limit."""
        base = nodes.base
        over: Bools = nodes.counter(MayFail())[rows] > 0
        at_most = (
            nodes.counter(VolumeReferences())[rows] + mine.table.column(base, ATTACHED)[of_base]
        )
        for driver, number in Counter(mine.new[1].volumes.values()).items():
            over |= at_most > mine.table.column(base, _Read("limit", driver))[of_base] - number
        return over

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return, for each driver, the new volumes and the number that the limit still allows."""
        mine: LimitState = state.data[self.name]
        drivers = sorted(set(mine.new[1].volumes.values()))
        wanted = np.zeros((len(drivers), len(rows)), dtype=np.int64)
        left = np.zeros_like(wanted)
        for index, row in enumerate(rows.tolist()):
            name = nodes.names[row]
            if mine.table.limits(name) is None:
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
        """Register for CSINodes, deleted pods and VolumeAttachments, and the pod's claims."""
        return [
            ClusterEventWithHint.on(Resource.CSI_NODE, ActionType.ALL, _after_csi_node_change),
            ClusterEventWithHint.on(Resource.POD, ActionType.DELETE, _after_pod_deleted),
            claim_events(ActionType.ADD),
            ClusterEventWithHint.on(
                Resource.VOLUME_ATTACHMENT, ActionType.DELETE, _after_attachment_deleted
            ),
        ]


def _concerns(pod: PodInfo) -> bool:
    return bool(pod_claims(pod)) or (bool(pod.cls.volumes) and inline_volumes(pod).any)


def _new_volumes(volumes: AttachableVolumes, pod: PodInfo, csi_node: bool) -> NewVolumes:
    try:
        return NewVolumes(volumes.of(pod, csi_node=csi_node, new=True))
    except CannotCount as why:
        return NewVolumes(code=why.code, text=str(why))


def _named(csi_node: v1.CSINode) -> str:
    return csi_node.metadata.name


def _attached_to(attachment: v1.VolumeAttachment) -> str:
    return attachment.spec.node_name if all(_attached(attachment)) else ""


def _attached(attachment: v1.VolumeAttachment) -> tuple[str, str]:
    return attachment.spec.attacher, attachment.spec.source.persistent_volume_name


def _limits(csi_node: v1.CSINode) -> dict[str, int]:
    return {
        driver.name: driver.allocatable.count
        for driver in csi_node.spec.drivers
        if driver.allocatable.HasField("count")
    }


def _count(
    mine: LimitState, pods: Mapping[str, PodInfo], node_name: str
) -> tuple[Code, str] | None:
    """Return why a node with limits is rejected, or None."""
    try:
        rooms = _rooms(mine, pods, node_name)
    except CannotCount as why:
        return why.code, str(why)
    if any(room.new > room.left for room in rooms.values()):
        return Code.UNSCHEDULABLE, REASON
    return None


def _rooms(mine: LimitState, pods: Mapping[str, PodInfo], node_name: str) -> dict[str, _Room]:
    """Return the room of each driver that has a limit and new volumes. Raises CannotCount."""
    attached: dict[str, str] = {}
    for other in pods.values():
        if other.cls.volumes:
            attached.update(mine.volumes.of(other, csi_node=True, new=False))
    counts = Counter(attached.values())
    also = {
        f"{attacher}/{handle}": attacher
        for attacher, volume in mine.table.attached(node_name)
        if (handle := mine.volumes.csi_handle(volume))
    }
    counts.update(driver for name, driver in also.items() if name not in attached)
    # As in kube-scheduler, a volume that is known only from an attachment counts a second time if
    # the new pod has it.
    new = Counter(d for name, d in mine.new[1].volumes.items() if name not in attached)
    limits = mine.table.limits(node_name) or _NONE
    return {d: _Room(n, limits[d] - counts[d]) for d, n in new.items() if d in limits}


def _after_csi_node_change(
    pod: PodInfo, old: v1.CSINode | None, new: v1.CSINode | None
) -> QueueingHint:
    if old is None:
        return QueueingHint.QUEUE
    before, now = _limits(old), _NONE if new is None else _limits(new)
    # Unlike in kube-scheduler, also if a limit is gone: then there is none.
    helps = any(now.get(d, _NO_LIMIT) > before.get(d, 0) for d in before.keys() | now.keys())
    return QueueingHint.of(helps)


def _after_pod_deleted(pod: PodInfo, old: v1.Pod | None, new: v1.Pod | None) -> QueueingHint:
    if old is None or not node_or_nominated(old):
        return QueueingHint.SKIP
    volumes = old.spec.volumes
    claims = claims_of(volumes, old.metadata.name)
    return QueueingHint.of(bool(claims) or any(in_tree_plugin(v) for v in volumes))


def _after_attachment_deleted(
    pod: PodInfo, old: v1.VolumeAttachment | None, new: v1.VolumeAttachment | None
) -> QueueingHint:
    # kube-scheduler v1.36 does not wake pods that have only ephemeral volumes, though they may fit.
    if pod_claims(pod):
        return QueueingHint.QUEUE
    drivers = {plugin.driver for v in pod.cls.volumes if (plugin := in_tree_plugin(v))}
    return QueueingHint.of(old is not None and old.spec.attacher in drivers)
