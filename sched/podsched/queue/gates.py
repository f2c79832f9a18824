"""Call the PreEnqueue plugins, which may keep a pod out of activeQ.

A pod that one of them rejects is *gated*. A plugin that raises gates the pod, too, like a plugin
that returns an error in kube-scheduler; the failure is reported to the observer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podsched.framework.plugin import Plugin, PreEnqueuePlugin
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import SUCCESS
from podsched.queue.observer import QueueObserver


class Gates:
    """The PreEnqueue plugins of every profile, in order."""

    def __init__(
        self, plugins: Mapping[str, Sequence[PreEnqueuePlugin]], observer: QueueObserver
    ) -> None:
        self._plugins = {
            profile: tuple((_name(plugin), plugin) for plugin in ordered)
            for profile, ordered in plugins.items()
        }
        self._observer = observer
        #: By profile and the plugin that comes first.
        self._ordered: dict[tuple[str, str], Sequence[tuple[str, PreEnqueuePlugin]]] = {}

    def rejecting(self, pod: QueuedPodInfo) -> str:
        """Return the name of the first plugin that rejects the pod, "" if none does.

        The plugin that rejected it last (``gating_plugin``) is called first, because it most likely
        still rejects the pod.
        """
        info, name = pod.info, ""
        plugins = self._in_order(info.cls.scheduler_name, pod.gating_plugin)
        try:
            for name, plugin in plugins:
                status = plugin.pre_enqueue(info)
                # Nearly every answer is this object; ``ok`` is a call for each plugin and pod.
                if status is not SUCCESS and not status.ok:
                    return name
        except Exception as error:  # As in ``_passes``, which is inlined here to save calls.
            self._observer.plugin_failed(name, "PreEnqueue", error)
            return name
        return ""

    def _in_order(self, profile: str, first: str) -> Sequence[tuple[str, PreEnqueuePlugin]]:
        """Return the plugins of a profile, with one of them first."""
        found = self._ordered.get((profile, first))
        if found is None:
            plugins = self._plugins.get(profile, ())
            found = sorted(plugins, key=lambda named: named[0] != first)
            self._ordered[profile, first] = found
        return found

    def stays_gated(self, pod: QueuedPodInfo) -> bool:
        """Return whether the plugin that gates a pod still rejects it; False if none gates it.

        Asked before a gated pod is moved, to save moving it out and back in. Preemptors are gated
        while their evictions are requested, and each victim that leaves a node is an event for all
        of them.
        """
        gating = pod.gating_plugin
        for name, plugin in self._plugins.get(pod.info.cls.scheduler_name, ()) if gating else ():
            if name == gating:
                return not self._passes(name, plugin, pod)
        return False

    def reasons(self, pod: QueuedPodInfo) -> tuple[str, ...]:
        """Call the plugin that gates the pod, and return its reasons; empty if none gates it."""
        plugins = dict(self._plugins.get(pod.info.cls.scheduler_name, ()))
        plugin = plugins.get(pod.gating_plugin)
        try:
            return plugin.pre_enqueue(pod.info).reasons if plugin is not None else ()
        except Exception as error:  # As below.
            return (f"{type(error).__name__}: {error}",)

    def _passes(self, name: str, plugin: PreEnqueuePlugin, pod: QueuedPodInfo) -> bool:
        try:
            return plugin.pre_enqueue(pod.info).ok
        except Exception as error:  # Plugins may raise anything; like an error status it gates.
            self._observer.plugin_failed(name, "PreEnqueue", error)
            return False


def _name(plugin: PreEnqueuePlugin) -> str:
    return plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__
