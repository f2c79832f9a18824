"""The waiting workloads of a ClusterQueue: active ones are tried, inadmissible ones are not.

| from | to | when |
| --- | --- | --- |
| new, changed | active | its shape is not known to be hopeless |
| new, changed | inadmissible | its shape is known to be hopeless |
| active | in a cycle | it is the head |
| in a cycle | active | ``order.stays_in_heap`` |
| in a cycle | inadmissible | otherwise; if it cannot be admitted, its shape becomes hopeless |
| inadmissible | active | some quota that it lacks was released in its tree; or ``retry`` |

A shape is hopeless if a workload of it could not be admitted: until quota that it lacks is
released, no workload of this shape is tried (Kueue's equivalence hashing), except one that was
queued earlier: it may preempt more (``LowerOrNewerEqualPriority``).

Workloads of one shape are a group, and only the first of a group is in the heap. So a step costs
O(log n) for n waiting workloads, and a release costs the number of shapes that it may help.

Source: Kueue 0.20, pkg/cache/queue/cluster_queue.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from podsched.queues.objects import Strategy, Workload
from podsched.queues.order import Requeue, becomes_sticky, queue_order, stays_in_heap
from podsched.queues.quota import FlavorResource

_HOPELESS = (Requeue.NO_FIT, Requeue.NO_CANDIDATES)
#: A heap is rebuilt once more than half of its places are outdated, beyond this number.
_MOST_STALE = 16

_Place = tuple[float, int, float, str, str]
#: The quotas of which some must be released before a workload may be admitted; None: any quota.
Lacks = frozenset[FlavorResource] | None


class Pending:
    """The waiting workloads of one ClusterQueue."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self.sticky: str | None = None
        """The key of the workload that stays the head because it waits for its victims."""
        self._groups = _Groups()
        self._set_aside: dict[str, Workload] = {}
        """Workloads that are not tried until the next release, whatever their shape."""
        self._backing_off: dict[str, Workload] = {}
        """Workloads that are not tried until they are pushed again."""

    @property
    def active(self) -> dict[str, Workload]:
        """The workloads that are tried without an event, by key, as a new dict."""
        return self._groups.workloads(hopeless=False)

    @property
    def inadmissible(self) -> dict[str, Workload]:
        """The workloads that wait for an event or a backoff, by key, as a new dict."""
        return self._set_aside | self._backing_off | self._groups.workloads(hopeless=True)

    @property
    def is_empty(self) -> bool:
        """Whether no workload waits."""
        return not (self._groups.of or self._set_aside or self._backing_off)

    def push(self, workload: Workload) -> None:
        """Add a workload that is new or has changed, or whose backoff is over."""
        # As in Kueue, a changed preemptor is no longer sticky.
        self.remove(workload.key)
        self._groups.join(workload)

    def remove(self, key: str) -> None:
        """Remove a workload that is gone or admitted."""
        self._set_aside.pop(key, None)
        self._backing_off.pop(key, None)
        self._groups.leave(key)
        if self.sticky == key:
            self.sticky = None

    def pop(self) -> Workload | None:
        """Remove and return the head, for a cycle; None without an active workload."""
        head = self._groups.find_active(self.sticky) if self.sticky is not None else None
        head = head or self._groups.first()
        if head is not None:
            self._groups.leave(head.key)
        return head

    def put_back(self, workload: Workload) -> None:
        """Put a head back that was popped but not tried."""
        # Its shape may be hopeless and it was active all the same: see ``requeue``.
        self._groups.join(workload, tried=True)

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        *,
        untried: bool = False,
        backoff: bool = False,
        lacks: Lacks = None,
    ) -> bool:
        """Put a head back that was not admitted, unless a changed version waits already.

        ``untried``: flavors remain that the search has not reached. ``backoff``: it may not be
        tried before it is pushed again. Returns whether it is tried again without an event.
        """
        stays = stays_in_heap(self._strategy, reason, untried=untried, backoff=backoff)
        if any(workload.key in of for of in (self._groups.of, self._set_aside, self._backing_off)):
            return stays
        if becomes_sticky(self._strategy, reason):
            self.sticky = workload.key
        elif self.sticky == workload.key and reason in _HOPELESS:
            self.sticky = None
        if stays:
            # Even if its shape is hopeless, this one has a reason to be tried.
            self._groups.join(workload, tried=True)
        elif reason in _HOPELESS and workload.shape is not None and not backoff:
            self._groups.give_up(workload, lacks)
            self._groups.join(workload)
        else:
            (self._backing_off if backoff else self._set_aside)[workload.key] = workload
        return stays

    def release(self, freed: Collection[FlavorResource] | None = None) -> None:
        """Make the inadmissible workloads active that a release may help, if they do not back off.

        ``freed``: the quotas of which some was released; None: any.
        """
        self._groups.release(freed)
        set_aside, self._set_aside = self._set_aside, {}
        for workload in set_aside.values():
            self._groups.join(workload)

    def retry(self, workload: Workload) -> None:
        """Make a workload active, unless it backs off or is gone, and others of its shape.

        Others that are set aside stay so.
        """
        aside = self._set_aside.pop(workload.key, None)
        if aside is not None:
            self._groups.join(aside)
        self._groups.retry(workload.shape)


