"""What the queue tells of itself, for metrics and logs; it writes neither."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from podsched.framework.events import QueueingHint


class QueueObserver(Protocol):
    """Called synchronously, at most once per label and operation; must not call the queue."""

    def incoming(self, queue: str, event: str, count: int) -> None:
        """``count`` pods entered active, backoff or unschedulable because of ``event`` (Q10)."""
        ...

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        """Return a plugin raised; ``point`` is its extension point, or the event it was asked about."""
        ...

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        """Return the answer of a hint, which may be timed; asked for a sample of the hints."""
        ...


class SilentObserver:
    """Tells nobody."""

    def incoming(self, queue: str, event: str, count: int) -> None:
        pass

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        pass

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        return ask()
