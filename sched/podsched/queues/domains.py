"""Choose the domains of a topology that take the pods of a workload.

1. Choose where to begin. With a required level: one domain of that level. With a preferred level:
   one domain of it, else of a level above, else several at the top. Without either: any domains.
2. Go down level by level, and take domains until there is room for all pods. The last domain is the
   smallest that is large enough (best fit).

Source: Kueue 0.20, pkg/cache/scheduler/tas_flavor_snapshot.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from podsched.lib.groups import lists_by_key
from podsched.queues.objects import PODS
from podsched.queues.topology import Domain, Exclusions, Topology, TopologyPods, TopologyRequest


class NoDomainError(Exception):
    """The pods do not fit, or ask for a level that the topology lacks; the text says why."""


@dataclass(frozen=True, slots=True)
class Placed:
    """The domains of a pod set, or why it has none."""

    levels: tuple[str, ...] = ()
    """The labels that name a domain; only the hostname, if the lowest level is hosts."""
    domains: tuple[tuple[tuple[str, ...], int], ...] = ()
    """For each domain the values of these labels, and the number of pods."""
    reason: str = ""


def place(
    topology: Topology, pod_sets: Sequence[TopologyPods], *, least_free: bool = True
) -> dict[str, Placed]:
    """Return the domains of pod sets by name, up to the first group that does not fit.

    ``least_free``: pods without constraints go where the least room is (Kueue's TASProfileMixed).
    """
    groups = lists_by_key((pods.group or index, pods) for index, pods in enumerate(pod_sets))
    placed: dict[str, Placed] = {}
    used: dict[tuple[str, ...], dict[str, int]] = {}
    for members in groups.values():
        # A group of two is a leader of one pod, and its workers.
        workers = max(members, key=lambda pods: pods.count)
        leader = next((pods for pods in members if pods is not workers), None)
        try:
            if len(members) > 2 or (leader is not None and leader.count > 1):
                raise NoDomainError(f"group {workers.group} has more than workers and one leader")
            parts = _Search(topology, workers, leader, used, least_free=least_free).run()
        except NoDomainError as error:
            return placed | {pods.name: Placed(reason=str(error)) for pods in members}
        for pods in [workers] if leader is None else [workers, leader]:
            counts = [
                (part.domain.values, part.leaders if pods is leader else part.pods)
                for part in sorted(parts, key=lambda part: part.domain.values)
            ]
            placed[pods.name] = _placed(topology, counts)
            _use(used, pods, counts)
    return placed


def _placed(topology: Topology, counts: Iterable[tuple[tuple[str, ...], int]]) -> Placed:
    first = len(topology.levels) - 1 if topology.of_hosts else 0
    named = tuple((values[first:], count) for values, count in counts if count)
    return Placed(topology.levels[first:], named)


def _use(
    used: dict[tuple[str, ...], dict[str, int]],
    pods: TopologyPods,
    counts: Iterable[tuple[tuple[str, ...], int]],
) -> None:
    for values, count in counts:
        amounts = used.setdefault(values, {})
        for resource, amount in (*pods.requests.items(), (PODS, 1)):
            amounts[resource] = amounts.get(resource, 0) + amount * count


class _Part(NamedTuple):
    """The numbers of pods and of leaders that a domain takes."""

    domain: Domain
    pods: int
    leaders: int


#: Returns how many slices fit into a domain, and how many beside a leader.
_Room = Callable[[Domain], tuple[int, int]]


def _slices(domain: Domain) -> tuple[int, int]:
    return domain.slices, domain.led_slices


class _Search:
    """The search for the domains of one pod set, with its leader if it has one."""

    def __init__(
        self,
        topology: Topology,
        pods: TopologyPods,
        leader: TopologyPods | None,
        used: dict[tuple[str, ...], dict[str, int]],
        *,
        least_free: bool,
    ) -> None:
        request = pods.topology
        self._topology = topology
        self._leaders = 0 if leader is None else 1
        self._pods = pods
        self._required = request.required is not None
        self._free = _is_free(request)
        """No level is required or preferred: pods may be anywhere, as far as slices permit."""
        self._ascending = self._free and least_free
        self._level = _index(topology.levels, _level(topology, request), "")
        slices = request.slices or ((topology.levels[-1], 1),)
        layers = slice_layers(topology.levels, self._level, slices)
        self._outer, self._size = layers[0]
        self._sizes, above = {self._outer: self._size}, self._outer
        # A level between two layers takes whole slices of the lower one, so that none is split.
        for index, size in layers[1:]:
            self._sizes |= dict.fromkeys(range(above + 1, index + 1), size)
            above = index
        # As in Kueue, pods beyond the last whole slice get no place.
        self._need = pods.count // self._size
        self._excluded: Exclusions = topology.count(pods, leader, self._sizes, used)

    def run(self) -> list[_Part]:
        """Return the pods of each lowest domain. Raises NoDomainError."""
        # Down to the level of slices, the children of all chosen domains compete. Below it, each
        # domain divides its pods among its own children, so that slices stay together.
        level, chosen = self._top(self._level)
        parts = self._spread(chosen, self._need, self._leaders, _slices, self._size)
        while level < self._outer:
            below = [child for part in parts for child in part.domain.children]
            below = self._sorted(below)
            parts = self._spread(below, self._need, self._leaders, _slices, self._size)
            level += 1
        while level < len(self._topology.levels) - 1:
            level += 1
            parts = [below for part in parts for below in self._down(part, level)]
        return parts

    def _down(self, part: _Part, level: int) -> list[_Part]:
        """Return the pods of a domain's children, in whole slices of their level."""
        size = self._sizes.get(level, 1)

        def room(domain: Domain) -> tuple[int, int]:
            return domain.pods // size, domain.led_pods // size

        children = self._sorted(part.domain.children)
        return self._spread(children, part.pods // size, part.leaders, room, size)

    def _sorted(self, domains: Iterable[Domain]) -> list[Domain]:
        return sorted(domains, key=lambda one: one.least_room if self._ascending else one.most_room)

    def _sorted_with_leader(self, domains: Iterable[Domain]) -> list[Domain]:
        sign = 1 if self._ascending else -1
        return sorted(
            domains, key=lambda one: (-one.leaders, sign * one.led_slices, one.led_pods, one.values)
        )

    def _top(self, level: int) -> tuple[int, list[Domain]]:
        """Return the level at which the pods fit, and the domains to fill."""
        need, leaders = self._need, self._leaders
        while True:
            domains = self._topology.domains[level]
            if not domains:
                name = self._topology.levels[level]
                raise NoDomainError(f"no topology domains at level: {name}")
            ordered = self._sorted_with_leader(domains.values())
            fitting = [one for one in ordered if one.leaders >= leaders and self._room(one) >= need]
            if fitting:
                # In ascending order, the first that fits already has the least room.
                best = fitting[0] if self._ascending else min(fitting, key=self._room)
                return level, [best]
            if self._required:
                raise self._failure(ordered[0].slices, level)
            # Without constraints, several domains of one level will do: try no level above.
            if level == 0 or self._free:
                return level, self._several(ordered, level)
            level -= 1

    def _room(self, domain: Domain) -> int:
        return domain.led_slices if self._leaders else domain.slices

    def _several(self, ordered: list[Domain], level: int) -> list[Domain]:
        """Return domains that have room together; those that take leaders come first."""
        chosen: list[Domain] = []
        need, leaders = self._need, self._leaders
        left = _leader_first(ordered, need, leaders, _slices)
        for domain in left:
            if leaders <= 0 or not domain.leaders:
                break
            chosen.append(domain)
            leaders -= domain.leaders
            need -= domain.led_slices
        if leaders > 0:
            raise self._failure(self._leaders - leaders, level)
        left = self._sorted(left[len(chosen) :])
        for index, domain in enumerate(left):
            if need <= 0:
                break
            # In ascending order, this is already the smallest that is left.
            if not self._ascending and domain.slices >= need:
                domain = _best_fit(left[index:], need, 0, _slices)
            chosen.append(domain)
            need -= domain.slices
        if need > 0:
            raise self._failure(self._need - need, level)
        return chosen

    def _spread(
        self, domains: list[Domain], need: int, leaders: int, room: _Room, size: int
    ) -> list[_Part]:
        """Divide pods among domains in order; the last domain is a best fit.

        ``need`` and ``room`` count slices of ``size`` pods; the result counts pods.
        """
        parts: list[_Part] = []
        ordered = _leader_first(domains, need, leaders, room)
        for index, domain in enumerate(ordered):
            if need <= 0 and leaders <= 0:
                break
            led = leaders > 0
            if not self._ascending and room(domain)[led] >= need and domain.leaders >= leaders:
                # It takes all that is left: the loop ends, so no domain is taken twice.
                domain = _best_fit(ordered[index:], need, leaders, room)
            taken, lead = min(room(domain)[led], need), min(domain.leaders, leaders)
            parts.append(_Part(domain, taken * size, lead))
            need, leaders = need - taken, leaders - lead
        return parts

    def _failure(self, fitting: int, level: int) -> NoDomainError:
        topology, pods = self._topology, self._pods
        if len(pods.topology.slices) > 1:
            return NoDomainError(self._layers_text(level))
        what = "pod(s)" if self._size == 1 else "slice(s)"
        if not fitting:
            text = f"doesn't allow to fit any of {self._need} {what}"
        else:
            text = f"allows to fit only {fitting} out of {self._need} {what}"
        return NoDomainError(f'topology "{topology.name}" {text}{self._excluded.text}')

    def _layers_text(self, level: int) -> str:
        """Return how many slices of each layer fit into the best domain of a level."""
        topology, count = self._topology, self._pods.count
        domains = topology.domains[level].values()
        best = min(domains, key=lambda one: (-one.slices, one.values))
        text = f'topology "{topology.name}" doesn\'t allow to fit'
        for name, size in self._pods.topology.slices:
            within = [best]
            for _ in range(topology.levels.index(name) - level):
                within = [child for one in within for child in one.children]
            fitting = sum(one.pods // size for one in within)
            text += f"; {fitting}/{count // size} slice(s) fit on level {name}"
        return text + self._excluded.text


def slice_layers(
    levels: Sequence[str], level: int, slices: Sequence[tuple[str, int]]
) -> list[tuple[int, int]]:
    """Return the indexes of levels and the sizes of slices, the largest first.

    ``level``: the index of the level that is asked for, 0 for none. Raises NoDomainError.
    """
    layers: list[tuple[int, int]] = []
    for name, size in slices:
        if not layers and size <= 0:
            raise NoDomainError("slice topology requested, but slice size not provided")
        index = _index(levels, name, " for additional slice layer" if layers else " for slices")
        if not layers and level > index:
            raise NoDomainError(
                f"podset slice topology {name} is above the podset topology {levels[level]}"
            )
        if layers:
            above, outer = layers[-1]
            if index <= above:
                raise NoDomainError(
                    f"additional slice layer topology {name} must be at a lower level than "
                    f"{levels[above]}"
                )
            if size <= 0 or outer % size:
                raise NoDomainError(
                    f"additional slice layer size {size} must evenly divide "
                    f"parent layer size {outer}"
                )
        layers.append((index, size))
    return layers


def _index(levels: Sequence[str], level: str, purpose: str) -> int:
    if level not in levels:
        raise NoDomainError(f"no requested topology level{purpose}: {level}")
    return levels.index(level)


def _is_free(request: TopologyRequest) -> bool:
    return request.required is None and request.preferred is None


def _level(topology: Topology, request: TopologyRequest) -> str:
    """Return the level at which the search begins."""
    if _is_free(request):
        return topology.levels[0 if request.slices else -1]
    return request.required or request.preferred or ""


def _best_fit(domains: Sequence[Domain], need: int, leaders: int, room: _Room) -> Domain:
    """Return the smallest domain that is large enough; the first one if none is."""
    fitting = [one for one in domains if one.leaders >= leaders and room(one)[leaders > 0] >= need]
    return min(fitting, key=lambda one: room(one)[leaders > 0], default=domains[0])


def _leader_first(domains: list[Domain], need: int, leaders: int, room: _Room) -> list[Domain]:
    """Return the domains, beginning with one that can take the leader and leaves room for all."""
    if leaders == 0:
        return list(domains)
    available = sum(room(one)[0] for one in domains)
    for one in domains:
        cost = room(one)[0] - room(one)[1]
        if one.leaders >= leaders and available - cost >= need:
            return [one, *(other for other in domains if other is not one)]
    return list(domains)
