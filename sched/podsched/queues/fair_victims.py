"""Choose the victims of a workload with fair sharing, from the queues with the largest shares.

The preemptor's usage is added first. By the strategy LessThanOrEqualToFinalShare a workload is a
victim if the preemptor's share is not larger than the victim's share without it. By
LessThanInitialShare, which tries those that are left, it is one if the preemptor's share is smaller
than the victim's. The shares are those of the two children of the closest common cohort.

Source: Kueue 0.20, pkg/scheduler/preemption/preemption.go and fairsharing.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from enum import StrEnum
from functools import partial

from podsched.lib.groups import lists_by_key
from podsched.queues.objects import Policy, Workload
from podsched.queues.quota import Node
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.victims import (
    Pacing,
    Preemptor,
    Reason,
    Search,
    Victim,
    fill_back,
    own_candidates,
    restore,
    victim_order,
)

#: A part of a ``Search``. It returns whether the search is over because the preemptor fits.
_Step = Generator[list[Victim], bool, bool]


class FairStrategy(StrEnum):
    """``fairSharing.preemptionStrategies`` of Kueue's configuration."""

    FINAL = "LessThanOrEqualToFinalShare"
    INITIAL = "LessThanInitialShare"


BOTH = (FairStrategy.FINAL, FairStrategy.INITIAL)


def fair_search(
    snapshot: Snapshot, preemptor: Preemptor, strategies: tuple[FairStrategy, ...] = BOTH
) -> Search:
    """Search for victims whose removal makes room for a workload, with fair sharing."""
    candidates = _candidates(snapshot, preemptor)
    if not candidates:
        return []
    search = _Search(snapshot, preemptor)
    try:
        with snapshot.with_usage(preemptor.queue.name, preemptor.need):
            found = yield from search.first(candidates, strategies[0])
            if not found and len(strategies) > 1:
                found = yield from search.second()
            found = found or (yield from search.last())
        if not found:
            return []
        # The need is no longer in the snapshot, so ``fits`` says whether it fits in addition.
        fits = partial(preemptor.fits, snapshot, borrowing=True)
        return (yield from fill_back(snapshot, search.taken, fits))
    finally:
        restore(snapshot, search.taken)


def _candidates(snapshot: Snapshot, preemptor: Preemptor) -> list[Workload]:
    """Return the candidates of the preemptor's own queue, and of queues that borrow."""
    node, preemption = snapshot.node(preemptor.queue.name), preemptor.queue.preemption
    found = own_candidates(snapshot, preemptor)
    if node.parent is None or preemption.reclaim is Policy.NEVER:
        return found
    stack = [node.root]
    while stack:
        other = stack.pop()
        stack.extend(other.children)
        if not other.is_cohort and other is not node and any(map(other.borrows, preemptor.short)):
            found += [
                workload
                for workload in snapshot.workloads[other.name].values()
                if preemptor.may_preempt(workload, preemption.reclaim)
            ]
    return found


