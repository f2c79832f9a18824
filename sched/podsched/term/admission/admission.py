"""The queues of a cluster with their waiting units and their usage, kept current with the cache.

Everything is derived from the cache. Pods with a node, bound or assumed, use quota (``usage``);
pods without a node wait. So a new leader knows what the last one knew, except the victims that a
unit waits for: it chooses them again, because they are terminating already.

A pod of a queue never enters activeQ: ``gate`` keeps it out, and the admission cycle pops the pods
of a unit when it is the head of its queue (``turns``).

Pure and synchronous. Without ClusterQueues and LocalQueues nothing is kept and no pod is gated.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from podsched.api.objects import object_key
from podsched.cache.cache import Cache
from podsched.config.queues import QueuesConfiguration
from podsched.framework.nodes import ClusterView
from podsched.framework.pods import PodInfo
from podsched.lib.due_times import earliest
from podsched.lib.taking import take_all
from podsched.queues.assignment import Waiting
from podsched.queues.cycle import Rules
from podsched.queues.fair_victims import FairStrategy
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort, read_flavor, read_levels
from podsched.term.admission.books import Books, Keys, pop_first
from podsched.term.admission.changes import REBUILD_KINDS, is_gone, matters
from podsched.term.admission.devices import CLAIM, DeviceQuota, UncountableError
from podsched.term.admission.endings import Endings
from podsched.term.admission.gate import Gate
from podsched.term.admission.histories import Histories
from podsched.term.admission.holds import Holds
from podsched.term.admission.problems import Problem, QueueStates, find_problem
from podsched.term.admission.queued_pods import QueuedPods
from podsched.term.admission.requeuing import Requeuing
from podsched.term.admission.reservations import Reservations
from podsched.term.admission.tallies import QueueKey, Tallies
from podsched.term.admission.turns import Turns
from podsched.term.admission.units import Unit, unit_key
from podsched.term.admission.usage import Flavors
from podsched.term.admission.workloads import Workloads

#: Changed pods that are counted in one step, which takes some 0.5 ms.
_COUNTED_AT_ONCE: Final = 20


class Admission:
    """The queues of a cluster, with their waiting units and their usage."""

    def __init__(
        self, cache: Cache, settings: QueuesConfiguration, require_queue: Collection[str] = ()
    ) -> None:
        self.books = Books(cache)
        self.cluster = cache.cluster
        self.units = self.books.units
        self.tallies = Tallies()
        self.histories = Histories(cache.cluster, settings.admission_fair_sharing)
        self.rules = _rules(settings)
        #: Namespaces whose pods have to be in a queue; "*" for all but kube-system.
        self._queues_only = frozenset((*settings.require_queue, *require_queue))
        self.problems: dict[str, Problem] = {}
        """Why units cannot wait in their queues, by key of the unit."""
        self.new_problems: dict[str, None] = {}
        """Keys of units with a problem that have changed: new members have to be told of it."""
        self.to_gate_again: dict[str, None] = {}
        """The uids of pods that joined or left queues: PreEnqueue has to run for them again."""
        #: Keys of units whose pods are nominated to nodes although the unit has no hold.
        self._unheld: dict[str, None] = {}
        self._states = QueueStates(self.books)
        self.outdated = True
        """Whether everything has to be read from the cache again."""
        self.is_refreshing = False
        """Whether ``refresh`` has begun: units may be missing, or have no pods, until it ends."""
        #: Keys of units to refresh in later steps than the counted change.
        self._stale_later: Keys = OrderedDict()
        self.requeuing = Requeuing(cache.cluster, settings.wait_for_pods_ready)
        self.endings = Endings(self.books, settings.wait_for_pods_ready, self.requeuing)
        self.holds = Holds(self.books)
        self.reservations = Reservations(self.books, self.endings, self.holds, settings.backfill)
        self.turns = Turns(self.books, self.holds, self.histories, self.requeuing)
        mappings = settings.resources.device_class_mappings
        self._devices = DeviceQuota(cache.cluster, mappings, self._stale_later)
        self.pods = QueuedPods(
            self.books,
            self._queues_only,
            self._devices,
            self.tallies,
            running_changed=self.reservations.timetable.outdate,
            counts_ready=self.endings.waits_for_ready,
        )
        self.gate = Gate(self.units, self.pods.queue_of, self.turns.note_helped)
        self.gate.active = bool(self._queues_only)
        self._workloads = Workloads(
            self.books,
            self._devices,
            self.pods.usage,
            self.requeuing,
            self.endings,
            self.histories,
        )

    @property
    def snapshot(self) -> Snapshot:
        return self.books.snapshot

    def drop_all(self) -> None:
        """Drop everything. Others may still refer to this object, but must not use it any more."""
        vars(self).clear()

    # ------------------------------------------------------------------ what changes

    def note(self, kind: str, old: Any | None, new: Any | None) -> None:
        """Note a change of an object that is neither a pod nor a node."""
        item: Any = new if new is not None else old
        if kind in REBUILD_KINDS:
            if matters(kind, old, new):
                self.outdated = True
                # Pods that arrive between the first queue and the next refresh are gated, too.
                self.gate.active |= new is not None and kind in ("ClusterQueue", "LocalQueue")
                if kind == "LocalQueue" and is_gone(old, new):
                    self.histories.forget(object_key(item))
        elif self.gate.active and matters(kind, old, new):
            if kind == CLAIM:
                # A claim may be made again under its name, for other devices.
                self._devices.read_again(object_key(item))
                return
            if kind == "Namespace":
                self._states.clear()
                name = item.metadata.name
                self._stale_later |= dict.fromkeys(
                    key for key, unit in self.units.items() if unit.namespace == name
                )
                return
            if is_gone(old, new):
                self.turns.end_backoff(object_key(item))
            # A standby reads everything only once it leads: until then this would grow.
            for pod in () if self.outdated else self.cluster.members(object_key(item)):
                self.cluster.known_pods.note(pod.key)
                self._stale_later[unit_key(pod)] = None

    def refresh(self, now: float) -> Iterator[None]:
        """Bring everything up to date with the cache, in steps of about half a millisecond.

        The generator has to be exhausted before heads are taken. No trial may be open during a
        step. ``now`` is the monotonic time.
        """
        self.is_refreshing = True
        yield from self._refresh(now)
        self.is_refreshing = False

    def _refresh(self, now: float) -> Iterator[None]:
        self.books.now = now + self.books.epoch
        # An object may change between two steps, so one reading may not be enough.
        while self.outdated:
            yield from self._rebuild()
        if not self.gate.active:
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
        for key in self.reservations.take_due():
            self.turns.due[key] = None
            self.turns.try_again(self.reservations.of[key].queue)
        for name in self.reservations.take_queues():
            self.turns.try_again(name)

    def count(self, keys: Collection[str]) -> None:
        """Count some pods as the cache has them now, given by their keys, and refresh units."""
        self.pods.count(keys)
        while self.books.stale:
            self._refresh_unit(pop_first(self.books.stale))
        for queue in self.holds.recount():
            self.turns.try_again(queue)

    def _sample(self) -> Iterator[None]:
        """Take samples of the usage of LocalQueues, if they are due."""
        sampled = self.histories.sample(self.books.now, self.tallies)
        for key in sampled:
            self.tallies.changed[QueueKey("LocalQueue", key)] = None
        if sampled:
            self.turns.find_heads_anew()
        # Past usage also orders the victims of a queue (``Workloads.admitted``).
        for key, unit in list(self.units.items()) if sampled else ():
            if unit.held and unit.local_queue_key in sampled:
                self._stale_later[key] = None
            yield

    def take_unheld(self) -> list[str]:
        """Remove and return the keys of units whose pods must not stay nominated.

        These units wait for no victims, and are not about to be tried.
        """
        found = []
        for key in list(self._unheld):
            workload = self.turns.workloads.get(key)
            if workload is None or workload.queue not in self.turns.ready:
                del self._unheld[key]
                found.append(key)
        return [key for key in found if key in self.units and key not in self.holds.of]

    # ------------------------------------------------------------------ heads

    def next_time(self) -> float | None:
        """Return the next monotonic time at which something is due without a change of the cluster.

        That is the end of a backoff or of a limit, a sample, or a promised start.
        """
        if not self.gate.active:
            return None  # Then ``refresh`` does nothing, and what is due would stay due.
        parts = self.turns, self.endings, self.histories, self.reservations
        found = earliest(*(part.next_time() for part in parts))
        return None if found is None else found - self.books.epoch

    def admitted(self, key: str, flavors: Mapping[str, Flavors], keys: Sequence[str]) -> None:
        """Count the pods of a unit that were assumed: ``flavors`` by uid, ``keys`` of the pods."""
        changed = self.cluster.known_pods.changed
        assert changed is not None
        self.pods.assumed(flavors, self.units[key].local_queue)
        self.turns.admitted(key)
        self.books.stale[key] = None
        for pod in keys:
            # The next refresh need not count them again.
            changed.pop(pod, None)
        self.count(keys)

    def back_off(self, pod: PodInfo, until: float) -> None:
        """Keep the unit of a pod that could not be bound from being tried before ``until``.

        That is a monotonic time.
        """
        if unit_key(pod) in self.units:
            self.turns.backoffs.set(unit_key(pod), until + self.books.epoch)

    # ------------------------------------------------------------------ reading everything

    def _rebuild(self) -> Iterator[None]:
        """Read all objects and pods again, in steps. Holds, reservations and backoffs are kept."""
        cluster = self.cluster
        self.outdated = False
        # First, because it raises QuantityError for a bad quota; then nothing has changed.
        self.books.snapshot = _read_snapshot(cluster)
        queues, of_namespaces = cluster.list("ClusterQueue"), cluster.list("LocalQueue")
        self.gate.active = bool(queues or of_namespaces or self._queues_only)
        known_units = list(self.units)
        for lost in (self.units, self.problems, self._states):
            lost.clear()
        # From now on the cluster lists pods that change; ``refresh`` counts those that change
        # between the steps below.
        cluster.known_pods.changed = OrderedDict() if self.gate.active else None
        before = self.pods.begin()
        self.tallies.clear()
        self.holds.begin()
        self.reservations.begin()
        self.turns.begin()
        known = [QueueKey("ClusterQueue", one.metadata.name) for one in queues]
        known += [QueueKey("LocalQueue", object_key(one)) for one in of_namespaces]
        self.tallies.changed |= dict.fromkeys(known)
        if self.gate.active:
            for key in list(cluster.pods):
                self.pods.count_one(key)
                yield
        self.pods.usage.settle()
        # The last pod of a unit may be gone since the last refresh.
        for key in known_units:
            if key not in self.units:
                self.units[key] = Unit(key)
                self._stale_later[key] = None
        yield from self._refresh_later()
        for key, hold in list(self.holds.of.items()):
            workload = self.turns.workloads.get(key)
            if workload is None or workload.queue != hold.queue:
                self.holds.lift(key)
        self.count(())
        self.reservations.end_without_unit()
        yield from self.pods.note_moved(before, self.to_gate_again)

    # ------------------------------------------------------------------ units

    def _refresh_later(self) -> Iterator[None]:
        # Only now, so that a unit is refreshed once for all its pods.
        self._stale_later |= take_all(self.books.stale)
        while self._stale_later:
            self._refresh_unit(pop_first(self._stale_later))
            yield

    def _refresh_unit(self, key: str) -> None:
        """Bring a unit up to date whose pods or objects have changed, or remove an empty one."""
        unit = self.units.get(key)
        self.holds.note_changed(key)
        if unit is None:
            return
        admitted = self.snapshot.workloads.get(unit.queue, {})
        # The victim of one unit is not a candidate for another: each waits for its own victims.
        # Nor may it start more pods, else it would never be gone.
        is_victim = bool(unit.held) and self.holds.is_victim(key)
        state = self._states.of(unit)
        self.requeuing.places.update(unit)
        self.endings.update(unit, state.drains, is_victim=is_victim)
        if unit.held and not is_victim:
            known, now = admitted.get(key), self._workloads.admitted(unit)
            admitted[key] = self.requeuing.places.put(now)
            if known is not None and now.priority < known.priority:
                self.books.freed.append((unit.queue, unit.usage.keys()))  # Others may preempt it.
        else:
            admitted.pop(key, None)
        problem = find_problem(state, self.requeuing, unit) if unit.waiting else None
        workload = None
        # Nor may a unit whose pods with a node are all terminating: it starts again as a whole,
        # with all of its minimum, and plans count on the end of its pods.
        leaves = bool(unit.held) and all(pod.terminating for pod in unit.held.values())
        if unit.waiting and problem is None and not (is_victim or leaves):
            try:
                workload = self._workloads.waiting(unit)
            except UncountableError as error:
                problem = Problem(Waiting.MISCONFIGURED, str(error))
        self.books.stale |= take_all(self.requeuing.places.moved)
        if problem is None:
            self.problems.pop(key, None)
        else:
            self.problems[key] = problem
            self.new_problems[key] = None
        why = "" if problem is None else problem.message
        workload = self.reservations.update(unit, workload, why)
        self.turns.update(key, workload)
        if key not in self.holds.of and any(map(self.cluster.nominator.node_of, unit.waiting)):
            self._unheld[key] = None
        self.tallies.update(unit)
        if not (unit.held or unit.waiting):
            del self.units[key]


def _read_snapshot(cluster: ClusterView) -> Snapshot:
    topologies = {one.metadata.name: read_levels(one) for one in cluster.list("Topology")}
    return Snapshot(
        [read_cluster_queue(one) for one in cluster.list("ClusterQueue")],
        [read_cohort(one) for one in cluster.list("Cohort")],
        [read_flavor(one, topologies) for one in cluster.list("ResourceFlavor")],
    )


def _rules(settings: QueuesConfiguration) -> Rules:
    fair = settings.fair_sharing
    if fair is None:
        return Rules()
    return Rules(fair=True, strategies=tuple(map(FairStrategy, fair.preemption_strategies)))
