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

from podsched.api.objects import Toleration, copy_of
from podsched.api.queue_labels import ADMITTED_EXEC_TIME, ADMITTED_QUEUE
from podsched.api.selectors import compile_selector
from podsched.cache.pod_class import PodClasses
from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import Later, PodGroup, Try, VictimSearch
from podsched.framework.pods import PodClass, PodInfo, QueuedPodInfo
from podsched.framework.status import unschedulable
from podsched.queues.assignment import Assignment, Mode
from podsched.queues.choices import fitting_by_set, without_flavors
from podsched.queues.cycle import nominate, nominate_fewer, nominate_parts, victim_search
from podsched.queues.objects import Policy, Workload
from podsched.queues.quota import FlavorResource, path_of
from podsched.queues.victims import Preemptor, Search, Victim, preempted_message
from podsched.term.admission.admission import Admission
from podsched.term.admission.limits import asked_execution_time
from podsched.term.admission.reserved_devices import PromisedDevice, assumed_devices
from podsched.term.admission.units import Unit, level_of, set_name, unit_key
from podsched.term.admission.usage import Flavors, flavors_annotation

#: Max classes of pods with added tolerations that are kept.
_MOST_ADAPTED: Final = 10_000
REASON_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
PENDING: Final = "Pending the preemption of {} workload(s)"


REASON_NOT_LATER: Final = "No later start was found"
#: A part of a search for victims; see ``VictimSearch``.
_Asking = Generator[Sequence[PodInfo] | Try, bool | None, list[Victim]]


class FlavorNodes:
    """The names of the nodes of flavors, cached until a node or flavor changes."""

    def __init__(self, admission: Admission, cluster: ClusterView) -> None:
        self._admission = admission
        self._cluster = cluster
        self._version = -1
        self._flavors: object = None
        self._found: dict[frozenset[str], frozenset[str] | None] = {}

    def of(self, flavors: Iterable[str]) -> frozenset[str] | None:
        """Return the names of the nodes that belong to all these flavors; None: all nodes."""
        known = self._admission.snapshot.flavors
        version = self._cluster.version("Node")
        if version != self._version or known is not self._flavors:
            self._version, self._flavors, self._found = version, known, {}
        key = frozenset(flavors)
        if key not in self._found:
            wanted: dict[str, set[str] | None] = {}
            for level in (level for flavor in key for level in known[flavor].levels):
                wanted[level] = None
            for flavor in key:
                for label, value in known[flavor].labels.items():
                    wanted[label] = (wanted.get(label) or set()) | {value}
            self._found[key] = self._with_labels(wanted) if wanted else None
        return self._found[key]

    def _with_labels(self, wanted: Mapping[str, Collection[str] | None]) -> frozenset[str]:
        """Return the nodes that have these labels with one of the values; None: with any value."""
        nodes = self._cluster.nodes
        return frozenset(
            nodes.names[row]
            for row in np.flatnonzero(nodes.alive).tolist()
            if _has(nodes.node(row).metadata.labels, wanted)
        )


def _has(labels: Mapping[str, str], wanted: Mapping[str, Collection[str] | None]) -> bool:
    # A node has one value of a label: it cannot belong to two flavors that want different values.
    return all(
        label in labels and (values is None or (len(values) == 1 and labels[label] in values))
        for label, values in wanted.items()
    )