class _Search:
    """The steps of a search; the snapshot includes the preemptor's usage."""

    def __init__(self, snapshot: Snapshot, preemptor: Preemptor) -> None:
        self._snapshot = snapshot
        self._preemptor = preemptor
        self._node = snapshot.node(preemptor.queue.name)
        self._ancestors = frozenset(self._node.ancestors)
        self.taken: list[Victim] = []
        self._pacing = Pacing()
        self._left: list[Workload] = []
        """Candidates that the first strategy did not take."""

    def first(self, candidates: list[Workload], strategy: FairStrategy) -> _Step:
        """Take victims by a strategy; return whether the preemptor fits then."""
        turns = _Turns(self._snapshot, self._preemptor, candidates)
        # As in Kueue, no shares are compared for a preemptor within quota with its usage.
        within = not any(map(self._node.borrows, self._preemptor.short))
        for queue, line in turns:
            if queue is self._node or within:
                reason = Reason.IN_QUEUE if queue is self._node else Reason.RECLAIM
                if (yield from self._take(line.pop(0), reason)):
                    return True
                continue
            own, other = (dominant_share(node).rank for node in self._below_common(queue))
            while line:
                victim = line.pop(0)
                if strategy is FairStrategy.FINAL:
                    with self._snapshot.without_usage([victim]):
                        passed = own <= dominant_share(self._below_common(queue)[1]).rank
                else:
                    passed = own < other
                if passed:
                    if (yield from self._take(victim, Reason.FAIR)):
                        return True
                    # Shares have changed: the next victim is one of the queue whose turn it is now.
                    break
                self._left.append(victim)
        return False

    def second(self) -> _Step:
        """Take one victim of each queue with a larger share; return whether the preemptor fits."""
        turns = _Turns(self._snapshot, self._preemptor, self._left)
        for queue, line in turns:
            own, other = (dominant_share(node).rank for node in self._below_common(queue))
            if own < other and (yield from self._take(line[0], Reason.FAIR)):
                return True
            turns.drop(queue)
        return False

    def last(self) -> _Step:
        """Return whether the preemptor fits without all victims, if that was not yielded yet."""
        return (yield from self._is_enough(last=True)) if self.taken else False

    def _take(self, victim: Workload, reason: Reason) -> _Step:
        self._snapshot.remove(victim)
        self.taken.append(Victim(victim, reason))
        return (yield from self._is_enough())

    def _is_enough(self, *, last: bool = False) -> _Step:
        queue, need = self._node.name, self._preemptor.need
        # The snapshot includes the need, and ``fits`` checks the need in addition to the usage.
        self._snapshot.remove_usage(queue, need)
        fits = self._preemptor.fits(self._snapshot, borrowing=True)
        self._snapshot.add_usage(queue, need)
        return fits and self._pacing.due(self.taken, last=last) and (yield list(self.taken))

    def _below_common(self, queue: Node) -> tuple[Node, Node]:
        """Return the children of the closest common cohort: above the preemptor, above a queue."""
        above = queue
        while above.parent is not None and above.parent not in self._ancestors:
            above = above.parent
        own = self._node
        while own.parent is not above.parent and own.parent is not None:
            own = own.parent
        return own, above


class _Turns:
    """Iterates over the queues in the order in which they lose workloads.

    Yields a queue's node, with the list of its candidates that are left. Each turn goes from the
    root down to the child with the largest share. Children that do not borrow, or have no
    candidates left, drop out.
    """

    def __init__(
        self, snapshot: Snapshot, preemptor: Preemptor, candidates: Iterable[Workload]
    ) -> None:
        self._node = snapshot.node(preemptor.queue.name)
        self._on_path = frozenset((self._node, *self._node.ancestors))
        self._dropped: set[Node] = set()
        ordered = victim_order(candidates, preemptor.queue.name)
        self._lines = lists_by_key((workload.queue, workload) for workload in ordered)
        self._ranks = {workload.key: place for place, workload in enumerate(ordered)}

    def __iter__(self) -> Iterator[tuple[Node, list[Workload]]]:
        if self._node.parent is None:
            while line := self._lines.get(self._node.name):
                if self._node in self._dropped:
                    return
                yield self._node, line
            return
        root = self._node.root
        while root not in self._dropped:
            queue = self._descend(root)
            if queue is not None:
                yield queue, self._lines[queue.name]

    def drop(self, queue: Node) -> None:
        """Yield a queue no more."""
        self._dropped.add(queue)

    def _descend(self, node: Node) -> Node | None:
        """Return the queue that is next, or None after a cohort has dropped out."""
        while node.is_cohort:
            best: Node | None = None
            largest: tuple[tuple[bool, object], bool, int] | None = None
            for child in node.children:
                if child in self._dropped:
                    continue
                share = dominant_share(child)
                line = self._lines.get(child.name) if not child.is_cohort else None
                if (not share.borrowed and child not in self._on_path) or (
                    not child.is_cohort and not line
                ):
                    self._dropped.add(child)
                    continue
                # Among equal shares, as in Kueue, a cohort comes before a queue, and of cohorts the
                # last one is chosen; of queues, the one with the better victim.
                place = -self._ranks[line[0].key] if line else 0
                key = (share.rank, child.is_cohort, place)
                if largest is None or key >= largest:
                    best, largest = child, key
            if best is None:
                self._dropped.add(node)
                return None
            node = best
        return node
