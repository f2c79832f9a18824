"""Units, which are admitted to a queue as a whole, read from the cluster.

A unit is a pod group, or a pod without a group. Its key is "namespace/name" of the group, or
"namespace/pod:name". Its pods without a node wait in the queue, and those with a node use quota.

A unit is what Kueue calls a workload (https://kueue.sigs.k8s.io/docs/concepts/workload), but no
Workload object exists for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, cast

from podsched.api.objects import WorkloadPriorityClass
from podsched.api.owners import controller_of
from podsched.api.queue_labels import (
    ADMITTED_QUEUE,
    POD_SET_GROUP,
    PREFERRED_LEVEL,
    QUEUE_NAME,
    QUEUE_PRIORITY_CLASS,
    REQUIRED_LEVEL,
    SLICE_LAYERS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from podsched.api.selectors import Requirement, requirement
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import PodGroup, label_group, read_pod_group, stored_group
from podsched.framework.pods import PodClass, PodInfo
from podsched.lib.bounded_text import parse_json
from podsched.queues.objects import PodSet, Workload
from podsched.queues.quota import FlavorResource
from podsched.v1 import objects_pb2 as v1

#: The LocalQueue of a namespace that pods without the label join.
DEFAULT_QUEUE: Final = "default"
#: Between namespace and name in the key of a pod without a group.
LONE: Final = "/pod:"
#: Max digits of the size of a slice.
_SIZE_DIGITS: Final = 9
#: The key of a class's pod set in ``PodClass.compiled``.
_POD_SET: Final = "pod set"


def unit_key(pod: PodInfo) -> str:
    """Return the key of a pod's unit."""
    return pod.group or f"{pod.namespace}{LONE}{pod.name}"


def is_lone(key: str) -> bool:
    """Whether the key of a unit is that of a pod without a group."""
    return LONE in key


def lone_group(key: str, pod: PodInfo) -> PodGroup:
    """Return a lone pod as a group of one pod. No PodGroup object has such a key."""
    return PodGroup(key, priority=pod.priority)


def local_queue(cluster: ClusterView, pod: PodInfo) -> str:
    """Return the name of the LocalQueue that a pod joins, or was admitted by; "" for none."""
    # Not by the labels of now: users may make and remove PodGroups while the pods run.
    if pod.node_name and (admitted := pod.pod.metadata.annotations.get(ADMITTED_QUEUE, "")):
        return admitted
    if pod.group:
        group = stored_group(cluster, pod.group)
        named = "" if group is None else group.metadata.labels.get(QUEUE_NAME, "")
        if named:
            return str(named)
    named = pod.cls.labels.get(QUEUE_NAME, "")
    if named:
        return named
    return DEFAULT_QUEUE if cluster.get("LocalQueue", pod.namespace, DEFAULT_QUEUE) else ""


@dataclass(eq=False, slots=True)
class Unit:
    """The pods of a unit that are in a queue, and the quota that they use."""

    key: str
    local_queue: str
    """The name of the LocalQueue in the unit's namespace; changed by ``move_to``."""
    queue: str = ""
    """The ClusterQueue, "" if the LocalQueue does not exist."""
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    """Pods without a node, by uid."""
    held: dict[str, PodInfo] = field(default_factory=dict)
    """Pods with a node, bound or assumed, by uid."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """The quota that the held pods use."""
    was_ready: bool = False
    """Whether all held pods have been ready at once."""
    sets: dict[str, str] = field(default_factory=dict)
    """The names of the waiting pods' pod sets, by the uid of the pod."""
    read: tuple[v1.PodGroup, PodGroup] | None = None
    """The PodGroup that was read last, and its contents."""
    namespace: str = field(init=False)
    local_queue_key: str = field(init=False)
    """The LocalQueue, "namespace/name". Stored, because it is read several times for each pod."""

    def __post_init__(self) -> None:
        self.namespace = self.key.partition("/")[0]
        self.move_to(self.local_queue)

    def move_to(self, local_queue: str) -> None:
        """Move the unit to another LocalQueue of its namespace."""
        self.local_queue = local_queue
        self.local_queue_key = f"{self.namespace}/{local_queue}"


