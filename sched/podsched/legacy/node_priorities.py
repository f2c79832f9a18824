"""Priorities that read nothing but the Node object.

Rules: kube-scheduler v1.16 ``algorithm/priorities``.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from fractions import Fraction
from typing import Any, ClassVar, Final, cast

import numpy as np

from podsched.api.resources import CPU, MEMORY, Amounts, amounts, to_units
from podsched.config.legacy.args import NodeLabelPriorityArgs
from podsched.framework.nodes import ABSENT, PREFER_AVOID_PODS, ClusterView, NodeColumns
from podsched.framework.plugin import MAX_NODE_SCORE, CycleState, Handle, Traits
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import as_scores
from podsched.plugins.without_args import WithoutArgs

_TRAITS: Final = Traits(
    reads_only_nodes=True, reads_pods=False, depends_on_feasible=False, projects_class=True
)
_AVOIDABLE_KINDS: Final = ("ReplicationController", "ReplicaSet")


class EqualPriority(WithoutArgs):
    """Score: 1 point for every node."""

    name: ClassVar[str] = "EqualPriority"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return ()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        return as_scores(np.ones(len(rows), dtype=np.int64))


class NodeLabelPriority:
    """Score: 10 points for nodes with the label (``presence``), whatever its value, or without it.

    A Policy enables it under a name of its own (``labelPreference``).
    """

    name: ClassVar[str] = "NodeLabelPriority"
    traits: ClassVar[Traits] = _TRAITS

    def __init__(self, args: NodeLabelPriorityArgs, handle: Handle) -> None:
        self._label = args.label
        self._presence = args.presence

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return ()

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        there = nodes.label(self._label)[rows] != ABSENT
        return np.where(there == self._presence, MAX_NODE_SCORE, 0).astype(np.int64)


class NodePreferAvoidPodsPriority(WithoutArgs):
    """Score: 0 for nodes that ask to avoid the pods of the pod's controller, else 10 points.

    A node asks with the annotation ``scheduler.alpha.kubernetes.io/preferAvoidPods``, which lists
    kind and uid of ReplicationControllers and ReplicaSets. An unreadable annotation is ignored.
    """

    name: ClassVar[str] = "NodePreferAvoidPodsPriority"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return _avoidable(pod)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
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
    """Return (kind, uid) of the pod's controller, if nodes can avoid its kind."""
    controller = pod.cls.controller
    if controller is None or controller[0] not in _AVOIDABLE_KINDS:
        return None
    return controller[0], controller[2]


def avoided_controllers(annotation: str) -> frozenset[tuple[str, str]]:
    """Return (kind, uid) of the controllers that the annotation's JSON lists."""

    def controller(entry: Any) -> tuple[str, str]:
        found = entry["podSignature"].get("podController") or {}
        return str(found.get("kind", "")), str(found.get("uid", ""))

    try:
        return frozenset(controller(entry) for entry in json.loads(annotation)["preferAvoidPods"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return frozenset()


class ResourceLimitsPriority(WithoutArgs):
    """Score: 1 point where the pod's cpu or memory limit is within the node's allocatable.

    A pod's limit is the sum over its containers, or the highest of an init container.
    """

    name: ClassVar[str] = "ResourceLimitsPriority"
    traits: ClassVar[Traits] = _TRAITS

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return _limits(pod.cls)

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        points = np.zeros(len(rows), dtype=np.int64)
        for resource, limit in zip((CPU, MEMORY), _limits(pod.cls), strict=True):
            if limit:
                points |= limit <= nodes.allocatable(resource)[rows]
        return as_scores(points)


def _limits(cls: PodClass) -> tuple[int, int]:
    """Return the pod's limits: millicores and bytes, 0 for none."""
    found = cls.compiled.get(ResourceLimitsPriority.name)
    if found is None:
        total: Amounts = {}
        for container in cls.spec.containers:
            for name, amount in amounts(container.resources.limits).items():
                total[name] = total.get(name, Fraction(0)) + amount
        for container in cls.spec.init_containers:
            for name, amount in amounts(container.resources.limits).items():
                total[name] = max(total.get(name, amount), amount)
        units = to_units(total)
        found = units.get(CPU, 0), units.get(MEMORY, 0)
        cls.compiled[ResourceLimitsPriority.name] = found
    return cast(tuple[int, int], found)
