"""TopologyPlacementGenerator: one placement per topology domain (kube-scheduler v1.36).

A PodGroup with a topology constraint is tried in one domain after another. A domain is the set of
nodes with the same value of the constraint's label key. If members have nodes already, only their
domain is tried. While a placement is tried, PreFilter restricts the members to its nodes
(``ClusterView.placement``).

Kueue's annotation ``podset-preferred-topology`` gives a group preferred domains, the narrowest
first. The group gets the first of them in which it fits, or else may be spread over all nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from podsched.api.pod_groups import group_key
from podsched.framework.events import (
    ActionType,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.nodes import ABSENT, ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, PreFilterResult, Traits
from podsched.framework.pod_groups import Placement, PodGroup, read_pod_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import SKIP, Status, error
from podsched.plugins.without_args import WithoutArgs

REASON_UNCLEAR = "cannot determine domain for already scheduled pods: "
REASON_SEVERAL = REASON_UNCLEAR + "more than 1 domain found for pod group: {}, {}"
REASON_NO_DOMAIN = REASON_UNCLEAR + "no topology domain found for pod {}"


class TopologyPlacementGenerator(WithoutArgs):
    """PlacementGenerate lists the domains; PreFilter restricts members to the placement's nodes."""

    name: ClassVar[str] = "TopologyPlacementGenerator"
    traits: ClassVar[Traits] = Traits.of_spec(reads_only_nodes=True, keeps_to_placement=True)

    def generate_placements(
        self, group: PodGroup, placed: Sequence[PodInfo], cluster: ClusterView
    ) -> Sequence[Placement] | Status:
        """Return one placement per domain, in the order of the domains' first rows.

        Without a constraint, the only domain has all nodes. Domains of preferred labels come first,
        each label at its own level.
        """
        # Those that are being deleted leave it, perhaps because all of it has failed.
        placed = [pod for pod in placed if not pod.terminating]
        required = self._required(group, placed, cluster)
        if isinstance(required, Status) or not group.preferred_topology:
            return required
        nodes = {pod.node_name for pod in placed}
        found = [
            domain._replace(level=level)
            for level, key in enumerate(group.preferred_topology)
            # Domains of both labels: intersecting those of one with those of the other takes long.
            for domain in _domains(cluster.nodes, group, group.topology_key, key)
            if nodes.issubset(domain.node_names or ())
        ]
        last = len(group.preferred_topology)
        return [*found, *(placement._replace(level=last) for placement in required)]

    def _required(
        self, group: PodGroup, placed: Sequence[PodInfo], cluster: ClusterView
    ) -> Sequence[Placement] | Status:
        """Return one placement per domain of the required topology, or why it is not known."""
        if not group.topology_key:
            return [Placement()]
        domains = _domains(cluster.nodes, group, group.topology_key)
        if placed:
            nodes = {pod.node_name for pod in placed}
            domains = [d for d in domains if not nodes.isdisjoint(d.node_names or ())]
            if len(domains) > 1:
                return error(REASON_SEVERAL.format(domains[0].name, domains[1].name))
            if not domains:
                return error(REASON_NO_DOMAIN.format(placed[0].key))
        return domains

    def projection(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return ()

    def inputs(self, pod: PodInfo, cluster: ClusterView) -> Hashable:
        return cluster.placement

    def pre_filter(self, state: CycleState, pod: PodInfo, cluster: ClusterView) -> PreFilterResult:
        placement = cluster.placement
        if placement is None:
            return PreFilterResult(SKIP)
        return PreFilterResult(node_names=placement)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for nodes, and for groups that may use other domains than before."""
        of_nodes = ActionType.ADD | ActionType.UPDATE_NODE_LABEL
        of_groups = ActionType.ADD | ActionType.UPDATE
        return [
            ClusterEventWithHint.on(Resource.NODE, of_nodes),
            _about(Resource.POD_GROUP, of_groups, _changed_groups),
            # Without a member that has a node, a group is not bound to one domain any more.
            _about(Resource.ASSIGNED_POD, ActionType.DELETE, lambda old, new: (group_key(old),)),
        ]


def _about(
    resource: Resource, actions: ActionType, groups: Callable[[Any, Any], Sequence[str]]
) -> ClusterEventWithHint:
    """Return a registration that wakes the members of the groups that an event concerns."""

    def hint(pod: PodInfo, old: Any | None, new: Any | None) -> QueueingHint:
        return QueueingHint.of(pod.group in groups(old, new))

    index = partial(KeyedIndex, lambda pod: (pod.group,), groups)
    return ClusterEventWithHint.on(resource, actions, hint, index=index)


def _changed_groups(old: Any | None, new: Any | None) -> Sequence[str]:
    """Return the key of a group that is new, or whose annotations ask for other domains."""
    known, found = (None if one is None else read_pod_group(one) for one in (old, new))
    if found is None or (known is not None and _asked(known) == _asked(found)):
        return ()
    return (found.key,)


def _asked(group: PodGroup) -> tuple[str, tuple[str, ...]]:
    return group.topology_key, group.preferred_topology


def _domains(nodes: NodeColumns, group: PodGroup, *keys: str) -> list[Placement]:
    """Return a placement for each combination of values of some labels that a node has.

    Of a label of ``PodGroup.levels``, values are told apart by those of the wider levels: rack 1 of
    one block is not rack 1 of another.
    """
    levels = group.levels
    wider = (levels[: levels.index(key)] if key in levels else () for key in keys)
    labels = dict.fromkeys(chain(*wider, filter(None, keys)))
    columns = np.stack([nodes.label(label) for label in labels])
    rows = np.flatnonzero(nodes.alive & (columns != ABSENT).all(axis=0))
    names = nodes.names
    by_values: dict[tuple[int, ...], list[str]] = {}
    for row, *values in zip(rows.tolist(), *columns[:, rows].tolist(), strict=True):
        by_values.setdefault(tuple(values), []).append(names[row])
    return [
        Placement("/".join(map(nodes.value, values)), frozenset(members))
        for values, members in by_values.items()
    ]
