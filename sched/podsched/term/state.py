"""The scheduling state of a replica: cache, queue and profiles, updated by the informer's batches.

Standbys keep one, too, so that a new leader can work at once. The state decides nothing and does no
I/O. After a term a new state is built from the informer's stores, because the old one has assumed
pods that will never be confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from podsched.api.kinds import UNDECIDING_KINDS
from podsched.api.objects import Pod
from podsched.cache.cache import Cache
from podsched.cache.changes import Anomaly, Applied, Change, PendingChange
from podsched.config.load import SchedulerConfiguration
from podsched.decide.accelerated import AcceleratedDecider
from podsched.decide.accelerators.sharding import RemoteEvaluator
from podsched.decide.evaluation.dry_run import RemoteDryRun
from podsched.decide.extenders.wire import EXTENDER_NAME
from podsched.decide.runtime.plugin_handle import Chance, PluginHandle
from podsched.decide.runtime.plugin_metrics import ProfileMeters
from podsched.decide.runtime.profile_runtime import ProfileRuntime
from podsched.decide.runtime.waiting_pods import WaitingPods
from podsched.framework.events import ActionType, ClusterEventWithHint, Resource
from podsched.framework.plugin import PluginFactory, QueueSortPlugin
from podsched.framework.pod_groups import labels_name_groups
from podsched.framework.pods import PodInfo
from podsched.queue.observer import QueueObserver
from podsched.queue.scheduling_queue import SchedulingQueue
from podsched.serve.client.informer import Batch, Event, EventType
from podsched.term.admission.admission import Admission
from podsched.term.admission.changes import RELEVANT_KINDS
from podsched.term.after_trial import AfterTrial
from podsched.term.faulty_pods import PodFault
from podsched.term.set_aside import SetAside

#: Leases of nodes and locks are renewed all the time, and no decision reads them.
_NOT_CACHED = frozenset({"Lease"})
_ACTIONS = {EventType.ADDED: "Add", EventType.MODIFIED: "Update", EventType.DELETED: "Delete"}


class StateListener(Protocol):
    """Is told the effects of the informer's events on a scheduling state."""

    def deleted_while_assumed(self, pod: PodInfo) -> None:
        """Note that a pod was deleted, or its deletion has begun, while it was being bound."""

    def deleted_while_pending(self, pod: PodInfo) -> None:
        """Note that a pod was deleted while it waited to be scheduled."""

    def changed(self, changes: Sequence[Change], now: float) -> None:
        """Note cluster events that the queue has just handled."""

    def handled(self, sort: str, seconds: float, count: int) -> None:
        """Count ``count`` events of a sort ("PodAdd"), and the seconds that they took together."""

    def anomaly(self, anomaly: Anomaly) -> None:
        """Note an event that contradicts the cache."""


class NoListener:
    """A ``StateListener`` that ignores everything."""

    def deleted_while_assumed(self, pod: PodInfo) -> None:
        pass

    def deleted_while_pending(self, pod: PodInfo) -> None:
        pass

    def changed(self, changes: Sequence[Change], now: float) -> None:
        pass

    def handled(self, sort: str, seconds: float, count: int) -> None:
        pass

    def anomaly(self, anomaly: Anomaly) -> None:
        pass


