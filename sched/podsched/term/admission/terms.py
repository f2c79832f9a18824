"""Terms on which a unit may start: one choice of flavors each, and the victims that it needs.

A ``FlavorTerms`` restricts the pods to the nodes of their flavors, adds the flavors' tolerations,
and searches for victims that free both quota and nodes. The group cycle tries one after another.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, ClassVar, Final

import numpy as np

from podsched.api.disruption_budgets import selector_of
from podsched.api.objects import Toleration, copy_of
from podsched.api.queue_labels import ADMITTED_EXEC_TIME, ADMITTED_QUEUE
from podsched.api.selectors import Selector
from podsched.cache.pod_class import PodClasses
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import Later, PodGroup, Try, VictimSearch
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.framework.status import unschedulable
from podsched.lib.groups import lists_by_key
from podsched.queues.assignment import Assignment, Mode
from podsched.queues.choices import fitting_by_set, without_flavors
from podsched.queues.cycle import nominate, nominate_fewer, nominate_parts, victim_search
from podsched.queues.objects import Flavor, Workload
from podsched.queues.quota import path_of
from podsched.queues.victims import Preemptor, Search, Victim, preempted_message
from podsched.term.admission.admission import Admission
from podsched.term.admission.limits import asked_execution_time
from podsched.term.admission.reserved_devices import PromisedDevice, assumed_devices
from podsched.term.admission.units import Unit, level_of, unit_key
from podsched.term.admission.usage import Flavors, flavors_annotation

#: Max classes of pods with added tolerations that are kept.
_MOST_ADAPTED: Final = 10_000
REASON_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
PENDING: Final = "Pending the preemption of {} workload(s)"
REASON_NOT_LATER: Final = "No later start was found"
#: A part of a search for victims; see ``VictimSearch``.
_Asking = Generator[Sequence[PodInfo] | Try, bool | None, list[Victim]]
#: By namespace, the selector and the status of each PodDisruptionBudget.
_Budgets = Mapping[str, Sequence[tuple[Selector, Any]]]


class NodeKinds:
    """What flavors ask for: the nodes that belong to them, and their tolerations.

    Both are cached until a node or a flavor changes.
    """

    def __init__(self, admission: Admission, classes: PodClasses) -> None:
        self.admission = admission
        self._classes = classes
        self._flavors: object = None
        self._version = -1
        self._nodes: dict[frozenset[str], frozenset[str] | None] = {}
        #: By the pod's class and the flavors.
        self._adapted: dict[tuple[int, frozenset[str]], PodClass] = {}

    def nodes(self, flavors: Iterable[str]) -> frozenset[str] | None:
        """Return the names of the nodes that belong to all these flavors; None: all nodes."""
        known, version = self._known(), self.admission.cluster.version("Node")
        if version != self._version:
            self._version, self._nodes = version, {}
        key = frozenset(flavors)
        if key not in self._nodes:
            levels = (level for flavor in key for level in known[flavor].levels)
            wanted: dict[str, set[str] | None] = dict.fromkeys(levels)
            for flavor in key:
                for label, value in known[flavor].labels.items():
                    wanted[label] = (wanted.get(label) or set()) | {value}
            self._nodes[key] = self._with_labels(wanted) if wanted else None
        return self._nodes[key]

    def _known(self) -> Mapping[str, Flavor]:
        """Return the flavors; forget what was found for others."""
        known = self.admission.snapshot.flavors
        if known is not self._flavors:
            self._flavors, self._nodes, self._adapted = known, {}, {}
        return known

    def _with_labels(self, wanted: Mapping[str, Collection[str] | None]) -> frozenset[str]:
        """Return the nodes that have these labels with one of the values; None: with any value."""
        nodes = self.admission.cluster.nodes
        return frozenset(
            nodes.names[row]
            for row in np.flatnonzero(nodes.alive).tolist()
            if _has(nodes.node(row).metadata.labels, wanted)
        )

    def tolerations(self, pod: PodInfo, flavors: Iterable[str]) -> list[Toleration]:
        """Return the tolerations of flavors that a pod lacks."""
        known = self._known()
        found = list[Toleration]()
        for toleration in (one for name in flavors for one in known[name].tolerations):
            if toleration not in pod.pod.spec.tolerations and toleration not in found:
                found.append(toleration)
        return found

    def adapted(self, member: QueuedPodInfo, flavors: Iterable[str]) -> QueuedPodInfo:
        """Return a queued pod whose class has the tolerations of flavors."""
        pod, names = member.info, frozenset(flavors)
        more = self.tolerations(pod, names)
        if not more:
            return member
        if len(self._adapted) >= _MOST_ADAPTED:
            self._adapted.clear()
        cls = self._adapted.get((pod.cls.id, names))
        if cls is None:
            # Plugins read the class. The pod itself gets the tolerations before it is bound.
            tolerant = copy_of(pod.pod)
            tolerant.spec.tolerations.extend(more)
            cls = self._adapted[pod.cls.id, names] = self._classes.intern(tolerant)
        return replace(member, info=replace(pod, cls=cls))


def _has(labels: Mapping[str, str], wanted: Mapping[str, Collection[str] | None]) -> bool:
    # A node has one value of a label: it cannot belong to two flavors that want different values.
    return all(
        label in labels and (values is None or (len(values) == 1 and labels[label] in values))
        for label, values in wanted.items()
    )


class FlavorTerms:
    """One assignment of flavors to a unit. Implements ``Terms``."""

    later: ClassVar[bool] = False

    def __init__(
        self, kinds: NodeKinds, workload: Workload, assignment: Assignment, *, whole: bool = False
    ) -> None:
        """``whole``: all pods of the assignment have to start, not just the group's minimum."""
        self._kinds = kinds
        self._admission = kinds.admission
        self._cluster = kinds.admission.cluster
        self._unit = kinds.admission.units[workload.key]
        self._workload = workload
        self._queue = kinds.admission.snapshot.queues[workload.queue]
        self.assignment = assignment
        self._whole = whole
        self.fits = assignment.mode is Mode.FIT
        # The queue's flavorFungibility has chosen flavors that need victims.
        self.victims_first = assignment.mode is Mode.PREEMPT
        self.may_preempt = self._queue.preemption.is_possible
        self.victims: list[Victim] = []
        """The victims that ``search`` found."""
        self.notes: dict[str, str] = {}
        """The message of the eviction of each, by the key of its unit."""
        self.message = ""
        """Why the unit waits until they are gone."""
        self.placeholders: Sequence[PodInfo] = ()
        """Pods in the trial that take the room which is kept for promised starts."""
        #: The last flavors, and their annotation.
        self._written: tuple[Flavors, dict[str, str]] | None = None
        #: By pod set.
        self._flavors: Mapping[str, Flavors] = {
            pods.name: {resource: one.flavor for resource, one in pods.flavors.items()}
            for pods in assignment.pod_sets
        }
        self.members = _first_members(self._unit, assignment)

    def flavors_of(self, pod: PodInfo) -> Flavors:
        """Return the flavor of each resource of a pod.

        If the pod has claims, flavors of other pod sets are included: a shared claim may count for
        a pod of another set.
        """
        own = self._flavors.get(self._unit.sets.get(pod.uid, ""), {})
        if len(self._flavors) > 1 and pod.cls.spec.resource_claims:
            return {**dict(ChainMap(*map(dict, self._flavors.values()))), **own}
        return own

    def group(self, group: PodGroup) -> PodGroup:
        """See ``Terms``: adds the Topology's levels and the domain that the unit asks for."""
        if self._whole:
            group = replace(group, min_count=len(self._unit.held) + len(self.members))
        known = self._admission.snapshot.flavors
        used = (known[name] for of in self._flavors.values() for name in of.values())
        flavor = next((one for one in used if one.levels), None)
        if flavor is None:
            return group
        levels, level = flavor.levels, level_of(self._cluster, self._unit)
        group = replace(group, levels=levels, topology=flavor.topology, slices=level.slices)
        if level.label not in levels:
            return group
        if level.required:
            return replace(group, topology_key=level.label)
        # Levels go from the widest to the narrowest. The preferred one is tried first.
        wider = levels[: levels.index(level.label) + 1]
        return replace(group, preferred_topology=wider[::-1])

    def nodes_of(self, pod: PodInfo) -> frozenset[str] | None:
        return self._kinds.nodes(self.flavors_of(pod).values())

    def adapted(self, member: QueuedPodInfo) -> QueuedPodInfo:
        return self._kinds.adapted(member, self.flavors_of(member.info).values())

    def tolerations(self, pod: PodInfo) -> list[Toleration]:
        return self._kinds.tolerations(pod, self.flavors_of(pod).values())

    def annotations(self, pod: PodInfo) -> dict[str, str]:
        flavors = self.flavors_of(pod)
        # Most pods of a set have the same object, so its annotation is made once.
        if self._written is None or self._written[0] is not flavors:
            unit = self._unit
            admitted = {ADMITTED_QUEUE: unit.local_queue}
            if seconds := asked_execution_time(self._cluster, unit):
                admitted[ADMITTED_EXEC_TIME] = seconds
            self._written = flavors, flavors_annotation(flavors) | admitted
        return self._written[1]

    def delay(self, victims: Iterable[Victim] = ()) -> str:
        """Return which promised start would be late if the unit started on these terms, or ""."""
        reservations = self._admission.reservations
        if not reservations.of:
            return ""
        keys = [one.workload.key for one in victims]
        return reservations.delays.delay(self._workload, self.assignment.need, keys)

    # ------------------------------------------------------------------ victims

    def search(self) -> VictimSearch:
        """Search for victims without whom both quota and nodes have room.

        At first the candidates are the workloads that use quota which is short. If that fails, they
        are all that use any quota that the unit needs, since these may be on the nodes it needs.
        """
        need, budgets = self.assignment.need, _budgets(self._cluster)
        spared = _spared(self._admission, budgets) if budgets else frozenset()
        snapshot = self._admission.snapshot
        for short in dict.fromkeys((self.assignment.short, frozenset(need))):
            if not short:
                continue
            preemptor = Preemptor(self._workload, self._queue, need, short, spared)
            search = victim_search(snapshot, preemptor, self._admission.rules)
            self.victims = yield from self._ask(search, budgets)
            for one in self.victims:
                # Noted now, because a victim may be gone when its message is written.
                queues = self._queue.name, one.workload.queue
                paths = (path_of(snapshot.node(name)) for name in queues)
                note = preempted_message(self._workload, one.reason, *paths)
                self.notes[one.workload.key] = note
            if self.victims:
                self.message = PENDING.format(len(self.victims))
                return Victims(_held_pods(self._admission, self.victims))
        return unschedulable(REASON_NO_VICTIMS)

    def _ask(self, search: Search, budgets: _Budgets) -> _Asking:
        """Run a search by quota, and answer each of its questions by placement.

        It yields the state without some victims, is sent whether the unit then fits on nodes, and
        returns the victims.
        """
        try:
            victims = next(search)
            while True:
                pods = _held_pods(self._admission, victims)
                # Evict nothing for a unit that would then delay a promised start.
                may_go = _permit(budgets, pods) and not self.delay(victims)
                fits = (yield self._without(victims)) if may_go else False
                victims = search.send(bool(fits))
        except StopIteration as end:
            found: list[Victim] = end.value
            return found
        finally:
            search.close()

    def _without(self, victims: Sequence[Victim]) -> Sequence[PodInfo] | Try:
        """Return the cluster's state without victims, for a trial.

        With promised starts, it includes placeholders for what the unit must leave to them; the
        unit starts, and ends, later by the grace period of its victims.
        """
        reservations, pods = self._admission.reservations, _held_pods(self._admission, victims)
        if not reservations.of:
            return pods
        keys = [one.workload.key for one in victims]
        beside = reservations.timetable.beside(self._workload, keys)
        return Try([*pods, *self.placeholders], beside.pods, beside.claims)

    def note(self, victim: PodInfo) -> str:
        return self.notes.get(unit_key(victim), "")


