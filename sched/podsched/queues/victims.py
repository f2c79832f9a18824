"""Choose the victims of a workload: candidates, their order, and the search without fair sharing.

Candidates are removed one after another until the workload fits. Then each is put back, from the
last but one to the first, if the workload still fits beside it (``fill_back``).

Source: Kueue 0.20, pkg/scheduler/preemption.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from podsched.lib.groups import lists_by_key
from podsched.queues.objects import ClusterQueue, Policy, Workload
from podsched.queues.quota import Amounts, FlavorResource, Node
from podsched.queues.snapshot import Snapshot


class Reason(StrEnum):
    """Why a workload is preempted."""

    IN_QUEUE = "InClusterQueue"
    RECLAIM = "InCohortReclamation"
    FAIR = "InCohortFairSharing"
    BORROWING = "InCohortReclaimWhileBorrowing"


_TEXTS = {
    Reason.IN_QUEUE: "prioritization in the ClusterQueue",
    Reason.RECLAIM: "reclamation within the cohort",
    Reason.FAIR: "Fair Sharing within the cohort",
    Reason.BORROWING: "reclamation within the cohort while borrowing",
}


@dataclass(frozen=True, slots=True)
class Victim:
    """A workload that is preempted, and why."""

    workload: Workload
    reason: Reason


@dataclass(frozen=True, slots=True)
class Preemptor:
    """A workload that needs victims."""

    workload: Workload
    queue: ClusterQueue
    need: Amounts
    """The quota that the workload will use."""
    short: frozenset[FlavorResource]
    """The flavors and resources whose quota is short."""
    spared: frozenset[str] = frozenset()
    """The keys of workloads that are never candidates, whatever the policies permit."""

    def fits(self, snapshot: Snapshot, *, borrowing: bool) -> bool:
        """Whether the need fits; without ``borrowing``, into the queue's own quota."""
        node = snapshot.node(self.queue.name)
        return all(
            (borrowing or not node.borrows(key, amount)) and amount <= node.available(key)
            for key, amount in self.need.items()
        )

    def may_preempt(self, victim: Workload, policy: Policy) -> bool:
        """Whether a policy permits this victim, and it uses something that is short."""
        return (
            permits(policy, self.workload, victim)
            and any(key in self.short for key in victim.usage)
            and victim.key not in self.spared
            # Of a unit that grows, the pods that run may have a lower priority.
            and victim.key != self.workload.key
        )


def permits(policy: Policy, preemptor: Workload, victim: Workload) -> bool:
    """Whether a policy lets one workload preempt another."""
    lower = victim.priority < preemptor.priority
    if policy is Policy.LOWER:
        return lower
    if policy is Policy.LOWER_OR_NEWER:
        equal = victim.priority == preemptor.priority
        return lower or (equal and preemptor.queued_at < victim.queued_at)
    return policy is Policy.ANY


def preempted_message(preemptor: Workload, reason: Reason, path: str, victim_path: str) -> str:
    """Return the message of a victim's conditions Evicted and Preempted.

    ``path`` and ``victim_path``: the queues, as ``quota.path_of``.
    """
    return (
        f"Preempted to accommodate a workload (UID: {preemptor.uid or 'UNKNOWN'}, JobUID: "
        f"{preemptor.job_uid or 'UNKNOWN'}) due to {_TEXTS[reason]}; preemptor path: {path}; "
        f"preemptee path: {victim_path}"
    )


def victim_order(victims: Iterable[Workload], preemptor_queue: str) -> list[Workload]:
    """Return workloads in the order in which they are preempted.

    Those that are being evicted come first, then those of other queues, then lower priorities, then
    later admissions. Within a ClusterQueue, past usage of the LocalQueue goes before priority: the
    workloads of the one with most usage come first.
    """
    # All are sorted without past usage, which says which queue's turn it is; then each turn takes
    # the queue's next workload by past usage.
    ordered = sorted(victims, key=lambda one: _by_priority(one, preemptor_queue))
    of_queue = lists_by_key(((one.evicted, one.queue), one) for one in ordered)
    turns = {
        key: iter(sorted(ones, key=lambda one: -(one.local_queue_usage or 0)))
        for key, ones in of_queue.items()
    }
    return [next(turns[one.evicted, one.queue]) for one in ordered]


