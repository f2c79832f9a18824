"""What the queue reports to metrics and logs, and the counts that it keeps for these reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from podsched.framework.events import QueueingHint
from podsched.framework.pods import QueuedPodInfo


class QueueObserver:
    """Gets what the queue reports, and ignores it. Called synchronously; must not call the queue.

    ``incoming`` is called at most once per operation and pair of labels.
    """

    def incoming(self, queue: str, event: str, count: int) -> None:
        """Note that ``count`` pods entered ``queue`` because of ``event``.

        The labels are those of ``scheduler_queue_incoming_pods_total``.
        """

    def plugin_failed(self, plugin: str, point: str, error: Exception) -> None:
        """Note that a plugin raised at ``point``: an extension point, or the text of an event."""

    def hint(self, plugin: str, event: str, ask: Callable[[], QueueingHint]) -> QueueingHint:
        """Call a hint and return its answer, possibly timed; used for a sample of the hints."""
        return ask()


class Incoming:
    """Counts the pods by (queue, event) that have entered since the last report."""

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
        self._held = False
        self.report()


class Rejections:
    """Counts the pending pods by (plugin, profile) that rejected them."""

    def __init__(self, pods: Iterable[QueuedPodInfo] = ()) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        for pod in pods:
            self.add(pod)

    def add(self, pod: QueuedPodInfo) -> None:
        for name in _rejecting(pod):
            self.counts[name] += 1

    def remove(self, pod: QueuedPodInfo) -> None:
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
            # As one of the rejecting plugins, so that its events are put to the pod.
            pod.unschedulable_plugins.add(plugin)


def _rejecting(pod: QueuedPodInfo) -> list[tuple[str, str]]:
    profile = pod.info.cls.scheduler_name
    return [(plugin, profile) for plugin in pod.unschedulable_plugins | pod.pending_plugins]
