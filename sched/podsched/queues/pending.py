"""The workloads of a ClusterQueue that wait: a heap in order, and a set that waits for an event.

| from | to | when |
| --- | --- | --- |
| new, changed | active | its shape has not been found hopeless |
| new, changed | inadmissible | its shape has been found hopeless |
| active | in a cycle | it is the head |
| in a cycle | active | ``order.stays_in_heap`` |
| in a cycle | inadmissible | otherwise; with it all of its shape, if it cannot be admitted |
| inadmissible | active | quota may have been freed in its tree |

A step costs the logarithm of the number that wait; only what is moved costs more.

Source: Kueue 0.20, pkg/cache/queue/cluster_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush

from podsched.queues.objects import Strategy, Workload
from podsched.queues.order import Requeue, becomes_sticky, queue_order, stays_in_heap

_HOPELESS = (Requeue.NO_FIT, Requeue.NO_CANDIDATES)
#: The heap is made anew when it has more places than twice the active ones and these.
_MOST_STALE = 16


class Pending:
    """The workloads of one ClusterQueue that wait."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.active: dict[str, Workload] = {}
        """What is tried without an event, by key."""
        self.inadmissible: dict[str, Workload] = {}
        """What waits for an event, by key."""
        self.sticky: str | None = None
        """The workload that stays the head, as it waits for its victims."""
        self._heap: list[tuple[float, int, float, str, str]] = []
        """The places of the active ones in the order, and some that are no longer theirs."""
        self._shapes: dict[Hashable, set[str]] = {}
        """The active ones by shape."""
        self._hopeless: set[Hashable] = set()

    def push(self, workload: Workload) -> None:
        """Add a workload that is new or has changed."""
        self.remove(workload.key)
        if workload.shape in self._hopeless:
            self.inadmissible[workload.key] = workload
        else:
            self._activate(workload)

    def remove(self, key: str) -> None:
        """Forget a workload that is gone, or admitted."""
        self.inadmissible.pop(key, None)
        self._deactivate(key)
        if self.sticky == key:
            self.sticky = None

    def pop(self) -> Workload | None:
        """Take the head out for a cycle; None without an active workload."""
        head = self.active.get(self.sticky) if self.sticky is not None else None
        while head is None and self._heap:
            place = heappop(self._heap)
            first = self.active.get(place[-1])
            head = first if first is not None and queue_order(first) == place else None
        if head is not None:
            self._deactivate(head.key)
        return head

    def requeue(
        self, workload: Workload, reason: Requeue, *, untried: bool = False, backoff: bool = False
    ) -> None:
        """Put a head back that was not admitted.

        ``untried``: flavors remain that the search has not reached. ``backoff``: it may not be
        tried yet.
        """
        if becomes_sticky(self._strategy, reason):
            self.sticky = workload.key
        elif self.sticky == workload.key and reason in _HOPELESS:
            self.sticky = None
        if stays_in_heap(self._strategy, reason, untried=untried, backoff=backoff):
            self._activate(workload)
            return
        self.inadmissible[workload.key] = workload
        if reason in _HOPELESS and workload.shape is not None:
            self._hopeless.add(workload.shape)
            for key in list(self._shapes.get(workload.shape, ())):
                self.inadmissible[key] = self.active[key]
                self._deactivate(key)

    def release(self, may_be_tried: Callable[[Workload], bool]) -> None:
        """Try the inadmissible again, after quota may have been freed; some may still not."""
        self._hopeless.clear()
        for key, workload in list(self.inadmissible.items()):
            if may_be_tried(workload):
                del self.inadmissible[key]
                self._activate(workload)

    def _activate(self, workload: Workload) -> None:
        self.active[workload.key] = workload
        heappush(self._heap, queue_order(workload))
        if len(self._heap) > 2 * len(self.active) + _MOST_STALE:
            self._heap = sorted(map(queue_order, self.active.values()))
        if workload.shape is not None:
            self._shapes.setdefault(workload.shape, set()).add(workload.key)

    def _deactivate(self, key: str) -> None:
        workload = self.active.pop(key, None)
        if workload is not None and workload.shape is not None:
            alike = self._shapes[workload.shape]
            alike.discard(key)
            if not alike:
                del self._shapes[workload.shape]
