"""One cycle over the heads of the queues: which are admitted, which preempt, and why others wait.

Every head first gets flavors and victims on its own (it is nominated). Then each head in turn is
decided with what earlier heads have taken. States of an entry:

| state | next | when |
| --- | --- | --- |
| nominated | admitted | it fits, and still fits in its turn |
| nominated | preempting | it has victims, and no earlier head has one of them |
| nominated | waiting | quota is short, or an earlier head has one of its victims |

Source: Kueue 0.20, pkg/scheduler/scheduler.go and fair_sharing_iterator.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from itertools import chain

from podsched.queues.assignment import Assignment, Mode, Outcome, Waiting
from podsched.queues.fair_victims import BOTH, FairStrategy, fair_search
from podsched.queues.flavors import Assigner
from podsched.queues.objects import ClusterQueue, Policy, Workload
from podsched.queues.order import Requeue, stays_in_heap
from podsched.queues.partial import search_counts, some_counts
from podsched.queues.pending import Lacks
from podsched.queues.quota import Amounts, FlavorResource, Node, borrowing_level
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.victims import Preemptor, Search, Victim, classic_search, victims_by_quota

_OVERLAP = "Workload has overlapping preemption targets with another workload"
_AFTER_OVERLAP = f"{_OVERLAP}, but will fit after these preemptions complete"
_NO_LONGER = "Workload no longer fits after processing another workload"
_GATED = "Workload requires preemption, but it's gated"


@dataclass(frozen=True, slots=True)
class Rules:
    """The administrator's settings for all queues."""

    fair: bool = False
    """Fair sharing: dominant shares order the heads and the victims."""
    strategies: tuple[FairStrategy, ...] = BOTH
    recompute_overlap: bool = True
    """A head that shares victims with an earlier one is nominated again without these victims."""


@dataclass(slots=True)
class Entry:
    """A head in a cycle, and the decision about it."""

    workload: Workload
    queue: ClusterQueue
    assignment: Assignment
    victims: list[Victim]
    mode: Mode
    message: str = ""
    """Why it waits."""
    admitted: bool = False
    waiting: Waiting | None = None
    requeue: Requeue = Requeue.GENERIC
    untried: bool = False
    """Flavors remain that the next cycle tries."""
    preempts: bool = False
    """Its victims have to be evicted, except those whose eviction has begun."""
    lacks: Lacks = None
    """The quotas of which some has to be released before it may be admitted; None: any."""


def run_cycle(snapshot: Snapshot, heads: Iterable[Workload], rules: Rules) -> list[Entry]:
    """Return the decisions about the heads of queues, in the order in which they were made.

    The snapshot is unchanged afterwards: the caller admits workloads and evicts victims.
    """
    cycle, done = Cycle(snapshot, heads, rules), []
    for entry in cycle.turns():
        cycle.take(entry)
        done.append(entry)
    cycle.taken.end()
    return done


class Taken:
    """The quota and the victims that the heads of a cycle have taken.

    The quota counts as used in the snapshot until ``end``. Withdraw an entry that could not be
    placed, or that the snapshot now counts as admitted.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self.victims: dict[str, Workload] = {}
        """By key."""
        self.held: dict[str, tuple[str, Amounts]] = {}
        """The usage that was added to the snapshot, with its ClusterQueue, by workload."""
        #: Heads that the caller counts in the snapshot: ClusterQueue, need and victims.
        self._kept: list[tuple[str, Amounts, list[Workload]]] = []

    def hold(self, entry: Entry, usage: Amounts) -> None:
        self._snapshot.add_usage(entry.queue.name, usage)
        self.held[entry.workload.key] = entry.queue.name, usage

    def claim(self, victims: Iterable[Victim]) -> None:
        """Keep later heads from taking these victims."""
        self.victims |= {victim.workload.key: victim.workload for victim in victims}

    def keep(self, queue: str, need: Amounts, victims: Sequence[Victim]) -> None:
        """Claim the victims of a head that the caller counts: its need, less what these use."""
        self.claim(victims)
        self._kept.append((queue, need, [victim.workload for victim in victims]))

    def withdraw(self, entry: Entry) -> None:
        """Release the quota and the victims that an entry has taken."""
        taken = self.held.pop(entry.workload.key, None)
        if taken is None:
            return  # Its victims, if any, are those of an earlier head.
        self._snapshot.remove_usage(*taken)
        for victim in entry.victims:
            self.victims.pop(victim.workload.key, None)

    def overlaps(self, entry: Entry) -> bool:
        """Whether an earlier head has a victim of this one."""
        return any(victim.workload.key in self.victims for victim in entry.victims)

    def fits(self, entry: Entry) -> bool:
        """Whether an entry fits without its own victims and those of earlier heads."""
        own = {victim.workload.key: victim.workload for victim in entry.victims}
        victims = (self.victims | own).values()
        # Earlier heads count already, in place of their victims.
        with self._snapshot.without_usage(victims), self.in_place_of_victims():
            return self._snapshot.fits(entry.queue.name, entry.assignment.usage)

    def in_place_of_victims(self) -> AbstractContextManager[None]:
        """Count the rest of what kept heads need, while the usage of victims is subtracted."""
        rest = [
            (queue, {key: min(need[key], _usage(victims, key)) for key in need})
            for queue, need, victims in self._kept
        ]
        return self._snapshot.with_changes((), rest)

    def end(self) -> None:
        """Release in the snapshot whatever entries have taken; the caller's own changes stay."""
        for queue, usage in self.held.values():
            self._snapshot.remove_usage(queue, usage)


