"""Why units are evicted, other than by preemption, and when they may be admitted again.

| reason | a unit is evicted because | it is admitted again |
| --- | --- | --- |
| ClusterQueueStopped, LocalQueueStopped | its queue drains | once the queue goes on |
| PodsReadyTimeout | its pods were not ready in time | after a backoff |
| Deactivated | it was not ready in time too often | once its count is removed |
| Deactivated | it reached its execution time (``limits``) | once the annotation is removed |
| DeadlineExceeded | its pods have outlived their deadline | at once |

The PodGroup has what the next leader needs: the conditions Evicted and PodsReady, and the
annotations ``podsched.io/requeue-count`` and ``podsched.io/deactivated``. For what has no PodGroup
see ``places``.

Source: Kueue 0.20, pkg/controller/core/workload_controller.go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from typing import Any, Final, NamedTuple

from podsched.api.conditions import QUOTA_RESERVED, TRUE, is_pod_ready
from podsched.config.queues import WaitForPodsReady
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import stored_group
from podsched.framework.pods import PodInfo
from podsched.lib.backoff import exponential
from podsched.lib.due_times import DueTimes
from podsched.queues.objects import Workload
from podsched.queues.order import EVICTED_BY_READINESS, queue_time
from podsched.term.admission.limits import deadline, execution_time
from podsched.term.admission.places import Places
from podsched.term.admission.units import Unit, is_lone

EVICTED: Final = "Evicted"
PODS_READY: Final = "PodsReady"
ADMITTED: Final = "Admitted"
#: Annotation of a PodGroup: how often its pods were not ready in time.
REQUEUE_COUNT: Final = "podsched.io/requeue-count"
#: Annotation of a PodGroup: why it is not admitted until the annotation is removed.
DEACTIVATED_BY: Final = "podsched.io/deactivated"
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
_DEACTIVATED_TEXT: Final = "The workload is deactivated"
_TOO_LONG: Final = f"{_DEACTIVATED_TEXT} ({EXEC_TIME_EXCEEDED}): it has run for {{:g}} s"
_TOO_OFTEN: Final = (
    f"{_DEACTIVATED_TEXT} ({_REQUEUED_TOO_OFTEN}): its pods were not ready in time too often"
)
#: The last Unix time, in whole seconds, that ``datetime`` can represent.
_LAST_TIME: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
_DEADLINE_TEXT: Final = "Pods were active on their nodes longer than the specified deadline"


class Ending(NamedTuple):
    """Why the pods of a unit lose their nodes.

    ``evicts``: its pods have to be evicted; False if preemption does it, or they are gone already.
    ``deactivated_by``: the cause that is written to the PodGroup's annotation, which keeps the unit
    from being admitted again; "" for none. ``late``: how often it was not ready in time, if that is
    why it is evicted.
    """

    reason: str
    message: str
    evicts: bool = True
    deactivated_by: str = ""
    late: int | None = None


#: The pods could not be bound, or were deleted by others.
_WITHOUT_NODES: Final = Ending("", "No pod of the workload has a node any more", evicts=False)


class Endings:
    """The units that are being evicted, and the times at which others will be.

    Pure. Times are monotonic, in seconds, unless stated otherwise.
    """

    def __init__(self, cluster: ClusterView, settings: WaitForPodsReady | None) -> None:
        self._cluster = cluster
        self._settings = settings
        self.epoch = 0.0
        """The Unix time of the monotonic time 0."""
        self.current: dict[str, Ending] = {}
        """The units that are being evicted, by key, until no pod of the unit has a node."""
        self._ended: dict[str, Ending] = {}
        #: Keys of units with a pod that has a node.
        self._running: set[str] = set()
        #: When a group without such pods was last seen, by key: it has not been admitted since.
        self._waiting: dict[str, float] = {}
        #: When units have to be ready.
        self._ready_by = DueTimes()
        self._new_ready: dict[str, None] = {}
        self.places = Places(cluster)
        """Of what has no PodGroup."""
        #: When units reach their limits, and how they end then, by key.
        self._limits = DueTimes()
        self._at_limit: dict[str, Ending] = {}

    @property
    def waits_for_ready(self) -> bool:
        """Whether units have to be ready in time, as ``waitForPodsReady`` says."""
        return self._settings is not None

    # ------------------------------------------------------------------ what happens to units

    def update(self, unit: Unit, stopped: str, now: float) -> None:
        """Take in a changed unit; ``stopped``: the reason with which its queue drains, or ""."""
        key, known = unit.key, self.current.get(unit.key)
        self.places.update(unit)
        if not unit.held:
            self._ready_by.discard(key)
            self._limits.discard(key)
            self._at_limit.pop(key, None)
            unit.was_ready = False
            # A new leader has not seen the pods, but the condition says that the unit was admitted.
            admitted = key in self._running or self._true(key, QUOTA_RESERVED) is not None
            self._running.discard(key)
            self._waiting.pop(key, None)
            if unit.waiting and not is_lone(key):
                self._waiting[key] = now
            if known is not None:
                self._ended[key] = self.current.pop(key)
            elif admitted and unit.waiting:
                self._ended[key] = _WITHOUT_NODES
            return
        known = self._take_over_eviction(unit)
        self._running.add(key)
        if stopped and known is None:
            kind = stopped.removesuffix("Stopped")
            self._begin(key, Ending(stopped, f"The {kind} is stopped"))
        # The queue goes on: the pods that are not evicted yet stay.
        elif not stopped and known is not None and known.reason in _OF_QUEUES:
            del self.current[key]
        if key not in self.current:
            self._update_limit(unit, now)
            if self._settings is not None:
                self._update_readiness(unit, self._settings, now)

    def _take_over_eviction(self, unit: Unit) -> Ending | None:
        """Return the eviction of a unit, also if only the last leader has begun it."""
        key = unit.key
        if not (key in self.current or key in self._running or key in self._waiting):
            reason, at = self._eviction(key)
            bound = [bound_at(pod) for pod in unit.held.values() if not pod.terminating]
            # The condition stays until the unit is admitted again, and then its pods are newer.
            if reason and min(bound, default=inf) <= at:
                self._begin(key, Ending(reason, "The last leader has begun to evict it"))
        return self.current.get(key)

    def _update_limit(self, unit: Unit, now: float) -> None:
        longest, end = execution_time(self._cluster, unit), deadline(unit.held.values())
        limit = min(longest, end)
        if limit == inf:  # Most units have none.
            self._limits.discard(unit.key)
            return
        ending = Ending(DEADLINE, _DEADLINE_TEXT)
        if longest <= end:
            text = _TOO_LONG.format(longest)
            ending = Ending(DEACTIVATED, text, deactivated_by=EXEC_TIME_EXCEEDED)
        self._at_limit[unit.key] = ending
        self._limits.set(unit.key, self.started_at(unit, now) + limit)

    def started_at(self, unit: Unit, now: float) -> float:
        """Return when a unit was admitted, or its first pod got a node; ``now`` if unknown."""
        return min([now, self.admitted_at(unit), *map(self._bound_at, unit.held.values())])

    def admitted_at(self, unit: Unit) -> float:
        """Return when a group was admitted; infinity for a lone pod, or while that is not known.

        Unlike the start times of its pods, this does not change when pods end or more pods join.
        """
        condition = self._true(unit.key, ADMITTED)
        at = inf if condition is None else condition.last_transition_time.seconds - self.epoch
        # The cache may show the last admission still. Times of conditions are rounded down.
        return at if at + 1 > self._waiting.get(unit.key, -inf) else inf

    def _update_readiness(self, unit: Unit, settings: WaitForPodsReady, now: float) -> None:
        if unit.was_ready:
            return
        pods = [pod for pod in unit.held.values() if not pod.terminating]
        # Once all pods have been Ready the limit no longer applies. The condition tells the next
        # leader so.
        if self._true(unit.key, PODS_READY) is not None:
            unit.was_ready = True
        elif pods and all(is_pod_ready(pod.pod) for pod in pods):
            unit.was_ready = True
            self._new_ready[unit.key] = None
        if unit.was_ready:
            self._ready_by.discard(unit.key)
        elif unit.key not in self._ready_by:
            # Measured from the binding, which a new leader also knows: a takeover extends no limit.
            begun = min([now, *map(self._bound_at, pods)])
            self._ready_by.set(unit.key, begun + settings.timeout)

    def note_preemption(self, key: str, message: str) -> None:
        """Note that preemption evicts a unit for another one."""
        self._begin(key, Ending(PREEMPTED, message, evicts=False))

    def _begin(self, key: str, ending: Ending) -> None:
        self.current[key] = ending
        self.places.note_eviction(key)

    def refresh(self, now: float) -> None:
        """Begin to evict the units that were not ready in time, or have reached their limit."""
        for key, _ in self._limits.pop_due(now):
            if key not in self.current:
                self._begin(key, self._at_limit[key])
        for key, due in self._ready_by.pop_due(now):
            self._begin_late(key, due, now)

    def _begin_late(self, key: str, due: float, now: float) -> None:
        settings = self._settings
        assert settings is not None
        begun = due - settings.timeout + self.epoch
        count = self.count(key) + self.places.is_late_again(key, begun)
        too_often = self._is_too_often(count)
        text = f"Exceeded the PodsReady timeout {key.replace('/pod:', '/')}"
        ending = Ending(EVICTED_BY_READINESS, text, late=count)
        self.current[key] = Ending(DEACTIVATED, _TOO_OFTEN, late=count) if too_often else ending
        self.places.note_late(key, 0 if too_often else count, now + self.epoch)

    def next_time(self) -> float | None:
        """Return the next time at which a unit has to be ready, or reaches its limit."""
        times = self._ready_by.next_time(), self._limits.next_time()
        return min((time for time in times if time is not None), default=None)

    def take_ended(self) -> dict[str, Ending]:
        """Remove and return the units, by key, whose last pod with a node is gone, and why."""
        found, self._ended = self._ended, {}
        return found

    def take_ready(self) -> list[str]:
        """Remove and return the keys of units that have become ready."""
        found, self._new_ready = self._new_ready, {}
        return list(found)

    # ------------------------------------------------------------------ when they come back

    def count(self, key: str) -> int:
        """Return how often a unit was not ready in time."""
        group = stored_group(self._cluster, key)
        if group is None:
            return self.places.count(key)
        text = group.metadata.annotations.get(REQUEUE_COUNT, "")
        return int(text) if text.isdecimal() and len(text) < 10 else 0

    def deactivated_by(self, key: str) -> str:
        """Return why a unit may not be admitted again, as its PodGroup says; "" if it may."""
        group = stored_group(self._cluster, key)
        return "" if group is None else str(group.metadata.annotations.get(DEACTIVATED_BY, ""))

    def is_deactivated(self, key: str) -> bool:
        """Whether a unit was not ready in time more often than ``backoffLimitCount`` permits."""
        return self._is_too_often(self.count(key))

    def _is_too_often(self, count: int) -> bool:
        settings = self._settings
        limit = None if settings is None else settings.requeuing_strategy.backoff_limit_count
        return limit is not None and count > limit

    def queued_at(self, key: str, created: float) -> float:
        """Return the Unix time that orders a unit in its queue: of creation, or of eviction."""
        reason, at = self._eviction(key)
        return queue_time(created, reason, at, by_creation=self._by_creation)

    def in_place(self, workload: Workload) -> Workload:
        """Return a unit's workload at the place of its job, if its pods are made again."""
        return self.places.put(workload, by_creation=self._by_creation)

    @property
    def _by_creation(self) -> bool:
        """Whether a unit that was not ready in time keeps its place."""
        settings = self._settings
        return settings is not None and settings.requeuing_strategy.timestamp == "Creation"

    def not_before(self, key: str) -> float:
        """Return when a unit may be admitted again; 0.0 if it need not wait."""
        reason, at = self._eviction(key)
        late = self.places.late_at(key)
        if late is not None:
            reason, at = EVICTED_BY_READINESS, late
        if reason != EVICTED_BY_READINESS or self._settings is None:
            return 0.0
        return at - self.epoch + self.backoff(self.count(key))

    def backoff(self, count: int) -> float:
        """Return the seconds of the backoff after ``count`` evictions."""
        if self._settings is None:
            return 0.0
        strategy = self._settings.requeuing_strategy
        return exponential(strategy.backoff_base_seconds, strategy.backoff_max_seconds, count)

    # ------------------------------------------------------------------ reading

    def time_text(self, at: float) -> str:
        """Return a time for people, in UTC; the last that has a text stands for later ones."""
        # Users choose limits and grace periods, and their sum may be beyond the year 9999.
        wall = datetime.fromtimestamp(min(at + self.epoch, _LAST_TIME), UTC)
        return wall.strftime("%Y-%m-%dT%H:%M:%SZ")

    def _eviction(self, key: str) -> tuple[str, float]:
        condition = self._true(key, EVICTED)
        if condition is None:
            return "", 0.0
        return condition.reason, float(condition.last_transition_time.seconds)

    def _true(self, key: str, type_: str) -> Any | None:
        """Return a condition of a unit's PodGroup, if it is True."""
        group = stored_group(self._cluster, key)
        of_group = () if group is None else group.status.conditions
        return next((c for c in of_group if c.type == type_ and c.status == TRUE), None)

    def _bound_at(self, pod: PodInfo) -> float:
        return bound_at(pod) - self.epoch


def bound_at(pod: PodInfo) -> float:
    """Return when a pod got its node, in seconds since 1970; infinity while that is not known."""
    for condition in pod.pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == TRUE:
            return float(condition.last_transition_time.seconds)
    return float("inf")
