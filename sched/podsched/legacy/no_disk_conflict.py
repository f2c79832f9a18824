"""NoDiskConflict: no disk is mounted on a node twice, unless both only read it.

Rule: kube-scheduler v1.16 ``predicates.NoDiskConflict``: GCE disks by name, EBS volumes by id
(read-only or not), iSCSI by IQN, RBD by pool and image with a monitor in common. It knows nothing
of ReadWriteOncePod claims, which VolumeRestrictions adds.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import FIXED_INPUTS, CycleState, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.plugins.volume_restrictions import REASON_DISK, ConflictingDisks, disks_of
from podsched.plugins.without_args import WithoutArgs


class NoDiskConflict(WithoutArgs):
    """Filter: no pod on the node has a disk that conflicts with one of the pod's."""

    name: ClassVar[str] = "NoDiskConflict"
    traits: ClassVar[Traits] = Traits(reads_pods=False, projects_class=True)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the disks."""
        return disks_of(pod.cls.volumes) if pod.cls.volumes else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return nothing: the result depends on the row alone."""
        return FIXED_INPUTS

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Skip pods without disks."""
        disks = disks_of(pod.cls.volumes)
        if not disks:
            return PreFilterResult(SKIP)
        state.data[self.name] = ConflictingDisks(disks)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes whose pods have the disk; evicting them would help."""
        verdicts = Verdicter(len(rows))
        taken = nodes.counter(state.data[self.name])[rows] > 0
        verdicts.flag(taken, Code.UNSCHEDULABLE, REASON_DISK)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for deleted pods and new nodes."""
        return [
            ClusterEventWithHint(ClusterEvent(Resource.POD, ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent(Resource.NODE, ActionType.ADD)),
        ]
