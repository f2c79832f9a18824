"""The order of the workloads in a ClusterQueue, and where a head goes that was not admitted.

Source: Kueue 0.20, pkg/cache/queue/cluster_queue.go.
"""

from __future__ import annotations

from enum import StrEnum

from podsched.queues.objects import Strategy, Workload

#: Reasons of the condition Evicted: the time of such an eviction replaces the creation time.
EVICTED_BY_READINESS = "PodsReadyTimeout"
_EVICTED_BY_CHECK = "AdmissionCheck"


class Requeue(StrEnum):
    """Why a workload goes back to its queue."""

    GENERIC = "Generic"
    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    PENDING_PREEMPTION = "PendingPreemption"
    PENDING_MIGRATION = "PendingMigration"
    PREEMPTION_FAILED = "PreemptionFailed"
    GATED = "PreemptionGated"


_AT_ONCE = (
    Requeue.FAILED_AFTER_NOMINATION,
    Requeue.PENDING_PREEMPTION,
    Requeue.PENDING_MIGRATION,
    Requeue.PREEMPTION_FAILED,
)


def queue_time(
    created: float,
    evicted_by: str | None,
    evicted_at: float,
    *,
    by_creation: bool = False,
) -> float:
    """Return the time that orders a workload in its queue.

    That is the time of its eviction, if an admission check failed, or if its pods were not ready in
    time and ``by_creation`` is False (``requeuingStrategy.timestamp``). Else it is its creation.
    """
    if evicted_by == _EVICTED_BY_CHECK or (evicted_by == EVICTED_BY_READINESS and not by_creation):
        return evicted_at
    return created


def queue_order(workload: Workload) -> tuple[float, int, float, str, str]:
    """Return the key that orders the workloads of a ClusterQueue.

    Less past usage of the LocalQueue goes first, if known, then higher priority, then earlier time.
    """
    past = workload.local_queue_usage or 0
    return past, -workload.priority, workload.queued_at, workload.uid, workload.key


def stays_in_heap(strategy: Strategy, reason: Requeue, *, untried: bool, backoff: bool) -> bool:
    """Whether a workload that was not admitted is tried again without an event.

    ``untried``: flavors remain that the search has not reached. ``backoff``: it is backing off.
    """
    if backoff:
        return False
    # A head of StrictFIFO blocks its queue, unless its namespace does not match, as in Kueue.
    if strategy is Strategy.STRICT:
        return reason is not Requeue.NAMESPACE_MISMATCH or untried
    return reason in _AT_ONCE or untried


def becomes_sticky(strategy: Strategy, reason: Requeue) -> bool:
    """Whether a workload stays the head of its queue until it is admitted or cannot be."""
    return strategy is Strategy.BEST_EFFORT and reason is Requeue.PENDING_PREEMPTION
