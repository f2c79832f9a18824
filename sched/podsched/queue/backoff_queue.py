"""Pods in backoff: one heap for rejected pods, one for pods whose attempt failed with an error.

A pod's backoff expires at ``floor(timestamp + duration)``, and the pod returns in the first whole
second after that. So pods that failed within one second return together, ordered by priority.
Why two heaps: when activeQ is empty, rejected pods are popped before their backoff expires, because
an idle scheduler has nothing better to try. Pods with an error are never popped early, so that a
failing API server or plugin is not called again without a pause.

The duration doubles with each failure: ``initial * 2 ** (count - 1)``, at most ``maximum``, where
count is the number of errors in a row or, if the last attempt met none, of rejections.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from podsched.framework.pods import QueuedPodInfo
from podsched.lib.backoff import exponential
from podsched.queue.key_heap import KeyHeap

#: Width of the windows in which backoffs end, in seconds (backoffQOrderingWindowDuration).
WINDOW = 1.0


class BackoffTimes:
    """Computes the backoffs of pods from their failures."""

    def __init__(self, initial: float, maximum: float) -> None:
        self._initial = initial
        self._maximum = maximum

    def duration(self, pod: QueuedPodInfo) -> float:
        """Return the backoff of the pod after its last failure, in seconds."""
        # 0 if the last attempt met no error: ``count_failure`` resets it at a rejection.
        count = pod.consecutive_errors_count or pod.unschedulable_count
        return exponential(self._initial, self._maximum, count)

    def is_backing_off(self, pod: QueuedPodInfo, now: float) -> bool:
        """Return whether the pod is still in backoff."""
        if self.duration(pod) <= 0:
            return False
        return self.expiration(pod) >= align(now)

    def left(self, pod: QueuedPodInfo, now: float) -> float:
        """Return the remaining backoff in seconds, 0 if it is over.

        Unlike ``is_backing_off`` it changes nothing, because explanations call it.
        """
        duration = self.duration(pod)
        if duration <= 0:
            return 0.0
        expiration = pod.backoff_expiration or align(pod.timestamp + duration)
        return max(0.0, expiration + WINDOW - now)

    def expiration(self, pod: QueuedPodInfo) -> float:
        """Return when the pod's backoff ends; sets ``backoff_expiration`` if not set."""
        if pod.backoff_expiration == 0.0:
            pod.backoff_expiration = align(pod.timestamp + self.duration(pod))
        return pod.backoff_expiration


class BackoffQueue:
    """Pods in backoff: kube-scheduler's podBackoffQ and podErrorBackoffQ.

    ``initial`` and ``maximum`` are the shortest and longest backoff in seconds; 0: no backoff.
    ``order`` returns a pod's key in the order of the queue.
    """

    def __init__(
        self, initial: float, maximum: float, order: Callable[[QueuedPodInfo], tuple[Any, ...]]
    ) -> None:
        self.times = BackoffTimes(initial, maximum)
        self._order = order
        self._rejected: KeyHeap[QueuedPodInfo] = KeyHeap()
        self._errors: KeyHeap[QueuedPodInfo] = KeyHeap()

    def __len__(self) -> int:
        return len(self._rejected) + len(self._errors)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._errors

    def add(self, pod: QueuedPodInfo) -> None:
        """Add a pod that is in neither heap; where it goes depends on ``has_rejectors``."""
        expiration = self.times.expiration(pod)
        order = self._order(pod)
        if has_rejectors(pod):
            self._rejected.add(pod.info.uid, (expiration, *order), pod)
        else:
            # Not in the order of the queue: these pods leave only when their backoff is over, for
            # activeQ, which has its own order.
            self._errors.add(pod.info.uid, (expiration, pod.sequence), pod)

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._rejected.get(uid) or self._errors.get(uid)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        return self._rejected.remove(uid) or self._errors.remove(uid)

    def first(self) -> tuple[tuple[Any, ...], QueuedPodInfo] | None:
        """Return the key and the first rejected pod, whether or not its backoff is over."""
        return self._rejected.first()

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the first rejected pod."""
        return self._rejected.pop()

    def pop_completed(self, now: float) -> Iterator[QueuedPodInfo]:
        """Remove and yield the pods whose backoff is over."""
        window = align(now)
        for heap in (self._rejected, self._errors):
            while (first := heap.first()) is not None and first[0][0] < window:
                heap.pop()
                yield first[1]

    def next_completion(self) -> float | None:
        """Return the earliest time at which ``pop_completed`` yields a pod."""
        heads = [heap.first() for heap in (self._rejected, self._errors)]
        return min((head[0][0] + WINDOW for head in heads if head is not None), default=None)

    def in_order(self) -> list[QueuedPodInfo]:
        """Return all pods by the end of their backoff; rejected pods come first."""
        return self._rejected.in_order() + self._errors.in_order()


def align(time: float) -> float:
    """Return the start of the window that contains ``time``; times are in seconds."""
    return math.floor(time / WINDOW) * WINDOW


def has_rejectors(pod: QueuedPodInfo) -> bool:
    """Return whether plugins rejected the pod; otherwise its attempt failed with an error."""
    return bool(pod.unschedulable_plugins or pod.pending_plugins)
