"""Store the pending pods in their queues, and move pods between the queues.

A pod is in activeQ (a heap), in a backoff queue, or in unschedulablePods, which also holds gated
pods. A pod that enters activeQ or a backoff queue passes PreEnqueue first and is gated if a plugin
rejects it. PreEnqueue does not run again from backoff to activeQ: a pod may also be popped from
backoffQ directly, so it must have passed PreEnqueue before (as in kube-scheduler v1.36).

Invariants (``problems`` checks them, in O(pods)): a pod is in one place; gated pods are in
unschedulablePods; the counts by plugin match the pods. Non-goals: pods in flight, and deciding
what an event means for a pod.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from podsched.framework.events import FORCE_ACTIVATE
from podsched.framework.plugin import PreEnqueuePlugin, QueueSortPlugin
from podsched.framework.pods import REMEMBERED_FAILURES, FailedAttempt, PodInfo, QueuedPodInfo
from podsched.queue.backoff_queue import BackoffQueue, has_rejectors
from podsched.queue.gates import Gates
from podsched.queue.hints import HintTable, Strategy
from podsched.queue.key_heap import KeyHeap
from podsched.queue.observer import Incoming, QueueObserver, Rejections
from podsched.queue.unschedulable_pods import UnschedulablePods

#: ``may_join(batch, pod)``: whether a pod may be popped together with the pods of a batch.
MayJoin = Callable[[Sequence[QueuedPodInfo], PodInfo], bool]

POP_FROM_BACKOFF_Q = "PopFromBackoffQ"
ACTIVE, BACKOFF, UNSCHEDULABLE, GATED = "active", "backoff", "unschedulable", "gated"


class PendingPods:
    """Stores the pods of activeQ, backoffQ and unschedulablePods, and moves pods between them.

    A move has two steps: first the pod is removed, then one of ``requeue``, ``to_active`` and
    ``to_unschedulable`` adds it. These require that the pod is in no queue.
    """

    def __init__(
        self,
        sort: QueueSortPlugin,
        pre_enqueue: Mapping[str, Sequence[PreEnqueuePlugin]],
        hints: HintTable,
        observer: QueueObserver,
        *,
        initial_backoff: float,
        max_backoff: float,
        admission: PreEnqueuePlugin | None = None,
    ) -> None:
        self.gates = Gates(pre_enqueue, observer, admission)
        self.active: KeyHeap[QueuedPodInfo] = KeyHeap()
        self.order = partial(_key, sort)  # a bound method would be a reference cycle
        self.backoff = BackoffQueue(initial_backoff, max_backoff, self.order)
        self.unschedulable = UnschedulablePods(hints)
        self._sequence = 0
        self.rejections = Rejections()
        self.incoming = Incoming(observer)

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self.active.get(uid) or self.backoff.get(uid) or self.unschedulable.get(uid)

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods; those of activeQ and of the backoff queues in queue order."""
        return [*self.active.in_order(), *self.backoff.in_order(), *self.unschedulable]

    def counts(self) -> dict[str, int]:
        """Return the number of pods by queue, as the gauge ``pending_pods`` names them."""
        gated = self.unschedulable.gated_count
        return {
            ACTIVE: len(self.active),
            BACKOFF: len(self.backoff),
            UNSCHEDULABLE: len(self.unschedulable) - gated,
            GATED: gated,
        }

    def summary(self) -> str:
        """Return kube-scheduler's summary of the queue sizes."""
        return (
            f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; "
            f"unschedulablePods:{len(self.unschedulable)}"
        )

    def problems(self) -> Iterator[str]:
        """Yield a description of each violated invariant."""
        yield from self.unschedulable.problems()
        places = Counter(pod.info.uid for pod in self)
        yield from (f"{uid} is in {n} places" for uid, n in places.items() if n > 1)
        expected = Rejections(self).counts
        if expected != self.rejections.counts:
            yield f"rejections are {expected}, counted {self.rejections.counts}"
        for pod in (*self.active, *self.backoff):
            if pod.gating_plugin:
                yield f"{pod.key} is gated outside unschedulablePods"

    # ------------------------------------------------------------------ entering

    def requeue(self, pod: QueuedPodInfo, strategy: Strategy, event: str, now: float) -> str:
        """Put a pod into the queue where an event sends it; return that queue's name."""
        if strategy is Strategy.SKIP:
            self.to_unschedulable(pod, event, now)
            return UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.times.is_backing_off(pod, now):
            if not self._passes_gates(pod, event, now):
                return GATED
            self.backoff.add(pod)
            self.incoming.add(BACKOFF, event)
            return BACKOFF
        return ACTIVE if self.to_active(pod, event, now) else GATED

    def to_active(
        self, pod: QueuedPodInfo, event: str | None, now: float, *, pre_enqueue: bool = True
    ) -> bool:
        """Put a pod into activeQ; return False if it was gated instead.

        ``event`` is the label under which the metric counts the pod; None: it is not counted.
        """
        if pre_enqueue and not self._passes_gates(pod, event, now):
            return False
        # After PreEnqueue: the time behind a gate does not count as scheduling latency (SLI).
        if pod.initial_attempt_timestamp is None:
            pod.initial_attempt_timestamp = now
        self.active.add(pod.info.uid, self.order(pod), pod)
        self.incoming.add(ACTIVE, event)
        return True

    def to_unschedulable(self, pod: QueuedPodInfo, event: str | None, now: float) -> None:
        """Put a pod into unschedulablePods; ``event`` as in ``to_active``."""
        self.unschedulable.add(pod, now)
        self.incoming.add(UNSCHEDULABLE, event)

    def _passes_gates(self, pod: QueuedPodInfo, event: str | None, now: float) -> bool:
        """Run PreEnqueue; if a plugin rejects the pod, put it into unschedulablePods as gated."""
        gated_before = pod.gating_plugin
        pod.gating_plugin = self.gates.rejecting(pod)
        if not pod.gating_plugin:
            return True
        self.rejections.add_gate(pod)
        # A pod that stays gated has not entered a queue, so it is not counted.
        self.to_unschedulable(pod, None if gated_before else event, now)
        return False

    # ------------------------------------------------------------------ changing and leaving

    def replace(self, pod: QueuedPodInfo, new: PodInfo) -> None:
        """Replace a pod of activeQ or a backoff queue by its new version, and reorder it."""
        before = self.order(pod)
        pod.info = new
        # Usually nothing that the order depends on has changed, so the heap need not change.
        if self.order(pod) == before:
            return
        if self.active.remove(new.uid) is not None:
            self.active.add(new.uid, self.order(pod), pod)
        elif self.backoff.remove(new.uid) is not None:
            # ``backoff_expiration`` is already set, so the backoff ends when it would have.
            self.backoff.add(pod)

    def take_out(self, pod: QueuedPodInfo) -> None:
        """Remove a pod from where it waits, to put it elsewhere."""
        uid = pod.info.uid
        _ = self.active.remove(uid) or self.backoff.remove(uid) or self.unschedulable.remove(uid)

    def pop(self, limit: int, now: float, may_join: MayJoin | None) -> list[QueuedPodInfo]:
        """Remove and return the next pods for an attempt; see ``Attempts.pop_batch``."""
        source: KeyHeap[QueuedPodInfo] | BackoffQueue
        source = self.active if len(self.active) else self.backoff
        batch: list[QueuedPodInfo] = []
        while len(batch) < limit and (first := source.first()) is not None:
            head = first[1]
            other = bool(batch) and head.info.cls is not batch[-1].info.cls
            if other and may_join is not None and not may_join(batch, head.info):
                break
            # A member of a PodGroup neither joins a batch nor is joined.
            if batch and head.info.group:
                break
            source.pop()
            batch.append(head)
            if head.info.group:
                break
        if source is self.backoff and batch:
            self.incoming.add(ACTIVE, POP_FROM_BACKOFF_Q, len(batch))
        for pod in batch:
            self.rejections.remove(pod)
            _begin_attempt(pod, now)
        return batch

    def take(self, uid: str, now: float) -> QueuedPodInfo | None:
        """Remove and return one pod for an attempt, from any queue; None if it is gated."""
        pod = self.active.remove(uid)
        if pod is None:
            pod = self.backoff.remove(uid) or self.unschedulable.remove(uid)
            # A pod that does not pass is not lost: ``_passes_gates`` has put it back as gated.
            if pod is None or not self._passes_gates(pod, FORCE_ACTIVATE.text, now):
                return None
            self.incoming.add(ACTIVE, FORCE_ACTIVATE.text)
        self.rejections.remove(pod)
        _begin_attempt(pod, now)
        return pod

    def stamp(self, pod: QueuedPodInfo, now: float) -> None:
        """Put a pod behind those of equal priority that have entered or failed before it."""
        pod.timestamp = now
        pod.sequence = self._sequence
        self._sequence += 1


