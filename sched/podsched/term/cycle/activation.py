"""Wakes the scheduling loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from podsched.framework.plugin import CycleState
from podsched.framework.pods import PodInfo
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.term.after_trial import AfterTrial


class Activator:
    """Moves pods to activeQ and wakes the loop, which sleeps while there is nothing to pop."""

    def __init__(
        self, queue: SchedulingQueue, clock: Callable[[], float], after_trial: AfterTrial
    ) -> None:
        self._queue = queue
        self._clock = clock
        self._after_trial = after_trial
        self._wake = asyncio.Event()

    def notify(self) -> None:
        """Wake the loop, because pods may have entered activeQ."""
        self._wake.set()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move these pods to activeQ, regardless of what they wait for."""
        # After the trial, because PreEnqueue reads the cluster.
        self._after_trial.do(lambda: self._queue.activate(pods, self._clock()))
        self._wake.set()

    def back_off(self, pods: Iterable[PodInfo]) -> None:
        """Try these pods again after their backoff."""
        self._after_trial.do(lambda: self._queue.back_off(pods, self._clock()))
        self._wake.set()

    def ungate(self, pods: Iterable[PodInfo]) -> None:
        """Let these pods be tried if an event has woken them while a plugin gated them."""
        uids = [pod.uid for pod in pods]
        self._after_trial.do(lambda: self._queue.ungate(uids, self._clock()))
        self._wake.set()

    def activate_wanted(self, state: CycleState) -> None:
        """Activate the pods that plugins of a cycle put into ``pods_to_activate``."""
        if state.pods_to_activate:
            pods, state.pods_to_activate = state.pods_to_activate, ()
            self.activate(pods)

    def begin(self) -> None:
        """Begin to look for work: ``wait`` returns at once if the loop is woken from now on."""
        # Not when it begins to wait: what has changed since other tasks ran would be missed.
        self._wake.clear()

    async def wait(self, until: float | None) -> None:
        """Sleep until the loop is woken, or this time of its clock has come."""
        try:
            async with asyncio.timeout_at(until):
                await self._wake.wait()
        except TimeoutError:
            pass
