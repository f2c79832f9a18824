"""Why units are evicted, other than by preemption, and when they may be admitted again.

| reason | a unit is evicted because | it is admitted again (``requeuing``) |
| --- | --- | --- |
| ClusterQueueStopped, LocalQueueStopped | its queue drains | once the queue goes on |
| PodsReadyTimeout | its pods were not ready in time | after a backoff |
| Deactivated | it was not ready in time too often | once its count is removed |
| Deactivated | it reached its execution time (``limits``) | once the annotation is removed |
| DeadlineExceeded | its pods have outlived their deadline | at once |

The conditions Evicted and PodsReady of the PodGroup tell the next leader.

Source: Kueue 0.20, pkg/controller/core/workload_controller.go.
"""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from podsched.api import conditions
from podsched.api.conditions import QUOTA_RESERVED, is_pod_ready
from podsched.config.queues import WaitForPodsReady
from podsched.framework.pods import PodInfo
from podsched.lib.due_times import DueTimes, earliest
from podsched.queues.order import EVICTED_BY_READINESS
from podsched.term.admission.books import Books
from podsched.term.admission.limits import deadline, execution_time
from podsched.term.admission.requeuing import Requeuing, eviction_of, true_condition
from podsched.term.admission.units import Unit, is_lone, shown_key

PODS_READY: Final = "PodsReady"
ADMITTED: Final = "Admitted"
EXEC_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
_REQUEUED_TOO_OFTEN: Final = "RequeuingLimitExceeded"
QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"
PREEMPTED: Final = "Preempted"
DEADLINE: Final = "DeadlineExceeded"
DRAINS: Final = "HoldAndDrain"
_OF_QUEUES: Final = (QUEUE_STOPPED, LOCAL_QUEUE_STOPPED)
#: The reasons of evictions that ``Endings`` starts.
REASONS: Final = (*_OF_QUEUES, EVICTED_BY_READINESS, DEACTIVATED, DEADLINE)
_DEACTIVATED_TEXT: Final = "The workload is deactivated due to exceeding the maximum"
_TOO_LONG: Final = f"{_DEACTIVATED_TEXT} execution time"
_TOO_OFTEN: Final = f"{_DEACTIVATED_TEXT} number of re-queuing retries"
#: Between a reason and its cause.
_DUE_TO: Final = "DueTo"
_DEADLINE_TEXT: Final = "Pods were active on their nodes longer than the specified deadline"


class Ending(NamedTuple):
    """Why the pods of a unit lose their nodes.

    ``evicts``: its pods have to be evicted; False if preemption does it, or they are gone already.
    ``cause``: why it is deactivated, "" if it is not. ``late``: how often it was not ready in time,
    if that is why it is evicted.
    """

    reason: str
    message: str
    evicts: bool = True
    cause: str = ""
    late: int | None = None

    @property
    def full_reason(self) -> str:
        """The reason with its cause, as in the condition Evicted and in events."""
        return f"{self.reason}{_DUE_TO}{self.cause}" if self.cause else self.reason

    def is_over(self, stopped: str) -> bool:
        """Whether a unit that is no victim keeps pods; ``stopped``: see ``Endings.update``."""
        return not self.evicts or (self.reason in _OF_QUEUES and not stopped)


#: The pods could not be bound, or were deleted by others.
_WITHOUT_NODES: Final = Ending("", "No pod of the workload has a node any more", evicts=False)


