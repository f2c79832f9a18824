"""States that must not last, such as a pod that waits although it fits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from podsched.lab.chaos.history import History, World, replay


class Lasting:
    """Since when each state has lasted, by key."""

    def __init__(self, within: float) -> None:
        """``within``: seconds that a state may last."""
        self._within = within
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def too_long(self, present: Iterable[str], at: float) -> Iterator[tuple[str, float]]:
        """Take the present states; yield each that has lasted too long, once, with its seconds."""
        self._since = {key: self._since.get(key, at) for key in present}
        self._told.intersection_update(self._since)
        for key, since in self._since.items():
            if at - since > self._within and key not in self._told:
                self._told.add(key)
                yield key, at - since


def after_the_faults(history: History, period: float = 0.0) -> Iterator[tuple[World, float]]:
    """Yield the world with its time at each revision, and when it has settled.

    Time counts from the last fault on: what was before has its time. ``period``: least seconds
    between two looks.
    """
    begins = due = history.last_fault
    world = World()
    for moment in replay(history):
        world, at = moment.world, max(moment.revision.at, begins)
        if not period or moment.revision.at >= due:
            due = at + period
            yield world, at
    if history.settled is not None:
        yield world, history.settled.at
