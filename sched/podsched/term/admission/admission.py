"""The queues of a cluster: which units wait, who may be tried, and what is used.

Everything is derived from the cache. Usage is the sum over the pods with a node, bound or assumed,
of what ``usage`` says; waiting are the pods without one. So a new leader knows what the last one
knew, but for the victims that a unit waits for, which it chooses again: they are terminating.

A pod of a queue never enters activeQ: the gate keeps it out, and the cycle of admission pops the
pods of a unit whose turn it is. In each queue only the head is tried; if it fails, it is tried
again once something has changed that may help:

| a unit that | is tried again after |
| --- | --- |
| lacks quota | a release or more quota in its tree of cohorts |
| fits no nodes | an event that helps one of its pods (queueing hints), or a release in its tree |
| waits for its victims | the last of them is gone; until then nothing else of its queue is tried |

Pure and synchronous. Without ClusterQueues and LocalQueues nothing is kept and no pod is gated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, NamedTuple

from podsched.api.objects import ClusterQueue as ClusterQueueObject
from podsched.api.objects import LocalQueue
from podsched.api.queue_labels import QUEUE_NAME
from podsched.api.selectors import compile_selector
from podsched.cache.cache import Cache
from podsched.config.queues import QueuesConfiguration
from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.queues.assignment import Waiting
from podsched.queues.cycle import Rules
from podsched.queues.fair_victims import FairStrategy
from podsched.queues.objects import Workload
from podsched.queues.order import Requeue, queue_order, stays_in_heap
from podsched.queues.pending import Pending, SharedPending
from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort, read_flavor, read_levels
from podsched.term.admission.devices import CLAIM, DeviceQuota, UncountableError
from podsched.term.admission.endings import (
    DRAINS,
    EVICTED,
    LOCAL_QUEUE_STOPPED,
    QUEUE_STOPPED,
    REQUEUE_COUNT,
    Endings,
    bound_at,
)
from podsched.term.admission.histories import Histories
from podsched.term.admission.tallies import QueueKey, Standing, Tallies
from podsched.term.admission.units import (
    Unit,
    created_at,
    local_queue,
    priority_of,
    unit_group,
    unit_key,
    waiting_workload,
)
from podsched.term.admission.usage import Flavors, read, used

#: The kinds of which a change means that everything is read anew.
KINDS: Final = frozenset(
    {
        "ClusterQueue",
        "LocalQueue",
        "Cohort",
        "ResourceFlavor",
        "WorkloadPriorityClass",
        "DeviceClass",
        "Topology",
    }
)
#: The kinds whose changes matter here, beside Pod and Node.
OBJECTS: Final = KINDS | {"Namespace", "PodGroup", CLAIM}
REASON_GATED: Final = "waiting for admission to a queue"
#: Seconds between two choices of victims for a unit.
PAUSE: Final = 1.0
#: Behind every place in a queue.
_LAST: Final = (float("inf"),)
REASON_DEACTIVATED: Final = (
    "The workload is deactivated: its pods were not ready in time too often. Remove the annotation "
    f"{REQUEUE_COUNT} of its PodGroup to try again"
)
REASON_NO_QUEUE: Final = f"pods of namespace {{}} have to be in a queue: set the label {QUEUE_NAME}"


class Problem(NamedTuple):
    """Why a unit cannot wait in a queue."""

    reason: Waiting
    message: str


@dataclass(eq=False, slots=True)
class Hold:
    """What is kept for a unit that waits for its victims.

    It is the need, less what the victims still use: they are counted until they are gone.
    """

    queue: str
    need: Mapping[FlavorResource, int]
    victims: set[str]
    """The keys of their units."""
    since: float
    """When the victims were chosen."""
    counted: dict[FlavorResource, int] = field(default_factory=dict)


class _Place(NamedTuple):
    """Where a pod is counted."""

    pod: PodInfo
    unit: str
    held: bool
    amounts: Mapping[FlavorResource, int]


class Admission:
    """See the module."""

    def __init__(
        self, cache: Cache, settings: QueuesConfiguration, require_queue: Collection[str] = ()
    ) -> None:
        self._cache = cache
        self._cluster = self.cluster = cache.cluster
        self.tallies = Tallies()
        self.histories = Histories(cache.cluster, settings.admission_fair_sharing)
        self.rules = _rules(settings)
        #: Namespaces whose pods have to be in a queue; "*" for all but kube-system.
        self._queues_only = frozenset((*settings.require_queue, *require_queue))
        self.endings = Endings(cache.cluster, settings.wait_for_pods_ready)
        self._now = 0.0
        self._devices = DeviceQuota(cache.cluster, settings.resources.device_class_mappings)
        self.snapshot = Snapshot(())
        self.active = bool(self._queues_only)
        """Whether there are queues, or some have to be."""
        self.current = ""
        """The key of the unit whose pods may be popped."""
        self.problems: dict[str, Problem] = {}
        """Of units that can wait in no queue, by key."""
        self.units: dict[str, Unit] = {}
        self.holds: dict[str, Hold] = {}
        """By the key of the unit that waits for its victims."""
        #: Keys of units with pods that are nominated to nodes, although no hold says for how long.
        self._unheld: dict[str, None] = {}
        #: Keys of units that wait for their claims to be made, by namespace.
        self._claimless: dict[str, dict[str, None]] = {}
        self._outdated = True
        self._pending: dict[str, Pending | SharedPending] = {}
        #: What waits, or is being decided about, by the unit's key.
        self._asked: dict[str, Workload] = {}
        #: By key of the pod.
        self._places: dict[str, _Place] = {}
        #: The flavors of pods that were assumed, by uid, until the pod is gone.
        self._flavors: dict[str, Flavors] = {}
        self._not_before: dict[str, float] = {}
        #: Keys of units to look at again: as a part of the change that has been counted, and later.
        self._stale: dict[str, None] = {}
        self._stale_later: dict[str, None] = {}
        #: Keys of pods to count again.
        self._stale_pods: dict[str, None] = {}
        #: The names of queues that may have a head to try, and of others why they do not: the
        #: place in the queue's order of the head that was tried in vain.
        self._ready: dict[str, None] = {}
        self._blocked: dict[str, tuple[Any, ...]] = {}
        #: Names of queues below roots in which something was released.
        self._released: dict[str, None] = {}
        #: Keys of units that could not be placed, and of those that an event may have helped.
        self._parked: dict[str, None] = {}
        self._helped: dict[str, None] = {}
        #: The uids of pods that have joined or left queues, whose gate has to be asked again.
        self._gated_anew: dict[str, None] = {}
        #: Keys of units that wait for their turn since recently.
        self._new_waiting: dict[str, None] = {}
        #: Keys of units whose problem has changed.
        self._new_problems: dict[str, None] = {}
        self.leaving: Counter[str] = Counter()
        """By ClusterQueue: pods that use quota although they are terminating."""

    # ------------------------------------------------------------------ what changes

    def note(self, kind: str, old: Any | None, new: Any | None) -> None:
        """Note a change of an object that is neither a pod nor a node."""
        if kind in KINDS:
            if _decides(kind, old) != _decides(kind, new):
                self._outdated = True
                # Pods that come after the first queue are gated before all is read.
                self.active |= new is not None and kind in ("ClusterQueue", "LocalQueue")
        elif self.active and _decides(kind, old) != _decides(kind, new):
            metadata = (new if new is not None else old).metadata  # type: ignore[union-attr]
            if kind == CLAIM:
                self._note_claim(f"{metadata.namespace}/{metadata.name}")
                return
            if kind == "Namespace":
                self._stale_later |= dict.fromkeys(
                    key for key, unit in self.units.items() if unit.namespace == metadata.name
                )
                return
            for pod in self._cluster.members(f"{metadata.namespace}/{metadata.name}"):
                self._cluster.note_pod(pod.key)
                self._stale_later[unit_key(pod)] = None

    def _note_claim(self, key: str) -> None:
        """Look again at the units that wait for a claim to be made."""
        waiting = self._claimless.pop(key.partition("/")[0], {})
        self._stale_later |= waiting

    def gate(self, pod: PodInfo) -> Status:
        """Return whether a pod may enter activeQ, or be popped: only with its unit, in its turn."""
        if not self.active or self._queue_of(pod) is None:
            return SUCCESS
        key = unit_key(pod)
        if key == self.current:
            return SUCCESS
        if key in self._parked:
            self._helped[key] = None
        return unresolvable(REASON_GATED)

    def _queue_of(self, pod: PodInfo) -> str | None:
        """Return the LocalQueue of a pod, "" if it lacks one that it needs; None: it needs none."""
        name = local_queue(self._cluster, pod)
        if name:
            return name
        needed = pod.namespace in self._queues_only or (
            "*" in self._queues_only and pod.namespace != "kube-system"
        )
        return "" if needed else None

    def refresh(self, now: float) -> Iterator[None]:
        """Take in what has changed, in steps. All have to be done before heads are taken.

        No trial may be open during a step.
        """
        self._now = now
        while self._outdated:
            yield from self._rebuild()
        if not self.active:
            return
        self.endings.refresh(now)
        yield from self._sample(now)
        changed = self._cluster.changed_pods
        assert changed is not None
        while changed or self._stale_later:
            while changed:
                self.count((_pop_first(changed),))
                yield
            yield from self._refresh_later()
        for key in list(self._helped):
            if self._tried_again_at(key) <= now:
                del self._helped[key]
                self._unpark(key)
        for key, time in list(self._not_before.items()):
            if time <= now:
                del self._not_before[key]
                if key in self._asked:
                    self._release(self._asked[key].queue)
                    self._new_waiting[key] = None
        self._release_trees()

    def count(self, keys: Iterable[str]) -> None:
        """Take in changes of some pods, given by their keys."""
        for key in keys:
            self._count(key)
        while self._stale_pods:
            self._count_anew(_pop_first(self._stale_pods))
        self._refresh_units()
        for hold in self.holds.values():
            self._recount(hold)

    def take_new_waiting(self) -> list[str]:
        """Remove and return the keys of units that wait for their turn by now."""
        found, self._new_waiting = self._new_waiting, {}
        return list(found)

    def discard(self) -> None:
        """Read everything anew: a decision was given up half-way."""
        self._outdated = True

    def _sample(self, now: float) -> Iterator[None]:
        """Take samples of what LocalQueues use, if they are due."""
        due = self.histories.next_time()
        if due is None or now + self.endings.epoch < due:
            return
        keys = []
        for local in self._cluster.list("LocalQueue"):
            queue = self._cluster.get("ClusterQueue", "", local.spec.cluster_queue)
            if queue is not None and self.histories.decide(queue):
                keys.append(f"{local.metadata.namespace}/{local.metadata.name}")
        sampled = self.histories.sample(now + self.endings.epoch, keys, self._running)
        for key in sampled:
            self.tallies.changed[QueueKey("LocalQueue", key)] = None
        wanted = set(sampled)
        for key, unit in list(self.units.items()):
            if unit.held and unit.local_queue_key in wanted:
                self._stale_later[key] = None
            yield

    def _running(self, local_queue: str) -> Mapping[str, int]:
        used: Counter[str] = Counter()
        for key, amount in self.tallies.of(QueueKey("LocalQueue", local_queue)).usage.items():
            used[key.resource] += amount
        return used

    def take_gated_anew(self) -> list[str]:
        """Remove and return the uids of pods whose gate has to be asked again."""
        found, self._gated_anew = list(self._gated_anew), {}
        return found

    def take_new_problems(self) -> list[tuple[str, Problem]]:
        """Remove and return the problems of units that are new."""
        found, self._new_problems = self._new_problems, {}
        return [(key, self.problems[key]) for key in found if key in self.problems]

    def take_unheld(self) -> list[str]:
        """Remove and return the keys of units that may keep no nodes any longer.

        They wait for no victims, and are not about to be tried.
        """
        found = [key for key in self._unheld if not self._is_about_to_be_tried(key)]
        for key in found:
            del self._unheld[key]
        return [key for key in found if key in self.units and key not in self.holds]

    def _is_about_to_be_tried(self, key: str) -> bool:
        workload = self._asked.get(key)
        return workload is not None and workload.queue in self._ready

    # ------------------------------------------------------------------ heads

    @property
    def has_heads(self) -> bool:
        """Whether a queue may have a head to try."""
        return bool(self._ready)

    def waiting(self, key: str) -> Workload | None:
        """Return what a unit waits for in its queue, also while it is decided about."""
        return self._asked.get(key)

    def ahead_of(self, workload: Workload) -> list[Workload]:
        """Return what waits in a unit's queue and has its turn before it, in no order."""
        pending = self._pending[workload.queue]
        sticky, shared = pending.sticky, isinstance(pending, SharedPending)

        def turn(one: Workload) -> tuple[Any, ...]:
            past = self.histories.usage(one.local_queue) if shared else 0.0
            return one.key != sticky, past, *queue_order(one)

        own, priority, since = turn(workload), workload.priority, workload.queued_at
        found = []
        for one in self._asked.values():
            if one.queue != workload.queue:
                continue
            if not shared and one.key != sticky and workload.key != sticky:
                # Most are told apart without making their places: there may be 100,000.
                if one.priority < priority:
                    continue
                if one.priority > priority or one.queued_at < since:
                    found.append(one)
                    continue
                if one.queued_at > since:
                    continue
            if turn(one) < own:
                found.append(one)
        return found

    def next_time(self) -> float | None:
        """Return when a backoff ends next, or a unit has to be ready."""
        sample = self.histories.next_time()
        sample = None if sample is None else sample - self.endings.epoch
        helped = map(self._tried_again_at, self._helped)
        times = (*self._not_before.values(), *helped, self.endings.next_time(), sample)
        return min((time for time in times if time is not None), default=None)

    def heads(self) -> list[Workload]:
        """Take the heads of the queues that have one to try.

        Units whose victims are gone come first, alone: what has been freed was kept for them, and
        others, such as the victims themselves, would take it before it is their turn.
        """
        found = []
        waiting = {hold.queue for hold in self.holds.values() if hold.victims}
        served = {hold.queue for hold in self.holds.values() if not hold.victims}
        for name in list(self._ready):
            if name in waiting or name in self._blocked:
                del self._ready[name]
        for name in [name for name in self._ready if name in served] or list(self._ready):
            head = self._pending[name].pop()
            if head is None:
                del self._ready[name]
            else:
                found.append(head)
        for head in found:
            self.lift(head.key)
        self.count(())
        return found

    def lift(self, key: str) -> None:
        """End the hold of a unit, which is decided about, or gone."""
        hold = self.holds.pop(key, None)
        if hold is not None and hold.queue in self.snapshot.queues:
            self.snapshot.remove_usage(hold.queue, hold.counted)
            self._stale |= dict.fromkeys((key, *hold.victims))

    def admitted(self, key: str, flavors: Mapping[str, Flavors], keys: Iterable[str]) -> None:
        """Count pods that were assumed: their flavors by uid, and their keys."""
        self._flavors |= flavors
        workload = self._asked.pop(key, None)
        if workload is not None:
            pending = self._pending[workload.queue]
            pending.remove(key)
            if isinstance(pending, SharedPending):
                asked: Counter[str] = Counter()
                for pods in workload.pod_sets:
                    asked.update(pods.total(pods.count))
                self.histories.admitted(workload.local_queue, key, asked)
        self._parked.pop(key, None)
        self._stale[key] = None
        self.count(keys)

    def hold(
        self, workload: Workload, need: Mapping[FlavorResource, int], victims: set[str]
    ) -> None:
        """Keep quota for a unit that waits for victims."""
        made = Hold(workload.queue, dict(need), victims, self._now)
        self.holds[workload.key] = made
        self._recount(made)
        for key in victims:
            self._stale[key] = None
        self.count(())

    def wait_until(self, key: str, until: float) -> None:
        """Do not try a unit before a time, once it waits again."""
        self._not_before[key] = until

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        *,
        parked: bool = False,
        tried: tuple[Mapping[str, int], ...] = (),
    ) -> None:
        """Put a head back that was not admitted.

        ``parked``: its pods wait for the events that may help them. ``tried``: flavors remain that
        the search has not reached, and it goes on there at once; see ``Workload.tried``.
        """
        key, name = workload.key, workload.queue
        if self._asked.get(key) is not workload:
            return  # It has changed, or is gone.
        workload = self._asked[key] = replace(workload, tried=tried)
        if parked:
            self._parked[key] = None
        strategy = self.snapshot.queues[name].strategy
        pending = self._pending[name]
        pending.requeue(workload, reason, untried=bool(tried))
        stays = stays_in_heap(strategy, reason, untried=bool(tried), backoff=False)
        if stays and not tried and reason is not Requeue.FAILED_AFTER_NOMINATION:
            # Whose turn it is among LocalQueues changes with time.
            shared = isinstance(pending, SharedPending)
            self._blocked[name] = queue_order(workload) if not shared else _LAST
        self._offer(name)

    def back_off(self, workload: Workload, until: float) -> None:
        """Put a head back that may not be tried for a while."""
        self._not_before[workload.key] = until
        if self._asked.get(workload.key) is workload:
            self._pending[workload.queue].requeue(workload, Requeue.GENERIC, backoff=True)

    # ------------------------------------------------------------------ reading everything

    def _rebuild(self) -> Iterator[None]:
        cluster = self._cluster
        self._outdated = False
        queues = cluster.list("ClusterQueue")
        self.active = bool(queues or self._queues_only or cluster.list("LocalQueue"))
        before, self._places = self._places, {}
        for held in (self.units, self.problems, self._pending, self._asked, self._parked):
            held.clear()
        for lost in (self._ready, self._blocked, self._released, self._helped, self.leaving):
            lost.clear()
        self._claimless.clear()
        self._devices.forget()
        for hold in self.holds.values():
            hold.counted = {}
        cluster.changed_pods = {} if self.active else None
        listed = cluster.list("Topology")
        topologies = {one.metadata.name: read_levels(one) for one in listed}
        self.snapshot = Snapshot(
            [read_cluster_queue(one) for one in queues],
            [read_cohort(one) for one in cluster.list("Cohort")],
            [read_flavor(one, topologies) for one in cluster.list("ResourceFlavor")],
        )
        self.tallies.clear()
        for one in queues:
            name = one.metadata.name
            strategy, usage = self.snapshot.queues[name].strategy, self.histories.usage
            shared = self.histories.decide(one)
            self._pending[name] = SharedPending(strategy, usage) if shared else Pending(strategy)
            self.tallies.changed[QueueKey("ClusterQueue", name)] = None
        for local in cluster.list("LocalQueue"):
            key = f"{local.metadata.namespace}/{local.metadata.name}"
            self.tallies.changed[QueueKey("LocalQueue", key)] = None
        if self.active:
            assumed = [pod.key for pod, _ in self._cache.held_pods()]
            for key in dict.fromkeys([*cluster.pods, *assumed]):
                self._count(key)
                yield
        self._stale_later, self._stale = self._stale, {}
        yield from self._refresh_later()
        for key, hold in list(self.holds.items()):
            if key not in self._asked or self._asked[key].queue != hold.queue:
                del self.holds[key]
                self._unheld[key] = None
            else:
                self._recount(hold)
        yield from self._gate_anew(before)

    def _gate_anew(self, before: Mapping[str, _Place]) -> Iterator[None]:
        """Find the pods that joined or left queues while everything was read."""
        for old, new in ((before, self._places), (self._places, before)):
            for key, place in old.items():
                other = new.get(key)
                if other is None or other.pod.uid != place.pod.uid:
                    self._gated_anew[place.pod.uid] = None
                yield

    # ------------------------------------------------------------------ pods

    def _count(self, key: str) -> None:
        """Count a pod where it is now."""
        old = self._places.get(key)
        pod, held = self._find(key, old)
        name = None if pod is None else self._queue_of(pod)
        if pod is None or name is None or (held and not name):
            if old is not None:
                del self._places[key]
                self._leave(old)
                self._flavors.pop(old.pod.uid, None)
            return
        unit = unit_key(pod)
        if old is not None and (old.pod.uid, old.unit, old.held) == (pod.uid, unit, held):
            known = self.units[unit]
            if known.local_queue == name:
                (known.held if held else known.waiting)[pod.uid] = pod
                if held and self.endings.waits_for_ready:
                    self._stale[unit] = None
                if pod.cls is old.pod.cls and pod.terminating is old.pod.terminating:
                    self._places[key] = old._replace(pod=pod)
                    return
        if old is not None:
            self._leave(old)
        self._places[key] = self._join(pod, unit, name, held=held)

    def _count_anew(self, key: str) -> None:
        """Count a pod that a claim counts for, after another has left it."""
        place = self._places.get(key)
        if place is not None and place.held:
            self._leave(place)
            name = self.units[place.unit].local_queue
            self._places[key] = self._join(place.pod, place.unit, name, held=True)

    def _find(self, key: str, old: _Place | None) -> tuple[PodInfo | None, bool]:
        """Return the pod of a key, and whether it has a node.

        One that was deleted while it was being bound has it until its binding is given up.
        """
        known = self._cluster.pods.get(key)
        for uid in (known.uid if known else None, old.pod.uid if old else None):
            found = self._cache.pod(uid) if uid is not None else None
            if found is not None:
                return found, True
        if known is None or known.terminating:
            return None, False
        ours = self._cache.is_responsible_for(known.cls.scheduler_name)
        return (known if ours else None), False

    def _join(self, pod: PodInfo, key: str, name: str, *, held: bool) -> _Place:
        unit = self.units.get(key)
        if unit is None:
            unit = self.units[key] = Unit(key, name)
        elif unit.local_queue != name and not unit.held:
            unit.local_queue = name
        local: LocalQueue | None = self._cluster.get("LocalQueue", pod.namespace, unit.local_queue)
        unit.queue = "" if local is None else local.spec.cluster_queue
        self._stale[key] = None
        amounts: dict[FlavorResource, int] = {}
        if not held:
            unit.waiting[pod.uid] = pod
        else:
            unit.held[pod.uid] = pod
            amounts = self._amounts(pod, unit)
            for one, amount in amounts.items():
                unit.usage[one] = unit.usage.get(one, 0) + amount
            if amounts:
                self.snapshot.add_usage(unit.queue, amounts)
                self.tallies.use(unit.queue, unit.local_queue_key, amounts, 1)
                self.leaving[unit.queue] += pod.terminating
        return _Place(pod, key, held, amounts)

    def _amounts(self, pod: PodInfo, unit: Unit) -> dict[FlavorResource, int]:
        queue = self.snapshot.queues.get(unit.queue)
        if queue is None:
            return {}
        flavors = self._flavors.get(pod.uid) or read(pod)
        devices = self._devices.use(pod)
        return used(pod, queue, flavors, self.snapshot.flavors, self._cluster, devices)

    def _leave(self, place: _Place) -> None:
        unit = self.units[place.unit]
        self._stale[unit.key] = None
        if not place.held:
            unit.waiting.pop(place.pod.uid, None)
            return
        unit.held.pop(place.pod.uid, None)
        for heir in self._devices.leave(place.pod):
            self._stale_pods[heir] = None
        if not place.amounts:
            return
        for one, amount in place.amounts.items():
            unit.usage[one] -= amount
            if not unit.usage[one]:
                del unit.usage[one]
        self.snapshot.remove_usage(unit.queue, place.amounts)
        self.tallies.use(unit.queue, unit.local_queue_key, place.amounts, -1)
        self.leaving[unit.queue] -= place.pod.terminating
        self._release(unit.queue)

    # ------------------------------------------------------------------ units

    def _refresh_units(self) -> None:
        while self._stale:
            self._refresh_unit(_pop_first(self._stale))

    def _refresh_later(self) -> Iterator[None]:
        while self._stale_later:
            self._refresh_unit(_pop_first(self._stale_later))
            yield

    def _refresh_unit(self, key: str) -> None:
        """Keep a unit among those that wait, or are admitted, as its pods are."""
        unit = self.units.get(key)
        if unit is None:
            return
        empty = not unit.held and not unit.waiting
        group = None if empty else unit_group(self._cluster, unit)
        admitted = self.snapshot.workloads.get(unit.queue, {})
        # A victim of one unit is no candidate for others: each waits for victims of its own.
        if unit.held and not any(key in hold.victims for hold in self.holds.values()):
            admitted[key] = self._as_admitted(unit, group)
        else:
            admitted.pop(key, None)
        self.endings.look(unit, self._draining(unit), self._now)
        problem, workload = self._problem(unit), None
        if problem is None and group is not None and self._is_complete(unit):
            try:
                devices = self._devices.asked(unit.waiting.values())
                created, _ = created_at(self._cluster, unit, group)
                queued_at = self.endings.queued_at(key, created)
                workload = waiting_workload(self._cluster, unit, group, devices, queued_at)
            except UncountableError as error:
                problem = Problem(Waiting.MISCONFIGURED, str(error))
        if problem is None or not unit.waiting:
            self.problems.pop(key, None)
        elif self.problems.get(key) != problem:
            self.problems[key] = problem
            self._new_problems[key] = None
        self._ask(key, workload)
        if key not in self.holds and any(map(self._cluster.nominated_node, unit.waiting)):
            self._unheld[key] = None
        standing = None
        if not empty:
            parts = unit.queue, unit.local_queue_key
            standing = Standing(*parts, bool(unit.waiting), bool(unit.held))
        self.tallies.place(key, standing)
        if empty:
            del self.units[key]

    def _is_complete(self, unit: Unit) -> bool:
        """Whether no waiting pod is gated by others, and all their claims are there."""
        pods = unit.waiting.values()
        if any(pod.pod.spec.scheduling_gates for pod in pods):
            return False
        if all(map(self._devices.is_complete, pods)):
            return True
        self._claimless.setdefault(unit.namespace, {})[unit.key] = None
        return False

    def _as_admitted(self, unit: Unit, group: PodGroup | None) -> Workload:
        pods = unit.held.values()
        first = next(iter(pods))
        created, uid, priority = first.creation_time, first.uid, first.priority
        if group is not None:
            created, uid = created_at(self._cluster, unit, group)
            priority = priority_of(self._cluster, unit, group, first)
        past = None
        if isinstance(self._pending.get(unit.queue), SharedPending):
            past = self.histories.usage(unit.local_queue_key)
        return Workload(
            unit.key,
            (),
            unit.queue,
            uid=uid,
            priority=priority,
            queued_at=created,
            reserved_at=max(map(bound_at, pods)),
            evicted=all(pod.terminating for pod in pods),
            usage=unit.usage,
            local_queue_usage=past,
        )

    def _draining(self, unit: Unit) -> str:
        """Return the reason why a unit is evicted, as its queue drains, or ""."""
        queue = self._cluster.get("ClusterQueue", "", unit.queue)
        if queue is not None and queue.spec.stop_policy == DRAINS:
            return QUEUE_STOPPED
        local = self._cluster.get("LocalQueue", unit.namespace, unit.local_queue)
        if local is not None and local.spec.stop_policy == DRAINS:
            return LOCAL_QUEUE_STOPPED
        return ""

    def _problem(self, unit: Unit) -> Problem | None:
        """Return why a unit cannot wait in its queue."""
        namespace, name = unit.namespace, unit.local_queue
        if not name:
            return Problem(Waiting.MISCONFIGURED, REASON_NO_QUEUE.format(namespace))
        local: LocalQueue | None = self._cluster.get("LocalQueue", namespace, name)
        if local is None:
            return Problem(Waiting.MISCONFIGURED, f"LocalQueue {name} doesn't exist")
        if local.spec.stop_policy not in ("", "None"):
            return Problem(Waiting.SUSPENDED, f"LocalQueue {name} is stopped")
        queue: ClusterQueueObject | None = self._cluster.get("ClusterQueue", "", unit.queue)
        if queue is None:
            return Problem(Waiting.MISCONFIGURED, f"ClusterQueue {unit.queue} doesn't exist")
        if queue.spec.stop_policy not in ("", "None"):
            return Problem(Waiting.SUSPENDED, f"ClusterQueue {unit.queue} is stopped")
        if self.endings.is_deactivated(unit.key):
            return Problem(Waiting.SUSPENDED, REASON_DEACTIVATED)
        if not self.snapshot.admits(unit.queue):
            return Problem(Waiting.SUSPENDED, f"ClusterQueue {unit.queue} is inactive")
        space = self._cluster.get("Namespace", "", namespace)
        has_selector = queue.spec.HasField("namespace_selector")
        selector = compile_selector(queue.spec.namespace_selector if has_selector else None)
        if not selector.matches({} if space is None else space.metadata.labels):
            message = "workload namespace doesn't match ClusterQueue selector"
            return Problem(Waiting.MISCONFIGURED, message)
        return None

    def _ask(self, key: str, workload: Workload | None) -> None:
        """Have a unit wait for what it asks for now; None: for nothing."""
        old = self._asked.get(key)
        if old is not None and workload is not None and _same(old, workload):
            return
        if old is not None:
            del self._asked[key]
            self._pending[old.queue].remove(key)
            self.lift(key)
            # Others may wait only because it, of the same shape, was tried in vain.
            self._parked.pop(key, None)
            self._release(old.queue)
        if workload is None:
            return
        self._asked[key] = workload
        pending = self._pending[workload.queue]
        if (until := self.endings.not_before(key)) > self._now:
            self._not_before.setdefault(key, until)
        if key in self._not_before:
            pending.requeue(workload, Requeue.GENERIC, backoff=True)
            return
        self._new_waiting[key] = None
        pending.push(workload)
        blocked = self._blocked.get(workload.queue)
        if blocked is not None and queue_order(workload) < blocked:
            del self._blocked[workload.queue]
        self._offer(workload.queue)

    def _tried_again_at(self, key: str) -> float:
        """Return when a unit is tried again that an event may have helped.

        It is not at once, if it waits for victims: perhaps they could not be evicted, or are gone
        and their bindings are not known to have failed.
        """
        hold = self.holds.get(key)
        return hold.since + PAUSE if hold is not None and hold.victims else 0.0

    def _unpark(self, key: str) -> None:
        """Try a unit again, whose pods were woken, and others of its shape."""
        self._parked.pop(key, None)
        workload = self._asked.get(key)
        if workload is not None:
            self.lift(key)
            self._try_again(workload.queue)

    # ------------------------------------------------------------------ queues

    def _offer(self, queue: str) -> None:
        self._ready[queue] = None

    def _release(self, queue: str) -> None:
        """Note that something was released in a queue, which may help all of its tree."""
        self._released[queue] = None

    def _release_trees(self) -> None:
        if not self._released:
            return
        nodes = self.snapshot.forest.queues
        roots = {nodes[name].root for name in self._released if name in nodes}
        self._released = {}
        for name, node in nodes.items():
            if node.root in roots:
                self._try_again(name)

    def _try_again(self, queue: str) -> None:
        self._pending[queue].release(lambda workload: workload.key not in self._not_before)
        self._blocked.pop(queue, None)
        self._offer(queue)

    def _recount(self, hold: Hold) -> None:
        """Count a hold as what is missing of the need, once all its victims are gone."""
        if hold.queue not in self.snapshot.queues:
            return
        gone = {key for key in hold.victims if key not in self.units or not self.units[key].held}
        if gone:
            hold.victims -= gone
            if not hold.victims:
                self._try_again(hold.queue)
        wanted = {}
        for key, need in hold.need.items():
            still = sum(self.units[one].usage.get(key, 0) for one in hold.victims)
            if need > still:
                wanted[key] = need - still
        if wanted != hold.counted:
            self.snapshot.remove_usage(hold.queue, hold.counted)
            self.snapshot.add_usage(hold.queue, wanted)
            hold.counted = wanted


