"""The rules of the simple plugins read node by node, for comparison with the columns.

Written from kube-scheduler's rules in the plainest way: messages and dictionaries, one node and one
pod at a time, no arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podsched.api.resources import (
    allocatable_in_units,
    non_zero_requests,
    requests_in_units,
    score_requests,
)
from podsched.api.tolerations import tolerates
from podsched.v1 import objects_pb2 as v1

Verdict = tuple[str, tuple[str, ...]]
PASSES: Verdict = ("", ())
MIB = 1024 * 1024


def total(pods: Sequence[v1.Pod], resource: str) -> int:
    return sum(requests_in_units(pod).get(resource, 0) for pod in pods)


def labels_match(requirement: Any, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(requirement.values[0])
    raise AssertionError(requirement.operator)


def term_matches(term: Any, node: v1.Node) -> bool:
    return bool(term.match_expressions) and all(
        labels_match(requirement, node.metadata.labels) for requirement in term.match_expressions
    )


def untolerated(pod: v1.Pod, node: v1.Node, *effects: str) -> int:
    return sum(
        taint.effect in effects and not any(tolerates(t, taint) for t in pod.spec.tolerations)
        for taint in node.spec.taints
    )


def host_ports(pod: v1.Pod) -> set[int]:
    """Test pods use neither addresses nor protocols."""
    return {p.host_port for c in pod.spec.containers for p in c.ports if p.host_port}


def verdict(pod: v1.Pod, node: v1.Node, there: Sequence[v1.Pod]) -> Verdict:
    """(plugin, sorted reasons) of the first plugin that rejects the node."""
    labels, spec = node.metadata.labels, pod.spec
    if node.spec.unschedulable:
        return "NodeUnschedulable", ("node(s) were unschedulable",)
    if untolerated(pod, node, "NoSchedule", "NoExecute"):
        return "TaintToleration", ("node(s) had untolerated taint(s)",)
    affinity = spec.affinity.node_affinity
    required = affinity.required_during_scheduling_ignored_during_execution.node_selector_terms
    if any(labels.get(key) != value for key, value in spec.node_selector.items()) or (
        required and not any(term_matches(term, node) for term in required)
    ):
        return "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",)
    if host_ports(pod) & {port for other in there for port in host_ports(other)}:
        return "NodePorts", ("node(s) didn't have free ports for the requested pod ports",)
    given = allocatable_in_units(node.status.allocatable)
    short = [
        f"Insufficient {name}"
        for name, amount in requests_in_units(pod).items()
        if amount and amount > given.get(name, 0) - total(there, name)
    ]
    if len(there) + 1 > given["pods"]:
        short.append("Too many pods")
    return ("NodeResourcesFit", tuple(sorted(short))) if short else PASSES


def least_allocated(pod: v1.Pod, node: v1.Node, there: Sequence[v1.Pod]) -> int:
    given = allocatable_in_units(node.status.allocatable)
    wanted = score_requests(pod)
    scores = []
    for index, name in enumerate(("cpu", "memory")):
        used = wanted[name] + sum(non_zero_requests(other)[index] for other in there)
        scores.append(max(given[name] - used, 0) * 100 // given[name])
    return sum(scores) // 2


def balanced(pod: v1.Pod, node: v1.Node, there: Sequence[v1.Pod]) -> int:
    given = allocatable_in_units(node.status.allocatable)

    def evenness(pods: Sequence[v1.Pod]) -> int:
        cpu, memory = (min(1.0, total(pods, name) / given[name]) for name in ("cpu", "memory"))
        return int((1 - abs((cpu - memory) / 2)) * 100)

    return 50 + (50 + evenness([*there, pod]) - evenness(there)) // 2


def images(pod: v1.Pod, node: v1.Node, nodes: Sequence[v1.Node]) -> int:
    summed = 0
    for container in pod.spec.containers:
        for image in node.status.images:
            if container.image in image.names:
                having = sum(container.image in i.names for n in nodes for i in n.status.images)
                summed += int(image.size_bytes * (having / len(nodes)))
    low, high = 23 * MIB, 1000 * MIB * len(pod.spec.containers)
    return 100 * (min(max(summed, low), high) - low) // (high - low)


def preference(pod: v1.Pod, node: v1.Node) -> int:
    affinity = pod.spec.affinity.node_affinity
    return sum(
        term.weight
        for term in affinity.preferred_during_scheduling_ignored_during_execution
        if term_matches(term.preference, node)
    )


def scaled(raw: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    highest = max(raw.values())
    result = {name: 100 * n // highest if highest else 0 for name, n in raw.items()}
    return {name: 100 - n for name, n in result.items()} if reverse else result


def totals(
    pod: v1.Pod, feasible: Mapping[str, tuple[v1.Node, Sequence[v1.Pod]]], nodes: Sequence[v1.Node]
) -> dict[str, int]:
    """The weighted total of each feasible node, under LeastAllocated."""
    if not feasible:
        return {}
    soft = {n: untolerated(pod, node, "PreferNoSchedule") for n, (node, _) in feasible.items()}
    taints = scaled(soft, reverse=True)
    affinity = scaled({name: preference(pod, node) for name, (node, _) in feasible.items()})
    requested = requests_in_units(pod)
    asks = requested.get("cpu", 0) or requested.get("memory", 0)
    return {
        name: 3 * taints[name]
        + 2 * affinity[name]
        + least_allocated(pod, node, there)
        + (balanced(pod, node, there) if asks else 0)
        + images(pod, node, nodes)
        for name, (node, there) in feasible.items()
    }
