"""ServiceAntiAffinity: the pods of a service spread over the values of a node label.

Formula: kube-scheduler v1.16 ``priorities/selector_spreading.go`` (ServiceAntiAffinity): over the
feasible nodes ``10 * (total - count) / total``, where ``count`` is the number of pods of the pod's
first service on nodes with the same value; 10 without such pods, 0 for nodes without the label. A
Policy enables it under names of its own (``serviceAntiAffinity``).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar

import numpy as np

from podsched.config.legacy_args import ServiceAntiAffinityArgs
from podsched.framework.nodes import ABSENT, ClusterView, Int32s, Int64s, NodeColumns
from podsched.framework.plugin import CycleState, Handle, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Rows, Scores
from podsched.legacy.points import MAX_PRIORITY, as_scores
from podsched.legacy.spreading import SERVICE, SelectedPods, service_selectors, versions


class ServiceAntiAffinity:
    """Score: few pods of the same service on nodes with the same value of the label."""

    name: ClassVar[str] = "ServiceAntiAffinity"
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    def __init__(self, args: ServiceAntiAffinityArgs, handle: Handle) -> None:
        self._label = args.label
        #: Several of them may be enabled, for several labels.
        self._key = f"{self.name}/{args.label}"

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the pods of the pod's first service."""
        query = _first_service(pod, cluster)
        return query if query.selectors else ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of services, of the topology and of the counts."""
        nodes = cluster.nodes
        count = nodes.counter_version(_first_service(pod, cluster))
        return (versions(cluster, (SERVICE,)), nodes.topology_version, nodes.size, count)

    def pre_score(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, feasible: Rows
    ) -> Status:
        """Compute the scores of all feasible rows, which depend on each other."""
        nodes = cluster.nodes
        counts = nodes.counter(_first_service(pod, cluster))[feasible]
        scores = np.zeros(nodes.size, dtype=np.int64)
        scores[feasible] = anti_affinity_scores(counts, nodes.label(self._label)[feasible])
        state.data[self._key] = scores
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Scores:
        """Return 0, 10, ... 100."""
        scores: Int64s = state.data[self._key]
        return scores[rows if nodes.base is nodes else nodes.base_rows[rows]]


def _first_service(pod: PodInfo, cluster: ClusterView) -> SelectedPods:
    return SelectedPods(pod.namespace, tuple(service_selectors(pod, cluster)[:1]))


def anti_affinity_scores(counts: Int64s, values: Int32s) -> Scores:
    """Return the scores of nodes with these counts and values of the label (ABSENT: none)."""
    labelled, total = values != ABSENT, int(counts.sum())
    points = np.where(labelled, float(MAX_PRIORITY), 0.0)
    if total:
        ids = values[labelled]
        by_value = np.zeros(int(ids.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(by_value, ids, counts[labelled])
        share = (total - by_value[ids]).astype(np.float64) / float(total)
        points[labelled] = float(MAX_PRIORITY) * share
    return as_scores(points)
