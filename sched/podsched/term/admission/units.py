"""Units: what is admitted to a queue as one, read from the cluster.

A unit is a pod group, or a pod without a group. Its key is the group's "namespace/name", or
"namespace/pod:name". It waits with those of its pods that have no node; those that have one use
quota.

Source: https://kueue.sigs.k8s.io/docs/concepts/workload, without a Workload object.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from podsched.api.objects import WorkloadPriorityClass
from podsched.api.queue_labels import QUEUE_NAME, QUEUE_PRIORITY_CLASS
from podsched.api.selectors import Requirement, requirement
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import KIND, PodGroup, pod_group
from podsched.framework.pods import PodClass, PodInfo
from podsched.queues.objects import PodSet, Workload
from podsched.queues.quota import FlavorResource
from podsched.v1 import objects_pb2 as v1

#: The LocalQueue of a namespace that pods without the label join.
DEFAULT_QUEUE: Final = "default"
#: Where a class keeps its pod set, among what plugins keep there.
_POD_SET: Final = "pod set"


def unit_key(pod: PodInfo) -> str:
    """Return the key of a pod's unit."""
    return pod.group or f"{pod.namespace}/pod:{pod.name}"


def lone_group(key: str, pod: PodInfo) -> PodGroup:
    """Return a lone pod as a group of one, which no PodGroup object has the key of."""
    return PodGroup(key, priority=pod.priority)


def local_queue(cluster: ClusterView, pod: PodInfo) -> str:
    """Return the name of the LocalQueue that a pod joins, "" for none."""
    if pod.group:
        namespace, _, name = pod.group.partition("/")
        group = cluster.get(KIND, namespace, name)
        named = "" if group is None else group.metadata.labels.get(QUEUE_NAME, "")
        if named:
            return str(named)
    named = pod.cls.labels.get(QUEUE_NAME, "")
    if named:
        return named
    return DEFAULT_QUEUE if cluster.get("LocalQueue", pod.namespace, DEFAULT_QUEUE) else ""


@dataclass(eq=False, slots=True)
class Unit:
    """The pods of a unit that are in a queue, by uid, and what they use."""

    key: str
    local_queue: str
    """Its name; the namespace is the unit's."""
    queue: str = ""
    """The ClusterQueue, "" if the LocalQueue does not exist."""
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    held: dict[str, PodInfo] = field(default_factory=dict)
    """Those with a node, bound or assumed."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """What the held ones use."""
    sets: dict[int, str] = field(default_factory=dict)
    """The pod sets of the waiting ones, by the id of their class."""

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]


def priority_of(cluster: ClusterView, unit: Unit, group: PodGroup, pod: PodInfo) -> int:
    """Return the effective priority: that of the WorkloadPriorityClass, if there is one."""
    name = pod.cls.labels.get(QUEUE_PRIORITY_CLASS, "")
    item = cluster.get(KIND, unit.namespace, group.name) if group.uid else None
    if item is not None:
        name = item.metadata.labels.get(QUEUE_PRIORITY_CLASS, "") or name
    found = cluster.get("WorkloadPriorityClass", "", name) if name else None
    if found is not None:
        return cast(WorkloadPriorityClass, found).value
    return max(group.priority, pod.priority)


def unit_group(cluster: ClusterView, unit: Unit) -> PodGroup | None:
    """Return the group of a unit: a lone pod is one of one; None if its object is missing."""
    first = next(iter(unit.waiting.values() or unit.held.values()))
    return pod_group(cluster, unit.key) if first.group else lone_group(unit.key, first)


def waiting_workload(cluster: ClusterView, unit: Unit, group: PodGroup) -> Workload | None:
    """Return what the waiting pods of a unit ask for; None while its group is incomplete."""
    if not unit.waiting:
        return None
    least = group.min_count or 0
    if least and len(cluster.members(unit.key)) < least:
        return None
    by_class: dict[PodClass, int] = {}
    for pod in unit.waiting.values():
        by_class[pod.cls] = by_class.get(pod.cls, 0) + 1
    missing = max(1, least - len(unit.held))
    sets = [_pod_set(cls) for cls in by_class]
    alone = len(sets) == 1
    unit.sets = {cls.id: "main" if alone else f"set-{i}" for i, cls in enumerate(by_class)}
    first = next(iter(unit.waiting.values()))
    created, uid = created_at(cluster, unit, group)
    return Workload(
        unit.key,
        _with_counts(unit.sets.values(), sets, list(by_class.values()), missing if least else None),
        unit.queue,
        uid=uid,
        priority=priority_of(cluster, unit, group, first),
        queued_at=created,
        shape=_shape(group, by_class, len(unit.held)),
    )


def set_name(unit: Unit, pod: PodInfo) -> str:
    """Return the name of a waiting pod's pod set."""
    return unit.sets.get(pod.cls.id, "")


def _with_counts(
    names: Iterable[str], sets: Sequence[PodSet], counts: Sequence[int], least: int | None
) -> tuple[PodSet, ...]:
    """Return pod sets with their numbers of pods. Only a single one may be admitted in part."""
    alone = len(sets) == 1
    return tuple(
        PodSet(
            name,
            count,
            one.requests,
            least if alone and least is not None and least < count else None,
            None,
            one.node_selector,
            one.affinity,
            one.tolerations,
        )
        for name, one, count in zip(names, sets, counts, strict=True)
    )


def created_at(cluster: ClusterView, unit: Unit, group: PodGroup) -> tuple[float, str]:
    """Return when a unit was created, in seconds since 1970, and its uid."""
    item = cluster.get(KIND, unit.namespace, group.name) if group.uid else None
    if item is not None:
        return item.metadata.creation_timestamp.seconds, group.uid
    pods = [*unit.held.values(), *unit.waiting.values()]
    first = min(pods, key=lambda pod: (pod.creation_time, pod.uid))
    return first.creation_time, first.uid


def _shape(group: PodGroup, by_class: dict[PodClass, int], held: int) -> Hashable:
    counts = tuple(sorted((cls.id, count) for cls, count in by_class.items()))
    return counts, group.min_count, group.topology_key, group.preferred_topology, held


def _pod_set(cls: PodClass) -> PodSet:
    """Return one pod of a class as a pod set, read once."""
    found = cls.compiled.get(_POD_SET)
    if found is None:
        spec = cls.spec
        found = PodSet(
            "",
            1,
            {name: number for name, number in cls.requests.items() if number},
            node_selector=dict(spec.node_selector),
            affinity=_affinity(spec),
            tolerations=tuple(spec.tolerations),
        )
        cls.compiled[_POD_SET] = found
    return cast(PodSet, found)


def _affinity(spec: v1.PodSpec) -> tuple[tuple[Requirement, ...], ...]:
    required = spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    return tuple(
        tuple(
            requirement(one.key, one.operator, tuple(one.values)) for one in term.match_expressions
        )
        for term in required.node_selector_terms
    )