class LaterTerms(FlavorTerms):
    """A choice of flavors on which a unit may start later, and the search for the first time."""

    later = True

    def __init__(
        self,
        kinds: NodeKinds,
        workload: Workload,
        assignment: Assignment,
        times: Iterable[float],
        ahead: Callable[[float], Try],
    ) -> None:
        """Search ``times`` in order; ``ahead`` returns the cluster's state expected at one."""
        super().__init__(kinds, workload, assignment)
        # A start now, even with victims, comes before a later one. Then ``search`` is called.
        self.fits, self.victims_first, self.may_preempt = False, False, True
        self.start = inf
        """The first time at which the unit fits, infinity if there is none."""
        self.devices: tuple[PromisedDevice, ...] = ()
        """The devices that it gets then."""
        self._times = times
        self._ahead = ahead

    def search(self) -> VictimSearch:
        """Search for the first time at which nodes have room."""
        for at in self._times:
            if (yield self._ahead(at)._replace(note=self._note)):
                self.start = at
                return Later()
        return unschedulable(REASON_NOT_LATER)

    def _note(self, pods: Sequence[PodInfo]) -> None:
        self.devices = assumed_devices(self._cluster, pods)


def terms_of(kinds: NodeKinds, workload: Workload, first: Assignment) -> Iterator[FlavorTerms]:
    """Yield the terms of a unit, best first, beginning with the assignment ``first``."""
    snapshot, rules = kinds.admission.snapshot, kinds.admission.rules
    queue = snapshot.queues[workload.queue]
    assignment, left, seen = first, workload, set[object]()
    while assignment.mode in (Mode.FIT, Mode.PREEMPT):
        if assignment.mode is Mode.PREEMPT and left.can_shrink:
            yield FlavorTerms(kinds, left, assignment, whole=True)
            # Victims are found by quota alone: they may not free enough nodes for all pods.
            fewer = nominate_fewer(snapshot, queue, left, rules)
            if fewer is not None:
                yield FlavorTerms(kinds, left, fewer)
            count = sum(pods.count for pods in assignment.pod_sets)
            for part in nominate_parts(snapshot, queue, left, rules, count):
                yield FlavorTerms(kinds, left, part, whole=True)
        else:
            yield FlavorTerms(kinds, left, assignment)
        seen.add(assignment.choice)
        # Unlike Kueue: if a flavor with quota has no room on its nodes, the next one is tried.
        if (fewer_flavors := without_flavors(queue, left, assignment)) is None:
            break
        left = fewer_flavors
        assignment, _ = nominate(snapshot, queue, left, rules)
    for other in fitting_by_set(snapshot, queue, workload, rules):
        if other.choice not in seen:
            yield FlavorTerms(kinds, workload, other)


