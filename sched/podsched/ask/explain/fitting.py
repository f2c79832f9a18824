"""One pod on every node: PreFilter and Filter as in a decision, from scratch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from podsched.cache.objects import ClusterState
from podsched.decide.evaluation.filtering import (
    Nominees,
    ProfileFilters,
    fork_with_nominees,
    nominees,
    rejected_everywhere,
)
from podsched.decide.evaluation.pre_filtering import PreFilterOutcome, run_pre_filter
from podsched.decide.reference import filter_nodes
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.filter_outcome import PASSED, FilterOutcome
from podsched.framework.nodes import NodeColumns
from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows


@dataclass(eq=False)
class Fitting:
    """What the filters of a profile say of one pod on every node."""

    runtime: ProfileRuntime
    cluster: ClusterState
    pod: PodInfo
    pre: PreFilterOutcome
    outcome: FilterOutcome
    state: CycleState = field(default_factory=CycleState)

    @property
    def feasible(self) -> Rows:
        """The rows on which the pod fits."""
        rows: Rows = self.outcome.rows[self.outcome.plugin == PASSED]
        return rows

    @cached_property
    def nominees(self) -> Nominees:
        """The nominated pods that the filters counted as if they ran where they are nominated to.

        Places are those of ``outcome.rows``.
        """
        return nominees(self.pod, self.cluster, self.cluster.columns, self.outcome.rows)

    @property
    def filters(self) -> ProfileFilters:
        """The filters, for PostFilter plugins."""
        return ProfileFilters(self.runtime, self.cluster, self.outcome)

    def seen_by_filters(self, places: Rows) -> tuple[NodeColumns, Rows]:
        """Return columns and rows on which the filters rejected these places of the outcome.

        It is the cluster's columns, or a fork of them where nominated pods count.
        """
        nodes, rows = self.cluster.columns, self.outcome.rows[places]
        if not self.nominees or not np.isin(places, self.nominees.places).any():
            return nodes, rows
        counted = dict(zip(self.nominees.places.tolist(), self.nominees.pods, strict=True))
        others = tuple(counted.get(place, ()) for place in places.tolist())
        return fork_with_nominees(nodes, rows, others), np.arange(len(rows))


def fit(runtime: ProfileRuntime, cluster: ClusterState, pod: PodInfo) -> Fitting:
    """Run PreFilter and Filter for a pod on all nodes. Raises PluginFailure."""
    state = CycleState()
    pre = run_pre_filter(runtime, state, pod, cluster)
    rows = cluster.columns.live_rows
    if pre.status.ok:
        outcome = filter_nodes(runtime, state, pod, pre, rows, cluster)
    else:
        outcome = rejected_everywhere(rows, pre.status)
    return Fitting(runtime, cluster, pod, pre, outcome, state)