class Cycle:
    """Decides about heads one by one: ``take`` each of ``turns``, then call ``taken.end``."""

    def __init__(
        self,
        snapshot: Snapshot,
        heads: Iterable[Workload],
        rules: Rules,
        blocking: Iterable[Entry] = (),
        due: Collection[str] = (),
    ) -> None:
        """``blocking``: heads of an earlier cycle that keep quota from those after them.

        ``due``: keys of heads that come before all others, because their promised start has come.
        """
        self._snapshot = snapshot
        self._rules = rules
        self._due = due
        # Otherwise, borrowers would starve a head of StrictFIFO that found no victims.
        self._entries = list(blocking)
        self._blocking = {entry.workload.key for entry in self._entries}
        self.has_taken = False
        """Whether a head of this cycle has taken quota or victims, so that later ones may retry."""
        for workload in heads:
            self.add(workload)
        self.taken = Taken(snapshot)

    def add(self, workload: Workload) -> None:
        """Add a head; not after the first of ``turns``."""
        self._entries.append(self._nominated(workload))

    def _nominated(self, workload: Workload) -> Entry:
        """Return a head with its own flavors and victims."""
        snapshot, rules, queue = self._snapshot, self._rules, self._snapshot.queues[workload.queue]
        assignment, victims = nominate(snapshot, queue, workload, rules)
        has_none = assignment.mode is not Mode.FIT and not victims
        if has_none and workload.tried and not assignment.untried:
            # What stood in its way on the first flavors may be gone. Unlike in Kueue they are tried
            # once more now: a release that comes later may be one of other quotas.
            entry = self._nominated(replace(workload, tried={}))
            entry.workload, entry.untried = workload, False
            return entry
        entry = _entry(workload, queue, assignment, victims)
        if has_none:
            entry.lacks = lacks(snapshot, workload, rules)
        return entry

    def turns(self) -> Iterable[Entry]:
        """Return the heads in order; call ``take`` for each before the next is requested."""
        first = [entry for entry in self._entries if entry.workload.key in self._due]
        others = [entry for entry in self._entries if entry.workload.key not in self._due]
        if self._rules.fair:
            return chain(first, _fair_turns(self._snapshot, others))
        return chain(first, _classic_turns(others))

    def take(self, entry: Entry) -> None:
        """Decide about a head, with what earlier heads have taken."""
        self._decide(entry)
        self.has_taken |= not self.is_blocking(entry) and entry.workload.key in self.taken.held

    def is_blocking(self, entry: Entry) -> bool:
        """Whether a head comes from an earlier cycle, and only keeps quota in this one."""
        return entry.workload.key in self._blocking

    def take_again(self, entry: Entry) -> Entry:
        """Decide again about a head that fitted without victims, with what has been taken since."""
        self.taken.withdraw(entry)
        again = _entry(entry.workload, entry.queue, entry.assignment, [])
        self.take(again)
        return again

    def quota_returns(self, entry: Entry) -> bool:
        """Whether quota of the entry's tree is kept in this cycle, but free again in the next one.

        It is kept for a head that found no victims, and is not tried again without an event.
        """
        root = self._snapshot.node(entry.queue.name).root
        return any(
            one.requeue is Requeue.NO_CANDIDATES
            and not stays_in_heap(one.queue.strategy, one.requeue, untried=False, backoff=False)
            and self._snapshot.node(one.queue.name).root is root
            for one in self._entries
        )

    def _decide(self, entry: Entry) -> None:
        """Admit a head, let it preempt, or note why it waits."""
        # Before the mode is read, because a new nomination may change the mode and the victims.
        taken = self.taken
        fits = taken.fits(entry)
        if self._rules.recompute_overlap and taken.overlaps(entry):
            fits = self._recompute(entry)
        if entry.mode is Mode.NO_FIT:
            entry.requeue, entry.waiting = Requeue.NO_FIT, entry.assignment.waiting
        elif entry.mode is Mode.PREEMPT and not entry.victims:
            entry.requeue, entry.waiting = Requeue.NO_CANDIDATES, Waiting.QUOTA
            # Not for a queue that reclaims from any workload: it can take back what others borrow.
            if entry.queue.preemption.reclaim is not Policy.ANY:
                node, borrowing = self._snapshot.node(entry.queue.name), entry.assignment.level > 0
                taken.hold(entry, reserved(node, entry.assignment.usage, borrowing=borrowing))
        elif entry.mode is Mode.PREEMPT and entry.workload.gated:
            _wait(entry, _GATED, Waiting.GATED, Requeue.GATED)
        elif entry.mode is Mode.DEFERRED_FIT:
            _wait(entry, _AFTER_OVERLAP, Waiting.PREEMPTED, Requeue.PENDING_PREEMPTION)
            taken.hold(entry, entry.assignment.usage)
        elif taken.overlaps(entry):
            _skip(entry, _OVERLAP)
        elif not fits:
            _skip(entry, _NO_LONGER)
        else:
            self._succeed(entry)

    def _succeed(self, entry: Entry) -> None:
        """Admit a head, or have its victims evicted."""
        self.taken.claim(entry.victims)
        self.taken.hold(entry, entry.assignment.usage)
        if entry.mode is Mode.FIT:
            entry.admitted = True
            return
        entry.preempts = True
        message = f"{entry.message}. Pending the preemption of {len(entry.victims)} workload(s)"
        _wait(entry, message, Waiting.PREEMPTED, Requeue.PENDING_PREEMPTION)

    def _recompute(self, entry: Entry) -> bool:
        """Nominate a head again without the victims of earlier heads, for the same flavors.

        Returns whether it fits then.
        """
        nominated = {(name, resource): flavor for name, resource, flavor in entry.assignment.choice}
        taken, workload = self.taken, replace(entry.workload, tried={})
        with self._snapshot.without(taken.victims.values()), taken.in_place_of_victims():
            entry.assignment, entry.victims = nominate(
                self._snapshot, entry.queue, workload, self._rules, nominated
            )
        entry.mode, entry.message = entry.assignment.mode, entry.assignment.message
        # What it lacked was counted before earlier heads took theirs: now any release may help.
        entry.untried, entry.lacks = entry.assignment.untried, None
        # It fits only into what the victims of others still use, so it cannot be admitted yet.
        if entry.mode is Mode.FIT:
            entry.mode = Mode.DEFERRED_FIT
        return taken.fits(entry)


