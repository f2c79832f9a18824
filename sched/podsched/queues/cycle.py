"""One round over the heads of the queues: who is admitted, who preempts whom, and why others wait.

Every head is first looked at alone (nominated); then, one after another, each is looked at again
with what the earlier ones have taken. States of an entry:

| state | next | when |
| --- | --- | --- |
| nominated | admitted | it fits, and still fits in its turn |
| nominated | preempting | its victims are chosen, and are no one else's |
| nominated | waiting | quota is short, or victims are another's |

Source: Kueue 0.20, pkg/scheduler/scheduler.go and fair_sharing_iterator.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush

from podsched.queues.assignment import Assignment, Mode, Outcome, Waiting
from podsched.queues.fair_victims import BOTH, FairStrategy, fair_search
from podsched.queues.flavors import Assigner
from podsched.queues.objects import PODS, ClusterQueue, Policy, Workload
from podsched.queues.order import Requeue, stays_in_heap
from podsched.queues.partial import search_counts
from podsched.queues.pending import Lacks
from podsched.queues.quota import Amounts, FlavorResource, Node
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.victims import Preemptor, Search, Victim, classic_search, settle

_OVERLAP = "Workload has overlapping preemption targets with another workload"
_AFTER_OVERLAP = f"{_OVERLAP}, but will fit after these preemptions complete"
_NO_LONGER = "Workload no longer fits after processing another workload"
_GATED = "Workload requires preemption, but it's gated"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the cluster's administrator decides for all queues."""

    fair: bool = False
    """Fair sharing: heads and victims go by the dominant share."""
    strategies: tuple[FairStrategy, ...] = BOTH
    recompute_overlap: bool = True
    """A head whose victims are another's is looked at again without them."""


@dataclass(slots=True)
class Entry:
    """A head in a cycle, and what becomes of it."""

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
    """Its victims are to be evicted, as far as that has not begun."""
    lacks: Lacks = None
    """Of what something has to be released before it may be admitted."""


def run_cycle(snapshot: Snapshot, heads: Iterable[Workload], rules: Rules) -> list[Entry]:
    """Return what becomes of the heads of queues, in the order of their turns.

    The snapshot is as before; the caller admits the admitted, and evicts the victims.
    """
    cycle, done = Cycle(snapshot, heads, rules), []
    for entry in cycle.turns():
        cycle.take(entry)
        done.append(entry)
    cycle.end()
    return done


