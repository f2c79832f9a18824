"""Find the domains of a Topology that the members of a group fill (``best_fit``).

The room of a domain is computed from the nodes that a member fits now, and from the members'
requests. Constraints between members, such as affinity, are not counted: the caller finds out when
it tries the members there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.best_fit import Part, Slices
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView, Int64s
from podsched.framework.plugin import ComparesRequests
from podsched.framework.pod_groups import GroupTrial, Placement, PodGroup
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.verdicts import Rows

REASON_NO_ROOM: Final = 'topology "{}" {} to fit {} of {} {}'
REASON_NO_SIZE: Final = "slice topology requested, but slice size not provided"
REASON_SLICES_ABOVE: Final = "podset slice topology {} is above the podset topology {}"
REASON_SLICES_OF_OTHERS: Final = (
    "slices of a topology need pods that are all alike, and levels of one topology"
)
REASON_SLICES_NOT_FILLED: Final = "pods do not fit into the domains of their slices"


class DomainSearch:
    """Finds the domains for one group."""

    def __init__(
        self,
        decider: AcceleratedDecider,
        cluster: ClusterView,
        runtime: ProfileRuntime,
        group: PodGroup,
    ) -> None:
        self._decider = decider
        self._cluster = cluster
        self._runtime = runtime
        self._group = group
        self.reason = REASON_SLICES_OF_OTHERS if group.slice_level else ""
        """Why nothing is filled, in Kueue's words; "" if that is not known."""

    def run(
        self,
        trial: GroupTrial,
        members: Sequence[QueuedPodInfo],
        needed: int,
        placements: Sequence[Placement],
        nodes_of: Callable[[PodInfo], frozenset[str] | None],
        scheduled: Sequence[PodInfo],
    ) -> Sequence[Part]:
        """Return the parts that the members fill; none if fewer than ``needed`` fit.

        Also none if the rule does not apply: the members must be alike, and request or prefer one
        level of their Topology, or no level. ``placements``: where they may go; ``nodes_of``: see
        ``NodesOf``; ``scheduled``: the members that run.
        """
        group, pods = self._group, [queued.info for queued in members]
        asked = group.topology_key or next(iter(group.preferred_topology), "")
        if not group.levels or (asked and asked not in group.levels):
            return ()
        if group.topology_key and group.preferred_topology:
            return ()
        if len({self._decider.key(pod) for pod in pods}) > 1 or len(set(map(nodes_of, pods))) > 1:
            return ()
        if self._misses_slices(asked):
            return ()
        domains, rows = self._decider.domains(group.levels), self._rows(trial, pods[0])
        # Members that run already have left one domain of a required level.
        for names in (
            nodes_of(pods[0]),
            placements[0].node_names if len(placements) == 1 else None,
        ):
            if names is not None:
                rows = rows[domains.are_among(names)[rows]]
        slices = self._slices(scheduled)
        parts, fitting = domains.fill(
            self._room(pods, rows),
            needed,
            len(pods),
            group.levels.index(asked) if asked else None,
            required=bool(group.topology_key),
            slices=slices,
        )
        if parts:
            self.reason = REASON_SLICES_NOT_FILLED if slices else ""
        else:
            number = f"only {fitting} out" if fitting else "any"
            verb = "allows" if fitting else "doesn't allow"
            size = slices.size if slices else 1
            what = -(-needed // size), "pod(s)" if size == 1 else "slice(s)"
            self.reason = REASON_NO_ROOM.format(group.topology, verb, number, *what)
        return parts

    def _misses_slices(self, asked: str) -> bool:
        """Return whether the requested slices are impossible; if so, set ``reason``."""
        group = self._group
        if not group.slice_level:
            return False
        levels = group.levels
        if group.slice_level not in levels:
            return True
        if group.slice_size <= 0:
            self.reason = REASON_NO_SIZE
        elif asked and levels.index(asked) > levels.index(group.slice_level):
            self.reason = REASON_SLICES_ABOVE.format(group.slice_level, asked)
        else:
            return False
        return True

    def _slices(self, scheduled: Sequence[PodInfo]) -> Slices | None:
        """Return the requested slices, with the members that run and are not terminating."""
        group, nodes = self._group, self._cluster.nodes
        if not group.slice_level:
            return None
        held = np.zeros(nodes.size, dtype=np.int64)
        for pod in scheduled:
            row = nodes.row_of(pod.node_name)
            if row is not None and not pod.terminating:
                held[row] += 1
        return Slices(group.levels.index(group.slice_level), group.slice_size, held)

    def _rows(self, trial: GroupTrial, pod: PodInfo) -> Rows:
        """Return the rows that a member fits now, wherever it may go."""
        with trial.inner() as inner:
            inner.restrict(None)
            evaluation = self._decider.evaluation(self._runtime, pod)
            evaluation.refresh(pod)
            if evaluation.failure is not None:  # The members' decisions report it.
                return np.empty(0, dtype=np.intp)
            return evaluation.feasible_rows

    def _room(self, pods: Sequence[PodInfo], rows: Rows) -> Int64s:
        """Return how many members have room on each row by requests, 0 on others than ``rows``."""
        nodes, pod = self._cluster.nodes, pods[0]
        # Filters count these pods as if they were on their nodes, so their room is not free.
        kept = self._nominated(pods)
        free = nodes.allowed_pod_number - nodes.pod_count
        for row, _ in kept:
            free[row] -= 1
        room = np.zeros(nodes.size, dtype=np.int64)
        room[rows] = np.maximum(free[rows], 0)
        for named in self._runtime.filter:
            if not isinstance(named.plugin, ComparesRequests):
                continue
            for resource, amount in named.plugin.compared_requests(pod).items():
                if amount <= 0:
                    continue
                free = nodes.allocatable(resource) - nodes.requested(resource)
                for row, other in kept:
                    free[row] -= named.plugin.compared_requests(other).get(resource, 0)
                room[rows] = np.minimum(room[rows], np.maximum(free[rows], 0) // amount)
        return room

    def _nominated(self, pods: Sequence[PodInfo]) -> list[tuple[int, PodInfo]]:
        """Return nominated pods that go before the members, with their rows."""
        members, priority = {pod.uid for pod in pods}, pods[0].priority
        return [
            (row, other)
            for name in self._cluster.nominated_nodes()
            if (row := self._cluster.nodes.row_of(name)) is not None
            for other in self._cluster.nominated_pods(name)
            if other.uid not in members and other.priority >= priority
        ]