class _Groups:
    """The workloads that wait by shape, and which shapes are hopeless."""

    def __init__(self) -> None:
        self._by_shape: dict[Hashable, _Group] = {}
        """A workload without a shape, or one that is tried alone, is its own group."""
        self.of: dict[str, _Group] = {}
        """By key of the workload."""
        self._heap: list[_Place] = []
        """The place of the first of each group, and some places that are outdated."""
        self._hopeless: dict[Hashable, tuple[Lacks, float]] = {}
        """Shapes that are not tried until some quota that they lack is released, and ``queued_at``
        of the workload that was tried in vain."""
        self._lacking: dict[Lacks, dict[Hashable, None]] = {}
        """The hopeless shapes, by what they lack."""

    def workloads(self, *, hopeless: bool) -> dict[str, Workload]:
        """Return the workloads of all hopeless shapes, or of all others, by key."""
        return {
            key: workload
            for shape, group in self._by_shape.items()
            if (shape in self._hopeless) == hopeless
            for key, workload in group.workloads.items()
        }

    def find_active(self, key: str) -> Workload | None:
        """Return a workload by its key; None unless it is active."""
        group = self.of.get(key)
        if group is None or group.shape in self._hopeless:
            return None
        return group.workloads[key]

    def first(self) -> Workload | None:
        """Return the first active workload, without its place in the heap."""
        # Places of workloads that left or changed stay in the heap until they are popped here.
        while self._heap:
            place = heappop(self._heap)
            first = self.find_active(place[-1])
            if first is not None and queue_order(first) == place:
                return first
        return None

    def join(self, workload: Workload, *, tried: bool = False) -> None:
        """Add a workload; ``tried``: as a group of its own if its shape is hopeless."""
        # The class in the tuple makes the name different from any shape.
        name: Hashable = (Pending, workload.key)
        if (known := self._hopeless.get(workload.shape)) is not None:
            tried |= workload.queued_at < known[1]
        if workload.shape is not None and not (tried and known):
            name = workload.shape
        group = self._by_shape.setdefault(name, _Group(name))
        self.of[workload.key] = group
        group.add(workload)
        self._offer(group)

    def leave(self, key: str) -> None:
        """Remove a workload, if it is there."""
        group = self.of.pop(key, None)
        if group is None:
            return
        del group.workloads[key]
        if group.workloads:
            self._offer(group)
        else:
            del self._by_shape[group.shape]
            self._drop_hopeless(group.shape)

    def give_up(self, workload: Workload, lacks: Lacks) -> None:
        """Make the shape of a workload hopeless."""
        shape = workload.shape
        self._drop_hopeless(shape)
        self._hopeless[shape] = lacks, workload.queued_at
        self._lacking.setdefault(lacks, {})[shape] = None

    def release(self, freed: Collection[FlavorResource] | None) -> None:
        """Retry the shapes that a release may help."""
        for lacks in list(self._lacking):
            if freed is None or lacks is None or not lacks.isdisjoint(freed):
                for shape in list(self._lacking[lacks]):
                    self.retry(shape)

    def retry(self, shape: Hashable) -> None:
        if shape in self._hopeless:
            self._drop_hopeless(shape)
            if shape in self._by_shape:
                self._offer(self._by_shape[shape])

    def _drop_hopeless(self, shape: Hashable) -> None:
        if shape in self._hopeless:
            lacks, _ = self._hopeless.pop(shape)
            del self._lacking[lacks][shape]
            if not self._lacking[lacks]:
                del self._lacking[lacks]

    def _offer(self, group: _Group) -> None:
        """Push the place of the first of a group, unless its shape is hopeless."""
        if group.shape in self._hopeless:
            return
        heappush(self._heap, group.first())
        if len(self._heap) > 2 * len(self._by_shape) + _MOST_STALE:
            tried = (
                group for shape, group in self._by_shape.items() if shape not in self._hopeless
            )
            self._heap = [group.first() for group in tried]
            heapify(self._heap)