class FlavorTolerations:
    """Adds the tolerations of flavors to pods: while they are decided, and when they are bound."""

    def __init__(self, admission: Admission, classes: PodClasses) -> None:
        self._admission = admission
        self._classes = classes
        #: By the pod's class and the flavors.
        self._adapted: dict[tuple[int, frozenset[str]], PodClass] = {}
        self._flavors: object = None

    def of(self, pod: PodInfo, flavors: Iterable[str]) -> list[Toleration]:
        """Return the tolerations of flavors that a pod lacks."""
        known = self._admission.snapshot.flavors
        names = dict.fromkeys(name for name in flavors if known[name].tolerations)
        if not names:
            return []
        own, found = list(pod.pod.spec.tolerations), list[Toleration]()
        for name in names:
            for toleration in known[name].tolerations:
                if toleration not in own and toleration not in found:
                    found.append(toleration)
        return found

    def adapted(self, member: QueuedPodInfo, flavors: Iterable[str]) -> QueuedPodInfo:
        """Return a queued pod whose class has the tolerations of flavors."""
        pod, names = member.info, frozenset(flavors)
        more = self.of(pod, names)
        if not more:
            return member
        known = self._admission.snapshot.flavors
        if known is not self._flavors or len(self._adapted) >= _MOST_ADAPTED:
            self._flavors, self._adapted = known, {}
        cls = self._adapted.get((pod.cls.id, names))
        if cls is None:
            # Plugins read the class. The pod itself gets the tolerations before it is bound.
            tolerant = copy_of(pod.pod)
            tolerant.spec.tolerations.extend(more)
            cls = self._adapted[pod.cls.id, names] = self._classes.intern(tolerant)
        return replace(member, info=replace(pod, cls=cls))


