"""Find when a unit can start, beside the units that run and the promised starts of others.

    ends of running units and of holds --> plan: quota over time, with the promised starts
    unit --> ``delay``, ``beside``: what it must leave to others if it starts now
         --> ``later``, ``ahead``: when quota has room for it, and the cluster's state expected then

``reservations`` decides which starts are promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, inf
from typing import Final, NamedTuple

from podsched.api.objects import ResourceClaim
from podsched.framework.pod_groups import Beside, Try
from podsched.framework.pods import PodInfo
from podsched.queues.assignment import Assignment
from podsched.queues.backfill.plan import Plan, Reservation
from podsched.queues.backfill.profile import Profile
from podsched.queues.choices import fitting, fitting_into
from podsched.queues.cycle import Rules
from podsched.queues.objects import PODS, Workload
from podsched.queues.quota import Amounts, FlavorResource
from podsched.term.admission.books import Books
from podsched.term.admission.endings import Endings
from podsched.term.admission.holds import Holds
from podsched.term.admission.limits import SLACK
from podsched.term.admission.node_room import NodeRoom
from podsched.term.admission.placeholders import Placeholders, counts_labels
from podsched.term.admission.reservation_text import start_text, time_text
from podsched.term.admission.reserved_devices import (
    PromisedDevice,
    deallocated_claims,
    may_use_devices,
    placeholder_claim,
)
from podsched.term.admission.reserved_ports import port_names
from podsched.term.admission.unit_ends import UnitEnds
from podsched.term.admission.units import Unit, unit_group, unit_key

#: Max later times at which a unit is tried.
_MOST_TIMES: Final = 64


class _Ending(NamedTuple):
    """The requests that are free on a node again once a pod has ended."""

    end: float
    key: str
    """Of the pod's unit."""
    requests: Mapping[str, int]


class _Phase(NamedTuple):
    """The quota that is kept for a unit between two times, while it waits for its victims."""

    start: float
    end: float
    queue: str
    usage: Amounts


