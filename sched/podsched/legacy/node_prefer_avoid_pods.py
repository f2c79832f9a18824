"""NodePreferAvoidPodsPriority: nodes whose annotation does not ask to be spared the pod.

Rule: kube-scheduler v1.16 ``priorities/node_prefer_avoid_pods.go``: 0 where the annotation
``scheduler.alpha.kubernetes.io/preferAvoidPods`` lists the kind and uid of the pod's controller, a
ReplicationController or ReplicaSet, else 10. An annotation that cannot be read asks for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from typing import Any, ClassVar

import numpy as np

from podsched.framework.nodes import PREFER_AVOID_PODS, ClusterView, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.plugins.without_args import WithoutArgs

_KINDS = ("ReplicationController", "ReplicaSet")


class NodePreferAvoidPodsPriority(WithoutArgs):
    """Score: 10 points unless the node would rather not have the controller's pods."""

    name: ClassVar[str] = "NodePreferAvoidPodsPriority"
    traits: ClassVar[Traits] = Traits(
        reads_only_nodes=True,
        reads_pods=False,
        depends_on_feasible=False,
        projects_class=True,
    )

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the controller, if nodes can avoid its kind."""
        return _avoidable(pod)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 100 or 0."""
        scores = np.full(len(rows), MAX_NODE_SCORE, dtype=np.int64)
        controller = _avoidable(pod)
        if controller is None:
            return scores
        for index, row in enumerate(rows.tolist()):
            text = nodes.node(row).metadata.annotations.get(PREFER_AVOID_PODS, "")
            if text and controller in avoided_controllers(text):
                scores[index] = 0
        return scores


def _avoidable(pod: PodInfo) -> tuple[str, str] | None:
    """Return (kind, uid) of the pod's controller, if it is of a kind that nodes can avoid."""
    controller = pod.cls.controller
    if controller is None or controller[0] not in _KINDS:
        return None
    return controller[0], controller[2]


def avoided_controllers(annotation: str) -> frozenset[tuple[str, str]]:
    """Return (kind, uid) of the controllers that the annotation's JSON lists."""
    try:
        entries = json.loads(annotation)["preferAvoidPods"]
        return frozenset(_controller(entry) for entry in entries)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return frozenset()


def _controller(entry: Any) -> tuple[str, str]:
    controller = entry["podSignature"].get("podController") or {}
    return str(controller.get("kind", "")), str(controller.get("uid", ""))