def _by_priority(one: Workload, preemptor_queue: str) -> tuple[bool, bool, int, float, str, str]:
    # A workload without a time of admission counts as the latest.
    reserved = float("inf") if one.reserved_at is None else one.reserved_at
    own = one.queue == preemptor_queue
    return not one.evicted, own, one.priority, -reserved, one.uid, one.key


#: A search for victims. It yields victims without whom there is enough quota, and is sent whether
#: the workload then also fits on nodes. It returns the victims, [] if none make room. Meanwhile the
#: victims are removed from the snapshot; at the end, or if the search is closed, they are back.
Search = Generator[list[Victim], bool, list[Victim]]


def victims_by_quota(search: Search) -> list[Victim]:
    """Return the victims of a search for which only quota counts."""
    try:
        next(search)
        while True:
            search.send(True)
    except StopIteration as end:
        found: list[Victim] = end.value
        return found


class Pacing:
    """Decides when a search yields: at first, and whenever there are twice as many victims.

    Each answer is a trial on the nodes, which takes long; so a search needs O(log n) trials.
    """

    def __init__(self) -> None:
        self._last = 0

    def due(self, taken: Sequence[Victim], *, last: bool = False) -> bool:
        """Whether to yield these victims now; ``last``: there are no more candidates."""
        count = len(taken)
        if count <= self._last or (count < 2 * self._last and not last):
            return False
        self._last = count
        return True


def classic_search(snapshot: Snapshot, preemptor: Preemptor) -> Search:
    """Search for victims whose removal makes room for a workload, without fair sharing."""
    hierarchical, others = _of_cohort(snapshot, preemptor)
    own = [
        _Candidate(workload, Reason.IN_QUEUE, True, ())
        for workload in own_candidates(snapshot, preemptor)
    ]
    if not (hierarchical or others or own):
        return []
    forbidden = not preemptor.queue.preemption.while_borrowing
    node = snapshot.node(preemptor.queue.name)
    # The attempts and their order are Kueue's. An attempt without borrowing has more candidates
    # (``_Candidate.borrowing``), but the need has to fit into the queue's own quota.
    under = all(node.usage.get(key, 0) < node.quota.get(key, 0) for key in preemptor.short)
    if not (hierarchical or others) or (forbidden and not under):
        attempts: tuple[bool, ...] = (True,)
    elif forbidden and not hierarchical:
        attempts = (False, True)
    else:
        attempts = (True, False)
    parts = [_sorted(part, preemptor) for part in (hierarchical, others, own)]
    # Workloads that are being evicted come first, because they will be gone anyway.
    line = [one for part in parts for one in part if one.workload.evicted]
    line += [one for part in parts for one in part if not one.workload.evicted]
    for borrowing in attempts:
        taken: list[Victim] = []
        pacing, fits = Pacing(), partial(preemptor.fits, snapshot, borrowing=borrowing)
        try:
            for candidate in line:
                # Checked again for each: by removals, a queue may be back within its quota.
                if not _valid(preemptor, candidate, borrowing=borrowing):
                    continue
                snapshot.remove(candidate.workload)
                taken.append(Victim(candidate.workload, candidate.reason))
                if fits() and pacing.due(taken) and (yield list(taken)):
                    return (yield from fill_back(snapshot, taken, fits))
            if taken and fits() and pacing.due(taken, last=True) and (yield list(taken)):
                return (yield from fill_back(snapshot, taken, fits))
        finally:
            restore(snapshot, taken)
    return []


def fill_back(snapshot: Snapshot, taken: list[Victim], fits: Callable[[], bool]) -> Search:
    """Drop the victims that are not needed, and return the others; the caller restores them."""
    for index in range(len(taken) - 2, -1, -1):
        snapshot.add(taken[index].workload)
        if fits() and (yield [*taken[:index], *taken[index + 1 :]]):
            # The last victim takes the free place, which gives Kueue's order.
            taken[index] = taken[-1]
            taken.pop()
        else:
            snapshot.remove(taken[index].workload)
    return taken