class Timetable:
    """The plan that is made of the ends of units; see the module."""

    def __init__(
        self,
        books: Books,
        endings: Endings,
        holds: Holds,
        reserved: Mapping[str, Reservation],
        window: float,
    ) -> None:
        """``reserved``: by key of the unit. ``window``: seconds ahead that starts are searched."""
        self._books = books
        self._cluster = books.cluster
        self._units = books.units
        self._holds = holds
        self._reserved = reserved
        self._window = window
        self.ends = UnitEnds(books, endings)
        self._plan: Plan | None = None
        #: The time until which the plan is valid, and the endings of the pods on each node.
        self._plan_until = -inf
        self._pods_on: dict[str, list[_Ending]] = {}
        #: Of the plan: the ends of the running units, by key.
        self._planned: dict[str, float] = {}
        #: When units that wait for their victims will have started and ended, by key.
        self._hold_ends: dict[str, float] = {}
        self._phases: list[_Phase] = []
        self._placeholders = Placeholders(books.cache)

    def begin(self) -> None:
        """Use a new snapshot; ``update`` is called again for all units."""
        self.ends.of.clear()
        self.outdate()

    def outdate(self) -> None:
        """Discard the plan, because what runs has changed."""
        self._plan = None

    def set_reservation(self, key: str, made: Reservation | None) -> None:
        """Change the reservation of a unit in the plan; None: it has none any more."""
        plan = self._plan
        if plan is None or plan.reservations.get(key) == made:
            return
        # Changed in place: a new plan would take as long as the decision about one more unit.
        plan.drop(key)
        if made is not None:
            plan.reserve(key, made)
            self._plan_until = min(self._plan_until, made.start)

    def update(self, unit: Unit) -> None:
        """Take in a unit that has changed."""
        if self.ends.update(unit):
            self.outdate()

    def _hold_end(self, key: str) -> float:
        """Return when a unit that waits for its victims will have started and ended."""
        hold = self._holds.of[key]
        # This bound must not move while they go: starts are promised behind it.
        gone = max(hold.since + SLACK, self.ends.gone_at(hold.victims, hold.since))
        return self.ends.end_from(self._units[key], self.ends.still(gone))

    def _planned_ends(self) -> dict[str, float]:
        """Return when running units end, or are gone as victims, by key."""
        ends = {key: self.ends.still(end) for key, end in self.ends.of.items()}
        for hold in self._holds.of.values():
            for one in hold.victims & ends.keys():
                ends[one] = min(ends[one], self.ends.gone_at((one,), hold.since))
        return ends

    def _phases_of(self, key: str) -> Iterator[_Phase]:
        """Yield the phases of a hold: it keeps the quota of each victim as soon as that is gone."""
        hold, ends, now = self._holds.of[key], self._planned, self._books.now
        gone = {at for one in hold.victims if now < (at := ends.get(one, now)) < inf}
        times = [now, *sorted(gone), max(self._hold_ends[key], now, *gone)]
        for start, end in pairwise(times):
            used: Counter[FlavorResource] = Counter()
            for one in hold.victims:
                if ends.get(one, now) > start:
                    used.update(self._units[one].usage)
            usage = {name: n - used[name] for name, n in hold.need.items() if n > used[name]}
            yield _Phase(start, end, hold.queue, usage)

    def plan(self) -> Plan:
        """Return the plan of all running units, holds and reservations, made anew if outdated."""
        # Holds change with their victims, so a plan with holds is used only once.
        held, now = bool(self._holds.of or self._hold_ends), self._books.now
        if self._plan is not None and now < self._plan_until and not held:
            return self._plan
        ends = self._planned = self._planned_ends()
        times = [*ends.values()]
        for one in self._reserved.values():
            times += (one.start, one.end)
        profile = Profile(now, self._books.snapshot.forest, times)
        self._pods_on = {}
        for key, end in ends.items():
            unit = self._units[key]
            profile.occupy(unit.queue, unit.usage, now, end)
            self._free_later(key, end, ((pod.node_name, pod) for pod in unit.held.values()))
        self._hold_ends = {key: self._hold_end(key) for key in self._holds.of}
        self._phases = [one for key in self._hold_ends for one in self._phases_of(key)]
        for start, end, queue, usage in self._phases:
            profile.occupy(queue, usage, start, end)
        for key, end in self._hold_ends.items():
            waiting = self._units[key].waiting.items()
            self._free_later(
                key, end, ((self._cluster.nominator.node_of(u), pod) for u, pod in waiting)
            )
        later = profile.times[1:2].tolist()
        # Units that should have ended already are planned to end at now + SLACK: after that, or
        # after the first end, the plan is not valid.
        self._plan_until = min([now + SLACK, *later])
        # The quota and nodes of a unit that waits for its victims are taken by its hold already.
        kept = {key: one for key, one in self._reserved.items() if key not in self._holds.of}
        self._plan = Plan(profile, kept)
        return self._plan

    def _free_later(self, key: str, end: float, pods: Iterable[tuple[str, PodInfo]]) -> None:
        """Note that the pods of a unit, each with its node, will have ended at a time."""
        for node, pod in pods if end < inf else ():
            ending = _Ending(end, key, {**pod.cls.requests, PODS: 1})
            self._pods_on.setdefault(node, []).append(ending)

    def delay(self, workload: Workload, usage: Amounts, victims: Sequence[Workload]) -> str:
        """Return which promised start would be broken if a unit started now, or "".

        ``victims``: units that are evicted for it. The start may be its own.
        """
        if victims and (late := self._gone_late(workload, victims)):
            return late
        plan, ends = self.plan(), self._planned
        gone = [(one.queue, one.usage, ends.get(one.key, inf)) for one in victims]
        who = workload.key, workload.queue, workload.priority
        # It starts only when its victims are gone.
        starts = self.ends.gone_at([one.key for one in victims], self._books.now)
        until = self.ends.end_from(self._units[workload.key], starts)
        found = plan.delays(*who, usage, until, gone)
        if found is None:
            return ""
        what = f"{found.quota.resource} in flavor {found.quota.flavor}"
        return f"it would delay {self._of(found.key)}, by its use of {what}"

    def _gone_late(self, workload: Workload, victims: Sequence[Workload]) -> str:
        """Return why victims would be gone too late for a promised start, or "".

        A unit that was promised the nodes of the victims cannot start on time otherwise: until they
        are gone they take the room, and the unit that evicts them is nominated there.
        """
        gone = self.ends.gone_at([one.key for one in victims], self._books.now)
        own = self._reserved.get(workload.key)
        if own is not None and gone > own.start:
            return "its victims would be gone only after its promised start"
        nodes = {pod.node_name for one in victims for pod in self._units[one.key].held.values()}
        for key, other in self.plan().others(workload.key, workload.priority).items():
            if gone > other.start and not nodes.isdisjoint(other.nodes):
                return f"its victims would be gone too late for {self._of(key)}"
        return ""

    def kept_node(self, workload: Workload) -> str:
        """Return for which promised start a node or devices are kept from a unit, or ""."""
        others = self.plan().others(workload.key, workload.priority)
        others = dict(sorted(others.items(), key=lambda item: item[1].start))
        pod = next(iter(self._units[workload.key].waiting.values()))
        now = self._books.now
        until = self.ends.end_from(self._units[workload.key], now)
        for key, one in others.items():
            for node, amounts in self._taken([one], now, until):
                if self._keeps_out(pod, node, amounts):
                    return f"node {node} is kept for {self._of(key)}"
            if one.devices and may_use_devices(pod) and one.start < until:
                driver, pool, *_ = one.devices[0]
                return f"devices of pool {driver}/{pool} are kept for {self._of(key)}"
        for key, _, node in self._apart(workload, others, now, until):
            return f"anti-affinity counts on node {node} as if {self._of(key)}, were there"
        return ""

    def _keeps_out(self, pod: PodInfo, node: str, amounts: Mapping[str, int]) -> bool:
        """Whether a node has room for a pod, but not beside these amounts that are kept there."""
        nodes = self._cluster.nodes
        row = nodes.row_of(node)
        if row is None:
            return False
        if not port_names(pod.pod.spec).isdisjoint(amounts):
            return True
        left = [
            (nodes.allocatable(name)[row] - nodes.requested(name)[row] - number, name)
            for name, number in pod.cls.requests.items()
            if number
        ]
        fits = all(free >= 0 for free, _ in left)
        return fits and any(free < amounts.get(name, 0) for free, name in left)

    def _of(self, key: str) -> str:
        return f"{key}, which {start_text(time_text(self._reserved[key].start))}"

    def beside(
        self, workload: Workload, victims: Sequence[Workload] = (), at: float | None = None
    ) -> Beside:
        """Return pods and claims for a trial, in place of what a unit must leave free.

        They take what the reservations need that the unit must not delay, while it runs, minus what
        is freed by pods that end before. ``at``: the unit's start; None: now. Pods that end until
        then count as gone, and so do its victims, for which it has to wait.
        """
        others = self.plan().others(workload.key, workload.priority)
        found, gone = [], {one.key for one in victims}
        if at is None:
            at = self._books.now
            until = self.ends.end_from(self._units[workload.key], self.ends.gone_at(gone, at))
        else:  # Then a start is to be promised, which may be late.
            until = at + workload.seconds
        for node, amounts in self._taken(others.values(), at, until, gone):
            found += [(pod, node) for pod in self._placeholders.requesting(amounts)]
        found += ((pod, node) for _, pod, node in self._apart(workload, others, at, until))
        kept = {key: one.devices if one.overlaps(at, until) else () for key, one in others.items()}
        claims = [
            placeholder_claim(key, map(PromisedDevice._make, kept[key]))
            for key, one in others.items()
            if one.devices
        ]
        return Beside(found, claims)

    def _apart(
        self, workload: Workload, others: Mapping[str, Reservation], at: float, until: float
    ) -> Iterator[tuple[str, PodInfo, str]]:
        """Yield units with reservations, and pods on nodes that keep a unit away from them.

        ``at`` and ``until``: the start and the end of the unit.
        """
        labelled = counts_labels(self._units[workload.key].waiting.values())
        for key, one in others.items():
            promised = self._units[key].waiting.values() if key in self._units else ()
            if promised and one.overlaps(at, until):
                parts = self._placeholders.keeping_apart(promised, one.nodes, labelled=labelled)
                yield from ((key, *part) for part in parts)

    def _taken(
        self,
        reserved: Iterable[Reservation],
        at: float,
        until: float,
        gone: Collection[str] = (),
    ) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield nodes, and the amounts that reservations need there between two times."""
        by_node: dict[str, list[Reservation]] = {}
        for one in reserved:
            if one.overlaps(at, until):
                for node in one.nodes:
                    by_node.setdefault(node, []).append(one)
        for node, here in by_node.items():
            most = self._most_needed(node, here, at, gone)
            if any(most.values()):
                yield node, most

    def _most_needed(
        self, node: str, here: Sequence[Reservation], at: float, gone: Collection[str]
    ) -> Mapping[str, int]:
        """Return the most that reservations take of a node, less what pods free after ``at``.

        ``gone``: the keys of units that count as gone at ``at``.
        """
        most: Counter[str] = Counter()
        # The need grows only when a reservation starts, so it is greatest at one of these times.
        for moment in {max(one.start, at) for one in here}:
            need: Counter[str] = Counter()
            for one in here:
                if one.start <= moment < one.end:
                    need.update(one.nodes[node])
            for ending in self._pods_on.get(node, ()):
                if at < ending.end <= moment and ending.key not in gone:
                    need.subtract(ending.requests)
            # On Counters, | keeps the larger amount of each resource, and drops those below 0.
            most |= need
        return most

    def ahead(self, workload: Workload, at: float, gone: Sequence[PodInfo]) -> Try:
        """Return the state of the cluster that is expected at a later time.

        ``gone``: the placeholders that are in the trial for a start now, and are to be removed.
        """
        self.plan()
        ended = [
            pod
            for key, end in self._planned.items()
            if end <= at
            for pod in self._units[key].held.values()
        ]
        # The nominated pods of a unit that waits for victims take room until that unit ends.
        for node in self._cluster.nominator.nodes():
            for pod in self._cluster.nominator.pods(node):
                key = unit_key(pod)
                if key != workload.key and key in self._units:
                    ended += [pod] if self._hold_ends.get(key, at) <= at else []
        beside, claims = self.beside(workload, at=at)
        freed: Iterable[ResourceClaim] = ()
        if any(map(may_use_devices, self._units[workload.key].waiting.values())):
            freed = deallocated_claims(self._cluster, ended)
        known = self._reserved.get(workload.key)
        # Of what was promised, another start may have taken the room that the first order counts
        # on, but not what is kept: some placement exists.
        thorough = known is not None and at == known.start
        return Try([*ended, *gone], beside, [*freed, *claims], thorough=thorough)

    def later(
        self,
        workload: Workload,
        rules: Rules,
        taken: Sequence[tuple[str, Amounts]] = (),
    ) -> Iterator[tuple[float, Assignment]]:
        """Yield later times at which a unit may be able to start, ascending, with its flavors then.

        At these times quota has room, and nodes have enough of each resource (``NodeRoom``). A time
        comes once for each choice of flavors with room, since the first may have none on nodes.
        This is lazy: callers stop at the first time at which a trial on the nodes succeeds.

        ``taken``: what the snapshot counts, by ClusterQueue, for other heads of this cycle, which
        have not started. A start that is promised already was promised before, and does not move
        for them; a new one must leave it to a head that blocks its queue.
        """
        plan, known = self.plan(), self._reserved.get(workload.key)
        now = self._books.now
        queue = self._books.snapshot.queues[workload.queue]
        others, units = plan.others(workload.key, workload.priority), self._units
        ending: list[tuple[float, str, Amounts]] = [
            (end, units[key].queue, units[key].usage) for key, end in self._planned.items()
        ]
        # Of each hold, the snapshot counts the first phase.
        first = [one for one in self._phases if one.start <= now]
        ending += [(one.end, one.queue, one.usage) for one in first]
        ending.sort(key=lambda one: one[0])
        times = {end for end, _, _ in ending}
        times |= {one.end for one in others.values()} | {one.end for one in self._phases}
        # The promised start itself is always tried, so that the unit can keep it.
        kept = {one.start for one in (known,) if one is not None and one.start > now}
        starts: dict[frozenset[tuple[FlavorResource, int]], set[float]] = {}
        tried = _thinned(sorted(t for t in times if 0 < t - now <= self._window))
        ended: dict[str, Counter[FlavorResource]] = {}
        room, least = self._node_room(units[workload.key])
        for at in sorted({*tried, *kept}):
            while ending and ending[0][0] <= at:
                _, name, usage = ending.pop(0)
                ended.setdefault(name, Counter()).update(usage)
            active = [one for one in others.values() if one.start <= at < one.end]
            # Checked before quota, which takes longer to compute.
            if not room.may_fit(least, at, [one.nodes for one in active]):
                continue
            more = [(one.queue, one.usage) for one in active]
            more += [(p.queue, p.usage) for p in self._phases if now < p.start <= at < p.end]
            less = [*ended.items(), *(taken if at in kept else ())]
            with self._books.snapshot.with_changes(less, more):
                choices = [*fitting(self._books.snapshot, queue, workload, rules)]
                if known is not None and at in kept:
                    choices += fitting_into(self._books.snapshot, workload, rules, known.usage)
            for assignment in choices:
                of_usage = frozenset(assignment.usage.items())
                # The plan returns all start times for a usage, so it is called once for each usage.
                if of_usage not in starts:
                    who = workload.key, workload.queue, workload.priority
                    starts[of_usage] = set(plan.starts(*who, assignment.usage, workload.seconds))
                if at in starts[of_usage]:
                    yield at, assignment

    def _node_room(self, unit: Unit) -> tuple[NodeRoom, int]:
        """Return the room on nodes for a unit's pods, and how many of them have to fit at least."""
        endings = ((e.end, node, e.requests) for node, on in self._pods_on.items() for e in on)
        pods = Counter(pod.cls for pod in unit.waiting.values())
        group = unit_group(self._cluster, unit)
        least = 1 if group is None else max(1, (group.min_count or 1) - len(unit.held))
        ordered = sorted(endings, key=lambda one: one[0])
        return NodeRoom(self._cluster.nodes, ordered, pods), least


def _thinned(times: Sequence[float]) -> Sequence[float]:
    """Return at most ``_MOST_TIMES`` of the times, evenly spread and including the last one."""
    step = ceil(len(times) / _MOST_TIMES)
    return times if step <= 1 else times[::-1][::step][::-1]
