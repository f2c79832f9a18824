"""Keep the pods that wait for an event, indexed by the events that can help them.

Pods of one class that the same plugins rejected form a *group*. An event calls one hint per group
and plugin, not per pod, and with an index (``framework.hint_index``) only for groups that it can
help. So the cost of an event depends on the pods that it wakes, not on the number of pending pods:
with 100,000 pending pods an event that helps none takes 17 µs (``sched bench Queue``).

Gated pods (rejected by a PreEnqueue plugin) are here too. For them, hints are called only for
events that the gating plugin registered; none if it registered none.

::

    event ---> registrations for it ---> index, or all groups that the plugin rejected
                                               |
        uid -> Strategy <--- pods of a group <-+ one hint a group (or a pod, with ``per_pod``)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from podsched.framework.events import ClusterEvent, HintIndex
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.queue.hints import HintTable, Registration, Strategy
from podsched.queue.key_heap import KeyHeap

_CLASS_NOTE = "podsched.queue"


@dataclass(eq=False, slots=True)
class Group:
    """Pods for which every hint gives the same answer, except hints registered ``per_pod``.

    Hints are called with ``sample``, which is or was one of the pods. ``rejectors`` are the plugins
    that rejected the pods and whose hints may help them; ``pending`` those that returned Pending.
    ``woken``: where events have sent all of the pods, which are moved in parts.
    """

    key: Hashable
    sample: PodInfo
    rejectors: frozenset[str]
    pending: frozenset[str]
    gating_plugin: str
    pods: dict[str, QueuedPodInfo] = field(default_factory=dict)
    woken: Strategy = Strategy.SKIP

    @property
    def profile(self) -> str:
        return self.sample.cls.scheduler_name


def group_key(pod: QueuedPodInfo) -> Hashable:
    """Return the key of the group that the pod currently belongs to."""
    return (
        pod.info.cls.id,
        frozenset(pod.unschedulable_plugins),
        frozenset(pod.pending_plugins),
        pod.gating_plugin,
        # A pod with ephemeral volumes is alone in its group, because its claims are named after it.
        # Other pods are distinguished by PodGroup, which is not part of the class.
        pod.info.uid if _has_ephemeral_volumes(pod.info.cls) else pod.info.group,
    )


def _has_ephemeral_volumes(cls: PodClass) -> bool:
    noted = cls.compiled.get(_CLASS_NOTE)
    if noted is None:
        noted = any(volume.HasField("ephemeral") for volume in cls.spec.volumes)
        cls.compiled[_CLASS_NOTE] = noted
    return cast(bool, noted)


class _Rejected:
    """The groups of pods that one plugin of one profile rejected, with the plugin's indexes."""

    def __init__(self, table: HintTable, registrations: Iterable[Registration]) -> None:
        self._table = table
        self.groups: dict[Group, None] = {}
        self._indexes: dict[Registration, HintIndex] = {
            registration: registration.index()
            for registration in registrations
            if registration.index is not None
        }

    def add(self, group: Group) -> None:
        self.groups[group] = None
        self._change_indexes(lambda index: index.add(group, group.sample))

    def remove(self, group: Group) -> None:
        del self.groups[group]
        self._change_indexes(lambda index: index.remove(group))

    def _change_indexes(self, change: Callable[[HintIndex], None]) -> None:
        for registration, index in list(self._indexes.items()):
            try:
                change(index)
            except Exception as error:  # Plugins may raise anything.
                # Without its index the plugin's hint is called for all groups.
                del self._indexes[registration]
                self._table.index_failed(registration, error)

    def candidates(
        self, registration: Registration, event: ClusterEvent, old: Any, new: Any
    ) -> Iterable[Group]:
        index = self._indexes.get(registration)
        if index is None:
            return self.groups
        found = self._table.candidates(registration, index, event, old, new)
        return self.groups if found is None else cast(Iterable[Group], found)


