"""Count the pending pods by the plugins that rejected them (gauge ``unschedulable_pods``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from podsched.framework.pods import QueuedPodInfo


class Rejections:
    """The number of pending pods by (plugin, profile) that rejected them."""

    def __init__(self, pods: Iterable[QueuedPodInfo] = ()) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: QueuedPodInfo) -> None:
        """Count a pod that enters."""
        for name in _rejecting(pod):
            self.counts[name] += 1

    def remove(self, pod: QueuedPodInfo) -> None:
        """Forget a pod that leaves."""
        if not pod.unschedulable_plugins and not pod.pending_plugins:
            return
        for name in _rejecting(pod):
            self.counts[name] -= 1
            if not self.counts[name]:
                del self.counts[name]

    def add_gate(self, pod: QueuedPodInfo) -> None:
        """Count the plugin that gates a pending pod, once, although it may gate it repeatedly."""
        plugin = pod.gating_plugin
        if plugin not in pod.unschedulable_plugins:
            if plugin not in pod.pending_plugins:
                self.counts[plugin, pod.info.cls.scheduler_name] += 1
            pod.unschedulable_plugins.add(plugin)


def _rejecting(pod: QueuedPodInfo) -> list[tuple[str, str]]:
    profile = pod.info.cls.scheduler_name
    return [(plugin, profile) for plugin in pod.unschedulable_plugins | pod.pending_plugins]
