"""What is expected to run, from now on: when units end, and the promised starts beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import NamedTuple

from podsched.framework.pods import PodInfo
from podsched.lib.groups import lists_by_key
from podsched.queues.backfill.plan import Plan, Reservation
from podsched.queues.backfill.profile import Profile
from podsched.queues.objects import PODS
from podsched.queues.quota import Amounts, FlavorResource
from podsched.term.admission.books import Books
from podsched.term.admission.holds import Holds
from podsched.term.admission.limits import SLACK
from podsched.term.admission.unit_ends import UnitEnds


class Ending(NamedTuple):
    """The requests that are free on a node again once a pod has ended."""

    end: float
    key: str
    """Of the pod's unit."""
    requests: Mapping[str, int]


class Phase(NamedTuple):
    """The quota that is kept for a unit between two times, while it waits for its victims."""

    start: float
    end: float
    queue: str
    usage: Amounts


class Outlook:
    """The plan of all running units, holds and reservations, and what it was made of."""

    def __init__(
        self, books: Books, holds: Holds, unit_ends: UnitEnds, reserved: Mapping[str, Reservation]
    ) -> None:
        """``reserved``: by key of the unit."""
        self._books = books
        self._holds = holds
        self._unit_ends = unit_ends
        self.ends = self._planned_ends()
        """When running units end, or are gone as victims, by key."""
        self.hold_ends = {key: self._hold_end(key) for key in holds.of}
        """When units that wait for their victims will have started and ended, by key."""
        self.phases = [one for key in self.hold_ends for one in self._phases_of(key)]
        """Those of all holds."""
        self.pods_on: dict[str, list[Ending]] = {}
        """The endings of the pods on each node."""
        times = [*self.ends.values()]
        for one in reserved.values():
            times += (one.start, one.end)
        profile = Profile(books.now, books.snapshot.forest, times)
        for key, end in self.ends.items():
            unit = books.units[key]
            profile.occupy(unit.queue, unit.usage, books.now, end)
            self._free_later(key, end, ((pod.node_name, pod) for pod in unit.held.values()))
        for phase in self.phases:
            profile.occupy(phase.queue, phase.usage, phase.start, phase.end)
        node_of = books.cluster.nominator.node_of
        for key, end in self.hold_ends.items():
            waiting = books.units[key].waiting.items()
            self._free_later(key, end, ((node_of(uid), pod) for uid, pod in waiting))
        # Units that should have ended already are planned to end at now + SLACK: after that, or
        # after the first end, the plan is not valid.
        self._until = min([books.now + SLACK, *profile.times[1:2].tolist()])
        self.plan = Plan(profile, self._kept(reserved))

    @property
    def is_valid(self) -> bool:
        """Whether this may be used again, while what runs has not changed."""
        # Holds change with their victims, so a plan with holds is used only once.
        return self._books.now < self._until and not (self._holds.of or self.hold_ends)

    def set_reservation(self, key: str, made: Reservation | None) -> None:
        """Change the reservation of a unit in the plan; None: it has none any more."""
        if self.plan.reservations.get(key) == made:
            return
        # Changed in place: a new plan would take as long as the decision about one more unit.
        self.plan.drop(key)
        if made is not None:
            self.plan.reserve(key, made)
            self._until = min(self._until, made.start)

    def _hold_end(self, key: str) -> float:
        hold, ends = self._holds.of[key], self._unit_ends
        # This bound must not move while the victims go: starts are promised behind it.
        gone = max(hold.since + SLACK, ends.gone_at(hold.victims, hold.since))
        return ends.end_from(self._books.units[key], ends.still(gone))

    def _planned_ends(self) -> dict[str, float]:
        ends = {key: self._unit_ends.still(end) for key, end in self._unit_ends.of.items()}
        for hold in self._holds.of.values():
            for one in hold.victims & ends.keys():
                ends[one] = min(ends[one], self._unit_ends.gone_at((one,), hold.since))
        return ends

    def _kept(self, reserved: Mapping[str, Reservation]) -> dict[str, Reservation]:
        """Return what is kept for promised starts, besides what holds take already."""
        kept = dict(reserved)
        for key, end in self.hold_ends.items():
            one = kept.pop(key, None)
            # A unit that waits for its victims may not start in their place after all, and then
            # needs what it was promised also after that.
            if one is not None and end < one.end:
                start = max(end, one.start)
                kept[key] = replace(one, start=start, seconds=one.end - start)
        return kept

    def _phases_of(self, key: str) -> Iterator[Phase]:
        """Yield the phases of a hold: it keeps the quota of each victim as soon as that is gone."""
        hold, ends, now = self._holds.of[key], self.ends, self._books.now
        gone = {at for one in hold.victims if now < (at := ends.get(one, now)) < inf}
        times = [now, *sorted(gone), max(self.hold_ends[key], now, *gone)]
        for start, end in pairwise(times):
            used: Counter[FlavorResource] = Counter()
            for one in hold.victims:
                if ends.get(one, now) > start:
                    used.update(self._books.units[one].usage)
            usage = {name: n - used[name] for name, n in hold.need.items() if n > used[name]}
            yield Phase(start, end, hold.queue, usage)

    def _free_later(self, key: str, end: float, pods: Iterable[tuple[str, PodInfo]]) -> None:
        """Note that the pods of a unit, each with its node, will have ended at a time."""
        for node, pod in pods if end < inf else ():
            ending = Ending(end, key, {**pod.cls.requests, PODS: 1})
            self.pods_on.setdefault(node, []).append(ending)

    def taken(
        self, reserved: Iterable[Reservation], at: float, until: float, gone: Collection[str] = ()
    ) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Yield nodes, and the amounts that reservations need there between two times.

        Less what pods free after ``at``. ``gone``: the keys of units that count as gone at ``at``.
        """
        overlapping = (one for one in reserved if one.overlaps(at, until))
        by_node = lists_by_key((node, one) for one in overlapping for node in one.nodes)
        for node, here in by_node.items():
            most = self._most_needed(node, here, at, gone)
            if any(most.values()):
                yield node, most

    def _most_needed(
        self, node: str, here: Sequence[Reservation], at: float, gone: Collection[str]
    ) -> Mapping[str, int]:
        most: Counter[str] = Counter()
        # The need grows only when a reservation starts, so it is greatest at one of these times.
        for moment in {max(one.start, at) for one in here}:
            need: Counter[str] = Counter()
            for one in here:
                if one.start <= moment < one.end:
                    need.update(one.nodes[node])
            for ending in self.pods_on.get(node, ()):
                if at < ending.end <= moment and ending.key not in gone:
                    need.subtract(ending.requests)
            # On Counters, | keeps the larger amount of each resource, and drops those below 0.
            most |= need
        return most