class FlavorTerms:
    """One assignment of flavors to a unit. Implements ``Terms``."""

    later: ClassVar[bool] = False

    def __init__(
        self,
        admission: Admission,
        cluster: ClusterView,
        nodes: FlavorNodes,
        tolerations: FlavorTolerations,
        unit: Unit,
        workload: Workload,
        assignment: Assignment,
        *,
        whole: bool = False,
    ) -> None:
        """``whole``: all pods of the assignment have to start, not just the group's minimum."""
        self._admission = admission
        self._cluster = cluster
        self._nodes = nodes
        self._tolerations = tolerations
        self._unit = unit
        self._workload = workload
        self._queue = admission.snapshot.queues[workload.queue]
        self.assignment = assignment
        self._whole = whole
        self.fits = assignment.mode is Mode.FIT
        self.victims: list[Victim] = []
        """The victims that ``search`` found."""
        self.placeholders: Sequence[PodInfo] = ()
        """Pods in the trial that take the room which is kept for promised starts."""
        self._notes: dict[str, str] = {}
        #: The last flavors, and their annotation.
        self._written: tuple[Flavors, dict[str, str]] | None = None
        self._flavors = self._by_pod_set()
        self.members = self._first_members()

    def _by_pod_set(self) -> Mapping[str, Flavors]:
        return {
            pods.name: {resource: one.flavor for resource, one in pods.flavors.items()}
            for pods in self.assignment.pod_sets
        }

    def _first_members(self) -> frozenset[str]:
        """Return the uids of the pods that may start.

        In partial admission these are fewer than wait: of each pod set the first ones.
        """
        left = {pods.name: pods.count for pods in self.assignment.pod_sets}
        chosen = []
        for pod in self._unit.waiting.values():
            name = set_name(self._unit, pod)
            if left.get(name, 0) > 0:
                left[name] -= 1
                chosen.append(pod.uid)
        return frozenset(chosen)

    @property
    def may_preempt(self) -> bool:
        preemption = self._queue.preemption
        return preemption.within is not Policy.NEVER or preemption.reclaim is not Policy.NEVER

    @property
    def victims_first(self) -> bool:
        """See ``Terms``: the queue's flavorFungibility has chosen flavors that need victims."""
        return self.assignment.mode is Mode.PREEMPT

    def flavors_of(self, pod: PodInfo) -> Flavors:
        """Return the flavor of each resource of a pod.

        If the pod has claims, flavors of other pod sets are included: a shared claim may count for
        a pod of another set.
        """
        own = self._flavors.get(set_name(self._unit, pod), {})
        if len(self._flavors) > 1 and pod.cls.spec.resource_claims:
            return {**dict(ChainMap(*map(dict, self._flavors.values()))), **own}
        return own

    def group(self, group: PodGroup) -> PodGroup:
        """See ``Terms``: adds the Topology's levels and the domain that the unit asks for."""
        if self._whole:
            group = replace(group, min_count=len(self._unit.held) + len(self.members))
        name, levels = self._topology()
        if not levels:
            return group
        group = replace(group, levels=levels, topology=name)
        level = level_of(self._cluster, self._unit)
        group = replace(group, slices=level.slices)
        if level.label not in levels:
            return group
        if level.required:
            return replace(group, topology_key=level.label)
        # Levels go from the widest to the narrowest. The preferred one is tried first.
        wider = levels[: levels.index(level.label) + 1]
        return replace(group, preferred_topology=wider[::-1])

    def has_topology(self, group: PodGroup) -> bool:
        """Whether the nodes of the group's members depend on each other."""
        adapted = self.group(group)
        return bool(adapted.levels or adapted.topology_key or adapted.preferred_topology)

    def _topology(self) -> tuple[str, tuple[str, ...]]:
        """Return the name and the levels of the Topology of the flavors, empty without one."""
        flavors = self._admission.snapshot.flavors
        used = (flavors[name] for of in self._flavors.values() for name in of.values())
        return next(((one.topology, one.levels) for one in used if one.levels), ("", ()))

    def nodes_of(self, pod: PodInfo) -> frozenset[str] | None:
        return self._nodes.of(self.flavors_of(pod).values())

    def adapted(self, member: QueuedPodInfo) -> QueuedPodInfo:
        return self._tolerations.adapted(member, self.flavors_of(member.info).values())

    def tolerations(self, pod: PodInfo) -> list[Toleration]:
        return self._tolerations.of(pod, self.flavors_of(pod).values())

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
        gone = [one.workload for one in victims]
        return reservations.timetable.delay(self._workload, self.need, gone, self._admission.now)

    # ------------------------------------------------------------------ victims

    @property
    def need(self) -> dict[FlavorResource, int]:
        """The quota that the unit will use."""
        return {key: amount for key, amount in self.assignment.usage.items() if amount}

    def search(self) -> VictimSearch:
        """Search for victims without whom both quota and nodes have room.

        At first the candidates are the workloads that use quota which is short. If that fails, they
        are all that use any quota that the unit needs, since these may be on the nodes it needs.
        """
        need, budgets = self.need, _Budgets(self._cluster)
        spared = self._spared(budgets)
        for short in dict.fromkeys((self.assignment.short, frozenset(need))):
            if not short:
                continue
            preemptor = Preemptor(self._workload, self._queue, need, short, spared)
            search = victim_search(self._admission.snapshot, preemptor, self._admission.rules)
            found = yield from self._ask(search, budgets)
            if found:
                self.victims = found
                # Made now, because a victim may be gone when its message is written.
                self._notes = {one.workload.key: self.note_of(one) for one in found}
                return Victims(self._pods(found))
        return unschedulable(REASON_NO_VICTIMS)

    def _ask(self, search: Search, budgets: _Budgets) -> _Asking:
        """Run a search by quota, and answer each of its questions by placement.

        It yields the state without some victims, is sent whether the unit then fits on nodes, and
        returns the victims.
        """
        try:
            victims = next(search)
            while True:
                pods = self._pods(victims)
                # Evict nothing for a unit that would then delay a promised start.
                may_go = budgets.permit(pods) and not self.delay(victims)
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
        reservations, pods = self._admission.reservations, self._pods(victims)
        if not reservations.of:
            return pods
        now, gone = self._admission.now, [one.workload for one in victims]
        beside = reservations.timetable.beside(self._workload, now, now, gone)
        return Try([*pods, *self.placeholders], beside.pods, beside.claims)

    def _spared(self, budgets: _Budgets) -> frozenset[str]:
        """Return the keys of workloads that no preemption may evict, because of their budgets."""
        if not budgets.exist:
            return frozenset()
        return frozenset(
            key
            for workloads in self._admission.snapshot.workloads.values()
            for key in workloads
            if not budgets.permit(tuple(self._admission.units[key].held.values()))
        )

    def _pods(self, victims: Iterable[Victim]) -> tuple[PodInfo, ...]:
        units = self._admission.units
        return tuple(pod for one in victims for pod in units[one.workload.key].held.values())

    def note(self, victim: PodInfo) -> str:
        return self._notes.get(unit_key(victim), "")

    def note_of(self, victim: Victim) -> str:
        """Return the message of a victim's eviction."""
        snapshot, queues = self._admission.snapshot, (self._queue.name, victim.workload.queue)
        paths = (path_of(snapshot.node(name)) for name in queues)
        return preempted_message(self._workload, victim.reason, *paths)

    @property
    def message(self) -> str:
        return PENDING.format(len(self.victims))


