"""The pods that wait at Permit.

A waiting pod continues when all of these plugins have allowed it. It is rejected by the first
rejection, by the earliest timeout of a plugin, by its deletion, or by a preemptor.
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
        """``timeouts``: seconds by plugin, at most 15 minutes each."""
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
        """Allow the pod on behalf of this plugin."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(SUCCESS)

    def reject(self, plugin: str, why: str) -> None:
        """Reject the pod on behalf of a plugin; ``why`` is the reason's text."""
        self._decide(Status(Code.UNSCHEDULABLE, (why,), plugin))

    def preempt(self, plugin: str, why: str) -> bool:
        """Reject the pod in favour of a preemptor; return False if its wait is already over.

        It is an error, so that the pod is tried again after its backoff without an event.
        """
        return self._decide(Status(Code.ERROR, (f"waiting on permit for pod: {why}",), plugin))

    def remove(self, why: str) -> bool:
        """Reject the pod because it is deleted; return False if its wait is already over."""
        return self._decide(Status(Code.UNSCHEDULABLE, (why,)))

    def _decide(self, status: Status) -> bool:
        for timer in self._timers.values():
            timer.cancel()
        # The first outcome counts: a pod that was just allowed goes on to PreBind.
        if self._outcome.done():
            return False
        self._outcome.set_result(status)
        return True

    async def outcome(self) -> Status:
        """Wait for all plugins; return SUCCESS, or the rejection with the plugin's name."""
        return await self._outcome


class WaitingPods:
    """All pods waiting at Permit, by uid; the handle's waiting-pods API in kube-scheduler."""

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
        """Reject a waiting pod; return False if it is not waiting."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", why)
        return True
