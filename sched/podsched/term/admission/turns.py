"""Whose turn it is: the units that wait in the queues, and the heads that may be tried.

In each queue only the head is tried; if it fails, it is tried again once something has changed that
may help:

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
#: Behind every place in a queue.
_LAST: Final = (float("inf"),)


class Turns:
    """See the module."""

    def __init__(self, holds: Holds, histories: Histories, endings: Endings) -> None:
        self._holds = holds
        self._histories = histories
        self._endings = endings
        self._snapshot = Snapshot(())
        self._pending: dict[str, Pending | SharedPending] = {}
        #: What waits, or is being decided about, by the unit's key.
        self._asked: dict[str, Workload] = {}
        #: Keys of units that wait and have been a head.
        self._tried: set[str] = set()
        #: When units may be tried that back off; and these times in order, with outdated ones.
        self._not_before: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []
        #: The names of queues that may have a head to try, and of others why they do not: the
        #: place in the queue's order of the head that was tried in vain.
        self._ready: dict[str, None] = {}
        self._blocked: dict[str, tuple[Any, ...]] = {}
        #: Names of queues below roots in which something was released, and what; None: anything.
        self._released: dict[str, set[FlavorResource] | None] = {}
        #: Keys of units that could not be placed, and of those that an event may have helped.
        self._parked: dict[str, None] = {}
        self._helped: dict[str, None] = {}
        #: Keys of units that wait for their turn since recently.
        self._new_waiting: dict[str, None] = {}

    def begin(self, snapshot: Snapshot, queues: Iterable[ClusterQueue]) -> None:
        """Forget what waits, but not what may not be tried yet; there are these queues now."""
        self._snapshot = snapshot
        for of_units in (self._asked, self._parked, self._helped, self._tried):
            of_units.clear()
        for of_queues in (self._pending, self._ready, self._blocked, self._released):
            of_queues.clear()
        for one in queues:
            name = one.metadata.name
            strategy, usage = snapshot.queues[name].strategy, self._histories.usage
            shared = self._histories.decide(one)
            self._pending[name] = SharedPending(strategy, usage) if shared else Pending(strategy)

    def refresh(self, now: float) -> None:
        """Have units tried that events may have helped, or whose time has come."""
        for key in list(self._helped):
            if self._tried_again_at(key) <= now:
                del self._helped[key]
                self._unpark(key)
        while (time := self._next_backoff()) is not None and time <= now:
            key = heappop(self._times)[1]
            del self._not_before[key]
            if key in self._asked:
                self._enter(self._asked[key])
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
        """Whether the head of a queue was tried in vain, and keeps others from being tried."""
        return queue in self._blocked

    def is_shared(self, queue: str) -> bool:
        """Whether the LocalQueues of a ClusterQueue share it by their past usage."""
        return isinstance(self._pending.get(queue), SharedPending)

    def waiting(self, key: str) -> Workload | None:
        """Return what a unit waits for in its queue, also while it is decided about."""
        return self._asked.get(key)

    def waiting_in(self, queue: str) -> list[Workload]:
        """Return what waits in a ClusterQueue, in no order."""
        return [one for one in self._asked.values() if one.queue == queue]

    def ahead_of(self, workload: Workload) -> list[Workload]:
        """Return what waits in a unit's queue and has its turn before it, in no order."""
        pending = self._pending[workload.queue]
        sticky, shared = pending.sticky, isinstance(pending, SharedPending)

        def turn(one: Workload) -> tuple[Any, ...]:
            past = self._histories.usage(one.local_queue) if shared else 0.0
            return one.key != sticky, past, *queue_order(one)

        own, priority, since = turn(workload), workload.priority, workload.queued_at
        found = []
        for one in self._asked.values():
            if one.queue != workload.queue:
                continue
            if not shared and one.key != sticky and workload.key != sticky:
                # Most are told apart without making their places: there may be 100,000.
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
        """Remove and return the keys of units that wait for their turn by now."""
        found, self._new_waiting = self._new_waiting, {}
        return list(found)

    def ask(self, key: str, workload: Workload | None, now: float) -> None:
        """Have a unit wait for what it asks for now; None: for nothing."""
        old = self._asked.get(key)
        if old is not None and workload is not None and _same(old, workload):
            return
        if old is not None:
            del self._asked[key]
            self._pending[old.queue].remove(key)
            self._lift(key)
            self._parked.pop(key, None)
            if key in self._tried:
                # Others may wait only because it, of the same shape, was tried in vain.
                self._tried.remove(key)
                self.release(old.queue)
        if workload is None:
            return
        self._asked[key] = workload
        pending = self._pending[workload.queue]
        if (until := self._endings.not_before(key)) > now and key not in self._not_before:
            self.wait_until(key, until)
        if key in self._not_before:
            pending.requeue(workload, Requeue.GENERIC, backoff=True)
            return
        self._enter(workload)

    def _enter(self, workload: Workload) -> None:
        """Have a unit wait for its turn."""
        self._new_waiting[workload.key] = None
        self._pending[workload.queue].push(workload)
        blocked = self._blocked.get(workload.queue)
        if blocked is not None and queue_order(workload) < blocked:
            del self._blocked[workload.queue]
        self._offer(workload.queue)

    # ------------------------------------------------------------------ heads and their outcomes

    def pop_heads(self) -> list[Workload]:
        """Take the heads of the queues that have one to try.

        Units whose victims are gone come first, alone: what has been freed was kept for them, and
        others, such as the victims themselves, would take it before it is their turn.
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
            # In StrictFIFO, a unit of higher priority may have come meanwhile. What was freed for
            # the other one would be kept in vain, as long as this one blocks the queue.
            for key in served.get(head.queue, ()):
                self._lift(key)
        return found

    def admitted(self, key: str) -> None:
        """Take a unit out of its queue, which starts."""
        workload = self._asked.pop(key, None)
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

        ``parked``: its pods wait for the events that may help them. ``alone``: from now on it is
        like no other unit. ``tried``: flavors remain that
        the search has not reached, and it goes on there at once; see ``Workload.tried``. ``lacks``:
        of what something has to be released; None: of anything.
        """
        key, name = workload.key, workload.queue
        if self._asked.get(key) is not workload:
            return  # It has changed, or is gone.
        shape = None if alone else workload.shape
        workload = self._asked[key] = replace(workload, tried=tried, shape=shape)
        if parked:
            self._parked[key] = None
        strategy = self._snapshot.queues[name].strategy
        pending = self._pending[name]
        pending.requeue(workload, reason, untried=bool(tried), lacks=lacks)
        stays = stays_in_heap(strategy, reason, untried=bool(tried), backoff=False)
        # A head that lost to another of its cycle is tried in the next: it blocks nothing.
        if stays and not tried and reason is not Requeue.FAILED_AFTER_NOMINATION:
            # Whose turn it is among LocalQueues changes with time.
            shared = isinstance(pending, SharedPending)
            self._blocked[name] = queue_order(workload) if not shared else _LAST
        self._offer(name)

    def back_off(self, workload: Workload, until: float) -> None:
        """Put a head back that may not be tried for a while."""
        self.wait_until(workload.key, until)
        if self._asked.get(workload.key) is workload:
            self._pending[workload.queue].requeue(workload, Requeue.GENERIC, backoff=True)

    def wait_until(self, key: str, until: float) -> None:
        """Do not try a unit before a time, once it waits again."""
        self._not_before[key] = until
        heappush(self._times, (until, key))

    # ------------------------------------------------------------------ what may help

    def note_helped(self, key: str) -> None:
        """Note an event that may help a unit, if it is one that could not be placed."""
        if key in self._parked:
            self._helped[key] = None

    def release(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Note that something was released in a queue, which may help all of its tree.

        ``freed``: the quotas of which less is used; None: of any.
        """
        known = self._released.setdefault(queue, set())
        if freed is None:
            self._released[queue] = None
        elif known is not None:
            known.update(freed)

    def try_again(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Have all units of a queue tried again that may be helped; ``freed`` as in ``release``."""
        self._pending[queue].release(freed)
        self._blocked.pop(queue, None)
        self._offer(queue)

    def _lift(self, key: str) -> None:
        """End the hold of a unit; what it kept may help others."""
        hold = self._holds.of.get(key)
        if hold is not None:
            self._holds.lift(key)
            self.release(hold.queue, hold.counted)

    def _offer(self, queue: str) -> None:
        self._ready[queue] = None

    def _tried_again_at(self, key: str) -> float:
        """Return when a unit is tried again that an event may have helped.

        It is not at once, if it waits for victims: perhaps they could not be evicted, or are gone
        and their bindings are not known to have failed.
        """
        hold = self._holds.of.get(key)
        return hold.since + PAUSE if hold is not None and hold.victims else 0.0

    def _unpark(self, key: str) -> None:
        """Try a unit again, whose pods were woken, and others of its shape."""
        self._parked.pop(key, None)
        workload = self._asked.get(key)
        if workload is not None:
            self._lift(key)
            self.try_again(workload.queue)

    def _release_trees(self) -> None:
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
    """Whether a unit asks for the same as before, at the same place in the order."""
    return (
        one.shape == other.shape
        and one.queue == other.queue
        and queue_order(one) == queue_order(other)
    )
