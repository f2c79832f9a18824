"""The sources of the page's data: the objects of a cluster, and its leadership."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from podsched.api.objects import AnyObject

#: The kinds whose changes the page follows, in the order in which they are read.
KINDS = (
    *("Node", "PodGroup", "Pod", "Event", "ResourceSlice"),
    *("Cohort", "ClusterQueue", "LocalQueue"),
)

Change = tuple[str, str]
"""The kind and the key of an object that was added, changed or deleted."""


class Source(Protocol):
    """The objects of a process, read from its memory."""

    def follow(self) -> None:
        """Begin to record changes."""

    def unfollow(self) -> None:
        """Stop recording changes."""

    def keys(self, kind: str) -> list[str]:
        """Return the keys of all objects of a kind."""

    def get(self, kind: str, key: str) -> AnyObject | None:
        """Return an object as it is now; None if there is none, or it cannot be read."""

    def changed(self) -> Collection[Change] | None:
        """Return the changes since the last call; None if some were lost: read all again."""


@dataclass(frozen=True, slots=True)
class Load:
    """A scheduler's report on its work: counts since its start, and times in seconds.

    at: Unix time; the queues are numbers of pods; the quantiles are those of the attempts, and of
    the time from a pod's first attempt until it is bound, in the last seconds; 0 without any.
    """

    at: float
    scheduled: int
    unschedulable: int
    errors: int
    active: int
    backoff: int
    waiting: int
    gated: int
    attempt_p50: float
    attempt_p99: float
    pod_p50: float
    pod_p99: float


@dataclass(frozen=True, slots=True)
class Replica:
    """A scheduler replica. state: leading, standby, deposed or gone; term: 0 unless it leads."""

    identity: str
    state: str
    term: int
    page: str
    load: Load | None


@dataclass(frozen=True, slots=True)
class Leadership:
    """The present leadership. since: Unix time at which the leader got the lock, 0.0 if unknown."""

    lock: str
    leader: str
    since: float
    transitions: int
    paused: str
    replicas: tuple[Replica, ...]

    @property
    def leading(self) -> Replica | None:
        """The replica that reports that it leads."""
        return next((r for r in self.replicas if r.identity == self.leader), None)


ReadLeadership = Callable[[float], Leadership]
"""Returns the leadership as of a Unix time."""