class PendingByUsage:
    """The waiting workloads of a ClusterQueue that is ordered by past usage of its LocalQueues.

    Past usage changes all the time, so it is compared between the heads of the LocalQueues whenever
    a head is popped. Its methods are those of ``Pending``.
    """

    def __init__(self, strategy: Strategy, usage: Callable[[str], float]) -> None:
        """Order by ``usage``, which returns the past usage of a LocalQueue."""
        self._strategy = strategy
        self._usage = usage
        self._of: dict[str, Pending] = {}
        self._queue_of: dict[str, str] = {}

    @property
    def sticky(self) -> str | None:
        return next((of.sticky for of in self._of.values() if of.sticky is not None), None)

    def push(self, workload: Workload) -> None:
        self.remove(workload.key)
        self._pending_of(workload).push(workload)

    def remove(self, key: str) -> None:
        queue = self._queue_of.pop(key, None)
        of = self._of.get(queue) if queue is not None else None
        if queue is not None and of is not None:
            of.remove(key)
            # The LocalQueue may be gone. A sticky head that is in a cycle must stay sticky.
            if of.is_empty and of.sticky is None:
                del self._of[queue]

    def pop(self) -> Workload | None:
        heads = [(of, head) for of in self._of.values() if (head := of.pop()) is not None]
        if not heads:
            return None
        chosen = min(heads, key=self._rank)
        # Not ``requeue``, which could set them aside although they were not tried.
        for of, head in heads:
            if head is not chosen[1]:
                of.put_back(head)
        return chosen[1]

    def _rank(self, head: tuple[Pending, Workload]) -> tuple[object, ...]:
        of, workload = head
        usage = self._usage(workload.local_queue)
        # As in Kueue, a sticky preemptor comes before past usage and priority.
        return of.sticky != workload.key, usage, queue_order(workload)

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        *,
        untried: bool = False,
        backoff: bool = False,
        lacks: Lacks = None,
    ) -> bool:
        of = self._pending_of(workload)
        return of.requeue(workload, reason, untried=untried, backoff=backoff, lacks=lacks)

    def release(self, freed: Collection[FlavorResource] | None = None) -> None:
        for of in self._of.values():
            of.release(freed)

    def retry(self, workload: Workload) -> None:
        if workload.local_queue in self._of:
            self._of[workload.local_queue].retry(workload)

    def _pending_of(self, workload: Workload) -> Pending:
        queue = self._queue_of[workload.key] = workload.local_queue
        return self._of.setdefault(queue, Pending(self._strategy))


@dataclass(slots=True, eq=False)
class _Group:
    """The workloads of one shape, in order."""

    shape: Hashable
    workloads: dict[str, Workload] = field(default_factory=dict)
    _heap: list[_Place] = field(default_factory=list)

    def add(self, workload: Workload) -> None:
        """Add a workload, or replace its old version."""
        self.workloads[workload.key] = workload
        heappush(self._heap, queue_order(workload))
        if len(self._heap) > 2 * len(self.workloads) + _MOST_STALE:
            self._heap = [queue_order(one) for one in self.workloads.values()]
            heapify(self._heap)

    def first(self) -> _Place:
        """Return the place of the first workload; the group must not be empty."""
        while True:
            place = self._heap[0]
            workload = self.workloads.get(place[-1])
            if workload is not None and queue_order(workload) == place:
                return place
            heappop(self._heap)
