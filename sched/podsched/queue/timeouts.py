"""Move pods whose time has come: their backoff is over, or no event has helped them for long.

An event may wake tens of thousands of pods. They are moved in parts, too, so that other tasks can
run in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice

from podsched.framework.events import UNSCHEDULABLE_TIMEOUT
from podsched.framework.pods import QueuedPodInfo
from podsched.lib.due_times import earliest
from podsched.queue.hints import Strategy
from podsched.queue.pending_pods import PendingPods

BACKOFF_COMPLETE = "BackoffComplete"
#: Seconds between two checks for pods that have been unschedulable for too long
#: (``flushUnschedulablePodsLeftover``).
LEFTOVER_PERIOD = 30.0
#: Max pods that are moved at once: those that an event has woken, whose backoff is over, or that
#: have been unschedulable for too long. Each takes some 12 us, and 100,000 may be due together.
AT_ONCE = 250


class Timeouts:
    """Moves pods after their backoff, and after ``max_in_unschedulable`` s in unschedulablePods."""

    def __init__(self, pending: PendingPods, max_in_unschedulable: float) -> None:
        self._pending = pending
        self._max_in_unschedulable = max_in_unschedulable
        self._last_leftover_flush = float("-inf")
        #: By uid, pods that an event has woken and that are still to be moved: where to, and the
        #: event's label. A plain dict would skip all entries that were taken before, each time.
        self._woken: OrderedDict[str, tuple[Strategy, str]] = OrderedDict()

    def wake(self, pods: Mapping[str, Strategy], event: str, now: float) -> None:
        """Move unschedulable pods that an event helps, given by uid, to where it sends each.

        Only ``AT_ONCE`` at once; ``flush`` moves the others.
        """
        for uid, strategy in pods.items():
            known = self._woken.get(uid)
            if known is None or known[0] < strategy:
                self._woken[uid] = strategy, event
        self._move_woken(now)

    @property
    def is_moving(self) -> bool:
        """Whether pods that an event has woken are still to be moved."""
        return bool(self._woken)

    def forget(self, uid: str) -> None:
        """Do not move a pod that is gone."""
        self._woken.pop(uid, None)

    def _move_woken(self, now: float) -> None:
        unschedulable = self._pending.unschedulable
        for uid in list(islice(self._woken, AT_ONCE)):
            strategy, event = self._woken.pop(uid)
            pod = unschedulable.get(uid)
            # None if it was moved for another reason meanwhile.
            if pod is not None and not self._pending.gates.stays_gated(pod):
                unschedulable.remove(uid)
                self._pending.requeue(pod, strategy, event, now)
        self._pending.incoming.report()

    def flush(self, now: float) -> None:
        """Move pods whose backoff or timeout is over, ``AT_ONCE`` of each.

        ``next_wakeup`` says when to call it, and whether there are more.
        kube-scheduler looks every second instead (``flushBackoffQCompleted``).
        """
        self._move_woken(now)
        self.flush_backoff_completed(now)
        # As in next_wakeup: a difference may be rounded to less.
        if now >= self._last_leftover_flush + LEFTOVER_PERIOD:
            self._flush_unschedulable_leftover(now)

    def flush_backoff_completed(self, now: float) -> int:
        """Move pods whose backoff is over to activeQ, ``AT_ONCE`` at most; return their number."""
        completed = list(islice(self._pending.backoff.pop_completed(now), AT_ONCE))
        for pod in completed:
            # It passed PreEnqueue when it entered the backoff queue.
            self._pending.to_active(pod, BACKOFF_COMPLETE, now, pre_enqueue=False)
        self._pending.incoming.report()
        return len(completed)

    def _flush_unschedulable_leftover(self, now: float) -> None:
        """Move pods that have been unschedulable for too long, at most ``AT_ONCE`` of them.

        PreEnqueue runs again for pods gated that long, in case an event was missed.
        """
        since = now - self._max_in_unschedulable
        found = self._pending.unschedulable.older_than(since, AT_ONCE)
        if len(found) < AT_ONCE:  # Else the next call goes on.
            self._last_leftover_flush = now
        for pod in found:
            # For ``pod_scheduled_after_flush_total``: such a pod may have missed its event. A gate
            # is no rejection, so gated pods do not count.
            pod.was_flushed_from_unschedulable = not pod.gating_plugin
            self._pending.requeue(pod, Strategy.AFTER_BACKOFF, UNSCHEDULABLE_TIMEOUT.text, now)
        self._pending.incoming.report()

    def left(self, pod: QueuedPodInfo, now: float) -> float:
        """Return the seconds until an unschedulable pod is tried again without an event."""
        return max(0.0, pod.timestamp + self._max_in_unschedulable - now)

    def next_wakeup(self, now: float) -> float | None:
        """Return when ``flush`` next has work, possibly now; None: not before a change."""
        if self.is_moving:
            return now
        times = [self._pending.backoff.next_completion()]
        oldest = self._pending.unschedulable.oldest()
        if oldest is not None:
            period_over = self._last_leftover_flush + LEFTOVER_PERIOD
            # Not before ``flush`` looks at such pods again, or the loop would wake for nothing.
            times.append(max(oldest + self._max_in_unschedulable, period_over))
        found = earliest(*times)
        return None if found is None else max(now, found)
