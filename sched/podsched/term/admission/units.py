"""Units, which are admitted to a queue as a whole, read from the cluster.

A unit is a pod group, or a pod without a group. Its key is "namespace/name" of the group, or
"namespace/pod:name". Its pods without a node wait in the queue, and those with a node use quota.

A unit is what Kueue calls a workload (https://kueue.sigs.k8s.io/docs/concepts/workload), but no
Workload object exists for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from podsched.api.queue_labels import (
    PREFERRED_LEVEL,
    REQUIRED_LEVEL,
    SLICE_LAYERS,
    SLICE_LEVEL,
    SLICE_SIZE,
    UNCONSTRAINED,
)
from podsched.api.slice_layers import read_slice_layers
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import PodGroup, label_group, read_pod_group, stored_group
from podsched.framework.pods import PodInfo
from podsched.lib.go_bools import GO_BOOLS
from podsched.queues.quota import FlavorResource
from podsched.v1 import objects_pb2 as v1

#: Between namespace and name in the key of a pod without a group.
LONE: Final = "/pod:"
#: Max digits of the size of a slice.
_SIZE_DIGITS: Final = 9


def unit_key(pod: PodInfo) -> str:
    """Return the key of a pod's unit."""
    return pod.group or f"{pod.namespace}{LONE}{pod.name}"


def is_lone(key: str) -> bool:
    """Whether the key of a unit is that of a pod without a group."""
    return LONE in key


def shown_key(key: str) -> str:
    """Return the key of a unit as people read it: "namespace/name"."""
    return key.replace(LONE, "/")


def lone_group(key: str, pod: PodInfo) -> PodGroup:
    """Return a lone pod as a group of one pod. No PodGroup object has such a key."""
    return PodGroup(key, priority=pod.priority)


@dataclass(eq=False, slots=True)
class Unit:
    """The pods of a unit that are in a queue, and the quota that they use."""

    key: str
    local_queue: str = ""
    """The name of the LocalQueue in the unit's namespace; changed by ``move_to``."""
    queue: str = ""
    """The ClusterQueue, "" if the LocalQueue does not exist."""
    waiting: dict[str, PodInfo] = field(default_factory=dict)
    """Pods without a node, by uid."""
    held: dict[str, PodInfo] = field(default_factory=dict)
    """Pods with a node, bound or assumed, by uid."""
    usage: dict[FlavorResource, int] = field(default_factory=dict)
    """The quota that the held pods use."""
    counted: tuple[str, str, bool] | None = None
    """How ``Tallies`` count it: in which ClusterQueue and LocalQueue, and whether as admitted."""
    sets: dict[str, str] = field(default_factory=dict)
    """The names of the waiting pods' pod sets, by the uid of the pod."""
    read: tuple[v1.PodGroup, PodGroup] | None = None
    """The PodGroup that was read last, and its contents."""
    namespace: str = field(init=False)
    local_queue_key: str = field(init=False)
    """The LocalQueue, "namespace/name". Stored, because it is read several times for each pod."""

    def __post_init__(self) -> None:
        self.namespace = self.key.partition("/")[0]
        self.move_to(self.local_queue, self.queue)

    @property
    def first(self) -> PodInfo:
        """Its first pod, of those that wait if any do; the unit must not be empty."""
        return next(iter(self.waiting.values() or self.held.values()))

    def move_to(self, local_queue: str, queue: str) -> None:
        """Move the unit to another LocalQueue of its namespace, which leads to a ClusterQueue."""
        self.local_queue, self.queue = local_queue, queue
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
    return asked_level(cluster, unit.first)


def asked_level(cluster: ClusterView, first: PodInfo) -> Level:
    """Return the level that a pod's PodGroup, or else the pod, asks for."""
    found = [first.pod.metadata.annotations]
    if first.group:
        group = stored_group(cluster, first.group)
        found[:0] = [] if group is None else [group.metadata.annotations]
    for of in found:
        required, slices = of.get(REQUIRED_LEVEL, ""), _slices(of)
        label = required or of.get(PREFERRED_LEVEL, "")
        if label or slices or GO_BOOLS.get(of.get(UNCONSTRAINED, "")):
            return Level(label, bool(required), not label, slices)
    return Level()


def _slices(annotations: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    """Return the levels and sizes of slices in annotations; a size that is no number is 0."""
    if level := annotations.get(SLICE_LEVEL, ""):
        size = annotations.get(SLICE_SIZE, "")
        is_number = size.isdecimal() and len(size) <= _SIZE_DIGITS
        return ((level, int(size) if is_number else 0),)
    text = annotations.get(SLICE_LAYERS, "")
    layers = read_slice_layers(text) if text else ()
    return (("", 0),) if layers is None else layers


def unit_group(cluster: ClusterView, unit: Unit) -> PodGroup | None:
    """Return the group of a unit, for a lone pod a group of one; None if there is none."""
    if not unit.first.group:
        return lone_group(unit.key, unit.first)
    found = stored_group(cluster, unit.key)
    if found is None:
        return label_group(cluster, unit.key)
    if unit.read is None or unit.read[0] is not found:
        unit.read = found, read_pod_group(found)
    return unit.read[1]
