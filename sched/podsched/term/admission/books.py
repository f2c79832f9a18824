"""What all parts of admission share: the units, the quotas and their usage, and the time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field

from podsched.cache.cache import Cache
from podsched.cache.objects import ClusterState
from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.units import Unit

#: A queue of distinct keys. In a plain dict, finding the first key passes over all removed ones.
Keys = OrderedDict[str, None]


@dataclass(eq=False, slots=True)
class Books:
    """See the module. The time is in seconds since 1970.

    It is the monotonic time plus what the system's clock was ahead when the term began, so it does
    not jump when that clock is set.
    """

    cache: Cache
    cluster: ClusterState = field(init=False)
    units: dict[str, Unit] = field(default_factory=dict)
    snapshot: Snapshot = field(default_factory=lambda: Snapshot(()))
    stale: Keys = field(default_factory=OrderedDict)
    """Keys of units that have changed: they are refreshed in the same step."""
    freed: list[tuple[str, Collection[FlavorResource] | None]] = field(default_factory=list)
    """ClusterQueues in which quota was released, and the quotas of which less is used; None: any.

    Units that lack some of it are tried again by the next ``Turns.refresh``.
    """
    epoch: float = 0.0
    """The Unix time of the monotonic time 0."""
    now: float = 0.0
    """The time of the last ``Admission.refresh``."""

    def __post_init__(self) -> None:
        self.cluster = self.cache.cluster


def pop_first(keys: Keys) -> str:
    """Remove and return the first key."""
    return keys.popitem(last=False)[0]