def _first_members(unit: Unit, assignment: Assignment) -> frozenset[str]:
    """Return the uids of the pods that may start.

    In partial admission these are fewer than wait: of each pod set the first ones.
    """
    left = {pods.name: pods.count for pods in assignment.pod_sets}
    chosen = []
    for uid in unit.waiting:
        name = unit.sets.get(uid, "")
        if left.get(name, 0) > 0:
            left[name] -= 1
            chosen.append(uid)
    return frozenset(chosen)


def _held_pods(admission: Admission, victims: Iterable[Victim]) -> tuple[PodInfo, ...]:
    units = admission.units
    return tuple(pod for one in victims for pod in units[one.workload.key].held.values())


def _budgets(cluster: ClusterView) -> _Budgets:
    """Return the PodDisruptionBudgets. A preemption for a unit may exceed none of them."""
    return lists_by_key(
        (item.metadata.namespace, (selector_of(item), item.status))
        for item in cluster.list("PodDisruptionBudget")
    )


def _spared(admission: Admission, budgets: _Budgets) -> frozenset[str]:
    """Return the keys of workloads that no preemption may evict, because of their budgets."""
    units = admission.units
    return frozenset(
        key
        for workloads in admission.snapshot.workloads.values()
        for key in workloads
        # There may be thousands of units, and hundreds of budgets.
        if units[key].namespace in budgets and not _permit(budgets, units[key].held.values())
    )


def _permit(budgets: _Budgets, pods: Iterable[PodInfo]) -> bool:
    """Whether all these pods may be evicted together."""
    # ``disruptionsAllowed`` already excludes pods that are terminating or being disrupted.
    going = lists_by_key((pod.namespace, pod) for pod in pods if not pod.terminating)
    for namespace, here in going.items():
        for selector, status in budgets.get(namespace, ()):
            counted = sum(
                pod.name not in status.disrupted_pods and selector.matches(pod.cls.labels)
                for pod in here
            )
            if counted > max(0, status.disruptions_allowed):
                return False
    return True