class _Groups:
    """The groups that have pods, by key, and by the plugins that rejected these pods."""

    def __init__(self, table: HintTable) -> None:
        self._table = table
        self.by_key: dict[Hashable, Group] = {}
        #: By profile and plugin. Kept when no groups are left: there are only as many as plugins,
        #: and an index is not built again.
        self.rejected: dict[tuple[str, str], _Rejected] = {}

    def of(self, pod: QueuedPodInfo) -> Group:
        """Return the group of a pod, created if there is none."""
        key = group_key(pod)
        group = self.by_key.get(key)
        if group is None:
            group = self.by_key[key] = self._open(key, pod)
        return group

    def _open(self, key: Hashable, pod: QueuedPodInfo) -> Group:
        """Create the group of a pod, and list it with the plugins that rejected the pod."""
        rejectors = frozenset(pod.unschedulable_plugins | pod.pending_plugins)
        gate, profile = pod.gating_plugin, pod.info.cls.scheduler_name
        if gate and not self._table.registered(profile, gate):
            rejectors = frozenset()  # No event opens this gate.
        group = Group(key, pod.info, rejectors, frozenset(pod.pending_plugins), gate)
        for plugin in group.rejectors:
            name = (profile, plugin)
            rejected = self.rejected.get(name)
            if rejected is None:
                registrations = self._table.registered(*name)
                rejected = self.rejected[name] = _Rejected(self._table, registrations)
            rejected.add(group)
        return group

    def close(self, group: Group) -> None:
        """Remove a group that has no pods left."""
        del self.by_key[group.key]
        for plugin in group.rejectors:
            self.rejected[group.profile, plugin].remove(group)


class _Asking:
    """The answers of hints to one event: where it sends pods, by group and by pod."""

    __slots__ = ("_answers", "_by_pod", "_event", "_max_priority", "_new", "_old", "_table")

    def __init__(
        self, table: HintTable, event: ClusterEvent, old: Any, new: Any, max_priority: int | None
    ) -> None:
        self._table, self._event, self._old, self._new = table, event, old, new
        self._max_priority = max_priority
        self._answers: dict[Group, Strategy] = {}
        self._by_pod: dict[str, Strategy] = {}

    def concerns(self, group: Group) -> bool:
        """Return whether the event may concern a group at all, before any hint is called."""
        if self._max_priority is not None and group.sample.priority > self._max_priority:
            return False
        if not group.gating_plugin:
            return True
        # Only the gating plugin can open the gate, whoever else registered for the event.
        wanted = self._table.wanted(group.profile, group.gating_plugin, self._event)
        # A wildcard event opens no gates unless the gating plugin registered for all events.
        if self._event.is_wildcard:
            return any(registration.event.is_wildcard for registration in wanted)
        return bool(wanted)

    def ask_group(self, registration: Registration, group: Group) -> None:
        """Call a hint for a group or, if it is ``per_pod``, for each of its pods."""
        strategy = _strategy_if_queued(registration, group)
        # Skip the call if its answer cannot move the pods further than the answers before.
        known = max(group.woken, self._answers.get(group, Strategy.SKIP))
        if known >= strategy or not self.concerns(group):
            return
        if registration.per_pod:
            for pod in group.pods.values():
                self.ask_pod(registration, pod, group)
        elif self._answers_queue(registration, group.sample):
            self._answers[group] = strategy

    def ask_pod(self, registration: Registration, pod: QueuedPodInfo, group: Group) -> None:
        """Call a hint for one pod of a group that the event concerns."""
        strategy, uid = _strategy_if_queued(registration, group), pod.info.uid
        if self._by_pod.get(uid, Strategy.SKIP) < strategy and self._answers_queue(
            registration, pod.info
        ):
            self._by_pod[uid] = strategy

    def _answers_queue(self, registration: Registration, pod: PodInfo) -> bool:
        return self._table.answers_queue(registration, pod, self._event, self._old, self._new)

    def by_uid(self, except_uids: Collection[str]) -> dict[str, Strategy]:
        """Return the answers for groups and for single pods, by uid; the greater one counts."""
        for group, strategy in self._answers.items():
            for uid in group.pods:
                self._by_pod[uid] = max(strategy, self._by_pod.get(uid, Strategy.SKIP))
            # Else thousands of pods would be found again by each of hundreds of events. A gated
            # pod may stay where it is.
            if not (group.gating_plugin or any(uid in except_uids for uid in group.pods)):
                group.woken = strategy
        if not except_uids:
            return self._by_pod
        return {uid: where for uid, where in self._by_pod.items() if uid not in except_uids}


def _strategy_if_queued(registration: Registration, group: Group) -> Strategy:
    pending = registration.plugin in group.pending
    return Strategy.IMMEDIATELY if pending else Strategy.AFTER_BACKOFF


