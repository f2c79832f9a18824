"""Gangs start as a whole: none stays with fewer bound members than must start together."""

from __future__ import annotations

from collections.abc import Iterator

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.objects import Pod
from podsched.lab.chaos.history import PODS, History, Violation, node_of, replay
from podsched.lab.chaos.shapes import MIN_COUNT
from podsched.lib.counted import counted

WHOLE = "no gang stays partly bound"


class _Gang:
    """A gang: the keys of its bound members, and since when they are too few."""

    def __init__(self, min_count: int) -> None:
        self.min_count = min_count
        self.bound: set[str] = set()
        self.since: float | None = None
        #: It is not judged any more: it started, and may lose members with their nodes.
        self.started = False

    def becomes(self, key: str, *, bound: bool, at: float) -> float:
        """Update a member; return for how many seconds the gang was partly bound until now."""
        before = self.since
        if bound:
            self.bound.add(key)
        else:
            self.bound.discard(key)
        self.started |= len(self.bound) >= self.min_count
        if self.started or not self.bound:
            self.since = None
        elif self.since is None:
            self.since = at
        return at - before if before is not None else 0.0


def whole(history: History) -> Iterator[Violation]:
    """Find gangs with some bound members, but too few, for longer than ``within``."""
    gangs: dict[str, _Gang] = {}
    told: set[str] = set()
    at = 0.0
    for moment in replay(history):
        at = moment.revision.at
        for change in moment.pods:
            pod = change.after or change.before
            if pod is None or MIN_COUNT not in pod.metadata.labels:
                continue
            name = pod.spec.scheduling_group.pod_group_name
            if name not in gangs:
                gangs[name] = _Gang(int(pod.metadata.labels[MIN_COUNT]))
            seconds = gangs[name].becomes(change.key, bound=_is_bound(change.after), at=at)
            if seconds > history.begin.within and name not in told:
                told.add(name)
                yield _violation(name, gangs[name], seconds, at)
    if history.settled is None:
        return
    for name, gang in gangs.items():
        if gang.since is not None and name not in told:
            yield _violation(name, gang, history.settled.at - gang.since, history.settled.at)


def _is_bound(pod: Pod | None) -> bool:
    return bool(node_of(pod)) and pod is not None and not (is_terminating(pod) or is_finished(pod))


def _violation(name: str, gang: _Gang, seconds: float, at: float) -> Violation:
    text = (
        f"gang {name} had {counted(len(gang.bound), 'bound member')} for {seconds:.1f} s, "
        f"although {gang.min_count} have to start together"
    )
    return Violation(WHOLE, text, at, 0, tuple(PODS + key for key in sorted(gang.bound)))