class AdmissionGate:
    """PreEnqueue: keeps the pods of queues out of activeQ."""

    name: ClassVar[str] = "Admission"

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Let a pod pass that is in no queue, or whose unit's turn it is."""
        return self._admission.gate(pod)


def _rules(settings: QueuesConfiguration) -> Rules:
    fair = settings.fair_sharing
    if fair is None:
        return Rules()
    return Rules(fair=True, strategies=tuple(map(FairStrategy, fair.preemption_strategies)))


def _pop_first(keys: dict[str, None]) -> str:
    """Remove and return the first key."""
    key = next(iter(keys))
    del keys[key]
    return key


def _decides(kind: str, item: Any | None) -> object:
    """Return the part of an object that decides; None without one."""
    if item is None:
        return None
    if kind == "Namespace":
        return dict(item.metadata.labels)
    if kind == "WorkloadPriorityClass":
        return item.value
    if kind == CLAIM:
        return True  # Its spec never changes.
    if kind == "DeviceClass":
        return item.spec.extended_resource_name
    if kind == "PodGroup":
        evicted = [
            (one.status, one.reason, one.last_transition_time.seconds)
            for one in item.status.conditions
            if one.type == EVICTED
        ]
        return item.spec, dict(item.metadata.labels), dict(item.metadata.annotations), evicted
    return item.spec


def _same(one: Workload, other: Workload) -> bool:
    """Whether a unit asks for the same as before, at the same place in the order."""
    return (
        one.shape == other.shape
        and one.queue == other.queue
        and queue_order(one) == queue_order(other)
    )
