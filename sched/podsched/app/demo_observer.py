"""Watch bindings and changes of the leader during the demo, as a client of the API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from podsched.api.objects import Pod
from podsched.app.replica_lease import DEFAULT_LOCK
from podsched.serve.client.informer import Batch

#: Seconds to wait for each step of the demo; the slowest, a failover, is bounded by the lease's 15.
WITHIN = 45.0


class DemoFailed(Exception):
    """A step of the demo did not happen in time."""


@dataclass(frozen=True, slots=True)
class Leader:
    """A leader: its identity, its term, and the wall time at which it was first seen."""

    identity: str
    term: int
    since: float


class Observer:
    """Watches pods and the lease; ``handle`` is called with each batch of events."""

    def __init__(self) -> None:
        self.bound_at: dict[str, float] = {}
        """When each pod was first seen with a node (monotonic)."""
        self.nodes_of: dict[str, set[str]] = {}
        """All nodes that each pod was seen on."""
        self.leaders: list[Leader] = []
        self.won_at: list[float] = []
        """When each leader was first seen (monotonic)."""
        self._transitions = -1
        self._changed = asyncio.Event()

    def handle(self, batch: Batch) -> None:
        """Note the bindings and leaders in a batch of events."""
        now = time.monotonic()
        for event in batch.events:
            if event.kind == "Lease" and event.key == DEFAULT_LOCK:
                self._lease_changed(event.new)
            elif event.kind == "Pod" and isinstance(event.new, Pod) and event.new.spec.node_name:
                self.bound_at.setdefault(event.key, now)
                self.nodes_of.setdefault(event.key, set()).add(event.new.spec.node_name)
        self._changed.set()

    def _lease_changed(self, lease: Any) -> None:
        if lease is None or not lease.spec.holder_identity:
            return
        if lease.spec.lease_transitions == self._transitions:
            return
        self._transitions = lease.spec.lease_transitions
        term = int(lease.metadata.resource_version)
        self.leaders.append(Leader(lease.spec.holder_identity, term, time.time()))
        self.won_at.append(time.monotonic())

    def first_bound_after(self, when: float) -> float | None:
        """Return the time of the first binding after a moment; None if there was none."""
        return min((at for at in self.bound_at.values() if at > when), default=None)

    async def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for a condition on what was observed.

        Raises:
            DemoFailed: the condition did not come true in time.
        """
        try:
            async with asyncio.timeout(WITHIN):
                while not condition():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            raise DemoFailed(f"timed out after {WITHIN:.0f} s waiting for {what}") from None
