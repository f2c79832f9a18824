"""NoDiskConflict: a node mounts a disk only once, unless all mounts are read-only.

Rule: kube-scheduler v1.16 ``predicates.NoDiskConflict``: GCE disks by name, EBS volumes by id
(read-only or not), iSCSI by IQN, RBD by pool and image with a monitor in common. Unlike
VolumeRestrictions it ignores ReadWriteOncePod claims.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.plugins.volume_restrictions import REASON_DISK, ConflictingDisks, disks_of
from podsched.plugins.without_args import WithoutArgs


class NoDiskConflict(WithoutArgs):
    """Filter: no pod on the node has a disk that conflicts with one of the pod's."""

    name: ClassVar[str] = "NoDiskConflict"
    traits: ClassVar[Traits] = Traits(reads_pods=False, projects_class=True)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return disks_of(pod.cls.volumes) if pod.cls.volumes else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        disks = disks_of(pod.cls.volumes)
        if not disks:
            return PreFilterResult(SKIP)
        state.data[self.name] = ConflictingDisks(disks)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        taken = nodes.counter(state.data[self.name])[rows] > 0
        return rejecting(taken, Code.UNSCHEDULABLE, REASON_DISK)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return [
            ClusterEventWithHint.on(Resource.POD, ActionType.DELETE),
            ClusterEventWithHint.on(Resource.NODE, ActionType.ADD),
        ]