class Level(NamedTuple):
    """The level of a Topology that a unit asks for ("" for none), and whether it is required.

    ``any_level``: it asks for a Topology, but for no level. ``slices``: levels with the size of
    their slices, the largest first; 0 for a missing size. A slice's pods share one domain.
    """

    label: str = ""
    required: bool = False
    any_level: bool = False
    slices: tuple[tuple[str, int], ...] = ()


def level_of(cluster: ClusterView, unit: Unit) -> Level:
    """Return the level that a unit's PodGroup, or else its first pod, asks for."""
    return asked_level(cluster, next(iter(unit.waiting.values() or unit.held.values())))


def asked_level(cluster: ClusterView, first: PodInfo) -> Level:
    """Return the level that a pod's PodGroup, or else the pod, asks for."""
    found = [first.pod.metadata.annotations]
    if first.group:
        group = stored_group(cluster, first.group)
        found[:0] = [] if group is None else [group.metadata.annotations]
    for of in found:
        required, slices = of.get(REQUIRED_LEVEL, ""), _slices(of)
        label = required or of.get(PREFERRED_LEVEL, "")
        if label or slices or of.get(UNCONSTRAINED) == "true":
            return Level(label, bool(required), not label, slices)
    return Level()


def _slices(annotations: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Return the levels and sizes of slices in annotations; a size that is no number is 0."""
    if level := annotations.get(SLICE_LEVEL, ""):
        return ((level, _size(annotations.get(SLICE_SIZE, ""))),)
    text = annotations.get(SLICE_LAYERS, "")
    try:
        layers = parse_json(text.encode()) if text else []
        return tuple((str(one["topology"]), _size(str(one["size"]))) for one in layers)
    except (ValueError, TypeError, KeyError):
        return (("", 0),)


def _size(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _SIZE_DIGITS else 0


def priority_of(cluster: ClusterView, unit: Unit, group: PodGroup, pod: PodInfo) -> int:
    """Return a unit's priority: of its WorkloadPriorityClass, else its group, else the pod."""
    name = pod.cls.labels.get(QUEUE_PRIORITY_CLASS, "")
    item = unit.read[0] if group.uid and unit.read else None
    if item is not None:
        name = item.metadata.labels.get(QUEUE_PRIORITY_CLASS, "") or name
    found = cluster.get("WorkloadPriorityClass", "", name) if name else None
    if found is not None:
        return cast(WorkloadPriorityClass, found).value
    # A PodGroup without a PriorityClass has the priority 0: then that of its pods applies.
    return group.priority or pod.priority


def unit_group(cluster: ClusterView, unit: Unit) -> PodGroup | None:
    """Return the group of a unit, for a lone pod a group of one; None if there is none."""
    first = next(iter(unit.waiting.values() or unit.held.values()))
    if not first.group:
        return lone_group(unit.key, first)
    found = stored_group(cluster, unit.key)
    if found is None:
        return label_group(cluster, unit.key)
    if unit.read is None or unit.read[0] is not found:
        unit.read = found, read_pod_group(found)
    return unit.read[1]


def waiting_workload(
    cluster: ClusterView,
    unit: Unit,
    group: PodGroup,
    devices: Mapping[str, Mapping[str, int]],
    queued_at: Callable[[str, float], float],
    flavors: Callable[[PodInfo], Mapping[str, str]],
) -> Workload | None:
    """Return what the waiting pods of a unit ask for; None while its group is incomplete.

    ``devices``: the amounts that pods ask for by claims, by uid of the pod. ``queued_at`` returns
    the time that orders a unit in its queue, given its key and the time of its creation;
    ``flavors`` those of a pod with a node, by resource.
    """
    least = group.min_count or 0
    if least and len(cluster.members(unit.key)) < least:
        return None
    alike = _alike(unit, devices)
    # Pods that run already count towards the minimum; beyond it, a group grows by any number.
    missing = max(1, least - len(unit.held))
    sets, unit.sets, level = [], {}, level_of(cluster, unit)
    kept = _kept_flavors(unit, flavors)
    for index, ((same_flavors, *_), pods) in enumerate(alike.items()):
        name = "main" if len(alike) == 1 else f"set-{index}"
        unit.sets |= {pod.uid: name for pod in pods}
        one = _pod_set(pods[0].cls).pods
        requests = {**one.requests, **devices.get(pods[0].uid, {})}
        # As in Kueue, a group of several pod sets needs quota for all its pods: its minimum says
        # nothing of the sets. So ``Workload.can_shrink`` is never True for several.
        fewer = least and len(alike) == 1 and missing < len(pods)
        min_count = missing if fewer else None
        sets.append(
            replace(
                one,
                name=name,
                count=len(pods),
                requests=requests,
                min_count=min_count,
                group=same_flavors or None,
                kept=kept.get(same_flavors, {}),
                level=level.label,
                slice_levels=tuple(name for name, _ in level.slices),
                in_topology=level.any_level,
            )
        )
    first = next(iter(unit.waiting.values()))
    created, uid = created_at(unit, group)
    priority = priority_of(cluster, unit, group, first)
    return Workload(
        unit.key,
        tuple(sets),
        unit.queue,
        uid=uid,
        job_uid=job_uid(unit, first),
        priority=priority,
        queued_at=queued_at(unit.key, created),
        local_queue=unit.local_queue_key,
        # The priority decides about victims, and that of a WorkloadPriorityClass is in no pod.
        shape=(_shape(group, unit, devices), level, tuple(map(_flavors_key, sets)), priority),
    )


def _alike(
    unit: Unit, devices: Mapping[str, Mapping[str, int]]
) -> Mapping[tuple[str, Hashable, Hashable], list[PodInfo]]:
    """Return the waiting pods of each pod set; the first part of its key is ``POD_SET_GROUP``."""
    alike: dict[tuple[str, Hashable, Hashable], list[PodInfo]] = {}
    for pod in unit.waiting.values():
        # Pods of one class may have claims of different devices.
        more = frozenset(devices.get(pod.uid, {}).items())
        same_flavors = pod.pod.metadata.annotations.get(POD_SET_GROUP, "")
        alike.setdefault((same_flavors, _pod_set(pod.cls).like, more), []).append(pod)
    return alike


def _kept_flavors(
    unit: Unit, flavors: Callable[[PodInfo], Mapping[str, str]]
) -> Mapping[str, Mapping[str, str]]:
    """Return the flavors of the pods with a node, by their ``POD_SET_GROUP`` and resource."""
    kept: dict[str, dict[str, str]] = {}
    for pod in unit.held.values():
        if same_flavors := pod.pod.metadata.annotations.get(POD_SET_GROUP, ""):
            kept.setdefault(same_flavors, {}).update(flavors(pod))
    return kept


def created_at(unit: Unit, group: PodGroup) -> tuple[float, str]:
    """Return when a unit was created, in seconds since 1970, and its uid."""
    item = unit.read[0] if group.uid and unit.read else None
    if item is not None:
        return item.metadata.creation_timestamp.seconds, group.uid
    pods = [*unit.held.values(), *unit.waiting.values()]
    first = min(pods, key=lambda pod: (pod.creation_time, pod.uid))
    return first.creation_time, first.uid


def job_uid(unit: Unit, pod: PodInfo) -> str:
    """Return the uid of what controls a unit's pods; a lone pod may be a job itself."""
    owner = controller_of(pod.pod.metadata)
    if owner is not None:
        return owner.uid
    return pod.uid if is_lone(unit.key) else ""


def _shape(group: PodGroup, unit: Unit, devices: Mapping[str, Mapping[str, int]]) -> Hashable:
    """Return a key that is equal for units which ask for the same."""
    counts = frozenset(Counter(pod.cls.id for pod in unit.waiting.values()).items())
    more = tuple(frozenset(amounts.items()) for amounts in devices.values())
    topology = group.topology_key, group.preferred_topology
    return counts, more, group.min_count, topology, len(unit.held)


def _flavors_key(pods: PodSet) -> Hashable:
    """Return a key that is equal for pod sets which get their flavors in the same way."""
    return pods.group, frozenset(pods.kept.items())


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
