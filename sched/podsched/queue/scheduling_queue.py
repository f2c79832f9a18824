"""The scheduling queue: which pod is tried next, and which event gives a waiting pod another try.

Pure and synchronous; ``now`` is the owner's monotonic clock in seconds and never goes back.
Guarantees: every pod that was added and neither deleted nor done is in exactly one place; pods
leave activeQ by the QueueSort plugin's order, equals in the order in which they entered; no pod is
left unschedulable when a hint says that an event since its last attempt began helps it. Sources:
Q1-Q22 of kube-scheduler v1.36 (backend/queue). Non-goals: the nominator and the assumed pods (the
cache's), and knowing which pods the scheduler is responsible for (Q21, the owner's).

::

                 add, update                       delete: from anywhere to nowhere
                      |
                  PreEnqueue --rejects--> gated --(its plugin's event, activate)--> PreEnqueue
                      | passes            (in unschedulablePods)
                      v
    .----------->  activeQ  <--- backoff completed ---  podBackoffQ, podErrorBackoffQ
    |                 |                                      |                ^
    |                pop                     pop when activeQ is empty        |
    |                 |<----- (podBackoffQ only) ------------'                |
    |                 v                                                       |
    |             in flight --done--> out of the queue's sight (binding)      |
    |                 |                                                       |
    |     add_unschedulable_if_not_present                                    |
    |                 |-- it met an error, or events meanwhile help --------->|
    |                 v                                                       |
    '----- unschedulablePods -- an event's hint, timeout -------------------->'
      (backoff over, Pending plugin, activate)        (still backing off)

=================  =====================================  ========================================
from               on                                     to
=================  =====================================  ========================================
(none)             add, update                            activeQ, or gated
activeQ            pop                                    in flight
podBackoffQ        pop with activeQ empty                 in flight
both backoff       flush_backoff_completed, activate      activeQ (gated when activate is refused)
in flight          done, deleted and then returned        (none)
in flight          returned with errors                   podErrorBackoffQ (activeQ without backoff)
in flight          rejected, nothing helped meanwhile     unschedulablePods
in flight          rejected, an event helped              podBackoffQ; activeQ if not backing off or
                                                          if a Pending plugin was helped
in flight          return_unattempted                     activeQ
unschedulablePods  event, own update, timeout             as the previous but one
gated              event of the gating plugin, activate   activeQ, podBackoffQ, or gated again
any                delete                                 (none); in flight: when returned
=================  =====================================  ========================================

Entering activeQ or a backoff heap runs PreEnqueue (not again from backoff to activeQ, Q4), and who
is rejected by it is gated instead. AssignedPodAdd is not confined to pods with affinity or spread
terms as in kube-scheduler (Q15): hints and their indexes confine it as well and forget no plugin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from podsched.framework.classify import pod_update_actions
from podsched.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Resource,
)
from podsched.framework.plugin import PreEnqueuePlugin, QueueSortPlugin
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.backoff_queue import BackoffQueue, has_rejectors
from podsched.queue.gates import Gates
from podsched.queue.hints import HintTable, Strategy
from podsched.queue.in_flight import InFlight
from podsched.queue.key_heap import KeyHeap
from podsched.queue.observer import QueueObserver, SilentObserver
from podsched.queue.unschedulable_pods import UnschedulablePods, group_key

SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"
#: Seconds between two looks at pods that have been unschedulable for too long (Q5).
LEFTOVER_PERIOD = 30.0


class QueueCorrupted(AssertionError):
    """The queue's books contradict each other: a bug of this package."""


