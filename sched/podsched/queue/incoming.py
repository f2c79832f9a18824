"""Count the pods that enter a queue, by queue and event, and report them to the observer."""

from __future__ import annotations

from collections import Counter

from podsched.queue.observer import QueueObserver


class Incoming:
    """Pods by (queue, event) that have entered since the last report."""

    def __init__(self, observer: QueueObserver) -> None:
        self._observer = observer
        self._counts: Counter[tuple[str, str]] = Counter()
        self._held = False

    def add(self, queue: str, event: str | None, count: int = 1) -> None:
        """Count pods that entered a queue; None: the metric does not count them."""
        if event is not None:
            self._counts[queue, event] += count

    def report(self) -> None:
        """Tell the observer the counts since the last report, unless reports are held back.

        Once per operation and not per pod: an event may wake 100,000.
        """
        if self._counts and not self._held:
            for (queue, event), count in self._counts.items():
                self._observer.incoming(queue, event, count)
            self._counts.clear()

    def hold(self) -> None:
        """Hold back reports until ``release``, for a batch of operations."""
        self._held = True

    def release(self) -> None:
        """Report what was held back."""
        self._held = False
        self.report()
