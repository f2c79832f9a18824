"""The units that wait in the queues, and the heads of the queues that are tried next.

In each queue only the head is tried, and units whose promised start has come. If a head fails, it
is tried again after a change that may help:

| a unit that | is tried again after |
| --- | --- |
| lacks quota | a release of what it lacks, or more quota, in its tree of cohorts |
| fits no nodes | an event that helps one of its pods (queueing hints), or a release in its tree |
| waits for its victims | the last of them is gone; until then its queue has no other head |

A changed unit is tried again, too, but no other for it, apart from one of the shape that it had:
users can change their units all the time. Only if it kept quota from others, and asks for another
quota now, are all of its tree tried. So are those that may preempt a unit that runs, once it has
become less important.

Pure and synchronous.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from podsched.lib.due_times import DueTimes, earliest
from podsched.lib.taking import take_all
from podsched.queues.objects import Workload
from podsched.queues.order import Requeue, queue_order
from podsched.queues.pending import Lacks, Pending, PendingByUsage
from podsched.queues.quota import FlavorResource, Node
from podsched.term.admission.books import Books
from podsched.term.admission.histories import Histories
from podsched.term.admission.holds import Holds
from podsched.term.admission.requeuing import Requeuing

#: The quotas of which less is used; None: any.
_Freed = frozenset[FlavorResource] | None
#: A key that sorts after that of every unit in a queue.
_LAST: Final = (float("inf"),)


class Turns:
    """The waiting units by queue, and why a queue's head is not tried now; see the module."""

    def __init__(
        self, books: Books, holds: Holds, histories: Histories, requeuing: Requeuing
    ) -> None:
        self._books = books
        self._holds = holds
        self._histories = histories
        self._requeuing = requeuing
        self.pending: dict[str, Pending | PendingByUsage] = {}
        #: By key of the unit, those that wait or are being decided about.
        self.workloads: dict[str, Workload] = {}
        #: Keys of waiting units that have been a head.
        self._tried: set[str] = set()
        self.backoffs = DueTimes()
        """Before these times units are not tried, also if they begin to wait only later."""
        #: Names of queues that may have a head to try.
        self.ready: dict[str, None] = {}
        #: Queues whose head was tried in vain, with the head's place in the queue's order.
        self.blocked: dict[str, tuple[Any, ...]] = {}
        self.keepers: dict[str, str] = {}
        """By queue, the key of the last head that blocked it without victims: quota is kept for it.
        """
        #: Keys of units that fit no nodes, and of those among them that an event may have helped.
        self._parked: dict[str, None] = {}
        self._helped: dict[str, None] = {}
        self.due: dict[str, None] = {}
        """Keys of units whose promised start has come: they are tried with the next heads."""
        self.entered: dict[str, None] = {}
        """The keys of units that have entered their queue; for who reports it."""

    def begin(self) -> None:
        """Start with new queues and without units; backoffs are kept."""
        for of_units in (self.workloads, self._parked, self._helped, self.due, self._tried):
            of_units.clear()
        self._books.freed.clear()
        for of_queues in (self.pending, self.ready, self.blocked, self.keepers):
            of_queues.clear()
        for name, queue in self._books.snapshot.queues.items():
            pending: Pending | PendingByUsage = Pending(queue.strategy)
            if self._histories.orders(name):
                pending = PendingByUsage(queue.strategy, self._histories.usage)
            self.pending[name] = pending

    def refresh(self) -> None:
        """Have units tried again that events may have helped, or whose backoff has ended."""
        for key in list(self._helped):
            if self._holds.tried_again_at(key) <= self._books.now:
                del self._helped[key]
                self._parked.pop(key, None)
                if (workload := self.workloads.get(key)) is not None:
                    # Its hold lasts until it is a head: others would take its quota before that.
                    if (hold := self._holds.of.get(key)) is not None:
                        hold.helped = True
                    self._try_shape(workload)
        for key, _ in self.backoffs.pop_due(self._books.now):
            if key in self.workloads:
                self._enter(self.workloads[key])
        for name, freed in _take_freed(self._books):
            self.try_again(name, freed)

    def next_time(self) -> float | None:
        """Return when a unit may be tried next without a change; None: never."""
        return earliest(self.backoffs.next_time(), *map(self._holds.tried_again_at, self._helped))

    # ------------------------------------------------------------------ what waits

    def update(self, key: str, workload: Workload | None) -> None:
        """Replace the workload of a waiting unit; None: it does not wait any more."""
        old = self.workloads.get(key)
        if old is not None and workload is not None and _same(old, workload):
            return
        if old is not None:
            del self.workloads[key]
            self.pending[old.queue].remove(key)
            self._holds.lift(key)
            self._parked.pop(key, None)
            self._end_trials(old, workload)
        if workload is None:
            return
        self.workloads[key] = workload
        pending = self.pending[workload.queue]
        until = 0.0 if key in self.backoffs else self._requeuing.not_before(key)
        if until > self._books.now:
            self.backoffs.set(key, until)
        if key in self.backoffs:
            pending.requeue(workload, Requeue.GENERIC, backoff=True)
            return
        self._enter(workload)

    def _end_trials(self, old: Workload, new: Workload | None) -> None:
        """Have those tried that wait because this unit was tried in vain before it changed."""
        key, name = old.key, old.queue
        if key in self._tried:
            self._tried.remove(key)
            # The events of its pods stood for all of its shape, and it may have been the head.
            self._try_shape(old)
        if self.keepers.get(name) == key and (new is None or not _asks_the_same(old, new)):
            del self.keepers[name]
            self._books.freed.append((name, None))

    def _enter(self, workload: Workload) -> None:
        """Put a unit into its queue."""
        self.entered[workload.key] = None
        self.pending[workload.queue].push(workload)
        blocked = self.blocked.get(workload.queue)
        if blocked is not None and queue_order(workload) < blocked:
            del self.blocked[workload.queue]
        self.ready[workload.queue] = None

    # ------------------------------------------------------------------ heads and their outcomes

    def pop_heads(self) -> list[Workload]:
        """Remove and return the heads of the queues that have one to try.

        If the victims of some units are gone, or an event may have helped these units before, only
        their queues are tried: others, such as the victims themselves, would take what is kept for
        them first.
        """
        waiting, served = self._holds.by_queue()
        # Units whose promised start has come do not wait until they are heads: their queue may have
        # none for long, while another unit waits for its victims.
        found = [
            self.workloads[key]
            for key in take_all(self.due)
            if key in self.workloads and key not in self.backoffs and key not in self._holds.of
        ]
        for one in found:
            self.pending[one.queue].remove(one.key)
        for name in list(self.ready):
            if name in waiting or name in self.blocked:
                del self.ready[name]
        for name in [name for name in self.ready if name in served] or list(self.ready):
            # One head for each queue in a cycle, as in Kueue; the queue stays ready for the next.
            head = self.pending[name].pop()
            if head is None:
                del self.ready[name]
            else:
                found.append(head)
        for head in found:
            self._tried.add(head.key)
            self._holds.lift(head.key)
            # A unit of higher priority may have become the head meanwhile. In StrictFIFO it may
            # block the queue, and then quota would be kept in vain for the unit with the hold.
            for key in served.get(head.queue, ()):
                self._holds.lift(key)
        return found

    def admitted(self, key: str) -> None:
        """Remove a unit that was admitted from its queue."""
        workload = self.workloads.pop(key, None)
        if workload is not None:
            pending = self.pending[workload.queue]
            pending.remove(key)
            if isinstance(pending, PendingByUsage):
                # Kueue's penalty: past usage grows with the admission, not with the next sample.
                self._histories.admitted(workload.local_queue, key, workload.requests)
        self._tried.discard(key)
        self._parked.pop(key, None)

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        *,
        parked: bool = False,
        alone: bool = False,
        tried: Mapping[str, Mapping[str, int]] | None = None,
        lacks: Lacks = None,
    ) -> None:
        """Put a head back that was not admitted.

        ``parked``: it fits no nodes, so it waits for events that may help its pods. ``alone``: from
        now on it shares no shape with other units. ``tried``: not empty if flavors remain that the
        search has not reached; it goes on there at once, see ``Workload.tried``. ``lacks``: the
        quotas of which some has to be released before it is tried again; None: any.
        """
        key, name = workload.key, workload.queue
        if self.workloads.get(key) is not workload:
            return  # It has changed or gone since it was popped.
        shape = None if alone else workload.shape
        workload = self.workloads[key] = replace(workload, tried=tried or {}, shape=shape)
        if parked:
            self._parked[key] = None
        if self.keepers.get(name, key) != key:
            # It has come before the head for which quota was kept.
            del self.keepers[name]
            self._books.freed.append((name, None))
        pending = self.pending[name]
        stays = pending.requeue(workload, reason, untried=bool(tried), lacks=lacks)
        # A head that lost to another head of its cycle is tried in the next one: it blocks nothing.
        if stays and not tried and reason is not Requeue.FAILED_AFTER_NOMINATION:
            # With past usage the order changes with time, so any unit may become the head.
            by_usage = isinstance(pending, PendingByUsage)
            self.blocked[name] = _LAST if by_usage else queue_order(workload)
            if reason is Requeue.NO_CANDIDATES:
                self.keepers[name] = key
        self.ready[name] = None

    def back_off(self, workload: Workload, until: float) -> None:
        """Put a head back that may not be tried before ``until``."""
        self.backoffs.set(workload.key, until)
        if self.workloads.get(workload.key) is workload:
            self.pending[workload.queue].requeue(workload, Requeue.GENERIC, backoff=True)

    def end_backoff(self, key: str) -> None:
        """End the backoff of a unit, if there is one: what is made under its name is another."""
        if key in self.backoffs:
            self.backoffs.set(key, self._books.now)

    # ------------------------------------------------------------------ what may help

    def waits_for_nodes(self, key: str) -> bool:
        """Whether a unit was tried, and fitted no nodes."""
        return key in self._parked

    def note_helped(self, key: str) -> None:
        """Note an event that may help a unit, if it waits for events because it fits no nodes."""
        if key in self._parked:
            self._helped[key] = None

    def try_again(self, queue: str, freed: Collection[FlavorResource] | None = None) -> None:
        """Have the units of a queue tried again that a release may help.

        ``freed``: the quotas of which less is used; None: any.
        """
        self.pending[queue].release(freed)
        self.blocked.pop(queue, None)
        self.ready[queue] = None

    def find_heads_anew(self) -> None:
        """Have the heads tried of queues that past usage orders, since it has changed."""
        for name, pending in self.pending.items():
            if isinstance(pending, PendingByUsage) and self.blocked.pop(name, None) is not None:
                self.ready[name] = None

    def _try_shape(self, workload: Workload) -> None:
        """Have a unit, if it waits still, and others of its shape in its queue tried again."""
        self.pending[workload.queue].retry(workload)
        self.blocked.pop(workload.queue, None)
        self.ready[workload.queue] = None


