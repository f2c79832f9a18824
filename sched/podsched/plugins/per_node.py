"""Base classes for users' plugins that look at one node at a time: simpler, but slower.

Subclass ``PerNodeFilter``, ``PerNodeScore`` or both and implement ``filter_node`` or
``score_node``. If a plugin reads data beyond the node and the pod's class, it implements ``inputs``
like any plugin. Without ``inputs``, its results are reused as long as the node does not change.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows, Scores, Verdicter, Verdicts
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node with the pods on it, as kube-scheduler's NodeInfo."""

    nodes: NodeColumns
    row: int

    @property
    def name(self) -> str:
        """The node's name."""
        return self.nodes.names[self.row]

    @property
    def node(self) -> v1.Node:
        """The node's message; not to be written to."""
        return self.nodes.node(self.row)

    @property
    def pods(self) -> Mapping[str, PodInfo]:
        """The pods on the node by uid, assumed ones included."""
        return self.nodes.pods(self.row)

    def allocatable(self, resource: str) -> int:
        """Return the node's allocatable, in milli-units for cpu and whole units for the rest."""
        return int(self.nodes.allocatable(resource)[self.row])

    def requested(self, resource: str) -> int:
        """Return the sum of the requests of the node's pods, in the same units."""
        return int(self.nodes.requested(resource)[self.row])


class PerNodeFilter(abc.ABC):
    """A Filter that looks at one node at a time."""

    @abc.abstractmethod
    def filter_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> Status:
        """Return SUCCESS, or the status with which the node is rejected."""

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Call ``filter_node`` for each row."""
        verdicts = Verdicter(len(rows))
        for index, row in enumerate(rows.tolist()):
            status = self.filter_node(state, pod, NodeView(nodes, row))
            if status.ok:
                continue
            mask = np.zeros(len(rows), dtype=np.bool_)
            mask[index] = True
            for reason in status.reasons or (status.code.text,):
                verdicts.flag(mask, status.code, reason)
        return verdicts.done()


class PerNodeScore(abc.ABC):
    """A Score that looks at one node at a time.

    A subclass whose raw scores are not 0..100 implements ``normalize`` (``ScoreExtensions``).
    """

    @abc.abstractmethod
    def score_node(self, state: CycleState, pod: PodInfo, node: NodeView) -> int:
        """Return the node's score."""

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Call ``score_node`` for each row."""
        scores = (self.score_node(state, pod, NodeView(nodes, row)) for row in rows.tolist())
        return np.fromiter(scores, dtype=np.int64, count=len(rows))
