"""The interface through which the queue reports to metrics and logs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from podsched.framework.events import QueueingHint


class QueueObserver(Protocol):
    """What the queue reports. Called synchronously; must not call the queue.

    ``incoming`` is called at most once per operation and pair of labels.
    """

    def incoming(self, queue: str, event: str, count: int) -> None:
        """Note that ``count`` pods entered ``queue`` because of ``event``.

        The labels are those of ``scheduler_queue_incoming_pods_total``.
        """
        ...

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        """Note that a plugin raised at ``point``: an extension point, or the text of an event."""
        ...

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        """Call a hint and return its answer, possibly timed; used for a sample of the hints."""
        ...


class SilentObserver:
    """An observer that ignores everything."""

    def incoming(self, queue: str, event: str, count: int) -> None:
        pass

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        pass

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        return ask()
