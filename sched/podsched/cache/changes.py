"""The changes caused by an informer's event, as values that the cache returns for the queue.

The cache does not know the queue. Values created for each event are named tuples, because creating
one takes half as long as a frozen dataclass.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from podsched.framework.events import ClusterEvent
from podsched.framework.pods import PodInfo


class AnomalyKind(enum.Enum):
    """Inconsistencies between an event and the cache; the cache follows the event in any case."""

    NODE_MISMATCH = "the pod is on another node than the cache had it"
    UNASSIGNED = "a pod that was bound has no node any more"
    UNKNOWN_NODE = "an update or removal of a node that the cache does not have"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An inconsistency that the cache has repaired, for the log."""

    kind: AnomalyKind
    object: str
    detail: str


class Change(NamedTuple):
    """A cluster event with the objects before and after, for the queue to wake pods by."""

    event: ClusterEvent
    old: Any | None = None
    new: Any | None = None


class PendingChange(NamedTuple):
    """A change of a pod without a node: added (no ``old``), updated, or deleted (no ``new``).

    ``assumed``: the cache holds the pod as assumed, so it is not in the queue. If such a pod was
    deleted, its binding cycle must give up and ``forget`` it.
    """

    old: PodInfo | None
    new: PodInfo | None
    assumed: bool = False


class Applied(NamedTuple):
    """What an informer's event changed: events for the queue, a pending pod, an anomaly."""

    changes: tuple[Change, ...] = ()
    pending: PendingChange | None = None
    anomaly: Anomaly | None = None


NOTHING: Final = Applied()
