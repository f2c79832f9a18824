"""The scheduling queue: chooses the next pod, and wakes pending pods when events may help them.

Pure and synchronous; ``now`` is the owner's monotonic clock in seconds and never goes back.
Guarantees: every pod that was added and neither deleted nor done is in exactly one place; pods
leave activeQ in the QueueSort plugin's order, equals in the order in which they entered; no pod
stays unschedulable if a hint says that an event since the start of its last attempt helps it.
Source: kube-scheduler v1.36, ``pkg/scheduler/backend/queue``. Non-goals: the nominator and assumed
pods (the cache has them), and which pods the scheduler is responsible for (the owner decides).

Its parts, which callers use directly: ``pending`` (``PendingPods``) stores and moves the pending
pods, ``attempts`` (``Attempts``) takes pods for attempts and puts them back, ``in_flight``
(``InFlight``) has the pods whose attempt is running, ``timeouts`` moves pods whose time has come,
and ``incoming`` reports what entered. ``HintTable`` asks the plugins. This module decides what an
event means for a pod.

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
not gated          pop of a member of its PodGroup        in flight
podBackoffQ        pop with activeQ empty                 in flight
both backoff       flush_backoff_completed, activate      activeQ (gated when activate is refused)
not in activeQ     back_off                               podErrorBackoffQ (activeQ without backoff)
in flight          done, deleted and then returned        (none)
in flight          returned with errors                   podErrorBackoffQ (activeQ without backoff)
in flight          rejected, nothing helped meanwhile     unschedulablePods
in flight          rejected, an event helped              podBackoffQ; activeQ if not backing off or
                                                          if a Pending plugin was helped
unschedulablePods  event, own update, timeout             podBackoffQ or activeQ, likewise
in flight          return_unattempted                     activeQ
gated              event of the gating plugin, activate   activeQ, podBackoffQ, or gated again
any                delete                                 (none); in flight: when returned
=================  =====================================  ========================================

Entering activeQ or a backoff queue runs PreEnqueue, but not again from backoff to activeQ; a pod
that it rejects is gated instead. kube-scheduler applies AssignedPodAdd only to pods with affinity
or spread terms (``getUnschedulablePodsWithCrossTopologyTerm``), to save calls of hints. Here the
indexes of the hints save these calls, so plugins of other kinds get the event, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from podsched.framework.classify import pod_update_actions
from podsched.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Resource,
)
from podsched.framework.plugin import PreEnqueuePlugin, QueueSortPlugin
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.attempts import SCHEDULE_ATTEMPT_FAILURE, Attempts
from podsched.queue.hints import HintTable, Strategy
from podsched.queue.in_flight import InFlight
from podsched.queue.observer import QueueObserver
from podsched.queue.pending_pods import ACTIVE, BACKOFF, GATED, UNSCHEDULABLE, PendingPods
from podsched.queue.timeouts import Timeouts

IN_FLIGHT = "in-flight"


class QueueCorrupted(AssertionError):
    """The queue violates its own invariants: a bug in this package."""


class SchedulingQueue:
    """The queue that the module describes. Not safe for threads; tasks of one loop may share it."""

    def __init__(
        self,
        sort: QueueSortPlugin,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        hints: Mapping[str, Mapping[str, Sequence[ClusterEventWithHint]]],
        *,
        # kube-scheduler's podInitialBackoffSeconds, podMaxBackoffSeconds, and
        # --pod-max-in-unschedulable-pods-duration.
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        observer: QueueObserver | None = None,
        admission: PreEnqueuePlugin | None = None,
    ) -> None:
        """``pre_enqueue`` by profile, ``hints`` by profile and plugin; durations in seconds.

        ``admission`` rejects the pods of queues (``term.admission``), of all profiles.
        """
        observer = observer or QueueObserver()
        self._hints = HintTable(hints, observer)
        self.pending = PendingPods(
            sort,
            pre_enqueue,
            self._hints,
            observer,
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            admission=admission,
        )
        self.incoming = self.pending.incoming
        self.in_flight = InFlight(self._hints)
        self.attempts = Attempts(self.pending, self.in_flight)
        self.timeouts = Timeouts(self.pending, max_in_unschedulable)

    def drop_all(self) -> None:
        """Drop all pods. Others may still refer to the queue, but must not use it any more."""
        del self.pending, self.in_flight, self.attempts, self.timeouts

    # ------------------------------------------------------------------ pods come, change and go

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod; update it if it is already in the queue."""
        self._put(pod, UNSCHEDULED_POD_ADD, now)
        self.incoming.report()

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Update a pod without a node; add it if it is unknown.

        Must not be called for pods that are assumed or being bound.
        """
        # The pod was deleted and created again under its name, in one change.
        if old is not None and old.uid != new.uid:
            self.delete(old, now)
            self.add(new, now)
            return
        self._put(new, UNSCHEDULED_POD_UPDATE, now)
        if old is not None and old.nominated_node_name != new.nominated_node_name:
            self.release_nomination(old, now)
        self.incoming.report()

    def delete(self, pod: PodInfo, now: float, *, bound_to: str = "") -> None:
        """Remove a pod that was deleted or, with ``bound_to``, was bound to a node.

        It releases its nominated node, unless it is bound there; see ``release_nomination``.
        """
        flight = self.in_flight.get(pod.uid)
        if flight is not None:
            # The attempt goes on; ``add_unschedulable_if_not_present`` drops the pod when it fails.
            flight.deleted = True
        elif (queued := self.pending.get(pod.uid)) is not None:
            self.pending.take_out(queued)
            self.timeouts.forget(pod.uid)
            # ``take_out`` does not do this, because a pod that only moves still counts as rejected.
            self.pending.rejections.remove(queued)
        if pod.nominated_node_name != bound_to:
            self.release_nomination(pod, now)
        self.incoming.report()

    # ------------------------------------------------------------------ events

    def move_all_to_active_or_backoff(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        now: float,
        *,
        max_priority: int | None = None,
        except_uids: Collection[str] = (),
    ) -> int:
        """Move all pending pods that the event may help; return their number.

        If there are many, ``timeouts.flush`` moves some of them later, but before any is popped.
        ``old`` and ``new`` are the messages of the object before and after. Pods with a priority
        above ``max_priority`` and pods with ``except_uids`` are left out. The event is recorded for
        pods in flight as well, even if it helps no pending pod: their attempts may have read the
        cluster before it.
        """
        # Most events in an idle cluster end here.
        if not len(self.in_flight) and not len(self.pending.unschedulable):
            return 0
        # An event that no plugin registered for is not kept for pods in flight either.
        if not event.is_wildcard and not self._hints.matching(event):
            return 0
        # A pod that Reserve or Permit rejected must not be woken by the room that it gives back. A
        # group gives back the room of each of its members, except all of them.
        helped = self.pending.unschedulable.helped(event, old, new, max_priority, except_uids)
        # All pods are found before the first is moved: moving changes the groups that are searched.
        if helped:
            self.timeouts.wake(helped, event.text, now)
        self.in_flight.record(event, old, new)
        self.incoming.report()
        return len(helped)

    def note_for_in_flight(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Record an event for pods in flight, without moving other pods.

        For an event that only pods in flight can have missed: all other pods were rejected before
        its cause began or after it ended.
        """
        if event.is_wildcard or self._hints.matching(event):
            self.in_flight.record(event, old, new)

    def activate(self, pods: Iterable[PodInfo], now: float) -> None:
        """Move pending pods to activeQ regardless of hints and backoff (``Activate``).

        A pod in flight is tried again if its attempt fails. PreEnqueue still applies.
        """
        for queued in self._taken_out(pods):
            self.pending.to_active(queued, FORCE_ACTIVATE.text, now)
        self.incoming.report()

    def back_off(self, pods: Iterable[PodInfo], now: float) -> None:
        """Try pending pods again after their backoff, as if their attempt had met an error.

        For errors that show after the attempt. Pods in flight or in activeQ: as for ``activate``.
        """
        for queued in self._taken_out(pods):
            self.pending.rejections.remove(queued)
            queued.unschedulable_plugins.clear()
            queued.pending_plugins.clear()
            self.pending.requeue(queued, Strategy.AFTER_BACKOFF, SCHEDULE_ATTEMPT_FAILURE, now)
        self.incoming.report()

    def _taken_out(self, pods: Iterable[PodInfo]) -> Iterator[QueuedPodInfo]:
        for pod in pods:
            flight = self.in_flight.get(pod.uid)
            if flight is not None:
                # It is in no queue now. The event is replayed if the attempt fails.
                flight.own.append((FORCE_ACTIVATE, None, pod.pod))
                continue
            # A pod that is in activeQ already keeps its place there.
            queued = self.pending.unschedulable.remove(pod.uid) or self.pending.backoff.remove(
                pod.uid
            )
            if queued is not None:
                yield queued

    def ungate(self, uids: Iterable[str], now: float) -> None:
        """Move gated pods for which an event came too early: their gate may have opened since."""
        gated = {uid: Strategy.AFTER_BACKOFF for uid in uids if self.place(uid) == GATED}
        self.timeouts.wake(gated, FORCE_ACTIVATE.text, now)

    def gate_again(self, uids: Iterable[str], now: float) -> None:
        """Run PreEnqueue again for pending pods, and move them to activeQ or gate them.

        For pods about which a plugin may have changed its mind without an event, by uid.
        """
        for uid in uids:
            queued = self.pending.get(uid)
            if queued is not None:
                self.pending.take_out(queued)
                self.pending.to_active(queued, None, now)
        self.incoming.report()

    def release_nomination(self, pod: PodInfo, now: float) -> None:
        """Wake pods that could not use a node because this pod was nominated to it.

        For pods of no higher priority, filtering counts a nominated pod as if it were on its node.
        So for these pods the end of the nomination is like the deletion of an assigned pod. Not for
        the pod itself: kube-scheduler wakes it too, and a pod that Permit rejects would be tried
        and rejected in a loop.
        """
        if pod.nominated_node_name:
            self.move_all_to_active_or_backoff(
                ASSIGNED_POD_DELETE,
                pod.pod,
                None,
                now,
                max_priority=pod.priority,
                except_uids={pod.uid},
            )

    def _put(self, new: PodInfo, event: ClusterEvent, now: float) -> None:
        """Store a pod's new version wherever the pod is; if it is unknown, ``event`` adds it.

        An update of more than the status may help a pod that is in flight or unschedulable.
        """
        flight = self.in_flight.get(new.uid)
        if flight is not None:
            # The attempt works on the version that it began with; the pod returns as ``latest``.
            before, flight.latest, flight.deleted = flight.latest, new, False
            if _concerns_queue(before, new):
                flight.own.append((_own_event(before, new), before.pod, new.pod))
            return
        queued = self.pending.active.get(new.uid) or self.pending.backoff.get(new.uid)
        if queued is not None:
            # As in kube-scheduler, an update does not end a backoff or run PreEnqueue again.
            self.pending.replace(queued, new)
        elif (parked := self.pending.unschedulable.get(new.uid)) is not None:
            self._update_unschedulable(parked, new, now)
        else:
            entering = QueuedPodInfo(new, now)
            self.pending.stamp(entering, now)
            self.pending.to_active(entering, event.text, now)

    def _update_unschedulable(self, pod: QueuedPodInfo, new: PodInfo, now: float) -> None:
        """Move the pod if a hint says that its own update helps it."""
        old = pod.info
        if not _concerns_queue(old, new) and self.pending.unschedulable.replace_info(new):
            return
        # Removed first, because a pod's group key must not change while it is there.
        self.pending.unschedulable.remove(new.uid)
        pod.info = new
        event = _own_event(old, new)
        strategy = self._hints.strategy(pod, event, old.pod, new.pod)
        if strategy is Strategy.SKIP:
            # None: it returns to where it was, so the metric does not count it.
            self.pending.to_unschedulable(pod, None, now)
        else:
            self.pending.requeue(pod, strategy, event.text, now)

    def place(self, uid: str) -> str:
        """Return where a pod is: active, backoff, unschedulable, gated, in-flight, or ""."""
        pending = self.pending
        if pending.active.get(uid) is not None:
            return ACTIVE
        if pending.backoff.get(uid) is not None:
            return BACKOFF
        if (pod := pending.unschedulable.get(uid)) is not None:
            return GATED if pod.gating_plugin else UNSCHEDULABLE
        return IN_FLIGHT if uid in self.in_flight else ""

    def check_invariants(self) -> None:
        """Raise QueueCorrupted with all violated invariants; O(pods)."""
        problems = list(self.pending.problems())
        problems += [
            f"{flight.pod.info.uid} is in 2 places"
            for flight in self.in_flight
            if self.pending.get(flight.pod.info.uid) is not None
        ]
        if problems:
            raise QueueCorrupted("; ".join(problems))


def _own_event(old: PodInfo, new: PodInfo) -> ClusterEvent:
    # A hint cannot say whether another PodGroup helps the pod.
    if old.group != new.group:
        return FORCE_ACTIVATE
    return ClusterEvent(Resource.UNSCHEDULABLE_POD, pod_update_actions(old, new))


def _concerns_queue(old: PodInfo, new: PodInfo) -> bool:
    """Return whether more changed than the status and metadata such as the resource version.

    kube-scheduler's ``isPodUpdated``.
    """
    return (
        # Equal classes are one object, so identity compares all that can influence a decision.
        old.cls is not new.cls
        or pod_update_actions(old, new) != ActionType.UPDATE_OTHER
        or old.pod.metadata.annotations != new.pod.metadata.annotations
    )
