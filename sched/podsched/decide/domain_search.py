"""Find the domains of a Topology that the members of a group fill (``best_fit``).

The room of a domain is computed from the nodes that a member fits now, and from the members'
requests. Constraints between members, such as affinity, are not counted: the caller finds out when
it tries the members there.

Members of several shapes fill domains one shape after another: the room for a shape is what those
before it have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.best_fit import Part, Slices
from podsched.decide.placement_bounds import PlacementBounds
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import ClusterView, Int64s
from podsched.framework.pod_groups import GroupTrial, Placement, PodGroup
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.framework.verdicts import Rows
from podsched.lib.groups import lists_by_key
from podsched.queues.domains import NoDomainError, slice_layers

REASON_NO_ROOM: Final = 'topology "{}" {} to fit {} of {} {}'
REASON_SLICES_NOT_FILLED: Final = "pods do not fit into the domains of their slices"
REASON_NO_SLICES: Final = "slices need the levels of one Topology, and no other topology constraint"
#: Max domains of a level that members of several shapes are tried in.
_MOST_TRIED: Final = 8


class Where(NamedTuple):
    """Domains to fill: see ``Domains.fill``. ``node_names``: only these nodes, None: all.

    ``needed``: how many of all members have to fit.
    """

    level: int | None
    required: bool
    needed: int
    # Not rows: between two shapes other nodes may get them.
    node_names: frozenset[str] | None = None


class DomainSearch:
    """Finds the domains for one group."""

    def __init__(
        self,
        decider: AcceleratedDecider,
        cluster: ClusterView,
        runtime: ProfileRuntime,
        group: PodGroup,
        members: Sequence[QueuedPodInfo],
        scheduled: Sequence[PodInfo],
        nodes_of: Callable[[PodInfo], frozenset[str] | None],
        placements: Sequence[Placement],
    ) -> None:
        """``scheduled``: the members that run; ``nodes_of``: see ``NodesOf``.

        ``placements``: where the members may go.
        """
        self._decider = decider
        self._cluster = cluster
        self._runtime = runtime
        self._group = group
        self._members = members
        self._scheduled = scheduled
        self._nodes_of = nodes_of
        self._placements = placements
        #: Levels and sizes of the slices.
        self._layers: Sequence[tuple[int, int]] = ()
        self.reason = ""
        """Why nothing is filled, in Kueue's words; "" if that is not known."""

    @cached_property
    def shapes(self) -> Sequence[Sequence[QueuedPodInfo]]:
        """The members, those that are alike together."""
        shapes = lists_by_key(
            ((self._decider.key(queued.info), self._nodes_of(queued.info)), queued)
            for queued in self._members
        )
        return list(shapes.values())

    def tries(self, trial: GroupTrial, needed: int) -> Iterator[Where]:
        """Yield the domains to try in turn; at least ``needed`` members have to fit.

        Nothing if it is not known: members have to ask for a level of their Topology, or for none.
        All members get one domain of a level; if they differ, this is the smallest domain with room
        for each shape. If a preferred level has none, nor those above, each shape is spread. In
        slices of a required level as many start as a domain has room for.
        """
        group = self._group
        asked = group.topology_key or next(iter(group.preferred_topology), "")
        self.reason = REASON_NO_SLICES if group.slices else ""
        if not group.levels or (asked and asked not in group.levels):
            return
        if (group.topology_key and group.preferred_topology) or self._misses_slices(asked):
            return
        level, required = group.levels.index(asked) if asked else None, bool(group.topology_key)
        if len(self.shapes) == 1:
            yield Where(level, required, needed)
            return
        if level is not None:
            total = len(self._members)
            yield from self._single(trial, [level] if required else range(level, -1, -1), total)
            # Without slices the caller tries each domain with the members that fit there.
            if required and self._layers and needed < total:
                yield from self._single(trial, [level], needed)
            # If the caller comes back for more, it could use no domain: ``fill`` sets ``reason``,
            # by the first shape without room.
            for shape in self.shapes:
                if not self.fill(trial, shape, len(shape), Where(level, required, needed)):
                    break
        if not required:
            yield Where(None if level is None else 0, False, needed)

    def _single(self, trial: GroupTrial, levels: Iterable[int], needed: int) -> Iterator[Where]:
        """Yield domains that may have room for ``needed`` of all members, level by level."""
        domains = self._decider.domains(self._group.levels)
        rooms = [self._room(trial, shape) for shape in self.shapes]
        pods = [queued.info for queued in self._members]
        bounds = PlacementBounds(self._runtime, self._cluster.nodes, pods, needed)
        for level in levels:
            found = domains.holding(rooms, list(map(len, self.shapes)), level, needed)
            may_hold = (names for names in found if bounds.may_hold(Placement("", names)))
            for names in islice(may_hold, _MOST_TRIED):
                yield Where(level, True, needed, names)

    def fill(
        self, trial: GroupTrial, members: Sequence[QueuedPodInfo], needed: int, where: Where
    ) -> Sequence[Part]:
        """Return what alike members fill; nothing if fewer than ``needed`` fit."""
        room, domains = self._room(trial, members), self._decider.domains(self._group.levels)
        if where.node_names is not None:
            room[~domains.are_among(where.node_names)] = 0
        slices = self._slices(members)
        parts, fitting = domains.fill(
            room, needed, len(members), where.level, required=where.required, slices=slices
        )
        if parts or needed <= 0:
            self.reason = REASON_SLICES_NOT_FILLED if slices else ""
        else:
            number = f"only {fitting} out" if fitting else "any"
            verb = "allows" if fitting else "doesn't allow"
            size = slices.layers[0][1] if slices else 1
            what = -(-needed // size), "pod(s)" if size == 1 else "slice(s)"
            self.reason = REASON_NO_ROOM.format(self._group.topology, verb, number, *what)
        return parts

    def _misses_slices(self, asked: str) -> bool:
        """Return whether the requested slices are impossible; if so, set ``reason``."""
        levels = self._group.levels
        try:
            self._layers = slice_layers(
                levels, levels.index(asked) if asked else 0, self._group.slices
            )
        except NoDomainError as error:
            self.reason = str(error)
            return True
        return False

    def _slices(self, members: Sequence[QueuedPodInfo]) -> Slices | None:
        """Return the requested slices, with the members like these that run and stay."""
        if not self._layers:
            return None
        nodes = self._cluster.nodes
        held, key = np.zeros(nodes.size, dtype=np.int64), self._decider.key(members[0].info)
        alone = len(self.shapes) == 1
        for other in self._scheduled:
            row = nodes.row_of(other.node_name)
            if self._decider.key(other) != key:
                alone = False
            elif row is not None and not other.terminating:
                held[row] += 1
        [(level, size), *_], count = self._layers, len(members) + int(held.sum())
        if not alone and count < size:  # The leader of others is a slice of its own.
            return Slices([(level, count)], held)
        return Slices(self._layers, held)

    def _rows(self, trial: GroupTrial, pod: PodInfo) -> Rows:
        """Return the rows that a member fits now and may go to."""
        with trial.inner() as inner:
            inner.restrict(None)
            evaluation = self._decider.evaluation(self._runtime, pod)
            evaluation.refresh(pod)
            if evaluation.failure is not None:  # The members' decisions report it.
                return np.empty(0, dtype=np.intp)
            rows = evaluation.feasible_rows
        domains, found = self._decider.domains(self._group.levels), self._placements
        # Members that run already have left one domain of a required level.
        for names in (self._nodes_of(pod), found[0].node_names if len(found) == 1 else None):
            if names is not None:
                rows = rows[domains.are_among(names)[rows]]
        return rows

    def _room(self, trial: GroupTrial, members: Sequence[QueuedPodInfo]) -> Int64s:
        """Return how many alike members have room on each row by requests, shape (nodes.size,)."""
        nodes, pod = self._cluster.nodes, members[0].info
        # Filters count nominated pods as if they were on their nodes, so their room is not free.
        rows, kept = self._rows(trial, pod), self._nominated(pod.priority)
        free = nodes.allowed_pod_number - nodes.pod_count
        for row, _ in kept:
            free[row] -= 1
        room = np.zeros(nodes.size, dtype=np.int64)
        room[rows] = np.maximum(free[rows], 0)
        for plugin in self._runtime.comparing_requests.values():
            for resource, amount in plugin.compared_requests(pod).items():
                if amount <= 0:
                    continue
                free = nodes.allocatable(resource) - nodes.requested(resource)
                for row, other in kept:
                    free[row] -= plugin.compared_requests(other).get(resource, 0)
                room[rows] = np.minimum(room[rows], np.maximum(free[rows], 0) // amount)
        return room

    def _nominated(self, priority: int) -> list[tuple[int, PodInfo]]:
        """Return nominated pods that go before the members, with their rows."""
        members = {queued.info.uid for queued in self._members}
        return [
            (row, other)
            for name in self._cluster.nominator.nodes()
            if (row := self._cluster.nodes.row_of(name)) is not None
            for other in self._cluster.nominator.pods(name)
            if other.uid not in members and other.priority >= priority
        ]