class Endings:
    """The units that are being evicted, and the times at which others will be. Pure."""

    def __init__(
        self, books: Books, settings: WaitForPodsReady | None, requeuing: Requeuing
    ) -> None:
        self._books = books
        self._cluster = books.cluster
        self._settings = settings
        self._requeuing = requeuing
        self.waits_for_ready = settings is not None
        """Whether units have to be ready in time, as ``waitForPodsReady`` says."""
        self.current: dict[str, Ending] = {}
        """The units that are being evicted, by key, until no pod of the unit has a node."""
        #: The keys of units that have changed, or are evicted from now on; for who evicts them.
        self.changed: dict[str, None] = {}
        self.ended: dict[str, Ending] = {}
        """The units, by key, whose last pod with a node is gone, and why; for who reports it."""
        self.spared: dict[str, Ending] = {}
        """The units, by key, that run on because nobody waits for them any more, or their queue
        goes on, and how they would have ended; for who reports it."""
        self.become_ready: dict[str, None] = {}
        """The keys of units that have become ready; for who reports it."""
        #: Keys of units with a pod that has a node.
        self._running: set[str] = set()
        #: When a group without such pods was last seen, by key: it has not been admitted since.
        self._waiting: dict[str, float] = {}
        #: When units have to be ready.
        self._ready_by = DueTimes()
        self.were_ready: set[str] = set()
        """The keys of units whose limit no longer applies: once, all their pods were Ready."""
        #: When units reach their limits, and how they end then, by key.
        self._limits = DueTimes()
        self._at_limit: dict[str, Ending] = {}

    def update(self, unit: Unit, stopped: str, *, is_victim: bool) -> None:
        """Take in a changed unit.

        ``stopped``: the reason with which its queue drains, or "". ``is_victim``: another unit
        waits for it to be gone.
        """
        key, known = unit.key, self.current.get(unit.key)
        if not unit.held:
            self._ready_by.discard(key)
            self._limits.discard(key)
            self._at_limit.pop(key, None)
            self.were_ready.discard(key)
            # A new leader has not seen the pods, but the condition says that the unit was admitted.
            # Later it is not read: the write that makes it False may still be under way.
            admitted = key in self._running or (
                key not in self._waiting
                and true_condition(self._cluster, key, QUOTA_RESERVED) is not None
            )
            self._running.discard(key)
            self._waiting.pop(key, None)
            if unit.waiting and not is_lone(key):
                self._waiting[key] = self._books.now
            if known is not None:
                self.ended[key] = self.current.pop(key)
            elif admitted and unit.waiting:
                self.ended[key] = _WITHOUT_NODES
            return
        known = self._take_over_eviction(unit)
        self._running.add(key)
        leaves = is_victim or all(pod.terminating for pod in unit.held.values())
        # Its eviction may have failed, and the unit that it was for is gone or runs elsewhere. Or
        # the queue goes on: the pods that are not evicted yet stay.
        if known is not None and not leaves and known.is_over(stopped):
            self.spared[key] = self.current.pop(key)
            known = None
        if stopped and known is None:
            kind = stopped.removesuffix("Stopped")
            self._begin(key, Ending(stopped, f"The {kind} is stopped"))
        self.changed[key] = None
        if key not in self.current:
            self._update_limit(unit)
            if self._settings is not None:
                self._update_readiness(unit, self._settings)

    def _take_over_eviction(self, unit: Unit) -> Ending | None:
        """Return the eviction of a unit, also if only the last leader has begun it."""
        key = unit.key
        if not (key in self.current or key in self._running or key in self._waiting):
            reason, at = eviction_of(self._cluster, key)
            bound = [bound_at(pod) for pod in unit.held.values() if not pod.terminating]
            # The condition stays until the unit is admitted again, and then its pods are newer.
            if reason and min(bound, default=inf) <= at:
                reason, _, cause = reason.partition(_DUE_TO)
                text = "The last leader has begun to evict it"
                self._begin(key, Ending(reason, text, cause=cause))
        return self.current.get(key)

    def _update_limit(self, unit: Unit) -> None:
        longest, end = execution_time(self._cluster, unit), deadline(unit.held.values())
        limit = min(longest, end)
        if limit == inf:  # Most units have none.
            self._limits.discard(unit.key)
            return
        ending = Ending(DEADLINE, _DEADLINE_TEXT)
        if longest <= end:
            ending = Ending(DEACTIVATED, _TOO_LONG, cause=EXEC_TIME_EXCEEDED)
        self._at_limit[unit.key] = ending
        self._limits.set(unit.key, min(self._books.now, self.started_at(unit)) + limit)

    def started_at(self, unit: Unit) -> float:
        """Return when a unit was admitted, or its first pod got a node; infinity if unknown."""
        return min(self.admitted_at(unit), *map(bound_at, unit.held.values()))

    def admitted_at(self, unit: Unit) -> float:
        """Return when a group was admitted; infinity for a lone pod, or while that is not known.

        Unlike the start times of its pods, this does not change when pods end or more pods join.
        """
        return self._true_since(unit.key, ADMITTED)

    def _true_since(self, key: str, type_: str) -> float:
        """Return since when a condition of a group that runs has been True; infinity if it is not.

        The cache may still show that of its last run.
        """
        condition = true_condition(self._cluster, key, type_)
        at = inf if condition is None else float(condition.last_transition_time.seconds)
        # Times of conditions are rounded down.
        return at if at + 1 > self._waiting.get(key, -inf) else inf

    def _update_readiness(self, unit: Unit, settings: WaitForPodsReady) -> None:
        key = unit.key
        if key in self.were_ready:
            return
        pods = [pod for pod in unit.held.values() if not pod.terminating]
        # Once all pods have been Ready the limit no longer applies. The condition tells the next
        # leader so.
        if self._true_since(key, PODS_READY) < inf:
            self.were_ready.add(key)
        elif pods and all(is_pod_ready(pod.pod) for pod in pods):
            self.were_ready.add(key)
            self.become_ready[key] = None
        if key in self.were_ready:
            self._ready_by.discard(key)
        elif key not in self._ready_by:
            # Measured from the binding, which a new leader also knows: a takeover extends no limit.
            begun = min([self._books.now, *map(bound_at, pods)])
            self._ready_by.set(key, begun + settings.timeout)

    def note_preemption(self, key: str, message: str) -> None:
        """Note that preemption evicts a unit for another one."""
        self._begin(key, Ending(PREEMPTED, message, evicts=False))

    def _begin(self, key: str, ending: Ending) -> None:
        self.current[key], self.changed[key] = ending, None
        self._requeuing.places.note_eviction(key)

    def refresh(self) -> None:
        """Begin to evict the units that were not ready in time, or have reached their limit."""
        # Those that are being evicted already keep the reason: it says when they come back.
        for key, _ in self._limits.pop_due(self._books.now):
            if key not in self.current:
                self._begin(key, self._at_limit[key])
        for key, due in self._ready_by.pop_due(self._books.now):
            if key not in self.current:
                self._begin_late(key, due)

    def _begin_late(self, key: str, due: float) -> None:
        settings, requeuing = self._settings, self._requeuing
        assert settings is not None
        count = requeuing.count(key) + requeuing.places.is_late_again(key, due - settings.timeout)
        too_often = requeuing.is_too_often(count)
        text = f"Exceeded the PodsReady timeout {shown_key(key)}"
        ending = Ending(EVICTED_BY_READINESS, text, late=count)
        if too_often:
            ending = Ending(DEACTIVATED, _TOO_OFTEN, cause=_REQUEUED_TOO_OFTEN, late=count)
        self.current[key], self.changed[key] = ending, None
        requeuing.places.note_late(key, 0 if too_often else count, self._books.now)

    def next_time(self) -> float | None:
        """Return the next time at which a unit has to be ready, or reaches its limit."""
        return earliest(self._ready_by.next_time(), self._limits.next_time())


def bound_at(pod: PodInfo) -> float:
    """Return when a pod got its node, in seconds since 1970; infinity while that is not known."""
    at = conditions.bound_at(pod.pod)
    return inf if at is None else float(at.seconds)