def _usage(workloads: Iterable[Workload], key: FlavorResource) -> int:
    return sum(one.usage.get(key, 0) for one in workloads)


def _entry(
    workload: Workload, queue: ClusterQueue, assignment: Assignment, victims: list[Victim]
) -> Entry:
    mode, message = assignment.mode, assignment.message
    return Entry(workload, queue, assignment, victims, mode, message, untried=assignment.untried)


def nominate(
    snapshot: Snapshot,
    queue: ClusterQueue,
    workload: Workload,
    rules: Rules,
    nominated: Mapping[tuple[str, str], str] | None = None,
) -> tuple[Assignment, list[Victim]]:
    """Return the flavors of a workload, and its victims if it needs some.

    If not all of its pods fit, and it may be admitted in part, this is the result for the most pods
    that do. ``nominated``: the only flavors to try, by pod set and resource.
    """
    attempt = partial(_attempt, _assigner(snapshot, queue, workload, rules, nominated), rules)

    def succeed(counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
        tried = attempt(counts)
        return tried if tried[0].mode is Mode.FIT or tried[1] else None

    assignment, victims = attempt(None)
    if assignment.mode is Mode.FIT or victims or not workload.can_shrink:
        return assignment, victims
    return search_counts(workload.pod_sets, succeed) or (assignment, victims)


def _assigner(
    snapshot: Snapshot,
    queue: ClusterQueue,
    workload: Workload,
    rules: Rules,
    nominated: Mapping[tuple[str, str], str] | None = None,
) -> Assigner:
    oracle = partial(_possibility, snapshot, queue, workload, rules)
    return Assigner(snapshot, queue, workload, oracle, rules.fair, nominated)


def _attempt(
    assigner: Assigner, rules: Rules, counts: Sequence[int] | None
) -> tuple[Assignment, list[Victim]]:
    """Return the flavors for ``counts`` pods (None: all), and the victims that they need."""
    assignment = assigner.assign(counts)
    victims: list[Victim] = []
    if assignment.mode is Mode.PREEMPT:
        preemptor = Preemptor(assigner.workload, assigner.queue, assignment.need, assignment.short)
        victims = find_victims(assigner.snapshot, preemptor, rules)
    return assignment, victims


def nominate_parts(
    snapshot: Snapshot, queue: ClusterQueue, workload: Workload, rules: Rules, most: int
) -> Iterator[Assignment]:
    """Yield the flavors for fewer than ``most`` pods that fit with victims; more pods first."""
    assigner = _assigner(snapshot, queue, workload, rules)
    for counts in some_counts(workload.pod_sets):
        if sum(counts) < most:
            assignment, victims = _attempt(assigner, rules, counts)
            if victims:
                yield assignment


def lacks(snapshot: Snapshot, workload: Workload, rules: Rules) -> Lacks:
    """Return the quotas of which some must be released before a workload may be admitted.

    None: any release may help. A release of other quotas changes nothing: of these there is enough,
    and preemption depends only on what is short and on what is borrowed.
    """
    queue, node = snapshot.queues[workload.queue], snapshot.node(workload.queue)
    if queue.preemption.is_possible and rules.fair:
        return None  # The share of a queue depends on everything that it uses.
    line = [node, *node.ancestors] if queue.preemption.is_possible else []
    # Every flavor is compared with the sum of all pod sets, whichever of them gets it: one quota
    # too many costs one more try, one too few would leave the workload waiting for ever.
    wanted = workload.wanted
    return frozenset(
        key
        for group in queue.groups
        for flavor in group.flavors
        for resource in group.resources & wanted.keys()
        if (key := FlavorResource(flavor, resource))
        and (
            wanted[resource] > node.available(key)
            or any(one.borrows(key, wanted[resource]) for one in line)
        )
    )


def nominate_fewer(
    snapshot: Snapshot, queue: ClusterQueue, workload: Workload, rules: Rules
) -> Assignment | None:
    """Return the flavors for the most pods of a workload that fit without victims; None: none."""
    assigner = _assigner(snapshot, queue, workload, rules)

    def succeed(counts: Sequence[int]) -> Assignment | None:
        assignment = assigner.assign(counts)
        return assignment if assignment.mode is Mode.FIT else None

    return search_counts(workload.pod_sets, succeed)


def find_victims(snapshot: Snapshot, preemptor: Preemptor, rules: Rules) -> list[Victim]:
    """Return the victims that make room in quota; [] if none do."""
    return victims_by_quota(victim_search(snapshot, preemptor, rules))


def victim_search(snapshot: Snapshot, preemptor: Preemptor, rules: Rules) -> Search:
    """Search for victims, with fair sharing or without, as the rules say."""
    if rules.fair:
        return fair_search(snapshot, preemptor, rules.strategies)
    return classic_search(snapshot, preemptor)


def _possibility(
    snapshot: Snapshot,
    queue: ClusterQueue,
    workload: Workload,
    rules: Rules,
    key: FlavorResource,
    amount: int,
) -> tuple[Outcome, int]:
    """Return what preemption for one flavor and resource achieves, and the borrowing level then.

    Source: Kueue 0.20, pkg/scheduler/preemption/preemption_oracle.go.
    """
    preemptor = Preemptor(workload, queue, {key: amount}, frozenset((key,)))
    victims = [victim.workload for victim in find_victims(snapshot, preemptor, rules)]
    with snapshot.without_usage(victims):
        level, _ = borrowing_level(snapshot.node(queue.name), key, amount)
    if not victims:
        return Outcome.NO_CANDIDATES, level
    own = any(victim.queue == queue.name for victim in victims)
    return (Outcome.PREEMPT if own else Outcome.RECLAIM), level


def _classic_turns(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Return the heads in order: less borrowing first, then higher priority, then earlier."""
    # Kueue puts heads with reserved quota before all others. Here these are the heads whose
    # promised start has come: otherwise, one decision both reserves quota and admits the workload.
    return sorted(
        entries,
        key=lambda entry: (
            entry.assignment.level,
            -entry.workload.priority,
            entry.workload.queued_at,
        ),
    )


def _fair_turns(snapshot: Snapshot, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the heads in the order of fair sharing; each is chosen after the last is decided."""
    tournament = _Tournament(snapshot, entries)
    roots = dict.fromkeys(snapshot.node(entry.queue.name).root for entry in entries)
    for root in roots:
        yield from tournament.winners(root)


#: In a cohort's heap, the head that a child proposes: its sort key, the head's index, the child.
_Pick = tuple[tuple[object, ...], int, Node]


class _Tournament:
    """Chooses the heads of a tree: each cohort, from the leaves up, picks one of its children's.

    A cohort compares the shares that its children would have with their picks admitted. A decided
    head changes usage, and so the picks, only on its own path to the root.
    """

    def __init__(self, snapshot: Snapshot, entries: Sequence[Entry]) -> None:
        self._snapshot = snapshot
        self._entries = entries
        self._heaps: dict[Node, list[_Pick]] = {}
        self._alone = {
            snapshot.node(entry.queue.name): entry
            for entry in entries
            if entry.queue.cohort is None
        }
        nodes: dict[Node, None] = {}
        for index, entry in enumerate(entries):
            queue = snapshot.node(entry.queue.name)
            self._offer(queue, index)
            nodes |= dict.fromkeys(queue.ancestors)
        # The deepest cohorts first: each has its own pick before its parent compares it.
        for cohort in sorted(nodes, key=lambda node: -node.depth):
            self._offer(cohort, self._heaps[cohort][0][1])

    def winners(self, root: Node) -> Iterator[Entry]:
        """Yield the heads of a tree in order."""
        if not root.is_cohort:
            yield self._alone[root]
            return
        while self._heaps[root]:
            entry = self._entries[self._heaps[root][0][1]]
            yield entry
            node = self._snapshot.node(entry.queue.name)
            # The winner is on top of the heap of each of its ancestors. The usage that it took
            # counts by now, so the shares of its successors there include it.
            while node.parent is not None:
                heappop(self._heaps[node.parent])
                if left := self._heaps.get(node):
                    self._offer(node, left[0][1])
                node = node.parent

    def _offer(self, node: Node, index: int) -> None:
        """Add a head to the heap of a node's parent, as the pick of this node."""
        if node.parent is None:
            return
        entry = self._entries[index]
        usage = entry.assignment.usage
        with self._snapshot.with_usage(entry.queue.name, usage):
            share = dominant_share(node)
        workload = entry.workload
        # As in Kueue, a node that borrows none of what is requested comes first.
        key = (share.borrows_on(usage), share.rank, -workload.priority, workload.queued_at)
        heappush(self._heaps.setdefault(node.parent, []), (key, index, node))


def _skip(entry: Entry, message: str) -> None:
    # The search goes on where it ended, as in Kueue: others have taken what it found.
    entry.message, entry.waiting = message, Waiting.QUOTA
    entry.requeue = Requeue.FAILED_AFTER_NOMINATION


def _wait(entry: Entry, message: str, waiting: Waiting, requeue: Requeue) -> None:
    entry.message, entry.waiting, entry.requeue, entry.untried = message, waiting, requeue, False


def reserved(node: Node, need: Amounts, *, borrowing: bool) -> dict[FlavorResource, int]:
    """Return the quota that is kept for a head that has to preempt but found no victims.

    It is the need, up to what is left of the queue's nominal quota and, if the head borrows, of the
    borrowing limit. Source: ``quotaResourcesToReserve`` in Kueue's scheduler.go.
    """
    kept = {}
    for key, amount in need.items():
        limit = node.quotas[key].borrowing_limit if key in node.quotas else None
        left = node.quota.get(key, 0) - node.usage.get(key, 0)
        if not borrowing:
            kept[key] = max(0, min(amount, left))
        else:
            # Below 0 if the limit was lowered below the usage; ``Node.add`` ignores such amounts.
            kept[key] = amount if limit is None else min(amount, left + limit)
    return kept
