"""Which events can give a pod another try: those that the plugins which rejected it registered."""

from __future__ import annotations

from collections.abc import Iterable

from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.framework.events import ActionType, ClusterEvent
from podsched.v1.scheduling_pb2 import WakeEvent


def wake_events(runtime: ProfileRuntime, plugins: Iterable[str]) -> list[WakeEvent]:
    """Return the events by name, each with the plugins that wait for it.

    A plugin that does not say what can help is asked about everything.
    """
    found: dict[str, WakeEvent] = {}
    extensions = runtime.enqueue_extensions()
    for plugin in sorted(plugins):
        registers = extensions.get(plugin)
        if registers is None:
            _add(found, "*", plugin, asks=False)
            continue
        for registered in registers.events_to_register():
            for name in _names(registered.event):
                _add(found, name, plugin, asks=registered.hint is not None)
    return [found[name] for name in sorted(found)]


def _names(event: ClusterEvent) -> list[str]:
    """Return the name of each single event that a registration asks for."""
    if event.is_wildcard:
        return ["*"]
    if event.action & ActionType.UPDATE == ActionType.UPDATE:
        updates = [ActionType.UPDATE]
    else:
        updates = [action for action in ActionType if action & event.action & ActionType.UPDATE]
    others = [action for action in (ActionType.ADD, ActionType.DELETE) if action & event.action]
    return [ClusterEvent(event.resource, action).text for action in (*others, *updates)]


def _add(found: dict[str, WakeEvent], name: str, plugin: str, *, asks: bool) -> None:
    event = found.get(name)
    if event is None:
        event = found[name] = WakeEvent(event=name, asks_first=True)
    event.asks_first = event.asks_first and asks
    if plugin not in event.plugins:
        event.plugins.append(plugin)