class LaterTerms(FlavorTerms):
    """A choice of flavors on which a unit may start later, and the search for the first time."""

    later = True

    def __init__(self, *parts: Any, times: Iterable[float], ahead: Callable[[float], Try]) -> None:
        """Search ``times`` in order; ``ahead`` returns the cluster's state expected at one."""
        super().__init__(*parts)
        self.fits = False
        self.start = inf
        """The first time at which the unit fits, infinity if there is none."""
        self.devices: tuple[PromisedDevice, ...] = ()
        """The devices that it gets then."""
        self._times = times
        self._ahead = ahead

    @property
    def may_preempt(self) -> bool:
        """See ``Terms``: True, so that ``search`` is called."""
        return True

    @property
    def victims_first(self) -> bool:
        """See ``Terms``: a start now, even with victims, comes before a later one."""
        return False

    def search(self) -> VictimSearch:
        """Search for the first time at which nodes have room."""
        for at in self._times:
            if (yield self._ahead(at)._replace(note=self._note)):
                self.start = at
                return Later()
        return unschedulable(REASON_NOT_LATER)

    def _note(self, pods: Sequence[PodInfo]) -> None:
        self.devices = assumed_devices(self._cluster, pods)


def terms_of(
    admission: Admission,
    cluster: ClusterView,
    nodes: FlavorNodes,
    tolerations: FlavorTolerations,
    workload: Workload,
    first: Assignment,
) -> Iterator[FlavorTerms]:
    """Yield the terms of a unit, best first, beginning with the assignment ``first``."""
    unit, queue = admission.units[workload.key], admission.snapshot.queues[workload.queue]
    assignment, left, seen = first, workload, set[object]()
    while assignment.mode in (Mode.FIT, Mode.PREEMPT):
        parts = admission, cluster, nodes, tolerations, unit, left
        if assignment.mode is Mode.PREEMPT and left.can_shrink:
            yield FlavorTerms(*parts, assignment, whole=True)
            # Victims are found by quota alone: they may not free enough nodes for all pods.
            fewer = nominate_fewer(admission.snapshot, queue, left, admission.rules)
            if fewer is not None:
                yield FlavorTerms(*parts, fewer)
            count = sum(pods.count for pods in assignment.pod_sets)
            shrunk = admission.snapshot, queue, left, admission.rules, count
            for part in nominate_parts(*shrunk):
                yield FlavorTerms(*parts, part, whole=True)
        else:
            yield FlavorTerms(*parts, assignment)
        seen.add(assignment.choice)
        # Unlike Kueue: if a flavor with quota has no room on its nodes, the next one is tried.
        if (fewer_flavors := without_flavors(queue, left, assignment)) is None:
            break
        left = fewer_flavors
        assignment, _ = nominate(admission.snapshot, queue, left, admission.rules)
    parts = admission, cluster, nodes, tolerations, unit, workload
    for other in fitting_by_set(admission.snapshot, queue, workload, admission.rules):
        if other.choice not in seen:
            yield FlavorTerms(*parts, other)


class _Budgets:
    """The PodDisruptionBudgets. A preemption for a unit may exceed none of them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._budgets = [
            (item.metadata.namespace, compile_selector(item.spec.selector), item.status)
            for item in cluster.list("PodDisruptionBudget")
        ]

    @property
    def exist(self) -> bool:
        return bool(self._budgets)

    def permit(self, pods: Collection[PodInfo]) -> bool:
        """Whether all these pods may be evicted together."""
        # ``disruptionsAllowed`` already excludes pods that are terminating or being disrupted.
        for namespace, selector, status in self._budgets:
            counted = sum(
                pod.namespace == namespace
                and not pod.terminating
                and pod.name not in status.disrupted_pods
                and selector.matches(pod.cls.labels)
                for pod in pods
            )
            if counted > max(0, status.disruptions_allowed):
                return False
        return True