class UnschedulablePods:
    """The pods that wait for an event. Finds the pods that an event helps; the queue moves them."""

    def __init__(self, table: HintTable) -> None:
        self._table = table
        self._pods: dict[str, tuple[QueuedPodInfo, Group]] = {}
        self._groups = _Groups(table)
        self._ages: KeyHeap[QueuedPodInfo] = KeyHeap()
        self.gated_count = 0

    def __len__(self) -> int:
        return len(self._pods)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (pod for pod, _ in self._pods.values())

    def not_gated(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the pods that no plugin gates, without reading each gated pod.

        Queues may gate 50,000 pods, and the auditor calls this every second.
        """
        groups = (group for group in self._groups.by_key.values() if not group.gating_plugin)
        return (pod for group in groups for pod in group.pods.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        entry = self._pods.get(uid)
        return None if entry is None else entry[0]

    def add(self, pod: QueuedPodInfo, now: float) -> None:
        """Add a pod, which must not be here. Its ``group_key`` must not change while it is here."""
        group, uid = self._groups.of(pod), pod.info.uid
        group.pods[uid], group.woken = pod, Strategy.SKIP
        self._pods[uid] = (pod, group)
        self.gated_count += bool(pod.gating_plugin)
        # A pod that is gated again keeps its old timestamp. Its waiting time is counted from now,
        # or it would be due at every flush.
        self._ages.add(uid, (now if pod.gating_plugin else pod.timestamp,), pod)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        entry = self._pods.pop(uid, None)
        if entry is None:
            return None
        pod, group = entry
        self._ages.remove(uid)
        self.gated_count -= bool(group.gating_plugin)
        del group.pods[uid]
        if not group.pods:
            self._groups.close(group)
        return pod

    def replace_info(self, info: PodInfo) -> bool:
        """Store a new version of a pod; False, and no change, if its group would change."""
        # All pods of a group have the sample's class; a pod with another class would move.
        pod, group = self._pods[info.uid]
        if group.sample.cls is not info.cls:
            return False
        pod.info = info
        return True

    def oldest(self) -> float | None:
        """Return when the pod that has waited longest began to wait; None if there is no pod."""
        first = self._ages.first()
        return None if first is None else cast(float, first[0][0])

    def older_than(self, time: float, most: int) -> list[QueuedPodInfo]:
        """Remove and return pods that have been waiting since ``time`` or longer; the oldest."""
        found: list[QueuedPodInfo] = []
        while len(found) < most and (first := self._ages.first()) and first[0][0] <= time:
            self.remove(first[1].info.uid)
            found.append(first[1])
        return found

    def helped(
        self,
        event: ClusterEvent,
        old: Any,
        new: Any,
        max_priority: int | None,
        except_uids: Collection[str],
    ) -> dict[str, Strategy]:
        """Return the uids of the pods that an event may help, and where it sends each.

        ``old`` and ``new`` are the messages of the event's object. ``max_priority``: only pods of
        this or a lower priority are considered, without ``except_uids``. All of them have to be
        moved: groups of pods that an earlier event has helped are left out.
        """
        # An event for each bound pod ends here as long as nobody waits.
        if not self._pods:
            return {}
        asking = _Asking(self._table, event, old, new, max_priority)
        if event.is_wildcard:
            return {
                uid: Strategy.AFTER_BACKOFF
                for uid, (_, group) in self._pods.items()
                if asking.concerns(group) and uid not in except_uids
            }
        for registration in self._table.matching(event):
            rejected = self._groups.rejected.get((registration.profile, registration.plugin))
            if rejected is None or not rejected.groups:
                continue
            named = self._table.pods_named(registration, event, old, new)
            if named is not None:
                entries = (entry for uid in named if (entry := self._pods.get(uid)) is not None)
                for pod, group in entries:
                    if group in rejected.groups and asking.concerns(group):
                        asking.ask_pod(registration, pod, group)
                continue
            # An index may offer too many groups, so the hint is called in any case.
            for group in rejected.candidates(registration, event, old, new):
                asking.ask_group(registration, group)
        return asking.by_uid(except_uids)

    def problems(self) -> Iterator[str]:
        """Yield a description of each violated invariant, for ``check_invariants``."""
        grouped = {uid for group in self._groups.by_key.values() for uid in group.pods}
        if grouped != self._pods.keys():
            yield "pods and groups differ"
        if len(self._ages) != len(self._pods):
            yield "pods and ages differ"
        for key, group in self._groups.by_key.items():
            if not group.pods:
                yield f"group {key} is empty"
            if any(group_key(pod) != key for pod in group.pods.values()):
                yield f"a pod of group {key} belongs to another"
        gated = sum(1 for pod, _ in self._pods.values() if pod.gating_plugin)
        if gated != self.gated_count:
            yield f"{gated} gated pods counted as {self.gated_count}"
        rejected = self._groups.rejected.values()
        if {group for of in rejected for group in of.groups} - {*self._groups.by_key.values()}:
            yield "a plugin lists a closed group"
