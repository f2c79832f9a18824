"""TaintToleration: untolerated taints reject the pod or lower the score (kube-scheduler v1.36).

Hard taints (NoSchedule, NoExecute) reject, soft ones (PreferNoSchedule) lower the score.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar

import numpy as np

from podsched.api.tolerations import HARD_EFFECTS, PREFER_NO_SCHEDULE, find_untolerated, tolerates
from podsched.framework.events import ActionType, ClusterEventWithHint, QueueingHint, Resource
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Remedy, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.requirements import Requirement
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Rows, Scores, Verdicts, rejecting
from podsched.plugins.pods import after_own_update
from podsched.plugins.rows.matching import per_taint_set, untolerated
from podsched.plugins.rows.normalize import default_normalize
from podsched.plugins.without_args import WithoutArgs
from podsched.v1 import objects_pb2 as v1

REASON = "node(s) had untolerated taint(s)"


class TaintToleration(WithoutArgs):
    """Filter looks at NoSchedule and NoExecute taints, Score at PreferNoSchedule taints."""

    name: ClassVar[str] = "TaintToleration"
    traits: ClassVar[Traits] = Traits.of_spec(
        reads_only_nodes=True,
        depends_on_feasible=False,
        normalizes_by_extremes=True,
        remedies=frozenset({Remedy.TAINTS}),
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return tuple(t.SerializeToString() for t in pod.cls.spec.tolerations)

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        rejected = untolerated(nodes, rows, pod.cls.spec.tolerations)
        return rejecting(rejected, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def requirements(
        self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows
    ) -> Sequence[Requirement]:
        """Return a toleration for each hard taint that the pod does not tolerate."""
        tolerations = pod.cls.spec.tolerations
        having: dict[str, set[int]] = {}
        ids = nodes.taint_set[rows]
        for taint_set in np.unique(ids).tolist():
            for taint in nodes.taints(taint_set):
                if find_untolerated((taint,), tolerations) is not None:
                    having.setdefault(_shown(taint), set()).add(taint_set)
        return [
            Requirement.met(f"toleration of {shown}", ~np.isin(ids, list(sets)))
            for shown, sets in sorted(having.items())
        ]

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Return SUCCESS, never SKIP: without soft taints every node scores 100, not 0."""
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return the number of untolerated PreferNoSchedule taints."""
        tolerations = [t for t in pod.cls.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE)]

        def untolerated(taints: tuple[v1.Taint, ...]) -> int:
            soft = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
            return sum(not any(tolerates(t, taint) for t in tolerations) for taint in soft)

        return per_taint_set(nodes, rows, untolerated)

    def normalize(self, state: CycleState, scores: Scores) -> Scores:
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for added nodes, changed taints, and new tolerations of the pod itself."""
        node = ActionType.ADD | ActionType.UPDATE_NODE_TAINT
        pod = ActionType.UPDATE_POD_TOLERATION
        return [
            ClusterEventWithHint.on(Resource.NODE, node, _after_node_change, index=_index_of_nodes),
            ClusterEventWithHint.on(Resource.POD, pod, after_own_update),
        ]


def _shown(taint: v1.Taint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _after_node_change(pod: PodInfo, old: v1.Node | None, new: v1.Node | None) -> QueueingHint:
    tolerations = pod.cls.spec.tolerations
    if new is None or find_untolerated(new.spec.taints, tolerations) is not None:
        return QueueingHint.SKIP
    was_tolerated = old is not None and find_untolerated(old.spec.taints, tolerations) is None
    return QueueingHint.of(not was_tolerated)


def _index_of_nodes() -> KeyedIndex:
    """Return an index of the pods by the taint keys that they tolerate.

    A node is looked up by the key of its first hard taint: a pod that fits must tolerate all hard
    taints, so this one too. A node without a hard taint may help any pod.
    """
    return KeyedIndex(_tolerated_keys, _first_hard_taint)


def _tolerated_keys(pod: PodInfo) -> Iterable[Hashable] | None:
    keys = {toleration.key for toleration in pod.cls.spec.tolerations}
    # A toleration without a key (operator Exists) tolerates taints of all keys.
    return None if "" in keys else keys


def _first_hard_taint(old: v1.Node | None, new: v1.Node | None) -> Iterable[Hashable] | None:
    if new is None:
        return ()
    hard = (taint.key for taint in new.spec.taints if taint.effect in HARD_EFFECTS)
    first = next(hard, None)
    return None if first is None else (first,)
