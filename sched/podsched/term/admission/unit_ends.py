"""When running units end, and units that may start: upper bounds, behind which starts are promised.

Such a bound must not move while units keep to their limits.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from podsched.term.admission.books import Books
from podsched.term.admission.endings import Endings, bound_at
from podsched.term.admission.limits import SLACK, longest_grace, occupied
from podsched.term.admission.units import Unit


class UnitEnds:
    """The ends of the units that have held pods."""

    def __init__(self, books: Books, endings: Endings) -> None:
        self._books = books
        self._cluster = books.cluster
        self._endings = endings
        self.of: dict[str, float] = {}
        """When the quota and nodes of a unit with held pods are free again, by key."""

    def update(self, unit: Unit) -> bool:
        """Take in a unit that has changed; return whether it has held pods, or had some."""
        had = self.of.pop(unit.key, None)
        if unit.held:
            self.of[unit.key] = self._end_of(unit)
        return had is not None or bool(unit.held)

    def _end_of(self, unit: Unit, joined: float | None = None) -> float:
        """Return when the quota and nodes of a unit with held pods are free again.

        ``joined``: when the pods that wait join these, if they do.
        """
        pods = unit.held.values()
        begun = self._endings.admitted_at(unit)
        if begun == inf:
            # The limit counts from the start of the first pod that is left, which may be any of
            # them, also one that joins. The latest start makes the end an upper bound.
            starts = (min(self._books.now, bound_at(pod)) for pod in pods)
            begun = max(starts) if joined is None else joined
        end = begun + occupied(self._cluster, unit, joining=joined is not None)
        if all(pod.terminating for pod in pods):
            # Kubernetes' deletionTimestamp is when the grace period ends.
            gone = max(pod.pod.metadata.deletion_timestamp.seconds for pod in pods)
            end = min(end, gone + SLACK)
        return end

    def end_from(self, unit: Unit, at: float) -> float:
        """Return when the waiting pods of a unit end that start ``at`` a time.

        A running unit ends as a whole.
        """
        if not unit.held:
            return at + occupied(self._cluster, unit)
        # They may have longer deadlines, or grace periods, than those that run.
        return self.still(self._end_of(unit, at))

    def end_after(self, unit: Unit, victims: Iterable[str]) -> float:
        """Return when the waiting pods of a unit end that start once its victims are gone."""
        return self.end_from(unit, self.gone_at(victims, self._books.now))

    def gone_at(self, victims: Iterable[str], evicted: float) -> float:
        """Return when all of these units are gone if they are ``evicted`` at a time."""
        # They may not be terminating yet: then their pods do not say when they will be gone.
        units, found = self._books.units, [evicted]
        for key in victims:
            if key in self.of:
                gone = evicted + longest_grace(units[key].held.values()) + SLACK
                found.append(self.still(min(self.of[key], gone)))
        return max(found)

    def still(self, end: float) -> float:
        """Return the end, or now + ``SLACK`` for a unit that should have ended already."""
        return end if end > self._books.now else self._books.now + SLACK