class SchedulingQueue:
    """See the module. Not safe for threads; an event loop's tasks may share it."""

    def __init__(
        self,
        sort: QueueSortPlugin,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        hints: Mapping[str, Mapping[str, Sequence[ClusterEventWithHint]]],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        observer: QueueObserver | None = None,
    ) -> None:
        """``pre_enqueue`` by profile, ``hints`` by profile and plugin; durations in seconds."""
        self._sort = sort
        self._observer: QueueObserver = observer or SilentObserver()
        self._hints = HintTable(hints, self._observer)
        self._gates = Gates(pre_enqueue, self._observer)
        self._active: KeyHeap[QueuedPodInfo] = KeyHeap()
        self._backoff = BackoffQueue(initial_backoff, max_backoff, self._order)
        self._unschedulable = UnschedulablePods(self._hints)
        self._in_flight = InFlight(self._hints)
        self._max_in_unschedulable = max_in_unschedulable
        self._last_leftover_flush = float("-inf")
        self._sequence = 0
        self._rejections: Counter[tuple[str, str]] = Counter()
        self._incoming: Counter[tuple[str, str]] = Counter()
        self._closed = False

    # Pods that come, change and go.

    def add(self, pod: PodInfo, now: float) -> None:
        """Take a pod in; one that is already here is updated."""
        flight = self._in_flight.get(pod.uid)
        known = None if flight else self._queued(pod.uid)
        if flight is not None:
            flight.latest, flight.deleted = pod, False
        elif known is not None:
            self._update(known.info, pod, now)
        else:
            self._enter(pod, UNSCHEDULED_POD_ADD, now)
        self._report()

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Take note of a change of a pod without a node; one unknown so far is added.

        Not to be called for pods that are assumed or being bound.
        """
        if old is not None and old.uid != new.uid:
            self.delete(old, now)
            self.add(new, now)
            return
        self._update(old, new, now)
        if old is not None and old.nominated_node_name != new.nominated_node_name:
            self._release_nomination(old, now)
        self._report()

    def delete(self, pod: PodInfo, now: float, *, bound: bool = False) -> None:
        """Forgets a pod that was deleted or, with ``bound``, got its node.

        A deleted pod gives back the node it was nominated to (Q18).
        """
        flight = self._in_flight.get(pod.uid)
        if flight is not None:
            flight.deleted = True
        elif (queued := self._queued(pod.uid)) is not None:
            self._remove(pod.uid)
            self._count_rejections(queued, -1)
        if not bound:
            self._release_nomination(pod, now)
        self._report()

    # Attempts.

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Take the next pod out for an attempt; None when there is none or the queue is closed."""
        batch = self.pop_batch(now, 1)
        return batch[0] if batch else None

    def pop_batch(self, now: float, limit: int, *, same_class: bool = True) -> list[QueuedPodInfo]:
        """Return the next pods in queue order, at most ``limit``, with ``same_class`` all of one PodClass.

        All come from activeQ or, when that is empty, all from podBackoffQ (Q4).
        """
        if self._closed:
            return []
        source: KeyHeap[QueuedPodInfo] | BackoffQueue
        source = self._active if len(self._active) else self._backoff
        batch: list[QueuedPodInfo] = []
        while len(batch) < limit and (head := source.peek()) is not None:
            if same_class and batch and head.info.cls is not batch[0].info.cls:
                break
            source.pop()
            batch.append(head)
        if source is self._backoff and batch:
            self._incoming[ACTIVE, POP_FROM_BACKOFF_Q] += len(batch)
        for pod in batch:
            self._take_off(pod, now)
        self._report()
        return batch

    def done(self, uid: str) -> None:
        """Return the attempt has come so far that events no longer matter to it (before PreBind)."""
        self._in_flight.finish(uid)

    def add_unschedulable_if_not_present(
        self,
        pod: QueuedPodInfo,
        now: float,
        *,
        unschedulable_plugins: Collection[str] = (),
        pending_plugins: Collection[str] = (),
    ) -> str:
        """Take a pod back whose attempt failed, and end the attempt.

        The plugins are those that rejected it (with Pending: the second); none mean an error.
        Returns the queue it went to: active, backoff, unschedulable or gated; "" if it is not
        wanted any more, having been deleted or added anew meanwhile. If ``done`` was called before,
        the owner has to know that the pod still exists.
        """
        flight = self._in_flight.get(pod.info.uid)
        if flight is not None:
            pod.info = flight.latest
        if (flight is not None and flight.deleted) or self._queued(pod.info.uid) is not None:
            self._in_flight.finish(pod.info.uid)
            return ""
        pod.unschedulable_plugins = set(unschedulable_plugins)
        pod.pending_plugins = set(pending_plugins)
        pod.gating_plugin = ""
        self._count_failure(pod, now)
        strategy = Strategy.AFTER_BACKOFF
        if flight is not None and has_rejectors(pod):
            strategy = self._in_flight.replay(flight, pod, group_key(pod))
        self._in_flight.finish(pod.info.uid)
        self._count_rejections(pod, 1)
        place = self._requeue(pod, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
        self._report()
        return place

    def return_unattempted(self, pods: Iterable[QueuedPodInfo], now: float) -> None:
        """Put popped pods back to where they were in the order, as if they had not been popped."""
        for pod in pods:
            flight = self._in_flight.finish(pod.info.uid)
            if flight is None or flight.deleted:
                continue
            pod.info = flight.latest
            pod.attempts -= 1
            self._to_active(pod, None, now)
        self._report()

    # Events.

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        *,
        max_priority: int | None = None,
        except_uid: str = "",
    ) -> int:
        """Give every waiting pod another try that the event may help; return how many these are.

        ``old`` and ``new`` are the object's messages; ``max_priority`` leaves out pods above it,
        ``except_uid`` the pod of that uid.
        """
        moved = self._move(event, old, new, now, max_priority, except_uid)
        self._report()
        return moved

    def note_for_in_flight(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Return an event that can concern the pods in flight alone: all others came to wait before it
        had its cause, or after it was over.
        """
        if event.is_wildcard or self._hints.matching(event):
            self._in_flight.record(event, old, new)

    def activate(self, pods: Iterable[PodInfo], now: float) -> None:
        """Move waiting pods to activeQ whatever their hints and backoff say (Q13).

        One in flight is tried again should its attempt fail; gates are respected.
        """
        for pod in pods:
            flight = self._in_flight.get(pod.uid)
            if flight is not None:
                flight.own.append((FORCE_ACTIVATE, None, pod.pod))
                continue
            queued = self._unschedulable.remove(pod.uid) or self._backoff.remove(pod.uid)
            if queued is not None:
                self._to_active(queued, FORCE_ACTIVATE.text, now)
        self._report()

    # Time.

    def flush(self, now: float) -> None:
        """Do what ``next_wakeup`` was waiting for."""
        self.flush_backoff_completed(now)
        if now - self._last_leftover_flush >= LEFTOVER_PERIOD:
            self.flush_unschedulable_leftover(now)

    def flush_backoff_completed(self, now: float) -> int:
        """Move pods whose backoff has ended to activeQ; return their number."""
        completed = list(self._backoff.pop_completed(now))
        for pod in completed:
            self._to_active(pod, BACKOFF_COMPLETE, now, pre_enqueue=False)
        self._report()
        return len(completed)

    def flush_unschedulable_leftover(self, now: float) -> int:
        """Give pods another try that no event has helped for too long; return their number.

        Gates of pods that have been gated as long are looked at again, in case an event was missed.
        """
        self._last_leftover_flush = now
        leftover = self._unschedulable.older_than(now - self._max_in_unschedulable)
        for pod in leftover:
            pod.was_flushed_from_unschedulable = not pod.gating_plugin
            self._requeue(pod, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.text, now)
        self._report()
        return len(leftover)

    def next_wakeup(self, now: float) -> float | None:
        """When ``flush`` next has something to do (maybe now); None: not before a change."""
        times = [self._backoff.next_completion()]
        oldest = self._unschedulable.oldest()
        if oldest is not None:
            period_over = self._last_leftover_flush + LEFTOVER_PERIOD
            times.append(max(oldest + self._max_in_unschedulable, period_over))
        earliest = min((time for time in times if time is not None), default=None)
        return None if earliest is None else max(now, earliest)

    # To look at.

    def __len__(self) -> int:
        """Return the number of pods waiting, those in flight not counted."""
        return len(self._active) + len(self._backoff) + len(self._unschedulable)

    def counts(self) -> dict[str, int]:
        """Pods per queue, as the gauge ``pending_pods`` names them."""
        gated = self._unschedulable.gated_count
        return {
            ACTIVE: len(self._active),
            BACKOFF: len(self._backoff),
            UNSCHEDULABLE: len(self._unschedulable) - gated,
            GATED: gated,
        }

    def unschedulable_by_plugin(self) -> dict[tuple[str, str], int]:
        """Waiting pods per (plugin, profile) that rejected them (gauge ``unschedulable_pods``)."""
        return dict(self._rejections)

    def in_flight_events(self) -> dict[str, int]:
        """Kept events by label (gauge ``inflight_events``)."""
        return self._in_flight.event_counts()

    def in_flight(self) -> list[QueuedPodInfo]:
        """Return the pods whose attempt is running, in the order of their pops."""
        return [flight.pod for flight in self._in_flight]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return a waiting pod."""
        return self._queued(uid)

    def place(self, uid: str) -> str:
        """Where a pod is: active, backoff, unschedulable, gated, in-flight, or ""."""
        if uid in self._active:
            return ACTIVE
        if uid in self._backoff:
            return BACKOFF
        if (pod := self._unschedulable.get(uid)) is not None:
            return GATED if pod.gating_plugin else UNSCHEDULABLE
        return "in-flight" if uid in self._in_flight else ""

    def unschedulable_pods(self) -> Iterator[QueuedPodInfo]:
        """Return the pods that wait for an event, not gated; the queue must not change meanwhile."""
        return (pod for pod in self._unschedulable if not pod.gating_plugin)

    def pending_pods(self) -> tuple[list[PodInfo], str]:
        """All waiting pods and a line that says how many are where (Q22)."""
        waiting = [*self._active.in_order(), *self._backoff.in_order(), *self._unschedulable]
        summary = (
            f"activeQ:{len(self._active)}; backoffQ:{len(self._backoff)}; "
            f"unschedulablePods:{len(self._unschedulable)}"
        )
        return [pod.info for pod in waiting], summary

    def close(self) -> None:
        """From now on nothing is popped."""
        self._closed = True

    @property
    def closed(self) -> bool:
        return self._closed

    def check_invariants(self) -> None:
        """Raise QueueCorrupted with all that contradicts the module's guarantees; O(n)."""
        problems = list(self._unschedulable.problems())
        places = Counter(pod.info.uid for pod in self._waiting())
        places.update(flight.pod.info.uid for flight in self._in_flight)
        problems += [f"{uid} is in {n} places" for uid, n in places.items() if n > 1]
        expected: Counter[tuple[str, str]] = Counter()
        for pod in self._waiting():
            expected.update(_rejecting(pod))
        if expected != self._rejections:
            problems.append(f"rejections are {expected}, counted {self._rejections}")
        problems += [
            f"{pod.key} is gated outside unschedulablePods"
            for pod in (*self._active, *self._backoff)
            if pod.gating_plugin
        ]
        if problems:
            raise QueueCorrupted("; ".join(problems))

    # Moves. A pod given to these is in no queue.

    def _enter(self, pod: PodInfo, event: ClusterEvent, now: float) -> None:
        queued = QueuedPodInfo(pod, now)
        self._stamp(queued, now)
        self._to_active(queued, event.text, now)

    def _requeue(self, pod: QueuedPodInfo, strategy: Strategy, event: str, now: float) -> str:
        if strategy is Strategy.SKIP:
            self._park(pod, event, now)
            return UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self._backoff.is_backing_off(pod, now):
            return BACKOFF if self._to_backoff(pod, event, now) else GATED
        return ACTIVE if self._to_active(pod, event, now) else GATED

    def _to_active(
        self, pod: QueuedPodInfo, event: str | None, now: float, *, pre_enqueue: bool = True
    ) -> bool:
        if pre_enqueue and not self._passes_gates(pod, event, now):
            return False
        if pod.initial_attempt_timestamp is None:
            pod.initial_attempt_timestamp = now
        self._active.add(pod.info.uid, self._order(pod), pod)
        self._count_incoming(ACTIVE, event)
        return True

    def _to_backoff(self, pod: QueuedPodInfo, event: str, now: float) -> bool:
        if not self._passes_gates(pod, event, now):
            return False
        self._backoff.add(pod)
        self._count_incoming(BACKOFF, event)
        return True

    def _passes_gates(self, pod: QueuedPodInfo, event: str | None, now: float) -> bool:
        gated_before = pod.gating_plugin
        pod.gating_plugin = self._gates.rejecting(pod)
        if not pod.gating_plugin:
            return True
        if pod.gating_plugin not in pod.unschedulable_plugins:
            if pod.gating_plugin not in pod.pending_plugins:
                self._rejections[pod.gating_plugin, pod.info.cls.scheduler_name] += 1
            pod.unschedulable_plugins.add(pod.gating_plugin)
        self._park(pod, None if gated_before else event, now)
        return False

    def _park(self, pod: QueuedPodInfo, event: str | None, now: float) -> None:
        self._unschedulable.add(pod, now)
        self._count_incoming(UNSCHEDULABLE, event)

    def _take_off(self, pod: QueuedPodInfo, now: float) -> None:
        self._count_rejections(pod, -1)
        if pod.initial_attempt_timestamp is None:
            pod.initial_attempt_timestamp = now
        pod.attempts += 1
        pod.unschedulable_plugins.clear()
        pod.pending_plugins.clear()
        pod.gating_plugin = ""
        self._in_flight.start(pod)

    def _move(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        max_priority: int | None,
        except_uid: str = "",
    ) -> int:
        if not event.is_wildcard and not self._hints.matching(event):
            return 0
        helped = self._unschedulable.helped(event, old, new, max_priority)
        helped.pop(except_uid, None)
        label = event.text if helped else ""
        for uid, strategy in helped.items():
            pod = self._unschedulable.remove(uid)
            assert pod is not None
            self._requeue(pod, strategy, label, now)
        self._in_flight.record(event, old, new)
        return len(helped)

    def _release_nomination(self, pod: PodInfo, now: float) -> None:
        # To pods of equal or lower priority the nominee was as good as assigned.
        if pod.nominated_node_name:
            self._move(ASSIGNED_POD_DELETE, pod.pod, None, now, pod.priority)

    def _update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        flight = self._in_flight.get(new.uid)
        if flight is not None:
            before, flight.latest, flight.deleted = flight.latest, new, False
            if _concerns_queue(before, new):
                event = _own_event(before, new)
                flight.own.append((event, before.pod, new.pod))
            return
        queued = self._active.get(new.uid) or self._backoff.get(new.uid)
        if queued is not None:
            self._replace_queued(queued, new)
        elif (parked := self._unschedulable.get(new.uid)) is not None:
            self._update_parked(parked, new, now)
        else:
            self._enter(new, UNSCHEDULED_POD_UPDATE, now)

    def _replace_queued(self, pod: QueuedPodInfo, new: PodInfo) -> None:
        before = self._order(pod)
        pod.info = new
        if self._order(pod) == before:
            return
        if self._active.remove(new.uid) is not None:
            self._active.add(new.uid, self._order(pod), pod)
        elif self._backoff.remove(new.uid) is not None:
            self._backoff.add(pod)

    def _update_parked(self, pod: QueuedPodInfo, new: PodInfo, now: float) -> None:
        old = pod.info
        if not _concerns_queue(old, new) and self._unschedulable.replace_info(new):
            return
        self._unschedulable.remove(new.uid)
        pod.info = new
        event = _own_event(old, new)
        strategy = self._hints.strategy(pod, event, old.pod, new.pod)
        if strategy is Strategy.SKIP:
            self._park(pod, None, now)
        else:
            self._requeue(pod, strategy, event.text, now)

    # Books.

    def _order(self, pod: QueuedPodInfo) -> tuple[Any, ...]:
        return (*self._sort.sort_key(pod), pod.sequence)

    def _stamp(self, pod: QueuedPodInfo, now: float) -> None:
        pod.timestamp = now
        pod.sequence = self._sequence
        self._sequence += 1

    def _count_failure(self, pod: QueuedPodInfo, now: float) -> None:
        if has_rejectors(pod):
            pod.unschedulable_count += 1
            pod.consecutive_errors_count = 0
        else:
            pod.consecutive_errors_count += 1
        pod.backoff_expiration = 0.0
        pod.was_flushed_from_unschedulable = False
        self._stamp(pod, now)

    def _queued(self, uid: str) -> QueuedPodInfo | None:
        return self._active.get(uid) or self._backoff.get(uid) or self._unschedulable.get(uid)

    def _remove(self, uid: str) -> None:
        _ = self._active.remove(uid) or self._backoff.remove(uid) or self._unschedulable.remove(uid)

    def _waiting(self) -> Iterator[QueuedPodInfo]:
        yield from self._active
        yield from self._backoff
        yield from self._unschedulable

    def _count_rejections(self, pod: QueuedPodInfo, by: int) -> None:
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            return
        for name in _rejecting(pod):
            self._rejections[name] += by
            if not self._rejections[name]:
                del self._rejections[name]

    def _count_incoming(self, queue: str, event: str | None) -> None:
        if event is not None:
            self._incoming[queue, event] += 1

    def _report(self) -> None:
        if self._incoming:
            for (queue, event), count in self._incoming.items():
                self._observer.incoming(queue, event, count)
            self._incoming.clear()


def _rejecting(pod: QueuedPodInfo) -> list[tuple[str, str]]:
    profile = pod.info.cls.scheduler_name
    return [(plugin, profile) for plugin in pod.unschedulable_plugins | pod.pending_plugins]


def _own_event(old: PodInfo, new: PodInfo) -> ClusterEvent:
    return ClusterEvent(Resource.UNSCHEDULABLE_POD, pod_update_actions(old, new))


def _concerns_queue(old: PodInfo, new: PodInfo) -> bool:
    """Q16: not if only status and such bookkeeping as the resource version changed."""
    return (
        old.cls is not new.cls
        or old.terminating != new.terminating
        or pod_update_actions(old, new) != ActionType.UPDATE_OTHER
        or old.pod.metadata.annotations != new.pod.metadata.annotations
    )
