"""What units ask for, and what they use, as the values that decisions about quota read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from math import floor
from typing import Final, NamedTuple, cast

from podsched.api.objects import WorkloadPriorityClass
from podsched.api.owners import controller_of
from podsched.api.queue_labels import POD_SET_GROUP, QUEUE_PRIORITY_CLASS
from podsched.api.selectors import Requirement, requirement
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import PodGroup
from podsched.framework.pods import PodClass, PodInfo
from podsched.queues.objects import PodSet, Workload
from podsched.term.admission.books import Books
from podsched.term.admission.devices import DeviceQuota
from podsched.term.admission.endings import Endings, bound_at
from podsched.term.admission.histories import Histories
from podsched.term.admission.pod_usage import PodUsage
from podsched.term.admission.requeuing import Requeuing
from podsched.term.admission.units import Level, Unit, is_lone, level_of, unit_group
from podsched.v1 import objects_pb2 as v1

#: The WorkloadPriorityClass of units that name none, if it exists.
_DEFAULT_CLASS: Final = "default"
#: The key of a class's pod set in ``PodClass.compiled``.
_POD_SET: Final = "pod set"
#: The devices that pods ask for by claims: amounts by resource, by uid of the pod.
_Devices = Mapping[str, Mapping[str, int]]


class Workloads:
    """Reads units as workloads."""

    def __init__(
        self,
        books: Books,
        devices: DeviceQuota,
        usage: PodUsage,
        requeuing: Requeuing,
        endings: Endings,
        histories: Histories,
    ) -> None:
        self._books = books
        self._cluster = books.cluster
        self._devices = devices
        self._usage = usage
        self._requeuing = requeuing
        self._endings = endings
        self._histories = histories

    def waiting(self, unit: Unit) -> Workload | None:
        """Return what the waiting pods of a unit ask for; None while something of it is missing.

        Raises UncountableError.
        """
        pods, group = unit.waiting.values(), unit_group(self._cluster, unit)
        if group is None or any(pod.pod.spec.scheduling_gates for pod in pods):
            return None
        if not all(map(self._devices.is_complete, pods)):
            return None
        devices = self._devices.asked(pods)
        if group.min_count and len(self._cluster.members(unit.key)) < group.min_count:
            return None
        level, common = level_of(self._cluster, unit), self._common(unit, group, unit.first)
        sets = self._pod_sets(unit, group, devices, level)
        # The priority decides about victims, and that of a WorkloadPriorityClass is in no pod.
        of_sets = tuple((pods.group, frozenset(pods.kept.items())) for pods in sets)
        # Pods that run may bind the others to their domain.
        bound = unit.held and (group.topology_key or level.required or level.slices)
        own = unit.key if bound else ""
        shape = _shape(group, unit, devices), level, of_sets, common.priority, own
        return self._requeuing.in_place(replace(common, pod_sets=sets, shape=shape))

    def _pod_sets(
        self, unit: Unit, group: PodGroup, devices: _Devices, level: Level
    ) -> tuple[PodSet, ...]:
        """Return the waiting pods of a unit as pod sets, and set the unit's names of them."""
        alike, kept = _alike(unit, devices), self._kept_flavors(unit)
        # Pods that run already count towards the minimum; beyond it, a group grows by any number.
        missing = max(1, (group.min_count or 0) - len(unit.held))
        sets, unit.sets = [], {}
        for index, ((same_flavors, *_), pods) in enumerate(alike.items()):
            name = "main" if len(alike) == 1 else f"set-{index}"
            unit.sets |= {pod.uid: name for pod in pods}
            one, more = _pod_set(pods[0].cls).pods, devices.get(pods[0].uid)
            # As in Kueue, a group of several pod sets needs quota for all its pods: its minimum
            # says nothing of the sets. So ``Workload.can_shrink`` is never True for several.
            fewer = group.min_count and len(alike) == 1 and missing < len(pods)
            made = replace(
                one,
                name=name,
                count=len(pods),
                requests=Counter(one.requests) + Counter(more) if more else one.requests,
                min_count=missing if fewer else None,
                group=same_flavors or None,
                kept=kept.get(same_flavors, {}),
                level=level.label,
                slice_levels=tuple(name for name, _ in level.slices),
                in_topology=level.any_level,
            )
            sets.append(made)
        return tuple(sets)

    def _kept_flavors(self, unit: Unit) -> Mapping[str, Mapping[str, str]]:
        """Return the flavors of the pods with a node, by their ``POD_SET_GROUP`` and resource."""
        kept: dict[str, dict[str, str]] = {}
        for pod in unit.held.values():
            if same_flavors := pod.pod.metadata.annotations.get(POD_SET_GROUP, ""):
                kept.setdefault(same_flavors, {}).update(self._usage.flavors_of(pod))
        return kept

    def admitted(self, unit: Unit) -> Workload:
        """Return the pods of a unit that have a node, as a candidate for preemption."""
        pods = unit.held.values()
        # Its PodGroup may be gone while it runs.
        group = unit_group(self._cluster, unit) or PodGroup(unit.key)
        by_usage = self._histories.orders(unit.queue)
        past = self._histories.usage(unit.local_queue_key) if by_usage else None
        return replace(
            self._common(unit, group, next(iter(pods))),
            # A group that grows, or whose pods are made again, keeps the time of its admission.
            # It is now, in seconds as they are stored, while pods and group do not tell it yet.
            reserved_at=min(
                floor(self._books.now), self._endings.admitted_at(unit), max(map(bound_at, pods))
            ),
            evicted=all(pod.terminating for pod in pods),
            usage=unit.usage,
            local_queue_usage=past,
        )

    def _common(self, unit: Unit, group: PodGroup, pod: PodInfo) -> Workload:
        """Return what is the same for the waiting pods of a unit and for those with a node.

        ``pod``: one of these pods. ``queued_at`` is the time at which the unit was created.
        """
        item = unit.read[0] if group.uid and unit.read else None
        if item is not None:
            created, uid = float(item.metadata.creation_timestamp.seconds), group.uid
        else:
            pods = (*unit.held.values(), *unit.waiting.values())
            created, uid = min((one.creation_time, one.uid) for one in pods)
        owner = controller_of(pod.pod.metadata)
        # A lone pod may be a job itself.
        own = pod.uid if is_lone(unit.key) else ""
        return Workload(
            unit.key,
            queue=unit.queue,
            uid=uid,
            job_uid=own if owner is None else owner.uid,
            priority=_priority(self._cluster, item, group, pod),
            queued_at=created,
            local_queue=unit.local_queue_key,
        )


