"""Units that are evicted, apart from preemption: why, and when they may be admitted again.

| reason | a unit is evicted, as | it is admitted again |
| --- | --- | --- |
| ClusterQueueStopped, LocalQueueStopped | its queue drains | once the queue goes on |
| PodsReadyTimeout | its pods were not ready in time | after a backoff |
| Deactivated | that happened once too often | once its count is removed |
| Deactivated | it reached its execution time (``limits``) | once the annotation is removed |
| DeadlineExceeded | its pods have outlived their deadline | at once |

What must outlive a leader is on the PodGroup: the condition Evicted, the condition PodsReady, and
the annotations ``podsched.io/requeue-count`` and ``podsched.io/deactivated``. A pod without a group
is gone once it is evicted.

Source: Kueue 0.20, pkg/controller/core/workload_controller.go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import heappop, heappush
from math import inf
from typing import Any, Final, NamedTuple

from podsched.api.conditions import QUOTA_RESERVED, TRUE, is_pod_ready
from podsched.config.queues import WaitForPodsReady
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import KIND
from podsched.framework.pods import PodInfo
from podsched.lib.backoff import exponential
from podsched.queues.order import EVICTED_BY_READINESS, queue_time
from podsched.term.admission.limits import deadline, execution_time
from podsched.term.admission.units import Unit

EVICTED: Final = "Evicted"
PODS_READY: Final = "PodsReady"
ADMITTED: Final = "Admitted"
#: Annotation of a PodGroup: how often its pods were not ready in time.
REQUEUE_COUNT: Final = "podsched.io/requeue-count"
#: Annotation of a PodGroup: why it is not admitted until the annotation is removed.
DEACTIVATED_BY: Final = "podsched.io/deactivated"
EXEC_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"
QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"
PREEMPTED: Final = "Preempted"
DEADLINE: Final = "DeadlineExceeded"
DRAINS: Final = "HoldAndDrain"
_OF_QUEUES: Final = (QUEUE_STOPPED, LOCAL_QUEUE_STOPPED)
#: The reasons for which pods are evicted here.
REASONS: Final = (*_OF_QUEUES, EVICTED_BY_READINESS, DEACTIVATED, DEADLINE)
_DEACTIVATED_TEXT: Final = "The workload is deactivated"
_TOO_LONG: Final = f"{_DEACTIVATED_TEXT} ({EXEC_TIME_EXCEEDED}): it has run for {{:g}} s"
_DEADLINE_TEXT: Final = "Pods were active on their nodes longer than the specified deadline"


class Ending(NamedTuple):
    """Why a unit is evicted.

    ``evicts``: its pods are not evicted by others. ``deactivated_by``: the cause, if it may not be
    admitted again until the PodGroup's annotation is removed.
    """

    reason: str
    message: str
    evicts: bool = True
    deactivated_by: str = ""


#: Of a unit whose pods were not evicted by its queue: they could not be bound, or are gone.
_WITHOUT_NODES: Final = Ending("", "No pod of the workload has a node any more", evicts=False)


class Endings:
    """The units that are evicted, and those that have to get ready. Pure; times are monotonic."""

    def __init__(self, cluster: ClusterView, settings: WaitForPodsReady | None) -> None:
        self._cluster = cluster
        self._settings = settings
        self.epoch = 0.0
        """The Unix time of the monotonic time 0."""
        self.current: dict[str, Ending] = {}
        """By key, until no pod of the unit has a node any more."""
        self._ended: dict[str, Ending] = {}
        #: Keys of units with a pod that has a node.
        self._running: set[str] = set()
        #: By key, when a unit has to be ready; and these times in order, with some outdated ones.
        self._due: dict[str, float] = {}
        self._times: list[tuple[float, str]] = []
        self._new_ready: dict[str, None] = {}
        #: By key, when and how a unit ends that has a limit; and the times, with outdated ones.
        self._limits: dict[str, tuple[float, Ending]] = {}
        self._limit_times: list[tuple[float, str]] = []

    @property
    def waits_for_ready(self) -> bool:
        """Whether units have to get ready in time."""
        return self._settings is not None

    # ------------------------------------------------------------------ what happens to units

    def look(self, unit: Unit, stopped: str, now: float) -> None:
        """Look at a unit that has changed; ``stopped``: the reason why its queue drains, or ""."""
        key, known = unit.key, self.current.get(unit.key)
        if not unit.held:
            self._due.pop(key, None)
            self._limits.pop(key, None)
            unit.was_ready = False
            # A new leader has not seen the pods, but the condition says that the unit was admitted.
            admitted = key in self._running or _is_true(self._group(key), QUOTA_RESERVED)
            self._running.discard(key)
            if known is not None:
                self._ended[key] = self.current.pop(key)
            elif admitted and unit.waiting:
                self._ended[key] = _WITHOUT_NODES
            return
        self._running.add(key)
        if stopped and known is None:
            kind = stopped.removesuffix("Stopped")
            self.current[key] = Ending(stopped, f"The {kind} is stopped")
        # The queue goes on: the pods that are not evicted yet stay.
        elif not stopped and known is not None and known.reason in _OF_QUEUES:
            del self.current[key]
        if key not in self.current:
            self._look_at_limit(unit, now)
            if self._settings is not None:
                self._look_at_readiness(unit, self._settings, now)

    def _look_at_limit(self, unit: Unit, now: float) -> None:
        longest, end = execution_time(self._cluster, unit), deadline(unit.held.values())
        limit = min(longest, end)
        if limit == inf:  # Most units have none.
            self._limits.pop(unit.key, None)
            return
        ending = Ending(DEADLINE, _DEADLINE_TEXT)
        if longest <= end:
            text = _TOO_LONG.format(longest)
            ending = Ending(DEACTIVATED, text, deactivated_by=EXEC_TIME_EXCEEDED)
        due = self.started_at(unit, now) + limit
        if self._limits.get(unit.key) != (due, ending):
            self._limits[unit.key] = due, ending
            heappush(self._limit_times, (due, unit.key))

    def started_at(self, unit: Unit, now: float) -> float:
        """Return when a unit was admitted, or its first pod got its node; now, if unknown."""
        return min([now, self.admitted_at(unit), *map(self._bound_at, unit.held.values())])

    def admitted_at(self, unit: Unit) -> float:
        """Return when a group was admitted; infinity for a lone pod, or while that is not known.

        Unlike the times of its pods it stays when pods end, or more of them join.
        """
        group = self._group(unit.key)
        for condition in () if group is None else group.status.conditions:
            if condition.type == ADMITTED and condition.status == TRUE:
                return float(condition.last_transition_time.seconds) - self.epoch
        return inf

    def _look_at_readiness(self, unit: Unit, settings: WaitForPodsReady, now: float) -> None:
        if unit.was_ready:
            return
        pods = [pod for pod in unit.held.values() if not pod.terminating]
        # Once all pods have been Ready the time does not count any more, also for the next leader.
        if _is_true(self._group(unit.key), PODS_READY):
            unit.was_ready = True
        elif pods and all(is_pod_ready(pod.pod) for pod in pods):
            unit.was_ready = True
            self._new_ready[unit.key] = None
        if unit.was_ready:
            self._due.pop(unit.key, None)
        elif unit.key not in self._due:
            # From the binding, which a new leader knows, too: it does not start the time anew.
            begun = min([now, *(self._bound_at(pod) for pod in pods)])
            due = self._due[unit.key] = begun + settings.timeout
            heappush(self._times, (due, unit.key))

    def preempt(self, key: str, message: str) -> None:
        """Note that a unit is evicted for another, which others do."""
        self.current[key] = Ending(PREEMPTED, message, evicts=False)

    def refresh(self, now: float) -> None:
        """Have units evicted that are not ready in time, or have reached their limit."""
        while self._limit_times and self._limit_times[0][0] <= now:
            due, key = heappop(self._limit_times)
            at, ending = self._limits.get(key, (inf, None))
            if at == due and ending is not None and key not in self.current:
                self.current[key] = ending
        while self._times and self._times[0][0] <= now:
            due, key = heappop(self._times)
            if self._due.get(key) == due:
                del self._due[key]
                self.current[key] = self._late(key)

    def _late(self, key: str) -> Ending:
        assert self._settings is not None
        limit = self._settings.requeuing_strategy.backoff_limit_count
        # The count includes this eviction only afterwards, and then exceeds the limit.
        if limit is not None and self.count(key) >= limit:
            return Ending(DEACTIVATED, _DEACTIVATED_TEXT)
        name = key.replace("/pod:", "/")
        return Ending(EVICTED_BY_READINESS, f"Exceeded the PodsReady timeout {name}")

    def next_time(self) -> float | None:
        """Return when a unit has to be ready next, or reaches its limit."""
        return min((of[0][0] for of in (self._times, self._limit_times) if of), default=None)

    def take_ended(self) -> dict[str, Ending]:
        """Remove and return the units of which no pod has a node any more."""
        found, self._ended = self._ended, {}
        return found

    def take_ready(self) -> list[str]:
        """Remove and return the keys of units that have become ready."""
        found, self._new_ready = self._new_ready, {}
        return list(found)

    # ------------------------------------------------------------------ when they come back

    def count(self, key: str) -> int:
        """Return how often a unit was not ready in time."""
        group = self._group(key)
        text = "" if group is None else group.metadata.annotations.get(REQUEUE_COUNT, "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    def deactivated_by(self, key: str) -> str:
        """Return why a unit may not be admitted again, as its PodGroup says; "" if it may."""
        group = self._group(key)
        return "" if group is None else str(group.metadata.annotations.get(DEACTIVATED_BY, ""))

    def is_deactivated(self, key: str) -> bool:
        """Whether a unit was not ready in time for once too often."""
        limit = None
        if self._settings is not None:
            limit = self._settings.requeuing_strategy.backoff_limit_count
        return limit is not None and self.count(key) > limit

    def queued_at(self, key: str, created: float) -> float:
        """Return the time that orders a unit in its queue."""
        reason, at = self._eviction(key)
        by_creation = False
        if self._settings is not None:
            by_creation = self._settings.requeuing_strategy.timestamp == "Creation"
        return queue_time(created, reason, at, by_creation=by_creation)

    def not_before(self, key: str) -> float:
        """Return when a unit may be admitted again."""
        reason, at = self._eviction(key)
        if reason != EVICTED_BY_READINESS or self._settings is None:
            return 0.0
        return at - self.epoch + self.backoff(self.count(key))

    def backoff(self, count: int) -> float:
        """Return the seconds of a backoff after so many attempts."""
        if self._settings is None:
            return 0.0
        strategy = self._settings.requeuing_strategy
        return exponential(strategy.backoff_base_seconds, strategy.backoff_max_seconds, count)

    # ------------------------------------------------------------------ reading

    def time_text(self, at: float) -> str:
        """Return a time for people, in UTC."""
        wall = datetime.fromtimestamp(at + self.epoch, UTC)
        return wall.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _group(self, key: str) -> Any | None:
        namespace, _, name = key.partition("/")
        return None if name.startswith("pod:") else self._cluster.get(KIND, namespace, name)

    def _eviction(self, key: str) -> tuple[str, float]:
        group = self._group(key)
        for condition in () if group is None else group.status.conditions:
            if condition.type == EVICTED and condition.status == TRUE:
                return condition.reason, float(condition.last_transition_time.seconds)
        return "", 0.0

    def _bound_at(self, pod: PodInfo) -> float:
        return bound_at(pod) - self.epoch


def bound_at(pod: PodInfo) -> float:
    """Return when a pod got its node, in seconds since 1970; infinity while that is not known."""
    for condition in pod.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == TRUE:
            return float(condition.last_transition_time.seconds)
    return float("inf")


def _is_true(group: Any | None, type_: str) -> bool:
    conditions = () if group is None else group.status.conditions
    return any(c.type == type_ and c.status == TRUE for c in conditions)
