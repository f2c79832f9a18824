"""Find when a unit can start, beside the units that run and the promised starts of others.

    ends of running units and of holds --> ``Outlook``: quota over time, with the promised starts
    unit --> ``beside``: what it must leave to others if it starts now (``delays`` explains it)
         --> ``later``, ``ahead``: when quota has room for it, and the cluster's state expected then

``reservations`` decides which starts are promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from podsched.api.objects import ResourceClaim
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import Beside, Try
from podsched.framework.pods import PodInfo
from podsched.queues.assignment import Assignment
from podsched.queues.backfill.plan import Reservation
from podsched.queues.choices import fitting, fitting_into
from podsched.queues.cycle import Rules
from podsched.queues.objects import Workload
from podsched.queues.quota import Amounts, FlavorResource
from podsched.term.admission.books import Books
from podsched.term.admission.endings import Endings
from podsched.term.admission.holds import Holds
from podsched.term.admission.node_room import NodeRoom
from podsched.term.admission.outlook import Outlook
from podsched.term.admission.placeholders import Placeholders, counts_labels
from podsched.term.admission.reserved_devices import (
    deallocated_claims,
    may_use_devices,
    placeholder_claim,
)
from podsched.term.admission.unit_ends import UnitEnds
from podsched.term.admission.units import Unit, unit_group, unit_key

#: Max later times at which a unit is tried.
_MOST_TIMES: Final = 64


class Timetable:
    """See the module."""

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
        self._outlook: Outlook | None = None
        self._placeholders = Placeholders(books.cache)

    def begin(self) -> None:
        """Use a new snapshot; ``update`` is called again for all units."""
        self.ends.of.clear()
        self.outdate()

    def outdate(self) -> None:
        """Discard the outlook, because what runs has changed."""
        self._outlook = None

    def set_reservation(self, key: str, made: Reservation | None) -> None:
        """Change the reservation of a unit in the outlook; None: it has none any more."""
        if self._outlook is not None:
            self._outlook.set_reservation(key, made)

    def update(self, unit: Unit) -> None:
        """Take in a unit that has changed."""
        if self.ends.update(unit):
            self.outdate()

    @property
    def outlook(self) -> Outlook:
        """What is expected to run, found anew if it is outdated."""
        if self._outlook is None or not self._outlook.is_valid:
            self._outlook = Outlook(self._books, self._holds, self.ends, self._reserved)
        return self._outlook

    def beside(
        self, workload: Workload, victims: Collection[str] = (), at: float | None = None
    ) -> Beside:
        """Return pods and claims for a trial, in place of what a unit must leave free.

        They take what the reservations need that the unit must not delay, while it runs, minus what
        is freed by pods that end before. ``at``: the unit's start; None: now. Pods that end until
        then count as gone, and so do its victims, for which it has to wait.
        """
        outlook, found = self.outlook, list[tuple[PodInfo, str]]()
        others = outlook.plan.others(workload.key, workload.priority)
        if at is None:
            at = self._books.now
            until = self.ends.end_after(self._units[workload.key], victims)
        else:  # Then a start is to be promised, which may be late.
            until = at + workload.seconds
        for node, amounts in outlook.taken(others.values(), at, until, victims):
            found += [(pod, node) for pod in self._placeholders.requesting(amounts)]
        found += ((pod, node) for _, pod, node in self.apart(workload, others, at, until))
        claims = [
            placeholder_claim(key, one.devices if one.overlaps(at, until) else ())
            for key, one in others.items()
            if one.devices
        ]
        return Beside(found, claims)

    def apart(
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

    def ahead(self, workload: Workload, at: float, gone: Sequence[PodInfo]) -> Try:
        """Return the state of the cluster that is expected at a later time.

        ``gone``: the placeholders that are in the trial for a start now, and are to be removed.
        """
        outlook = self.outlook
        ended = [
            pod
            for key, end in outlook.ends.items()
            if end <= at
            for pod in self._units[key].held.values()
        ]
        # The nominated pods of a unit that waits for victims take room until that unit ends.
        for node in self._cluster.nominator.nodes():
            for pod in self._cluster.nominator.pods(node):
                key = unit_key(pod)
                if key != workload.key and key in self._units:
                    ended += [pod] if outlook.hold_ends.get(key, at) <= at else []
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
        self, workload: Workload, rules: Rules, taken: Sequence[tuple[str, Amounts]] = ()
    ) -> Iterator[tuple[float, Assignment]]:
        """Yield later times at which a unit may be able to start, ascending, with its flavors then.

        At these times quota has room, and nodes have enough of each resource (``NodeRoom``). A time
        comes once for each choice of flavors with room, since the first may have none on nodes.
        This is lazy: callers stop at the first time at which a trial on the nodes succeeds.

        ``taken``: what the snapshot counts, by ClusterQueue, for other heads of this cycle, which
        have not started. A start that is promised already was promised before, and does not move
        for them; a new one must leave it to a head that blocks its queue.
        """
        outlook, now, units = self.outlook, self._books.now, self._units
        plan, phases, known = outlook.plan, outlook.phases, self._reserved.get(workload.key)
        queue = self._books.snapshot.queues[workload.queue]
        others = plan.others(workload.key, workload.priority)
        ending: list[tuple[float, str, Amounts]] = [
            (end, units[key].queue, units[key].usage) for key, end in outlook.ends.items()
        ]
        # Of each hold, the snapshot counts the first phase.
        first = [one for one in phases if one.start <= now]
        ending += [(one.end, one.queue, one.usage) for one in first]
        ending.sort(key=lambda one: one[0])
        times = {end for end, _, _ in ending}
        times |= {one.end for one in others.values()} | {one.end for one in phases}
        # The promised start itself is always tried, so that the unit can keep it.
        kept = {one.start for one in (known,) if one is not None and one.start > now}
        starts: dict[frozenset[tuple[FlavorResource, int]], set[float]] = {}
        tried = _thinned(sorted(t for t in times if 0 < t - now <= self._window))
        ended: dict[str, Counter[FlavorResource]] = {}
        room, least = _node_room(self._cluster, units[workload.key], outlook)
        for at in sorted({*tried, *kept}):
            while ending and ending[0][0] <= at:
                _, name, usage = ending.pop(0)
                ended.setdefault(name, Counter()).update(usage)
            active = [one for one in others.values() if one.start <= at < one.end]
            # Checked before quota, which takes longer to compute.
            if not room.may_fit(least, at, [one.nodes for one in active]):
                continue
            more = [(one.queue, one.usage) for one in active]
            more += [(p.queue, p.usage) for p in phases if now < p.start <= at < p.end]
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


def _node_room(cluster: ClusterView, unit: Unit, outlook: Outlook) -> tuple[NodeRoom, int]:
    """Return the room on nodes for a unit's pods, and how many of them have to fit at least."""
    endings = ((e.end, node, e.requests) for node, on in outlook.pods_on.items() for e in on)
    pods = Counter(pod.cls for pod in unit.waiting.values())
    group = unit_group(cluster, unit)
    least = 1 if group is None else max(1, (group.min_count or 1) - len(unit.held))
    ordered = sorted(endings, key=lambda one: one[0])
    return NodeRoom(cluster.nodes, ordered, pods), least


def _thinned(times: Sequence[float]) -> Sequence[float]:
    """Return at most ``_MOST_TIMES`` of the times, evenly spread and including the last one."""
    step = ceil(len(times) / _MOST_TIMES)
    return times if step <= 1 else times[::-1][::step][::-1]
