"""One pod on every node: PreFilter, Filter and Score as in a decision, from scratch."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.evaluation.filtering import (
    ProfileFilters,
    fork_with_nominees,
    nominees,
    rejected_everywhere,
)
from podsched.decide.evaluation.pre_filtering import PreFilterOutcome, run_pre_filter
from podsched.decide.evaluation.scoring import NodeScores, run_pre_score, run_score
from podsched.decide.reference import filter_nodes
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1.scheduling_pb2 import NodeScore


@dataclass(eq=False)
class Fitting:
    """The results of a profile's filters for one pod on every node."""

    runtime: ProfileRuntime
    cluster: ClusterState
    pod: PodInfo
    pre: PreFilterOutcome
    outcome: FilterOutcome
    state: CycleState

    @property
    def feasible(self) -> Rows:
        """The rows on which the pod fits."""
        rows: Rows = self.outcome.rows[self.outcome.plugin == PASSED]
        return rows

    @property
    def diagnosis(self) -> Diagnosis:
        """Why the pod fits none of the nodes."""
        outcome = self.outcome if self.pre.status.ok else None
        return Diagnosis(len(self.outcome.rows), self.pre, outcome)

    @property
    def filters(self) -> ProfileFilters:
        """The filters, for PostFilter plugins."""
        return ProfileFilters(self.runtime, self.cluster, self.outcome)

    def seen_by_filters(self, places: Rows) -> tuple[NodeColumns, Rows]:
        """Return the columns and rows on which filters saw these indices of the outcome."""
        return with_nominees(self.cluster, self.pod, self.outcome.rows[places])


def with_nominees(cluster: ClusterState, pod: PodInfo, rows: Rows) -> tuple[NodeColumns, Rows]:
    """Return the columns and rows on which filters see these rows with their nominated pods.

    The columns are the cluster's, or a fork of them if nominated pods count.
    """
    nodes = cluster.columns
    counted = nominees(pod, cluster, nodes, rows)
    if not counted:
        return nodes, rows
    pods = dict(zip(counted.places.tolist(), counted.pods, strict=True))
    others = [pods.get(place, ()) for place in range(len(rows))]
    return fork_with_nominees(nodes, rows, others), np.arange(len(rows))


def fit(runtime: ProfileRuntime, cluster: ClusterState, pod: PodInfo) -> Fitting:
    """Run PreFilter and Filter for a pod on all nodes. Raises PluginFailure."""
    state = CycleState()
    pre = run_pre_filter(runtime, state, pod, cluster)
    rows = cluster.columns.node_table.live_rows
    if pre.status.ok:
        outcome = filter_nodes(runtime, state, pod, pre, rows, cluster)
    else:
        outcome = rejected_everywhere(rows, pre.status)
    return Fitting(runtime, cluster, pod, pre, outcome, state)


#: Max nodes whose scores an explanation has.
MAX_SCORES: Final = 5


class Choosing:
    """The scores of the feasible nodes, the best first."""

    def __init__(self, fitting: Fitting) -> None:
        """Score them. Raises PluginFailure."""
        rows = fitting.feasible
        nodes = fitting.cluster.columns
        run_pre_score(fitting.runtime, fitting.state, fitting.pod, fitting.cluster, rows)
        self._scores: NodeScores = run_score(
            fitting.runtime, fitting.state, fitting.pod, nodes, rows
        )
        self._weights = {named.name: named.weight for named in fitting.runtime.score}
        self._names = [nodes.names[row] for row in rows.tolist()]

    @property
    def tied(self) -> int:
        """How many nodes share the best score."""
        return int((self._scores.total == self._scores.total.max(initial=0)).sum())

    def best(self, chosen: str = "") -> list[NodeScore]:
        """Return the best scores, the chosen node first; equal ones are sorted by name."""
        total = self._scores.total
        most = min(MAX_SCORES, len(total))
        places = np.flatnonzero(total >= np.partition(total, -most)[-most]).tolist()
        first = heapq.nsmallest(MAX_SCORES, places, lambda at: (-total[at], self._names[at]))
        if chosen in self._names:
            at = self._names.index(chosen)
            first = [at, *(other for other in first if other != at)]
        return [self._score(at) for at in first[:MAX_SCORES]]

    def all(self) -> list[NodeScore]:
        """Return the scores of all feasible nodes."""
        return [self._score(at) for at in range(len(self._names))]

    def of(self, name: str) -> NodeScore:
        """Return one feasible node's scores."""
        return self._score(self._names.index(name))

    def _score(self, at: int) -> NodeScore:
        total = self._scores.total
        found = NodeScore(node=self._names[at], total=int(total[at]))
        found.rank = 1 + int((total > total[at]).sum())
        for plugin, scores in self._scores.plugins.items():
            found.plugins.add(
                plugin=plugin, score=int(scores[at]), weight=self._weights.get(plugin, 1)
            )
        return found