class Cycle:
    """A cycle whose heads are carried out one by one: ``take`` each of ``turns``, then ``end``.

    What an entry takes is counted until the end, unless it is withdrawn: it could not be placed, or
    the snapshot counts it by now.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        heads: Iterable[Workload],
        rules: Rules,
        blocking: Iterable[Entry] = (),
    ) -> None:
        """``blocking``: heads of an earlier cycle that keep quota from those after them."""
        self._snapshot = snapshot
        self._rules = rules
        # Without these, borrowers that come one after another would starve a head of StrictFIFO
        # that finds no victims.
        self._entries = list(blocking)
        self._blocking = {entry.workload.key for entry in self._entries}
        self.has_taken = False
        """Whether a head of this cycle has taken quota or victims, so that later ones may retry."""
        for workload in heads:
            queue = snapshot.queues[workload.queue]
            assignment, victims = nominate(snapshot, queue, workload, rules)
            entry = _entry(workload, queue, assignment, victims)
            if assignment.mode is not Mode.FIT and not victims:
                entry.lacks = lacks(snapshot, workload, rules)
            self._entries.append(entry)
        self._turns = _Turns(snapshot, rules)

    def turns(self) -> Iterable[Entry]:
        """Return the heads in turn; each has to be taken before the next turn."""
        if self._rules.fair:
            return _fair_turns(self._snapshot, self._entries)
        return _classic_turns(self._entries)

    def take(self, entry: Entry) -> None:
        """Decide about a head with what those before it have taken."""
        self._turns.take(entry)
        self.has_taken |= not self.is_blocking(entry) and self._turns.holds(entry)

    def is_blocking(self, entry: Entry) -> bool:
        """Whether a head is of an earlier cycle, and only keeps quota in this one."""
        return entry.workload.key in self._blocking

    def take_again(self, entry: Entry) -> Entry:
        """Decide again about a head that fitted without victims, with what is taken by now."""
        self.withdraw(entry)
        again = _entry(entry.workload, entry.queue, entry.assignment, [])
        self.take(again)
        return again

    def withdraw(self, entry: Entry) -> None:
        """Count what an entry takes no longer, nor its victims as another's."""
        self._turns.withdraw(entry)

    def claim(self, victims: Iterable[Victim]) -> None:
        """Let no later head have these victims."""
        self._turns.claim(victims)

    def lacks_for_now(self, entry: Entry) -> bool:
        """Whether a head of the entry's tree keeps quota in this cycle, but not in the next.

        It found no victims, and is not tried again without an event.
        """
        root = self._snapshot.node(entry.queue.name).root
        return any(
            one.requeue is Requeue.NO_CANDIDATES
            and not stays_in_heap(one.queue.strategy, one.requeue, untried=False, backoff=False)
            and self._snapshot.node(one.queue.name).root is root
            for one in self._entries
        )

    def end(self) -> None:
        """Put the snapshot back to what it was, but for what its owner has changed."""
        self._turns.undo()


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
    nominated: dict[tuple[str, str], str] | None = None,
) -> tuple[Assignment, list[Victim]]:
    """Return a workload's flavors and victims on a snapshot, with fewer pods if it has to be."""
    oracle = partial(_possibility, snapshot, queue, workload, rules)
    assigner = Assigner(snapshot, queue, workload, oracle, rules.fair, nominated)

    def attempt(counts: Sequence[int] | None) -> tuple[Assignment, list[Victim]]:
        assignment = assigner.assign(counts)
        victims: list[Victim] = []
        if assignment.mode is Mode.PREEMPT:
            # A queue above its quota would count as borrowing for a need of 0, too.
            need = {key: amount for key, amount in assignment.usage.items() if amount}
            preemptor = Preemptor(workload, queue, need, assignment.short)
            victims = find_victims(snapshot, preemptor, rules)
        return assignment, victims

    def succeed(counts: Sequence[int]) -> tuple[Assignment, list[Victim]] | None:
        tried = attempt(counts)
        return tried if tried[0].mode is Mode.FIT or tried[1] else None

    assignment, victims = attempt(None)
    if assignment.mode is Mode.FIT or victims or not workload.can_shrink:
        return assignment, victims
    return search_counts(workload.pod_sets, succeed) or (assignment, victims)


def lacks(snapshot: Snapshot, workload: Workload, rules: Rules) -> Lacks:
    """Return of what something has to be released before a workload that does not fit may do so.

    Less usage of anything else changes nothing for it: there is enough, and whom it may preempt
    depends on what is short, and on what is borrowed.
    """
    queue, node = snapshot.queues[workload.queue], snapshot.node(workload.queue)
    preempts = {queue.preemption.within, queue.preemption.reclaim} != {Policy.NEVER}
    if preempts and rules.fair:
        return None  # The share of a queue is that of all that it uses.
    line = [node, *node.ancestors] if preempts else []
    wanted: Counter[str] = Counter()
    # Every flavor is compared with the sum of all pod sets, whoever gets it: a quota named in
    # vain costs one more try, a quota not named would leave the workload waiting for ever.
    for pods in workload.pod_sets:
        wanted.update({**pods.total(pods.count), PODS: pods.count})
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
    """Return the flavors of the most pods of a workload that need no victims; None: of none."""
    oracle = partial(_possibility, snapshot, queue, workload, rules)
    assigner = Assigner(snapshot, queue, workload, oracle, rules.fair)

    def succeed(counts: Sequence[int]) -> Assignment | None:
        assignment = assigner.assign(counts)
        return assignment if assignment.mode is Mode.FIT else None

    return search_counts(workload.pod_sets, succeed)


def without_flavors(queue: ClusterQueue, workload: Workload, of: Assignment) -> Workload | None:
    """Return a workload that must not get the flavors of an assignment; None: there are no others.

    Kept are the flavors of resources that have but one.
    """
    groups = ((key.flavor, queue.group(key.resource)) for key in of.usage)
    refused = {flavor for flavor, group in groups if group is not None and len(group.flavors) > 1}
    return replace(workload, refused=workload.refused | refused) if refused else None


def find_victims(snapshot: Snapshot, preemptor: Preemptor, rules: Rules) -> list[Victim]:
    """Return the victims by the rules in force; [] if no victims make room."""
    return settle(victim_search(snapshot, preemptor, rules))


