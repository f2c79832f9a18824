"""Where a pod stands in the scheduling queue, for those who ask; nothing here changes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from podsched.framework.pods import PodInfo, QueuedPodInfo


@dataclass(frozen=True, slots=True)
class Standing:
    """A pod's place. Times are those of the queue's clock; durations are in seconds.

    backoff: the whole of it after the last failure; timeout_left: until the pod is tried again
    even if nothing happens, None where that is not so. ahead: the pods of activeQ that are
    attempted before it, or would be if it were woken now; ``ahead_first`` are the next of them.
    """

    queue: str
    pod: QueuedPodInfo
    backoff: float = 0.0
    backoff_left: float = 0.0
    timeout_left: float | None = None
    ahead: int = 0
    ahead_first: tuple[PodInfo, ...] = ()
    waiting: Mapping[str, int] = field(default_factory=dict)
    gate_reasons: tuple[str, ...] = ()