@dataclass(slots=True)
class SchedulingState:
    """Cache, queue, profiles, job queues and the pods waiting at Permit, of one replica."""

    cache: Cache
    queue: SchedulingQueue
    profiles: Mapping[str, ProfileRuntime]
    admission: Admission
    waiting: WaitingPods
    listener: StateListener
    chance: Chance
    set_aside: SetAside = field(default_factory=SetAside)
    #: All changes up to this revision have been applied.
    revision: int = 0
    #: The number of later changes of what decisions read that have also been applied, as parts of
    #: a large response.
    beyond: int = 0
    #: The decider made last, whose caches refer to pods; for ``drop_all``.
    _decider: AcceleratedDecider | None = None
    after_trial: AfterTrial = field(default_factory=AfterTrial)
    """For all that must not see the trial of a pod group's decision."""

    def decider(
        self,
        remote_evaluator: RemoteEvaluator | None = None,
        remote_dry_run: RemoteDryRun | None = None,
        *,
        without: Collection[str] = (),
    ) -> AcceleratedDecider:
        """Create a decider for the pods of this state; see ``Decider``."""
        self._decider = AcceleratedDecider(
            self.cache.cluster,
            self.profiles,
            self.chance,
            remote_evaluator,
            remote_dry_run,
            without=without,
        )
        return self._decider

    def apply_batch(self, batch: Batch, now: float) -> None:
        """Apply a batch of the informer; ``now`` is the queue's monotonic time.

        Raises PodFault for a bug; the state must not be used after that.
        """
        # Time each run of events of one kind and type: reading a clock for each event costs too
        # much.
        sort: tuple[str, EventType] | None = None
        count, began = 0, time.monotonic()
        self.queue.incoming.hold()
        try:
            for event in batch.events:
                of_event = (event.kind, event.type)
                if of_event != sort:
                    began = self._handled(sort, count, began)
                    sort, count = of_event, 0
                try:
                    self.apply(event, now)
                except Exception as bug:
                    raise fault_of(event) from bug
                count += 1
        finally:
            self.queue.incoming.release()
        self._handled(sort, count, began)
        # Objects of a partial list may be newer than the batch's revision. A revision that is too
        # old does no harm.
        self.revision = batch.revision
        # As many as recordings have.
        read = sum(event.kind not in UNDECIDING_KINDS for event in batch.events)
        self.beyond = self.beyond + read if batch.partial else 0

    def _handled(self, sort: tuple[str, EventType] | None, count: int, began: float) -> float:
        ended = time.monotonic()
        if sort is not None:
            kind, change = sort
            self.listener.handled(kind + _ACTIONS[change], ended - began, count)
        return ended

    def apply(self, event: Event, now: float) -> None:
        """Apply one event; while a trial is open, the queue hears of it only after the trial."""
        if event.kind in _NOT_CACHED:
            return
        applied = self.set_aside.apply(self.cache, event)
        if event.kind in RELEVANT_KINDS:
            self.admission.note(event.kind, event.old, event.new)
        if applied.anomaly is not None:
            self.listener.anomaly(applied.anomaly)
        if self.after_trial.is_open:
            self.after_trial.do(partial(self._queue_later, event, applied, now))
        else:
            self._queue(applied, now)

    def _queue_later(self, event: Event, applied: Applied, now: float) -> None:
        try:
            self._queue(applied, now)
        except Exception as bug:
            raise fault_of(event) from bug

    def _queue(self, applied: Applied, now: float) -> None:
        # First: a new member of a group, once in the queue, would be woken by its own addition.
        if applied.changes:
            self.wake(applied, now)
        if applied.pending is not None:
            self._pending(applied.pending, now)

    def wake(self, applied: Applied, now: float) -> None:
        """Let waiting pods that an event may help be tried again."""
        for change in applied.changes:
            self.queue.move_all_to_active_or_backoff(change.event, change.old, change.new, now)
        if applied.changes:
            self.listener.changed(applied.changes, now)

    def drop_all(self) -> Iterator[None]:
        """Drop all pods and objects, one pod at a step; the state must not be used after it.

        The tasks of a term and the state refer to each other in cycles. Without this, the pods of a
        state that was replaced would stay until a full collection of garbage. That held the event
        loop for 0.6 s, so a standby took over.
        """
        pods = list(self.cache.cluster.pods.values())
        if self._decider is not None:
            self._decider.drop_all()
        self.admission.drop_all()
        self.queue.drop_all()
        self.cache.drop_all()
        while pods:
            pods.pop()
            yield

    def _pending(self, change: PendingChange, now: float) -> None:
        old, new = change.old, change.new
        if change.assumed:
            if old is not None:
                self._assumed(old, new, now)
            return
        if new is None:
            assert old is not None
            # It may have left the queue for the node that it was nominated to.
            held = self.cache.held.get(old.uid)
            self.queue.delete(old, now, bound_to="" if held is None else held.info.node_name)
            if held is None:
                self.listener.deleted_while_pending(old)
            return
        if new.cls.scheduler_name not in self.profiles:
            return
        if old is None:
            self.queue.add(new, now)
        else:
            self.queue.update(old, new, now)

    def _assumed(self, old: PodInfo, new: PodInfo | None, now: float) -> None:
        """Handle a change of a pod that was assumed; the queue does not have it."""
        held = self.cache.held.get(old.uid)
        # It was nominated to another node, which others may use now.
        if held is not None and old.nominated_node_name not in ("", held.info.node_name):
            self.queue.release_nomination(old, now)
        # It was bound, and deleted before the informer showed it with its node.
        if new is None and held is None:
            self.queue.delete(old, now)
        # Its binding cycle has to give up and end the assumption. With finalizers the pod may stay
        # for long, but it gets no node any more.
        elif (new is None or new.terminating) and old.uid in self.cache.assumed:
            self.listener.deleted_while_assumed(old)