def victim_search(snapshot: Snapshot, preemptor: Preemptor, rules: Rules) -> Search:
    """Search for victims by the rules in force."""
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
    """Return what preemption for one flavor and resource alone would be, and the level after."""
    preemptor = Preemptor(workload, queue, {key: amount}, frozenset((key,)))
    victims = [victim.workload for victim in find_victims(snapshot, preemptor, rules)]
    with snapshot.without_usage(victims):
        level, _ = snapshot.node(queue.name).borrowing_level(key, amount)
    if not victims:
        return Outcome.NO_CANDIDATES, level
    own = any(victim.queue == queue.name for victim in victims)
    return (Outcome.PREEMPT if own else Outcome.RECLAIM), level


def _classic_turns(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Return the heads in order: less borrowing, higher priority, earlier."""
    # Kueue puts heads with reserved quota before all others. There are none here: quota is
    # reserved and the workload admitted in one decision, which takes it out of the queue.
    return sorted(
        entries,
        key=lambda entry: (
            entry.assignment.level,
            -entry.workload.priority,
            entry.workload.queued_at,
        ),
    )


def _fair_turns(snapshot: Snapshot, entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the heads in the order of fair sharing, each chosen after the one before is done."""
    tournament = _Tournament(snapshot, entries)
    roots = dict.fromkeys(snapshot.node(entry.queue.name).root for entry in entries)
    for root in roots:
        yield from tournament.winners(root)


#: A node's pick in its parent's heap: the key that orders it, the pick's index, and the node.
_Pick = tuple[tuple[object, ...], int, Node]


class _Tournament:
    """Each cohort, from the leaves up, picks a head of those that its children pick.

    The picks go by the share that the child would have with its pick admitted. A head that is done
    changes the usage, and so the picks, on its own path only.
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
        # The deepest come first: a cohort has to know its own pick before its parent is offered it.
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
            # The winner tops the heap of each of its ancestors. What it took is counted by now, so
            # the shares of those that take its place include it.
            while node.parent is not None:
                heappop(self._heaps[node.parent])
                if left := self._heaps.get(node):
                    self._offer(node, left[0][1])
                node = node.parent

    def _offer(self, node: Node, index: int) -> None:
        """Have a node's parent choose from a head, too."""
        if node.parent is None:
            return
        entry = self._entries[index]
        usage = entry.assignment.usage
        with self._snapshot.with_usage(entry.queue.name, usage):
            share = dominant_share(node)
        workload = entry.workload
        # As in Kueue, who does not borrow what it asks for comes first, whatever its share.
        key = (share.borrows_on(usage), share.rank, -workload.priority, workload.queued_at)
        heappush(self._heaps.setdefault(node.parent, []), (key, index, node))


class _Turns:
    """The turns of a cycle, with what earlier heads have taken."""

    def __init__(self, snapshot: Snapshot, rules: Rules) -> None:
        self._snapshot = snapshot
        self._rules = rules
        self._victims: dict[str, Workload] = {}
        """Those of earlier heads, by key."""
        self._held: dict[str, tuple[str, Amounts]] = {}
        """What is counted as used, with its queue, by workload."""

    def take(self, entry: Entry) -> None:
        """Admit a head, let it preempt, or note why it waits."""
        # Looking again may change the mode and the victims, so it comes before all questions.
        fits = self._fits(entry)
        if self._rules.recompute_overlap and self._overlaps(entry):
            fits = self._recompute(entry)
        if entry.mode is Mode.NO_FIT:
            entry.requeue, entry.waiting = Requeue.NO_FIT, entry.assignment.waiting
        elif entry.mode is Mode.PREEMPT and not entry.victims:
            entry.requeue, entry.waiting = Requeue.NO_CANDIDATES, Waiting.QUOTA
            # A queue that reclaims from anyone gets back what later heads borrow.
            if entry.queue.preemption.reclaim is not Policy.ANY:
                node, borrowing = self._snapshot.node(entry.queue.name), entry.assignment.level > 0
                self._hold(entry, reserved(node, entry.assignment.usage, borrowing=borrowing))
        elif entry.mode is Mode.PREEMPT and entry.workload.gated:
            _wait(entry, _GATED, Waiting.GATED, Requeue.GATED)
        elif entry.mode is Mode.DEFERRED_FIT:
            _wait(entry, _AFTER_OVERLAP, Waiting.PREEMPTED, Requeue.PENDING_PREEMPTION)
            self._hold(entry, entry.assignment.usage)
        elif self._overlaps(entry):
            _wait(entry, _OVERLAP, Waiting.QUOTA, Requeue.FAILED_AFTER_NOMINATION)
        elif not fits:
            _wait(entry, _NO_LONGER, Waiting.QUOTA, Requeue.FAILED_AFTER_NOMINATION)
        else:
            self._succeed(entry)

    def holds(self, entry: Entry) -> bool:
        """Whether quota is counted for a head."""
        return entry.workload.key in self._held

    def undo(self) -> None:
        """Count nothing any more."""
        for queue, usage in self._held.values():
            self._snapshot.remove_usage(queue, usage)

    def withdraw(self, entry: Entry) -> None:
        """Forget what an entry has taken."""
        queue, usage = self._held.pop(entry.workload.key, (entry.queue.name, {}))
        self._snapshot.remove_usage(queue, usage)
        for victim in entry.victims:
            self._victims.pop(victim.workload.key, None)

    def claim(self, victims: Iterable[Victim]) -> None:
        """Count victims as those of an earlier head."""
        self._victims |= {victim.workload.key: victim.workload for victim in victims}

    def _succeed(self, entry: Entry) -> None:
        """Admit a head, or have its victims go."""
        self.claim(entry.victims)
        self._hold(entry, entry.assignment.usage)
        if entry.mode is Mode.FIT:
            entry.admitted = True
            return
        entry.preempts = True
        message = f"{entry.message}. Pending the preemption of {len(entry.victims)} workload(s)"
        _wait(entry, message, Waiting.PREEMPTED, Requeue.PENDING_PREEMPTION)

    def _hold(self, entry: Entry, usage: Amounts) -> None:
        self._snapshot.add_usage(entry.queue.name, usage)
        self._held[entry.workload.key] = entry.queue.name, usage

    def _overlaps(self, entry: Entry) -> bool:
        return any(victim.workload.key in self._victims for victim in entry.victims)

    def _fits(self, entry: Entry) -> bool:
        """Whether the need fits without the victims so far and its own."""
        own = {victim.workload.key: victim.workload for victim in entry.victims}
        # The usage of earlier heads is counted already; that of their victims would count twice.
        with self._snapshot.without_usage((self._victims | own).values()):
            return self._snapshot.fits(entry.queue.name, entry.assignment.usage)

    def _recompute(self, entry: Entry) -> bool:
        """Look at a head again without the victims so far, on its nominated flavors only."""
        nominated = {
            (pods.name, resource): one.flavor
            for pods in entry.assignment.pod_sets
            for resource, one in pods.flavors.items()
        }
        with self._snapshot.without(self._victims.values()):
            entry.assignment, entry.victims = nominate(
                self._snapshot, entry.queue, entry.workload, self._rules, nominated
            )
        entry.mode, entry.message = entry.assignment.mode, entry.assignment.message
        entry.untried, entry.lacks = entry.assignment.untried, None
        # It fits into what the victims of others still use, so it cannot be admitted yet.
        if entry.mode is Mode.FIT:
            entry.mode = Mode.DEFERRED_FIT
        return self._fits(entry)


def _wait(entry: Entry, message: str, waiting: Waiting, requeue: Requeue) -> None:
    entry.message, entry.waiting, entry.requeue, entry.untried = message, waiting, requeue, False


def reserved(node: Node, need: Amounts, *, borrowing: bool) -> dict[FlavorResource, int]:
    """Return what no later head may take from one that has to preempt but finds no victims.

    It is the need, up to what the queue has left of its nominal quota; if it borrows, up to what is
    left of its borrowing limit.
    """
    kept = {}
    for key, amount in need.items():
        limit = node.quotas[key].borrowing_limit if key in node.quotas else None
        left = node.quota.get(key, 0) - node.usage.get(key, 0)
        if not borrowing:
            kept[key] = max(0, min(amount, left))
        else:
            # Below 0 if the usage exceeds a limit that was lowered; a node then counts nothing.
            kept[key] = amount if limit is None else min(amount, left + limit)
    return kept
