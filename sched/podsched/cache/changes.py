"""What an informer's event led to in the cache, as values for the owner of the queue.

Those that each event makes are named tuples, which take half as long to make as frozen dataclasses.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from podsched.framework.events import ClusterEvent
from podsched.framework.pods import PodInfo


class AnomalyKind(enum.Enum):
    """What the cache did not expect of the informer; it follows the informer in every case."""

    NODE_MISMATCH = "the pod is on another node than the cache had it"
    UNASSIGNED = "a pod that was bound has no node any more"
    UNKNOWN_NODE = "an update or removal of a node that the cache does not have"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something unexpected that the cache has put right; to be logged."""

    kind: AnomalyKind
    object: str
    detail: str = ""


class Change(NamedTuple):
    """A cluster event with the objects before and after, for the queue to wake pods by."""

    event: ClusterEvent
    old: Any | None = None
    new: Any | None = None


class PendingChange(NamedTuple):
    """A change of a pod without a node: added (no ``old``), updated, or deleted (no ``new``).

    ``assumed``: the cache holds the pod as assumed, so it is not in the queue. When such a pod was
    deleted, its binding cycle has to give up and ``forget`` it.
    """

    old: PodInfo | None
    new: PodInfo | None
    assumed: bool = False


class Applied(NamedTuple):
    """What an informer's event led to."""

    changes: tuple[Change, ...] = ()
    pending: PendingChange | None = None
    anomaly: Anomaly | None = None


NOTHING: Final = Applied()