def fault_of(event: Event) -> PodFault:
    """Return the fault for an exception raised by an event: of its pod, or of no pod."""
    shown = event.new or event.old
    return PodFault([shown] if isinstance(shown, Pod) else [])


def build_state(
    config: SchedulerConfiguration,
    factories: Mapping[str, PluginFactory],
    *,
    seed: int,
    max_in_unschedulable: float = 300.0,
    observer: QueueObserver | None = None,
    meter: ProfileMeters | None = None,
    listener: StateListener | None = None,
    queues: bool = True,
    require_queue: Collection[str] = (),
) -> SchedulingState:
    """Return an empty state for a configuration.

    ``queues``: whether Kueue's label names groups, too; ``require_queue``: more namespaces whose
    pods have to be in a queue.

    Raises:
        UnknownPlugin, NotAnExtension: the configuration names a plugin or a use of it that does
            not exist.
    """
    cache = Cache(schedulers={profile.scheduler_name for profile in config.profiles})
    cache.classes.queue_groups = queues
    chance = Chance(seed)
    waiting = WaitingPods()
    runtimes = {
        profile.scheduler_name: ProfileRuntime(
            profile, factories, PluginHandle(cache.cluster, chance, waiting), meter
        )
        for profile in config.profiles
    }
    # Before the first event: a pod's group is read once, when its ``PodInfo`` is made.
    cache.classes.label_groups = any(
        labels_name_groups(runtime.plugins.values()) for runtime in runtimes.values()
    )
    admission = Admission(cache, config.queues, require_queue)
    queue = SchedulingQueue(
        _sort_plugin(runtimes),
        {name: [one.plugin for one in r.pre_enqueue] for name, r in runtimes.items()},
        {name: _hints(runtime, config) for name, runtime in runtimes.items()},
        initial_backoff=float(config.effective.pod_initial_backoff_seconds),
        max_backoff=float(config.effective.pod_max_backoff_seconds),
        max_in_unschedulable=max_in_unschedulable,
        observer=observer,
        admission=admission.gate,
    )
    return SchedulingState(
        cache, queue, runtimes, admission, waiting, listener or NoListener(), chance
    )


def _sort_plugin(runtimes: Mapping[str, ProfileRuntime]) -> QueueSortPlugin:
    """Return the plugin that orders the queue; validation ensures that all profiles have one."""
    first = next(iter(runtimes.values()))
    return first.queue_sort[0].plugin


def _hints(
    runtime: ProfileRuntime, config: SchedulerConfiguration
) -> dict[str, list[ClusterEventWithHint]]:
    # Pods rejected by a plugin without EventsToRegister, or by an extender, are woken by any event.
    anything = ClusterEventWithHint.on(Resource.WILDCARD, ActionType.ALL)
    hints = {
        name: [anything] if extensions is None else list(extensions.events_to_register())
        for name, extensions in runtime.enqueue_extensions().items()
    }
    return hints | {EXTENDER_NAME: [anything]} if config.extenders else hints
