"""Call queueing hints: functions of plugins that say whether an event can help a pod.

A plugin registers events, each with a hint, and the hint answers Queue or Skip. As in
kube-scheduler's ``isPodWorthRequeuing``, only the plugins that rejected the pod are asked. If one
of them had returned Pending and now answers Queue, the pod goes to activeQ at once; with any other
plugin it goes there after its backoff. A pod whose attempt failed with an error, without a
rejecting plugin, always goes to backoff.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from podsched.framework.events import (
    NODE_ADD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    HintFn,
    HintIndex,
    QueueingHint,
    Resource,
)
from podsched.framework.pods import PodInfo, QueuedPodInfo
from podsched.queue.backoff_queue import has_rejectors
from podsched.queue.observer import QueueObserver

_NODE_TAINT = ClusterEvent(Resource.NODE, ActionType.UPDATE_NODE_TAINT)


#: One of this many hints is called through the observer, which may time it. Not every one, because
#: reading a clock and updating a histogram cost more than most hints.
SAMPLE_EVERY = 10


class Strategy(enum.IntEnum):
    """Where an event sends a pod; if several plugins answer, the greatest value counts.

    kube-scheduler's ``queueingStrategy``: nowhere, to backoff, or to activeQ.
    """

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


@dataclass(frozen=True, eq=False, slots=True)
class Registration:
    """One event that one plugin registered in one profile; see ``ClusterEventWithHint``.

    Without a ``hint`` every matching event helps. ``per_pod``: the hint reads more of a pod than
    its class. ``index`` makes an index of the groups of pods that the event can help, ``pods``
    returns the uids of the pods that the event names.
    """

    profile: str
    plugin: str
    event: ClusterEvent
    hint: HintFn | None
    per_pod: bool
    index: Callable[[], HintIndex] | None
    pods: Callable[[Any, Any], Iterable[str]] | None


class HintTable:
    """All registrations of all profiles, and the calls of their hints.

    A plugin may raise anything. The error is reported to the observer and the answer is the one
    that wakes more pods: a needless attempt is better than a pod that waits without end.
    """

    def __init__(
        self,
        hints: Mapping[str, Mapping[str, Sequence[ClusterEventWithHint]]],
        observer: QueueObserver,
    ) -> None:
        self._observer = observer
        self._until_sample = 0
        self._of: dict[tuple[str, str], tuple[Registration, ...]] = {
            (profile, plugin): tuple(_registrations(profile, plugin, events))
            for profile, plugins in hints.items()
            for plugin, events in plugins.items()
        }
        # Kept, because every event of the cluster is looked up. Filled when an event is asked for:
        # few of all combinations of actions ever happen.
        self._matching: dict[tuple[Resource, ActionType], tuple[Registration, ...]] = {}
        self._wanted: dict[tuple[str, str, Resource, ActionType], tuple[Registration, ...]] = {}

    def registered(self, profile: str, plugin: str) -> tuple[Registration, ...]:
        """Return everything that a plugin of a profile registered."""
        return self._of.get((profile, plugin), ())

    def matching(self, event: ClusterEvent) -> tuple[Registration, ...]:
        """Return the registrations, of any profile and plugin, that an event concerns."""
        key = (event.resource, event.action)
        found = self._matching.get(key)
        if found is None:
            found = self._matching[key] = tuple(
                registration
                for registrations in self._of.values()
                for registration in registrations
                if registration.event.matches(event)
            )
        return found

    def wanted(self, profile: str, plugin: str, event: ClusterEvent) -> tuple[Registration, ...]:
        """Return the registrations of one plugin that an event concerns."""
        key = (profile, plugin, event.resource, event.action)
        found = self._wanted.get(key)
        if found is None:
            found = self._wanted[key] = tuple(
                r for r in self.registered(profile, plugin) if r.event.matches(event)
            )
        return found

    def answers_queue(
        self, registration: Registration, pod: PodInfo, event: ClusterEvent, old: Any, new: Any
    ) -> bool:
        """Call a hint and return whether it answers Queue; so does a missing or failing hint."""
        if registration.hint is None:
            return True
        hint = registration.hint
        try:
            if self._until_sample:
                self._until_sample -= 1
                return hint(pod, old, new) is QueueingHint.QUEUE
            self._until_sample = SAMPLE_EVERY - 1
            ask = partial(hint, pod, old, new)
            answer = self._observer.hint(registration.plugin, event.text, ask)
            return answer is QueueingHint.QUEUE
        except Exception as error:  # Plugins may raise anything; errors of hints stop here.
            self._observer.plugin_failed(registration.plugin, event.text, error)
            return True

    def strategy(self, pod: QueuedPodInfo, event: ClusterEvent, old: Any, new: Any) -> Strategy:
        """Return where an event sends one pod (``isPodWorthRequeuing``)."""
        if event.is_wildcard or not has_rejectors(pod):
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        # Pending plugins come first: if one answers Queue, the others need not be called.
        for registration, gain in self.rejecting(pod, event):
            if gain > best and self.answers_queue(registration, pod.info, event, old, new):
                best = gain
        return best

    def rejecting(
        self, pod: QueuedPodInfo, event: ClusterEvent
    ) -> Iterator[tuple[Registration, Strategy]]:
        """Yield the registrations for an event of the plugins that rejected a pod.

        With each, where the answer Queue would send the pod; those that returned Pending first.
        """
        profile = pod.info.cls.scheduler_name
        for plugin in pod.pending_plugins:
            for registration in self.wanted(profile, plugin, event):
                yield registration, Strategy.IMMEDIATELY
        for plugin in pod.unschedulable_plugins - pod.pending_plugins:
            for registration in self.wanted(profile, plugin, event):
                yield registration, Strategy.AFTER_BACKOFF

    def candidates(
        self, registration: Registration, index: HintIndex, event: ClusterEvent, old: Any, new: Any
    ) -> Iterable[Hashable] | None:
        """Return the groups that an index finds for an event; None for all, also if it fails."""
        try:
            found = index.candidates(old, new)
            # A list, because a generator would fail later, where nobody expects it.
            return None if found is None else list(found)
        except Exception as error:  # Then the hint is called for all groups.
            self._observer.plugin_failed(registration.plugin, event.text, error)
            return None

    def pods_named(
        self, registration: Registration, event: ClusterEvent, old: Any, new: Any
    ) -> Iterable[str] | None:
        """Return the uids of the pods that the event names; None for all pods, also on failure."""
        if registration.pods is None:
            return None
        try:
            return list(registration.pods(old, new))
        except Exception as error:  # Then the hint is called for all pods.
            self._observer.plugin_failed(registration.plugin, event.text, error)
            return None

    def index_failed(self, registration: Registration, error: Exception) -> None:
        """Report an index that failed to add or remove a group."""
        self._observer.plugin_failed(registration.plugin, registration.event.text, error)


def _registrations(
    profile: str, plugin: str, events: Sequence[ClusterEventWithHint]
) -> list[Registration]:
    registered = [
        Registration(profile, plugin, e.event, e.hint, e.per_pod, e.index, e.pods) for e in events
    ]
    return registered + [_after_taint(r) for r in _hidden_by_taints(registered)]


def _hidden_by_taints(registered: Sequence[Registration]) -> list[Registration]:
    """Return the registrations for new nodes that must also be made for changed taints.

    A pod may have been rejected from a new node by a taint first. When the taint goes, the plugin
    must be asked about the node. kube-scheduler's ``buildQueueingHintMap`` does the same.
    """
    if any(r.event.matches(_NODE_TAINT) for r in registered):
        return []
    return [r for r in registered if r.event.matches(NODE_ADD)]


def _after_taint(added: Registration) -> Registration:
    """Return a registration that treats a node whose taints changed as just added.

    kube-scheduler queues such pods without a hint; the plugin's own hint is as safe.
    """
    hint, index, pods = added.hint, added.index, added.pods
    return replace(
        added,
        event=_NODE_TAINT,
        hint=None if hint is None else lambda pod, _old, new: hint(pod, None, new),
        index=None if index is None else lambda: _AsAdded(index()),
        pods=None if pods is None else lambda _old, new: pods(None, new),
    )


class _AsAdded:
    """An index that treats every event as an addition of the object."""

    def __init__(self, index: HintIndex) -> None:
        self.add = index.add
        self.remove = index.remove
        self._candidates = index.candidates

    def candidates(self, old: Any, new: Any) -> Iterable[Hashable] | None:
        return self._candidates(None, new)
