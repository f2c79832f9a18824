"""Take pods from the queue for attempts, and put back the pods whose attempts failed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.backoff_queue import has_rejectors
from podsched.queue.hints import Strategy
from podsched.queue.in_flight import InFlight
from podsched.queue.pending_pods import MayJoin, PendingPods, count_failure
from podsched.queue.unschedulable_pods import group_key

SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"


def of_one_class(batch: Sequence[QueuedPodInfo], other: PodInfo) -> bool:
    """Return whether a pod has the batch's class: it is equal in all that can affect a decision."""
    return batch[0].info.cls is other.cls


class Attempts:
    """Begins and ends attempts; the pods whose attempt is running are in flight."""

    def __init__(self, pending: PendingPods, in_flight: InFlight) -> None:
        self._pending, self._in_flight = pending, in_flight

    def pop(self, now: float) -> QueuedPodInfo | None:
        """Remove and return the next pod for an attempt; None if there is none."""
        batch = self.pop_batch(now, 1)
        return batch[0] if batch else None

    def pop_batch(
        self, now: float, limit: int, *, may_join: MayJoin | None = of_one_class
    ) -> list[QueuedPodInfo]:
        """Remove and return the next pods in queue order, at most ``limit``.

        The batch ends before the first pod that ``may_join`` rejects (None: it rejects no pod). It
        is not asked about a pod of the same class as the pod before. A pod of a PodGroup is
        popped alone, because its group is decided as a whole (``pop_members``). All pods come
        from activeQ or, if that is empty, from podBackoffQ, so that a pod does not wait while
        there is nothing else to do. Pods with an error (podErrorBackoffQ) always wait for the end
        of their backoff.
        """
        batch = self._pending.pop(limit, now, may_join)
        for pod in batch:
            self._in_flight.start(pod)
        self._pending.incoming.report()
        return batch

    def pop_members(self, uids: Iterable[str], now: float) -> list[QueuedPodInfo]:
        """Remove and return the other members of a popped pod's group, from any queue.

        Pods that are not in the queue, in flight, or rejected by PreEnqueue are left out.
        """
        members = [pod for uid in uids if (pod := self._pending.take(uid, now)) is not None]
        for pod in members:
            self._in_flight.start(pod)
        self._pending.incoming.report()
        return members

    def add_unschedulable_if_not_present(
        self,
        pod: QueuedPodInfo,
        now: float,
        *,
        unschedulable_plugins: Collection[str] = (),
        pending_plugins: Collection[str] = (),
    ) -> str:
        """Put a pod whose attempt failed back into the queue, and end the attempt.

        ``unschedulable_plugins`` rejected it, ``pending_plugins`` did so with Pending; if both are
        empty, the attempt failed with an error. Returns the queue that the pod went to: active,
        backoff, unschedulable or gated; "" if the pod was deleted or added again meanwhile. If
        ``in_flight.done`` was called before, the caller must know that the pod still exists.
        """
        uid = pod.info.uid
        flight = self._in_flight.get(uid)
        if flight is not None:
            pod.info = flight.latest
        # After ``done`` the pod is not in flight, so ``add`` may have entered it as a new pod.
        if (flight is not None and flight.deleted) or self._pending.get(uid) is not None:
            self._in_flight.finish(uid)
            return ""
        pod.unschedulable_plugins = set(unschedulable_plugins)
        pod.pending_plugins = set(pending_plugins)
        pod.gating_plugin = ""
        # Both before ``requeue``: the end of the backoff follows from the count and the timestamp.
        count_failure(pod, now)
        self._pending.stamp(pod, now)
        # After an error no plugin can say which events help, so only the backoff counts.
        strategy = Strategy.AFTER_BACKOFF
        if flight is not None and has_rejectors(pod):
            strategy = self._in_flight.replay(flight, pod, group_key(pod))
        # After the replay, because ``finish`` drops the events that only this pod needed.
        self._in_flight.finish(uid)
        # Before ``requeue``: if a gate rejects the pod there, ``add_gate`` counts only that plugin.
        self._pending.rejections.add(pod)
        place = self._pending.requeue(pod, strategy, SCHEDULE_ATTEMPT_FAILURE, now)
        self._pending.incoming.report()
        return place

    def return_unattempted(self, pods: Iterable[QueuedPodInfo], now: float) -> None:
        """Put popped pods back into activeQ in their old order, as if they had not been popped."""
        for pod in pods:
            flight = self._in_flight.finish(pod.info.uid)
            if flight is None or flight.deleted:
                continue
            pod.info = flight.latest
            # ``pop`` counted this attempt. The unchanged sequence number restores the order.
            pod.attempts -= 1
            self._pending.to_active(pod, None, now)
        self._pending.incoming.report()
