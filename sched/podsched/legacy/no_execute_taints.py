"""PodToleratesNodeNoExecuteTaints: the pod tolerates the node's NoExecute taints.

Rule: kube-scheduler v1.16 ``predicates.PodToleratesNodeNoExecuteTaints``.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from podsched.api.tolerations import NO_EXECUTE, find_untolerated
from podsched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, Resource
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code
from podsched.framework.verdicts import Rows, Verdicter, Verdicts
from podsched.plugins.rows.matching import per_taint_set
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) had taints that the pod didn't tolerate"


class PodToleratesNodeNoExecuteTaints(WithoutArgs):
    """Filter on NoExecute taints alone."""

    name: ClassVar[str] = "PodToleratesNodeNoExecuteTaints"
    traits: ClassVar[Traits] = Traits(reads_only_nodes=True, reads_pods=False, projects_class=True)

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the tolerations."""
        return tuple(t.SerializeToString() for t in pod.cls.spec.tolerations)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject, unresolvably, nodes with such a taint that the pod does not tolerate."""
        tolerations = pod.cls.spec.tolerations

        def untolerated(taints: tuple[v1.Taint, ...]) -> int:
            hard = [taint for taint in taints if taint.effect == NO_EXECUTE]
            return int(find_untolerated(hard, tolerations) is not None)

        verdicts = Verdicter(len(rows))
        bad = per_taint_set(nodes, rows, untolerated) != 0
        verdicts.flag(bad, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)
        return verdicts.done()

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes added or with other taints, and the pod's own new tolerations."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        toleration = ActionType.UPDATE_POD_TOLERATION
        return [
            ClusterEventWithHint(ClusterEvent(Resource.NODE, node)),
            ClusterEventWithHint(ClusterEvent(Resource.UNSCHEDULABLE_POD, toleration)),
        ]