def restore(snapshot: Snapshot, taken: Iterable[Victim]) -> None:
    """Put those victims back into the snapshot that are not in it."""
    for victim in taken:
        if victim.workload.key not in snapshot.workloads[victim.workload.queue]:
            snapshot.add(victim.workload)


@dataclass(frozen=True, slots=True)
class _Candidate:
    workload: Workload
    reason: Reason
    borrowing: bool
    """Whether a workload may preempt it and then borrow."""
    below: tuple[Node, ...]
    """The nodes that must borrow: the victim's queue, and each cohort below the common one."""


def _sorted(candidates: list[_Candidate], preemptor: Preemptor) -> list[_Candidate]:
    by_key = {candidate.workload.key: candidate for candidate in candidates}
    workloads = [candidate.workload for candidate in candidates]
    ordered = victim_order(workloads, preemptor.queue.name)
    return [by_key[workload.key] for workload in ordered]


def _valid(preemptor: Preemptor, candidate: _Candidate, *, borrowing: bool) -> bool:
    """Whether a candidate may be preempted in this attempt, given the present usage."""
    if borrowing and not candidate.borrowing:
        return False
    return all(any(map(node.borrows, preemptor.short)) for node in candidate.below)


def own_candidates(snapshot: Snapshot, preemptor: Preemptor) -> list[Workload]:
    """Return the candidates of the preemptor's own queue."""
    queue, policy = preemptor.queue, preemptor.queue.preemption.within
    if policy is Policy.NEVER:  # The queue may have admitted thousands.
        return []
    admitted = snapshot.workloads[queue.name].values()
    return [workload for workload in admitted if preemptor.may_preempt(workload, policy)]


def _of_cohort(
    snapshot: Snapshot, preemptor: Preemptor
) -> tuple[list[_Candidate], list[_Candidate]]:
    """Return the candidates of other queues: hierarchical ones, and the others.

    Going up, each node's unused local quota is subtracted from the need. Once the rest fits into
    the quota of a subtree, all candidates outside of this subtree are hierarchical. Source: Kueue
    0.20, pkg/scheduler/preemption/classical/hierarchical_preemption.go.
    """
    found: tuple[list[_Candidate], list[_Candidate]] = ([], [])
    if preemptor.queue.preemption.reclaim is Policy.NEVER:
        return found
    child = snapshot.node(preemptor.queue.name)
    need, advantage = dict(preemptor.need), False
    for cohort in child.ancestors:
        # Before the child's own part is subtracted: this is the need that reaches the child.
        advantage = advantage or not any(child.borrows(key, more) for key, more in need.items())
        need = {key: max(0, more - child.local_available(key)) for key, more in need.items()}
        for below in _borrowers(cohort, child, preemptor.short):
            for workload in snapshot.workloads[below[-1].name].values():
                if preemptor.may_preempt(workload, preemptor.queue.preemption.reclaim):
                    candidate = _of_other(preemptor, workload, below, advantage)
                    found[0 if advantage else 1].append(candidate)
        child = cohort
    return found


def _of_other(
    preemptor: Preemptor, workload: Workload, below: tuple[Node, ...], advantage: bool
) -> _Candidate:
    preemption = preemptor.queue.preemption
    if advantage:
        return _Candidate(workload, Reason.RECLAIM, True, below)
    above = preemption.threshold is not None and workload.priority > preemption.threshold
    if not preemption.while_borrowing or workload.priority >= preemptor.workload.priority or above:
        return _Candidate(workload, Reason.RECLAIM, False, below)
    return _Candidate(workload, Reason.BORROWING, True, below)


def _borrowers(
    cohort: Node, skipped: Node, short: frozenset[FlavorResource]
) -> Iterator[tuple[Node, ...]]:
    """Yield the paths from a cohort down to queues on which each node below the cohort borrows."""
    stack: list[tuple[Node, ...]] = [(cohort,)]
    while stack:
        line = stack.pop()
        for child in line[-1].children:
            if child is not skipped and any(map(child.borrows, short)):
                if child.is_cohort:
                    stack.append((*line, child))
                else:
                    # Without the common cohort itself, which may be within its quota.
                    yield (*line[1:], child)
