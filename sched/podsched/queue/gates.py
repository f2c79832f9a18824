"""What may keep a pod out of activeQ: a profile's PreEnqueue plugins, and then ``admission``.

A pod that one of them rejects is *gated*. A plugin that raises gates the pod, too, like a plugin
that returns an error in kube-scheduler; the failure is reported to the observer.

A new pod asks ``admission`` first: what it rejects waits for it alone. In the order of the plugins,
each member of a gang in a queue would be gated by GangScheduling, woken by the last member, and
then gated by ``admission``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from podsched.framework.plugin import Plugin, PreEnqueuePlugin
from podsched.framework.pods import QueuedPodInfo
from podsched.framework.status import SUCCESS
from podsched.queue.observer import QueueObserver


class Gates:
    """Asks a profile's PreEnqueue plugins and ``admission`` whether a pod may enter activeQ."""

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        observer: QueueObserver,
        admission: PreEnqueuePlugin | None,
    ) -> None:
        last = () if admission is None else (admission,)
        self._plugins = {
            profile: tuple((_name(plugin), plugin) for plugin in (*ordered, *last))
            for profile, ordered in plugins.items()
        }
        self._admission = "" if admission is None else _name(admission)
        self._observer = observer
        #: By profile and the plugin that comes first.
        self._ordered: dict[tuple[str, str], Sequence[tuple[str, PreEnqueuePlugin]]] = {}

    def rejecting(self, pod: QueuedPodInfo) -> str:
        """Return the name of the first plugin that rejects the pod, "" if none does.

        The plugin that gates the pod is called first, because it most likely still rejects it.
        """
        info, name = pod.info, ""
        plugins = self._in_order(info.cls.scheduler_name, pod.gating_plugin)
        try:
            for name, plugin in plugins:
                status = plugin.pre_enqueue(info)
                # Nearly every answer is this object; ``ok`` is a call for each plugin and pod.
                if status is not SUCCESS and not status.ok:
                    return name
        except Exception as error:  # Plugins may raise anything; like an error status it gates.
            self._observer.plugin_failed(name, "PreEnqueue", error)
            return name
        return ""

    def _in_order(self, profile: str, first: str) -> Sequence[tuple[str, PreEnqueuePlugin]]:
        """Return the plugins of a profile, with one of them first, or else ``admission``."""
        found = self._ordered.get((profile, first))
        if found is None:
            plugins, name = self._plugins.get(profile, ()), first or self._admission
            # The sort is stable, so the other plugins keep their order.
            found = sorted(plugins, key=lambda named: named[0] != name)
            self._ordered[profile, first] = found
        return found

    def stays_gated(self, pod: QueuedPodInfo) -> bool:
        """Return whether the plugin that gates a pod still rejects it; False if none gates it.

        Asked before a gated pod is moved, to save moving it out and back in: preemptors are gated
        while they request evictions, and each victim that leaves a node is an event for them all.
        """
        gating = pod.gating_plugin
        for name, plugin in self._plugins.get(pod.info.cls.scheduler_name, ()) if gating else ():
            if name == gating:
                try:
                    return not plugin.pre_enqueue(pod.info).ok
                except Exception as error:  # As in ``rejecting``.
                    self._observer.plugin_failed(name, "PreEnqueue", error)
                    return True
        return False

    def refusal(self, pod: QueuedPodInfo) -> tuple[str, tuple[str, ...]]:
        """Return the first plugin that rejects a gated pod now, and its reasons.

        For a pod that ``admission`` gates, that may be another plugin, which says more. If none
        rejects the pod any more, the plugin that gates it is returned, without reasons.
        """
        plugins = self._plugins.get(pod.info.cls.scheduler_name, ()) if pod.gating_plugin else ()
        for name, plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod.info)
            except Exception as error:  # Plugins may raise anything; explanations show it.
                return name, (f"{type(error).__name__}: {error}",)
            if not status.ok:
                return name, status.reasons
        return pod.gating_plugin, ()


def _name(plugin: PreEnqueuePlugin) -> str:
    return plugin.name if isinstance(plugin, Plugin) else type(plugin).__name__
