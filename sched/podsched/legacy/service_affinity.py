"""CheckServiceAffinity: the pods of a service on nodes that agree in some labels.

Rule: kube-scheduler v1.16 ``predicates.ServiceAffinity``: a node's labels equal those that the
pod's nodeSelector asks for and, for the rest of the configured labels, those of the node that runs
the first other pod that the pod's services select. Without such a pod only the nodeSelector counts.
Which pod is first kube-scheduler leaves to chance; here it is one on the first row that has any. A
Policy enables the predicate under names of its own (``serviceAffinity``).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from podsched.api.selectors import Selector
from podsched.config.legacy.args import CheckServiceAffinityArgs
from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, Handle, PreFilterResult, Traits
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Code
from podsched.framework.verdicts import Rows, Verdicts, rejecting
from podsched.legacy.spreading import SERVICE, service_selectors, versions
from podsched.plugins.rows.matching import match_labels

REASON = "node(s) didn't match service affinity"


@dataclass(frozen=True, slots=True)
class PodsOfServices:
    """Counts the pods of a namespace that one of the selectors matches, terminating ones too."""

    namespace: str
    selectors: tuple[Selector, ...]

    def counts(self, pod: PodInfo) -> int:
        """Return 1 for such a pod, else 0."""
        if pod.cls.namespace != self.namespace:
            return 0
        return int(any(selector.matches(pod.cls.labels) for selector in self.selectors))


@dataclass(frozen=True, slots=True)
class _State:
    """What PreFilter found. ``wanted``: labels by the nodeSelector alone.

    ``first`` are the two first rows with pods of the services, and ``shared`` the labels that a
    node must have with the pod on either.
    """

    query: PodsOfServices
    wanted: dict[str, str]
    first: tuple[int, ...] = ()
    shared: tuple[dict[str, str], ...] = ()


class CheckServiceAffinity:
    """Filter on the labels of the node that runs the first pod of the pod's services."""

    name: ClassVar[str] = "CheckServiceAffinity"
    traits: ClassVar[Traits] = Traits(reads_pods=False)

    def __init__(self, args: CheckServiceAffinityArgs, handle: Handle) -> None:
        self._labels = args.labels
        #: Several of them may be enabled, for several labels.
        self._key = f"{self.name}/{','.join(args.labels)}"

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the pods of the pod's services, and the labels that its nodeSelector asks for."""
        asked = pod.cls.spec.node_selector
        wanted = tuple((label, asked[label]) for label in self._labels if label in asked)
        query = _query(pod, cluster)
        return (query if query.selectors else (), wanted)

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        """Return the versions of services and topology, and the first rows with their pods."""
        nodes = cluster.nodes
        first = _first_rows(_query(pod, cluster), nodes)
        return (versions(cluster, (SERVICE,)), nodes.topology_version, nodes.size, first)

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        """Find the labels; skip where nothing is asked for."""
        nodes, query = cluster.nodes, _query(pod, cluster)
        asked = pod.cls.spec.node_selector
        wanted = {label: asked[label] for label in self._labels if label in asked}
        rest = [label for label in self._labels if label not in wanted]
        first = _first_rows(query, nodes) if rest else ()
        shared = tuple(wanted | _labels(nodes, row, rest) for row in first)
        if not wanted and not any(shared):
            return PreFilterResult(SKIP)
        state.data[self._key] = _State(query, wanted, first, shared)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, nodes: NodeColumns, rows: Rows) -> Verdicts:
        """Reject nodes whose labels differ; a fork's rows without the pods taken off them."""
        mine: _State = state.data[self._key]
        options = [match_labels(labels, nodes, rows) for labels in (*mine.shared, mine.wanted)]
        matches = options[0]
        if nodes.base is not nodes and mine.first:
            # On the fork of the first row its pods may be gone: then the second row's is first.
            gone = nodes.base_rows[rows] == mine.first[0]
            gone &= nodes.counter(mine.query)[rows] <= 0
            matches = np.where(gone, options[1], matches)
        return rejecting(~matches, Code.UNSCHEDULABLE, REASON)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for pods and nodes that come, go or change labels."""
        pod = ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL
        node = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint.on(Resource.POD, pod),
            ClusterEventWithHint.on(Resource.NODE, node),
        ]


def _query(pod: PodInfo, cluster: ClusterView) -> PodsOfServices:
    return PodsOfServices(pod.namespace, tuple(service_selectors(pod, cluster)))


def _first_rows(query: PodsOfServices, nodes: NodeColumns) -> tuple[int, ...]:
    if not query.selectors:
        return ()
    return tuple(np.flatnonzero(nodes.alive & (nodes.counter(query) > 0))[:2].tolist())


def _labels(nodes: NodeColumns, row: int, keys: Sequence[str]) -> dict[str, str]:
    found = {key: int(nodes.label(key)[row]) for key in keys}
    return {key: nodes.value(value) for key, value in found.items() if value != ABSENT}
