"""The queues of a cluster with their waiting units and their usage, kept current with the cache.

Everything is derived from the cache. Pods with a node, bound or assumed, use quota (``usage``);
pods without a node wait. So a new leader knows what the last one knew, except the victims that a
unit waits for: it chooses them again, because they are terminating already.

A pod of a queue never enters activeQ: the gate keeps it out, and the admission cycle pops the pods
of a unit when it is the head of its queue (``turns``).

Pure and synchronous. Without ClusterQueues and LocalQueues nothing is kept and no pod is gated.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from podsched.api.objects import object_key
from podsched.cache.cache import Cache
from podsched.config.queues import QueuesConfiguration
from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Status, unresolvable
from podsched.lib.taking import take_all
from podsched.queues.assignment import Waiting
from podsched.queues.cycle import Rules
from podsched.queues.fair_victims import FairStrategy
from podsched.queues.objects import Workload
from podsched.queues.pending import PendingByUsage
from podsched.queues.quota import FlavorResource
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort, read_flavor, read_levels
from podsched.term.admission.changes import REBUILD_KINDS, matters
from podsched.term.admission.clock import Clock
from podsched.term.admission.devices import CLAIM, DeviceQuota, UncountableError
from podsched.term.admission.endings import Endings, bound_at
from podsched.term.admission.histories import Histories
from podsched.term.admission.holds import Hold, Holds
from podsched.term.admission.problems import Problem, QueueState, find_problem, queue_state
from podsched.term.admission.queued_pods import Keys, QueuedPods, pop_first
from podsched.term.admission.requeuing import Requeuing
from podsched.term.admission.reservations import Reservations
from podsched.term.admission.tallies import QueueKey, Standing, Tallies
from podsched.term.admission.turns import Turns
from podsched.term.admission.units import (
    Unit,
    created_at,
    job_uid,
    priority_of,
    unit_group,
    unit_key,
    waiting_workload,
)
from podsched.term.admission.usage import Flavors

REASON_GATED: Final = "waiting for admission to a queue"
_GATED: Final = unresolvable(REASON_GATED)
#: Changed pods that are counted in one step, which takes some 0.5 ms.
_COUNTED_AT_ONCE: Final = 20


class Admission:
    """The queues of a cluster, with their waiting units and their usage.

    It is also the PreEnqueue plugin that keeps the pods of queues out of activeQ.
    """

    name: ClassVar[str] = "Admission"

    def __init__(
        self, cache: Cache, settings: QueuesConfiguration, require_queue: Collection[str] = ()
    ) -> None:
        self._cache = cache
        self.cluster = cache.cluster
        self.tallies = Tallies()
        self.histories = Histories(cache.cluster, settings.admission_fair_sharing)
        self.rules = _rules(settings)
        #: Namespaces whose pods have to be in a queue; "*" for all but kube-system.
        self._queues_only = frozenset((*settings.require_queue, *require_queue))
        self.clock = Clock()
        late = settings.wait_for_pods_ready
        self.requeuing = Requeuing(cache.cluster, late)
        self.endings = Endings(cache.cluster, late, self.requeuing, self.clock)
        self._devices = DeviceQuota(cache.cluster, settings.resources.device_class_mappings)
        self.snapshot = Snapshot(())
        self.active = bool(self._queues_only)
        """Whether there are queues, or namespaces whose pods have to be in one."""
        self.current = ""
        """The key of the unit whose pods may be popped."""
        self.problems: dict[str, Problem] = {}
        """Why units cannot wait in their queues, by key of the unit."""
        self.units: dict[str, Unit] = {}
        #: Keys of units whose pods are nominated to nodes although the unit has no hold.
        self._unheld: dict[str, None] = {}
        #: By LocalQueue, until an object that it depends on changes.
        self._states: dict[str, QueueState] = {}
        #: Keys of units that wait for their claims to be created, by namespace.
        self._claimless: dict[str, dict[str, None]] = {}
        #: Whether everything has to be read from the cache again.
        self._outdated = True
        #: Keys of units to refresh: in the same step as the counted change, and in later steps.
        self._stale: Keys = OrderedDict()
        self._stale_later: Keys = OrderedDict()
        self.to_gate_again: dict[str, None] = {}
        """The uids of pods that joined or left queues: PreEnqueue has to run for them again."""
        self.new_problems: dict[str, None] = {}
        """Keys of units whose problem has changed; for who reports it."""
        self.holds = Holds(self.units, self._stale)
        parts = cache, self.units, self.endings, self.holds, self.clock
        self.reservations = Reservations(*parts, settings.backfill)
        self.turns = Turns(self.holds, self.histories, self.requeuing, self.clock)
        self.pods = QueuedPods(
            cache,
            self._queues_only,
            self._devices,
            self.tallies,
            self.units,
            self._stale,
            released=self.turns.releases.add,
            running_changed=self.reservations.timetable.outdate,
            counts_ready=self.endings.waits_for_ready,
        )

    def drop_all(self) -> None:
        """Drop everything. Others may still refer to this object, but must not use it any more."""
        vars(self).clear()

    # ------------------------------------------------------------------ what changes

    def note(self, kind: str, old: Any | None, new: Any | None) -> None:
        """Note a change of an object that is neither a pod nor a node."""
        if kind in REBUILD_KINDS:
            if matters(kind, old, new):
                self._outdated = True
                # Pods that arrive between the first queue and the next refresh are gated, too.
                self.active |= new is not None and kind in ("ClusterQueue", "LocalQueue")
        elif self.active and matters(kind, old, new):
            metadata = (new if new is not None else old).metadata  # type: ignore[union-attr]
            if kind == CLAIM:
                self._stale_later |= self._claimless.pop(metadata.namespace, {})
                return
            if kind == "Namespace":
                self._states.clear()
                self._stale_later |= dict.fromkeys(
                    key for key, unit in self.units.items() if unit.namespace == metadata.name
                )
                return
            for pod in self.cluster.members(f"{metadata.namespace}/{metadata.name}"):
                self.cluster.known_pods.note(pod.key)
                self._stale_later[unit_key(pod)] = None

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject a pod of a queue, unless its unit is being admitted; let other pods pass."""
        if not self.active:
            return SUCCESS
        key = unit_key(pod)
        if key == self.current:
            return SUCCESS
        # Finding the queue takes longest; a pod that is counted as waiting in one has one.
        unit = self.units.get(key)
        if (unit is None or pod.uid not in unit.waiting) and self.pods.queue_of(pod) is None:
            return SUCCESS
        # The scheduling queue runs PreEnqueue again when an event may help the pod. So this call is
        # how ``turns`` learns of such events.
        self.turns.note_helped(key)
        return _GATED

    def refresh(self, now: float) -> Iterator[None]:
        """Bring everything up to date with the cache, in steps of about half a millisecond.

        The generator has to be exhausted before ``heads`` is called. No trial may be open during a
        step. ``now`` is the monotonic time.
        """
        self.clock.now = now + self.clock.epoch
        # An object may change between two steps, so one reading may not be enough.
        while self._outdated:
            yield from self._rebuild()
        if not self.active:
            return
        self.endings.refresh()
        yield from self._sample()
        changed = self.cluster.known_pods.changed
        assert changed is not None
        while changed or self._stale_later:
            while changed:
                number = min(len(changed), _COUNTED_AT_ONCE)
                self.pods.count([pop_first(changed) for _ in range(number)])
                yield
            yield from self._refresh_later()
            self.count(())
        self.try_reserved()
        self.turns.refresh()

    def try_reserved(self) -> None:
        """Have queues tried again if a promised start is due or may have to be changed."""
        reservations = self.reservations
        for key in reservations.take_due():
            self.turns.try_due(key, reservations.of[key].queue)
        queues = [*reservations.take_old_enough(), *reservations.take_disturbed()]
        if reservations.take_freed():
            queues += self.snapshot.queues
        for name in dict.fromkeys(queues):
            self.turns.try_again(name)

    def count(self, keys: Collection[str]) -> None:
        """Count some pods as the cache has them now, given by their keys, and refresh units."""
        self.pods.count(keys)
        while self._stale:
            self._refresh_unit(pop_first(self._stale))
        for queue in self.holds.recount():
            self.turns.try_again(queue)

    def discard(self) -> None:
        """Have everything read again, because a decision was given up half-way."""
        self._outdated = True

    def _sample(self) -> Iterator[None]:
        """Take samples of the usage of LocalQueues, if they are due."""
        due = self.histories.next_time()
        if due is None or self.clock.now < due:
            return
        keys = []
        for local in self.cluster.list("LocalQueue"):
            queue = self.cluster.get("ClusterQueue", "", local.spec.cluster_queue)
            if queue is not None and self.histories.orders(queue):
                keys.append(object_key(local))
        sampled = self.histories.sample(self.clock.now, keys, self._running)
        for key in sampled:
            self.tallies.changed[QueueKey("LocalQueue", key)] = None
        # Past usage also orders the victims of a queue (``_as_admitted``).
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

    def take_unheld(self) -> list[str]:
        """Remove and return the keys of units whose pods must not stay nominated.

        These units wait for no victims, and are not about to be tried.
        """
        found = [key for key in self._unheld if not self._is_about_to_be_tried(key)]
        for key in found:
            del self._unheld[key]
        return [key for key in found if key in self.units and key not in self.holds.of]

    def _is_about_to_be_tried(self, key: str) -> bool:
        workload = self.turns.workloads.get(key)
        return workload is not None and workload.queue in self.turns.ready

    # ------------------------------------------------------------------ heads

    def next_time(self) -> float | None:
        """Return the next monotonic time at which something is due without a change of the cluster.

        That is the end of a backoff or of a limit, a sample, or a promised start.
        """
        parts = self.turns, self.endings, self.histories, self.reservations
        times = (part.next_time() for part in parts)
        found = min((time for time in times if time is not None), default=None)
        return None if found is None else found - self.clock.epoch

    def heads(self) -> list[Workload]:
        """Take the heads of the queues that have one to try; see ``Turns.pop_heads``."""
        found = self.turns.pop_heads()
        self.count(())
        return found

    def admitted(self, key: str, flavors: Mapping[str, Flavors], keys: Sequence[str]) -> None:
        """Count the pods of a unit that were assumed: ``flavors`` by uid, ``keys`` of the pods."""
        changed = self.cluster.known_pods.changed
        assert changed is not None
        self.pods.assumed(flavors, self.units[key].local_queue)
        self.turns.admitted(key)
        self._stale[key] = None
        for pod in keys:
            # The next refresh need not count them again.
            changed.pop(pod, None)
        self.count(keys)

    def back_off(self, pod: PodInfo, until: float) -> None:
        """Keep the unit of a pod that could not be bound from being tried before ``until``.

        That is a monotonic time.
        """
        if unit_key(pod) in self.units:
            self.turns.backoffs.set(unit_key(pod), until + self.clock.epoch)

    def hold(
        self, workload: Workload, need: Mapping[FlavorResource, int], victims: set[str]
    ) -> None:
        """Keep quota for a unit that waits for victims."""
        self.holds.add(workload.key, Hold(workload.queue, dict(need), victims, self.clock.now))
        self.count(())

    # ------------------------------------------------------------------ reading everything

    def _rebuild(self) -> Iterator[None]:
        """Read all objects and pods again, in steps. Holds, reservations and backoffs are kept."""
        cluster = self.cluster
        self._outdated = False
        queues = cluster.list("ClusterQueue")
        listed = cluster.list("Topology")
        topologies = {one.metadata.name: read_levels(one) for one in listed}
        # First, because it raises QuantityError for a bad quota; then nothing has changed.
        self.snapshot = Snapshot(
            [read_cluster_queue(one) for one in queues],
            [read_cohort(one) for one in cluster.list("Cohort")],
            [read_flavor(one, topologies) for one in cluster.list("ResourceFlavor")],
        )
        self.active = bool(queues or self._queues_only or cluster.list("LocalQueue"))
        for lost in (self.units, self.problems, self._claimless, self._states):
            lost.clear()
        # From now on the cluster lists pods that change; ``refresh`` counts those that change
        # between the steps below.
        cluster.known_pods.changed = OrderedDict() if self.active else None
        before = self.pods.begin(self.snapshot)
        self.tallies.clear()
        self.holds.begin(self.snapshot)
        self.reservations.begin(self.snapshot)
        self.turns.begin(self.snapshot, queues)
        for one in queues:
            self.tallies.changed[QueueKey("ClusterQueue", one.metadata.name)] = None
        for local in cluster.list("LocalQueue"):
            key = object_key(local)
            self.tallies.changed[QueueKey("LocalQueue", key)] = None
        if self.active:
            # A pod that is deleted while it is being bound is only in the cache: it uses quota
            # until its binding ends.
            assumed = [held.info.key for held in self._cache.held.values()]
            for key in dict.fromkeys([*cluster.pods, *assumed]):
                self.pods.count_one(key)
                yield
        self.pods.settle()
        yield from self._refresh_later()
        for key, hold in list(self.holds.of.items()):
            workload = self.turns.workloads.get(key)
            if workload is None or workload.queue != hold.queue:
                self.holds.lift(key)
        self.count(())
        self.reservations.end_without_unit()
        for uid in self.pods.moved_since(before):
            if uid is not None:
                self.to_gate_again[uid] = None
            yield

    # ------------------------------------------------------------------ units

    def _refresh_later(self) -> Iterator[None]:
        # Only now, so that a unit is refreshed once for all its pods.
        self._stale_later |= self._stale
        self._stale.clear()
        while self._stale_later:
            self._refresh_unit(pop_first(self._stale_later))
            yield

    def _refresh_unit(self, key: str) -> None:
        """Bring a unit up to date whose pods or objects have changed, or remove an empty one."""
        unit = self.units.get(key)
        self.holds.note_changed(key)
        if unit is None:
            return
        empty = not unit.held and not unit.waiting
        group = None if empty else unit_group(self.cluster, unit)
        admitted = self.snapshot.workloads.get(unit.queue, {})
        # The victim of one unit is not a candidate for another: each waits for its own victims.
        # Nor may it start more pods, else it would never be gone.
        is_victim = bool(unit.held) and self.holds.is_victim(key)
        state = self._state_of(unit)
        self.requeuing.places.update(unit)
        self.endings.update(unit, state.drains)
        if unit.held and not is_victim:
            admitted[key] = self.requeuing.places.put(self._as_admitted(unit, group))
        else:
            admitted.pop(key, None)
        problem = find_problem(state, self.requeuing, unit) if unit.waiting else None
        workload = None
        # Nor may a unit whose pods with a node are all terminating: it starts again as a whole,
        # with all of its minimum, and plans count on the end of its pods.
        leaves = bool(unit.held) and all(pod.terminating for pod in unit.held.values())
        asks = bool(unit.waiting) and not is_victim and not leaves
        if problem is None and group is not None and asks and self._is_complete(unit):
            try:
                devices = self._devices.asked(unit.waiting.values())
                workload = waiting_workload(
                    self.cluster,
                    unit,
                    group,
                    devices,
                    self.requeuing.queued_at,
                    self.pods.flavors_of,
                )
                workload = workload and self.requeuing.places.put(workload)
            except UncountableError as error:
                problem = Problem(Waiting.MISCONFIGURED, str(error))
        self._stale |= take_all(self.requeuing.places.moved)
        if problem is None:
            self.problems.pop(key, None)
        elif self.problems.get(key) != problem:
            self.problems[key] = problem
            self.new_problems[key] = None
        why = "" if problem is None else problem.message
        workload = self.reservations.update(unit, workload, why)
        self.turns.update(key, workload)
        if key not in self.holds.of and any(map(self.cluster.nominator.node_of, unit.waiting)):
            self._unheld[key] = None
        standing = None
        if not empty:
            parts = unit.queue, unit.local_queue_key
            standing = Standing(*parts, bool(unit.waiting), bool(unit.held))
        self.tallies.set_standing(key, standing)
        if empty:
            del self.units[key]

    def _state_of(self, unit: Unit) -> QueueState:
        """Return the state of a unit's queues, read once for each LocalQueue."""
        found = self._states.get(unit.local_queue_key)
        if found is None:
            found = self._states[unit.local_queue_key] = queue_state(
                self.cluster, self.snapshot, unit
            )
        return found

    def _is_complete(self, unit: Unit) -> bool:
        """Whether no waiting pod has scheduling gates, and all claims of the pods exist."""
        pods = unit.waiting.values()
        if any(pod.pod.spec.scheduling_gates for pod in pods):
            return False
        if all(map(self._devices.is_complete, pods)):
            return True
        self._claimless.setdefault(unit.namespace, {})[unit.key] = None
        return False

    def _as_admitted(self, unit: Unit, group: PodGroup | None) -> Workload:
        """Return the pods of a unit that have a node, as a candidate for preemption."""
        pods = unit.held.values()
        first = next(iter(pods))
        created, uid, priority = first.creation_time, first.uid, first.priority
        if group is not None:
            created, uid = created_at(unit, group)
            priority = priority_of(self.cluster, unit, group, first)
        past, latest = None, max(map(bound_at, pods))
        if isinstance(self.turns.pending.get(unit.queue), PendingByUsage):
            past = self.histories.usage(unit.local_queue_key)
        return Workload(
            unit.key,
            (),
            unit.queue,
            uid=uid,
            job_uid=job_uid(unit, first),
            priority=priority,
            queued_at=created,
            # A group that grows, or whose pods are made again, keeps the time of its admission.
            reserved_at=min(self.endings.admitted_at(unit), latest),
            evicted=all(pod.terminating for pod in pods),
            usage=unit.usage,
            local_queue_usage=past,
        )


def _rules(settings: QueuesConfiguration) -> Rules:
    fair = settings.fair_sharing
    if fair is None:
        return Rules()
    return Rules(fair=True, strategies=tuple(map(FairStrategy, fair.preemption_strategies)))
