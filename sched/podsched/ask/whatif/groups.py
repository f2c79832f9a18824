"""Nodes by zone and by group: figures over thousands of nodes as a few lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from podsched.api.objects import Node
from podsched.api.resources import CPU, MEMORY, allocatable_in_units

ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
#: Labels by which clouds and autoscalers name the group that a node was made for.
NODE_GROUPS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
)
#: Of nodes without the label.
NO_GROUP = "<none>"


@dataclass(frozen=True, slots=True)
class Group:
    """Some nodes: how many there are, and what is counted on them."""

    name: str
    nodes: int
    count: int


def zone_of(node: Node) -> str:
    """Return the node's zone, NO_GROUP if it has none."""
    labels = node.metadata.labels
    return next((labels[key] for key in ZONES if labels.get(key)), NO_GROUP)


def grouping(nodes: Sequence[Node], label: str = "") -> dict[str, str]:
    """Return each node's group by its name: by ``label``, by what clouds call it, or by its size.

    The first of NODE_GROUPS that any node has is taken; nodes of equal cpu and memory are a group
    where none has any.
    """
    keys = (label,) if label else NODE_GROUPS
    key = next((k for k in keys if any(node.metadata.labels.get(k) for node in nodes)), label)
    if key:
        return {n.metadata.name: n.metadata.labels.get(key) or NO_GROUP for n in nodes}
    return {node.metadata.name: _size(node) for node in nodes}


def _size(node: Node) -> str:
    amounts = allocatable_in_units(node.status.allocatable)
    return f"{amounts.get(CPU, 0) / 1000:g} cpu, {amounts.get(MEMORY, 0) / 2**30:.3g}Gi"


def by_group(groups: Mapping[str, str], counts: Mapping[str, int]) -> list[Group]:
    """Return each group with the sum of its nodes' counts, by name."""
    sizes = Counter(groups.values())
    sums: Counter[str] = Counter()
    for name, count in counts.items():
        sums[groups[name]] += count
    return [Group(name, sizes[name], sums[name]) for name in sorted(sizes)]


def by_zone(nodes: Iterable[Node], counts: Mapping[str, int]) -> list[Group]:
    """Return each zone with the sum of its nodes' counts, by name."""
    return by_group({node.metadata.name: zone_of(node) for node in nodes}, counts)
