"""The units that wait in the queues, and the heads of the queues that are tried next.

In each queue only the head is tried. If it fails, it is tried again after a change that may help:

| a unit that | is tried again after |
| --- | --- |
| lacks quota | a release of what it lacks, or more quota, in its tree of cohorts |
| fits no nodes | an event that helps one of its pods (queueing hints), or a release in its tree |
| waits for its victims | the last of them is gone; until then nothing else of its queue is tried |

Pure and synchronous.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from heapq import heappop, heappush
from typing import Any, Final

from podsched.api.objects import ClusterQueue
from podsched.queues.objects import Workload
from podsched.queues.order import Requeue, queue_order, stays_in_heap
from podsched.queues.pending import Lacks, Pending, SharedPending
from podsched.queues.quota import FlavorResource, Node
from podsched.queues.snapshot import Snapshot
from podsched.term.admission.endings import Endings
from podsched.term.admission.histories import Histories
from podsched.term.admission.holds import Holds

#: Seconds between two choices of victims for a unit.
PAUSE: Final = 1.0
#: A key that sorts after that of every unit in a queue.
_LAST: Final = (float("inf"),)


class Turns:
    """The waiting units by queue, and why a queue's head is not tried now; see the module."""

    def __init__(self, holds: Holds, histories: Histories, endings: Endings) -> None:
        self._holds = holds
        self._histories = histories
        self._endings = endings
        self._snapshot = Snapshot(())
        self._pending: dict[str, Pending | SharedPending] = {}
        #: By key of the unit, those that wait or are being decided about.
        self._workloads: dict[str, Workload] = {}
        #: Keys of waiting units that have been a head.
        self._tried: set[str] = set()
        #: When a unit's backoff ends, by key; and a heap of these times, some of them outdated.
        self._not_before: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []
        #: Names of queues that may have a head to try.
        self._ready: dict[str, None] = {}
        #: Queues whose head was tried in vain, with the head's place in the queue's order.
        self._blocked: dict[str, tuple[Any, ...]] = {}
        #: Queues in which quota was released, and which; None: any.
        self._released: dict[str, set[FlavorResource] | None] = {}
        #: Keys of units that fit no nodes, and of those among them that an event may have helped.
        self._parked: dict[str, None] = {}
        self._helped: dict[str, None] = {}
        #: Keys of units that have entered their queue since they were taken from here.
        self._new_waiting: dict[str, None] = {}

    def begin(self, snapshot: Snapshot, queues: Iterable[ClusterQueue]) -> None:
        """Start with new queues and without units; backoffs are kept."""
        self._snapshot = snapshot
        for of_units in (self._workloads, self._parked, self._helped, self._tried):
            of_units.clear()
        for of_queues in (self._pending, self._ready, self._blocked, self._released):
            of_queues.clear()
        for one in queues:
            name = one.metadata.name
            strategy, usage = snapshot.queues[name].strategy, self._histories.usage
            shared = self._histories.orders(one)
            self._pending[name] = SharedPending(strategy, usage) if shared else Pending(strategy)

    def refresh(self, now: float) -> None:
        """Have units tried again that events may have helped, or whose backoff has ended."""
        for key in list(self._helped):
            if self._tried_again_at(key) <= now:
                del self._helped[key]
                self._unpark(key)
        while (time := self._next_backoff()) is not None and time <= now:
            key = heappop(self._times)[1]
            del self._not_before[key]
            if key in self._workloads:
                self._enter(self._workloads[key])
        self._release_trees()

    def next_time(self) -> float | None:
        """Return when a unit may be tried next without a change; None: never."""
        times = self._next_backoff(), *map(self._tried_again_at, self._helped)
        return min((time for time in times if time is not None), default=None)

    def _next_backoff(self) -> float | None:
        """Return when the next backoff ends."""
        while self._times and self._not_before.get(self._times[0][1]) != self._times[0][0]:
            heappop(self._times)
        return self._times[0][0] if self._times else None

    # ------------------------------------------------------------------ what waits

    @property
    def has_heads(self) -> bool:
        """Whether a queue may have a head to try."""
        return bool(self._ready)

    def is_ready(self, queue: str) -> bool:
        """Whether a queue may have a head to try."""
        return queue in self._ready

    def is_blocked(self, queue: str) -> bool:
        """Whether a queue is not tried, because its head was tried in vain."""
        return queue in self._blocked

    def is_shared(self, queue: str) -> bool:
        """Whether past usage of the LocalQueues orders the units of a ClusterQueue."""
        return isinstance(self._pending.get(queue), SharedPending)

    def waiting(self, key: str) -> Workload | None:
        """Return the workload of a unit that waits, or is being decided about; else None."""
        return self._workloads.get(key)

    def waiting_in(self, queue: str) -> list[Workload]:
        """Return the units that wait in a ClusterQueue, in no particular order."""
        return [one for one in self._workloads.values() if one.queue == queue]

    def ahead_of(self, workload: Workload) -> list[Workload]:
        """Return the units before a unit in its queue, in no particular order."""
        pending = self._pending[workload.queue]
        sticky, shared = pending.sticky, isinstance(pending, SharedPending)

        def turn(one: Workload) -> tuple[Any, ...]:
            past = self._histories.usage(one.local_queue) if shared else 0.0
            return one.key != sticky, past, *queue_order(one)

        own, priority, since = turn(workload), workload.priority, workload.queued_at
        found = []
        for one in self._workloads.values():
            if one.queue != workload.queue:
                continue
            if not shared and one.key != sticky and workload.key != sticky:
                # Most are compared without building sort keys: there may be 100,000.
                if one.priority < priority:
                    continue
                if one.priority > priority or one.queued_at < since:
                    found.append(one)
                    continue
                if one.queued_at > since:
                    continue
            if turn(one) < own:
                found.append(one)
        return found

    def take_new_waiting(self) -> list[str]:
        """Remove and return the keys of units that have entered their queue since the last call."""
        found, self._new_waiting = self._new_waiting, {}
        return list(found)

    def update(self, key: str, workload: Workload | None, now: float) -> None:
        """Replace the workload of a waiting unit; None: it does not wait any more."""
        old = self._workloads.get(key)
        if old is not None and workload is not None and _same(old, workload):
            return
        if old is not None:
            del self._workloads[key]
            self._pending[old.queue].remove(key)
            self._lift(key)
            self._parked.pop(key, None)
            if key in self._tried:
                # Others of the same shape may be waiting only because this one was tried in vain.
                self._tried.remove(key)
                self.release(old.queue)
        if workload is None:
            return
        self._workloads[key] = workload
        pending = self._pending[workload.queue]
        if (until := self._endings.not_before(key)) > now and key not in self._not_before:
            self.wait_until(key, until)
        if key in self._not_before:
            pending.requeue(workload, Requeue.GENERIC, backoff=True)
            return
        self._enter(workload)

    def _enter(self, workload: Workload) -> None:
        """Put a unit into its queue."""
        self._new_waiting[workload.key] = None
        self._pending[workload.queue].push(workload)
        blocked = self._blocked.get(workload.queue)
        if blocked is not None and queue_order(workload) < blocked:
            del self._blocked[workload.queue]
        self._ready[workload.queue] = None

    # ------------------------------------------------------------------ heads and their outcomes

    def pop_heads(self) -> list[Workload]:
        """Remove and return the heads of the queues that have one to try.

        If the victims of some units are gone, only the queues of these units are tried: others,
        such as the victims themselves, would take the freed room of nodes first.
        """
        found = []
        waiting, served = set[str](), dict[str, list[str]]()
        for key, hold in self._holds.of.items():
            if hold.victims:
                waiting.add(hold.queue)
            else:
                served.setdefault(hold.queue, []).append(key)
        for name in list(self._ready):
            if name in waiting or name in self._blocked:
                del self._ready[name]
        for name in [name for name in self._ready if name in served] or list(self._ready):
            # One head for each queue in a cycle, as in Kueue; the queue stays ready for the next.
            head = self._pending[name].pop()
            if head is None:
                del self._ready[name]
            else:
                found.append(head)
        for head in found:
            self._tried.add(head.key)
            self._lift(head.key)
            # A unit of higher priority may have become the head meanwhile. In StrictFIFO it may
            # block the queue, and then quota would be kept in vain for the unit with the hold.
            for key in served.get(head.queue, ()):
                self._lift(key)
        return found

    def admitted(self, key: str) -> None:
        """Remove a unit that was admitted from its queue."""
        workload = self._workloads.pop(key, None)
        if workload is not None:
            pending = self._pending[workload.queue]
            pending.remove(key)
            if isinstance(pending, SharedPending):
                # Kueue's penalty: past usage grows with the admission, not with the next sample.
                asked: Counter[str] = Counter()
                for pods in workload.pod_sets:
                    asked.update(pods.total(pods.count))
                self._histories.admitted(workload.local_queue, key, asked)
        self._tried.discard(key)
        self._parked.pop(key, None)

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        *,
        parked: bool = False,
        alone: bool = False,
        tried: tuple[Mapping[str, int], ...] = (),
        lacks: Lacks = None,
    ) -> None:
        """Put a head back that was not admitted.

        ``parked``: it fits no nodes, so it waits for events that may help its pods. ``alone``: from
        now on it shares no shape with other units. ``tried``: not empty if flavors remain that the
        search has not reached; it goes on there at once, see ``Workload.tried``. ``lacks``: the
        quotas of which some has to be released before it is tried again; None: any.
        """
        key, name = workload.key, workload.queue
        if self._workloads.get(key) is not workload:
            return  # It has changed or gone since it was popped.
        shape = None if alone else workload.shape
        workload = self._workloads[key] = replace(workload, tried=tried, shape=shape)
        if parked:
            self._parked[key] = None
        strategy = self._snapshot.queues[name].strategy
        pending = self._pending[name]
        pending.requeue(workload, reason, untried=bool(tried), lacks=lacks)
        stays = stays_in_heap(strategy, reason, untried=bool(tried), backoff=False)
        # A head that lost to another head of its cycle is tried in the next one: it blocks nothing.
        if stays and not tried and reason is not Requeue.FAILED_AFTER_NOMINATION:
            # With past usage the order changes with time, so any unit may become the head.
            shared = isinstance(pending, SharedPending)
            self._blocked[name] = queue_order(workload) if not shared else _LAST
        self._ready[name] = None

    def back_off(self, workload: Workload, until: float) -> None:
        """Put a head back that may not be tried before ``until``."""
        self.wait_until(workload.key, until)
        if self._workloads.get(workload.key) is workload:
            self._pending[workload.queue].requeue(workload, Requeue.GENERIC, backoff=True)

    def wait_until(self, key: str, until: float) -> None:
        """Keep a unit from being tried before ``until``, also if it begins to wait only later."""
        self._not_before[key] = until
        heappush(self._times, (until, key))

    # ------------------------------------------------------------------ what may help

    def note_helped(self, key: str) -> None:
        """Note an event that may help a unit, if it waits for events because it fits no nodes."""
        if key in self._parked:
            self._helped[key] = None

    def release(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Note a release of quota in a queue; the next ``refresh`` has its whole tree tried again.

        ``freed``: the quotas of which less is used; None: any.
        """
        known = self._released.setdefault(queue, set())
        if freed is None:
            self._released[queue] = None
        elif known is not None:
            known.update(freed)

    def try_again(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Have the units of a queue tried again that a release may help (see ``release``)."""
        self._pending[queue].release(freed)
        self._blocked.pop(queue, None)
        self._ready[queue] = None

    def _lift(self, key: str) -> None:
        """End the hold of a unit, and release the quota that it kept."""
        hold = self._holds.of.get(key)
        if hold is not None:
            self._holds.lift(key)
            self.release(hold.queue, hold.counted)

    def _tried_again_at(self, key: str) -> float:
        """Return when a unit is tried again after an event that may have helped it.

        A unit that waits for victims is tried only after a pause. It needs another try if they
        could not be evicted, or if they are gone but their bindings are not yet known to have
        failed.
        """
        hold = self._holds.of.get(key)
        return hold.since + PAUSE if hold is not None and hold.victims else 0.0

    def _unpark(self, key: str) -> None:
        """Have a unit that was helped by an event tried again, and others of its shape."""
        self._parked.pop(key, None)
        workload = self._workloads.get(key)
        if workload is not None:
            self._lift(key)
            self.try_again(workload.queue)

    def _release_trees(self) -> None:
        """Have all queues tried again in whose tree quota was released."""
        if not self._released:
            return
        nodes = self._snapshot.forest.queues
        freed: dict[Node, set[FlavorResource] | None] = {}
        for name, keys in self._released.items():
            if name in nodes:
                known = freed.setdefault(nodes[name].root, set())
                freed[nodes[name].root] = None if keys is None or known is None else known | keys
        self._released = {}
        for name, node in nodes.items():
            if node.root in freed:
                self.try_again(name, freed[node.root])


def _same(one: Workload, other: Workload) -> bool:
    """Whether a unit asks for the same as before, in the same place in the order."""
    return (
        one.shape == other.shape
        and one.queue == other.queue
        and queue_order(one) == queue_order(other)
    )
