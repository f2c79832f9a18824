"""Pods that Permit plugins asked to wait.

A waiting pod goes on when every plugin that asked has allowed it, and is turned down by the first
rejection, by the earliest plugin's timeout, by deletion, or because a preemptor wants its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping

from podsched.config.durations import format_duration
from podsched.framework.plugin import MAX_PERMIT_TIMEOUT
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status


class WaitingPod:
    """One pod waiting at Permit."""

    def __init__(self, pod: PodInfo, node_name: str, timeouts: Mapping[str, float]) -> None:
        """``timeouts``: seconds by plugin; each is cut to 15 minutes."""
        self.pod = pod
        self.node_name = node_name
        loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Status] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(
                min(timeout, MAX_PERMIT_TIMEOUT), self._time_out, plugin, timeout
            )
            for plugin, timeout in timeouts.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return list(self._timers)

    def _time_out(self, plugin: str, timeout: float) -> None:
        waited = format_duration(min(timeout, MAX_PERMIT_TIMEOUT))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def allow(self, plugin: str) -> None:
        """Let the pod go on, as far as this plugin is concerned."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(SUCCESS)

    def reject(self, plugin: str, why: str) -> None:
        """Reject the pod in the name of a plugin; ``why`` is shown as it is."""
        self._decide(Status(Code.UNSCHEDULABLE, (why,), plugin))

    def preempt(self, plugin: str, why: str) -> bool:
        """Give the pod's place to a preemptor; False when its wait is over already."""
        return self._decide(Status(Code.UNSCHEDULABLE, (why,), plugin))

    def _decide(self, status: Status) -> bool:
        for timer in self._timers.values():
            timer.cancel()
        if self._outcome.done():
            return False
        self._outcome.set_result(status)
        return True

    async def outcome(self) -> Status:
        """Return SUCCESS, or the rejection with the plugin that made it."""
        return await self._outcome


class WaitingPods:
    """All pods waiting at Permit, by uid (the framework handle's waiting-pods API)."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def add(self, pod: PodInfo, node_name: str, timeouts: Mapping[str, float]) -> WaitingPod:
        waiting = WaitingPod(pod, node_name, timeouts)
        self._pods[pod.uid] = waiting
        return waiting

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def reject(self, uid: str, why: str) -> bool:
        """Turn a waiting pod down; False when it does not wait."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", why)
        return True