def _take_freed(books: Books) -> Iterator[tuple[str, _Freed]]:
    """Yield the queues in whose trees quota was released, and which; None: any."""
    nodes, by_root = books.snapshot.forest.queues, dict[Node, _Freed]()
    for name, freed in books.freed:
        if name in nodes:
            root = nodes[name].root
            known = by_root.get(root, frozenset())
            by_root[root] = None if freed is None or known is None else known.union(freed)
    books.freed.clear()
    for name, node in nodes.items() if by_root else ():
        if node.root in by_root:
            yield name, by_root[node.root]


def _same(one: Workload, other: Workload) -> bool:
    """Whether a unit asks for the same as before, in the same place in the order."""
    # The shape alone does not say so: a unit with a promised start has none, and it does not depend
    # on the order of the pods, from which pod sets have their names.
    same_queue = one.queue == other.queue and one.local_queue == other.local_queue
    same_kind = one.shape == other.shape and same_queue
    return same_kind and one.pod_sets == other.pod_sets and queue_order(one) == queue_order(other)


def _asks_the_same(one: Workload, other: Workload) -> bool:
    """Whether a changed unit asks for the same quota as before, with the same priority."""
    same_place = one.queue == other.queue and one.priority == other.priority
    return same_place and one.pod_sets == other.pod_sets