def _begin_attempt(pod: QueuedPodInfo, now: float) -> None:
    if pod.initial_attempt_timestamp is None:
        pod.initial_attempt_timestamp = now
    pod.popped_at = now
    pod.attempts += 1
    # Only the plugins of the latest attempt count: events are put to these.
    pod.unschedulable_plugins.clear()
    pod.pending_plugins.clear()
    pod.gating_plugin = ""


def count_failure(pod: QueuedPodInfo, now: float) -> None:
    """Count a failed attempt, which determines the length of the backoff."""
    if has_rejectors(pod):
        pod.unschedulable_count += 1
        pod.consecutive_errors_count = 0
    else:
        pod.consecutive_errors_count += 1
    failure = FailedAttempt(now, pod.attempts, (*pod.unschedulable_plugins,))
    # With REMEMBERED_FAILURES = 1 this slice would keep all of them.
    pod.failures = (*pod.failures[1 - REMEMBERED_FAILURES :], failure)
    # 0: computed when it is first needed, from the new number of failures.
    pod.backoff_expiration = 0.0
    pod.was_flushed_from_unschedulable = False


def _key(sort: QueueSortPlugin, pod: QueuedPodInfo) -> tuple[Any, ...]:
    return (*sort.sort_key(pod), pod.sequence)