def _priority(cluster: ClusterView, item: v1.PodGroup | None, group: PodGroup, pod: PodInfo) -> int:
    """Return a unit's priority: of its WorkloadPriorityClass, else its group, else the pod."""
    of_group = "" if item is None else item.metadata.labels.get(QUEUE_PRIORITY_CLASS, "")
    name = of_group or pod.cls.labels.get(QUEUE_PRIORITY_CLASS, "") or _DEFAULT_CLASS
    found = cluster.get("WorkloadPriorityClass", "", name)
    if found is not None:
        return cast(WorkloadPriorityClass, found).value
    # A PodGroup without a PriorityClass has the priority 0: then that of its pods applies.
    return group.priority or pod.priority


def _alike(unit: Unit, devices: _Devices) -> Mapping[tuple[str, Hashable, Hashable], list[PodInfo]]:
    """Return the waiting pods of each pod set; the first part of its key is ``POD_SET_GROUP``."""
    alike: dict[tuple[str, Hashable, Hashable], list[PodInfo]] = {}
    for pod in unit.waiting.values():
        # Pods of one class may have claims of different devices.
        more = frozenset(devices.get(pod.uid, {}).items())
        same_flavors = pod.pod.metadata.annotations.get(POD_SET_GROUP, "")
        alike.setdefault((same_flavors, _pod_set(pod.cls).like, more), []).append(pod)
    return alike


def _shape(group: PodGroup, unit: Unit, devices: _Devices) -> Hashable:
    """Return a key that is equal for units which ask for the same."""
    counts = frozenset(Counter(pod.cls.id for pod in unit.waiting.values()).items())
    more = tuple(frozenset(amounts.items()) for amounts in devices.values())
    topology = group.topology_key, group.preferred_topology
    return counts, more, group.min_count, topology, len(unit.held)


class _OfClass(NamedTuple):
    """One pod of a class as a pod set."""

    pods: PodSet
    like: Hashable
    """Equal for classes whose pods are one pod set."""


def _pod_set(cls: PodClass) -> _OfClass:
    """Return one pod of a class as a pod set, read once."""
    found = cls.compiled.get(_POD_SET)
    if found is None:
        spec = cls.spec
        pods = PodSet(
            "",
            1,
            {name: number for name, number in cls.requests.items() if number},
            node_selector=dict(spec.node_selector),
            affinity=_affinity(spec),
            tolerations=tuple(spec.tolerations),
        )
        # Bytes in a fixed order, as messages have no hash.
        like = (
            frozenset(pods.requests.items()),
            frozenset(spec.node_selector.items()),
            spec.affinity.node_affinity.SerializeToString(deterministic=True),
            tuple(one.SerializeToString(deterministic=True) for one in spec.tolerations),
        )
        found = cls.compiled[_POD_SET] = _OfClass(pods, like)
    return cast(_OfClass, found)


def _affinity(spec: v1.PodSpec) -> tuple[tuple[Requirement, ...], ...]:
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return tuple(
        tuple(
            requirement(one.key, one.operator, tuple(one.values)) for one in term.match_expressions
        )
        for term in required.node_selector_terms
    )
