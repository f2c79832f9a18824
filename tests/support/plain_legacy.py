"""Predicates and priorities of Policy files read node by node, for comparison with the columns.

Written from kube-scheduler v1.16's rules in the plainest way: messages and dictionaries, one node
and one pod at a time, Python's own numbers. Points are 0 to 10.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsched.api.resources import allocatable_in_units, non_zero_requests, requests_in_units
from podsched.api.tolerations import tolerates
from podsched.v1 import objects_pb2 as v1

MIB = 1024 * 1024
ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "failure-domain.beta.kubernetes.io/region"
AVOID = "scheduler.alpha.kubernetes.io/preferAvoidPods"


@dataclass
class Plain:
    """A cluster as messages: the nodes in the order of their rows, the pods on them by name."""

    nodes: list[v1.Node]
    pods: dict[str, list[v1.Pod]]
    services: list[v1.Service] = field(default_factory=list)
    controllers: list[v1.ReplicationController] = field(default_factory=list)
    volumes: dict[str, v1.PersistentVolume] = field(default_factory=dict)
    claims: dict[str, v1.PersistentVolumeClaim] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)


def name_of(node: v1.Node) -> str:
    return node.metadata.name


def selects(selector: Mapping[str, str], pod: v1.Pod) -> bool:
    return bool(selector) and all(pod.metadata.labels.get(k) == v for k, v in selector.items())


# -------------------------------------------------------------------------------- resources


def requested(plain: Plain, node: v1.Node, pod: v1.Pod, resource: str) -> tuple[int, int]:
    """(requested with the pod, capacity)."""
    there = [*plain.pods[name_of(node)], pod]
    capacity = allocatable_in_units(node.status.allocatable).get(resource, 0)
    if resource in ("cpu", "memory"):
        index = ("cpu", "memory").index(resource)
        return sum(non_zero_requests(p)[index] for p in there), capacity
    return sum(requests_in_units(p).get(resource, 0) for p in there), capacity


def least_requested(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    def points(node: v1.Node, resource: str) -> int:
        used, capacity = requested(plain, node, pod, resource)
        return 0 if capacity == 0 or used > capacity else (capacity - used) * 10 // capacity

    return {name_of(n): (points(n, "cpu") + points(n, "memory")) // 2 for n in plain.nodes}


def most_requested(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    def points(node: v1.Node, resource: str) -> int:
        used, capacity = requested(plain, node, pod, resource)
        return 0 if capacity == 0 or used > capacity else used * 10 // capacity

    return {name_of(n): (points(n, "cpu") + points(n, "memory")) // 2 for n in plain.nodes}


def balanced(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    def share(node: v1.Node, resource: str) -> float:
        used, capacity = requested(plain, node, pod, resource)
        return 1.0 if capacity == 0 else used / capacity

    found = {}
    for node in plain.nodes:
        cpu, memory = share(node, "cpu"), share(node, "memory")
        full = cpu >= 1 or memory >= 1
        found[name_of(node)] = 0 if full else int((1 - abs(cpu - memory)) * 10.0)
    return found


def requested_to_capacity(
    shape: Sequence[tuple[int, int]], resources: Mapping[str, int]
) -> Callable[[Plain, v1.Pod], dict[str, int]]:
    def line(percent: int) -> int:
        for (left, low), (right, high) in itertools.pairwise(shape):
            if percent <= left:
                return low
            if percent <= right:
                return low + int((high - low) * (percent - left) / (right - left))
        return shape[-1][1]

    def points(plain: Plain, pod: v1.Pod) -> dict[str, int]:
        found = {}
        for node in plain.nodes:
            total = weights = 0
            for resource, weight in resources.items():
                used, capacity = requested(plain, node, pod, resource)
                over = capacity == 0 or used > capacity
                percent = 100 if over else 100 - (capacity - used) * 100 // capacity
                if (mine := line(percent)) > 0:
                    total += mine * weight
                    weights += weight
            found[name_of(node)] = math.floor(total / weights + 0.5) if weights else 0
        return found

    return points


def resource_limits(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    limits = {"cpu": 0, "memory": 0}
    for container in pod.spec.containers:
        for name, amount in allocatable_in_units(container.resources.limits).items():
            limits[name] += amount
    for container in pod.spec.init_containers:
        for name, amount in allocatable_in_units(container.resources.limits).items():
            limits[name] = max(limits[name], amount)
    found = {}
    for node in plain.nodes:
        given = allocatable_in_units(node.status.allocatable)
        fits = (0 < limit <= given.get(name, 0) for name, limit in limits.items())
        found[name_of(node)] = int(any(fits))
    return found


# -------------------------------------------------------------------------------- spreading


def service_selectors(plain: Plain, pod: v1.Pod) -> list[dict[str, str]]:
    mine = [s for s in plain.services if selects(s.spec.selector, pod)]
    mine.sort(key=lambda service: service.metadata.name)
    return [dict(service.spec.selector) for service in mine]


def matching(plain: Plain, node: v1.Node, selectors: Sequence[Mapping[str, str]]) -> int:
    return sum(
        not p.metadata.HasField("deletion_timestamp") and all(selects(s, p) for s in selectors)
        for p in plain.pods[name_of(node)]
        if selectors
    )


def spread(controllers: bool) -> Callable[[Plain, v1.Pod], dict[str, int]]:
    def points(plain: Plain, pod: v1.Pod) -> dict[str, int]:
        selectors = service_selectors(plain, pod)
        if controllers:
            own = (dict(c.spec.selector) for c in plain.controllers)
            selectors += [selector for selector in own if selects(selector, pod)]
        counts = {name_of(n): matching(plain, n, selectors) for n in plain.nodes}
        zones: dict[str, int] = {}
        for node in plain.nodes:
            if zone_of(node):
                zones[zone_of(node)] = zones.get(zone_of(node), 0) + counts[name_of(node)]
        highest, highest_zone = max(counts.values()), max(zones.values(), default=0)
        found = {}
        for node in plain.nodes:
            count, zone = counts[name_of(node)], zone_of(node)
            score = 10.0 * ((highest - count) / highest) if highest else 10.0
            if zone:
                of_zone = (highest_zone - zones[zone]) / highest_zone if highest_zone else 1.0
                score = score * (1.0 - 2.0 / 3.0) + 2.0 / 3.0 * (10.0 * of_zone)
            found[name_of(node)] = int(score)
        return found

    return points


def zone_of(node: v1.Node) -> str:
    labels = node.metadata.labels
    region, zone = labels.get(REGION, ""), labels.get(ZONE, "")
    return f"{region}/{zone}" if region or zone else ""


def anti_affinity(label: str) -> Callable[[Plain, v1.Pod], dict[str, int]]:
    def points(plain: Plain, pod: v1.Pod) -> dict[str, int]:
        first = service_selectors(plain, pod)[:1]
        counts = {name_of(n): matching(plain, n, first) for n in plain.nodes}
        total = sum(counts.values())
        found = {}
        for node in plain.nodes:
            value = node.metadata.labels.get(label)
            same = [n for n in plain.nodes if n.metadata.labels.get(label) == value]
            count = sum(counts[name_of(n)] for n in same)
            score = 10.0 * ((total - count) / total) if total else 10.0
            found[name_of(node)] = 0 if value is None else int(score)
        return found

    return points


def even_spread(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    soft = [
        c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "ScheduleAnyway"
    ]
    complete = [n for n in plain.nodes if all(c.topology_key in n.metadata.labels for c in soft)]

    def domain(node: v1.Node, constraint: v1.TopologySpreadConstraint) -> int:
        key, wanted = constraint.topology_key, constraint.label_selector.match_labels
        same = (
            n
            for n in complete
            if n.metadata.labels[key] == node.metadata.labels[key]
            and all(n.metadata.labels.get(k) == v for k, v in pod.spec.node_selector.items())
        )
        return sum(matching(plain, n, [wanted]) for n in same)

    counts = {name_of(n): sum(domain(n, c) for c in soft) for n in complete}
    rest = {name: sum(counts.values()) - count for name, count in counts.items()}
    least = min(counts.values(), default=0)
    divisor = sum(counts.values()) - least
    found = dict.fromkeys(map(name_of, plain.nodes), 0)
    for name, left in rest.items():
        found[name] = 10 if divisor == 0 else int(10.0 * (left / divisor))
    return found


# -------------------------------------------------------------------------------- node properties


def reduced(raw: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    highest = max(raw.values())
    points = {name: 10 * n // highest if highest else 0 for name, n in raw.items()}
    return {name: 10 - n for name, n in points.items()} if reverse else points


def taint_toleration(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    soft = [t for t in pod.spec.tolerations if t.effect in ("", "PreferNoSchedule")]
    raw = {
        name_of(node): sum(
            taint.effect == "PreferNoSchedule" and not any(tolerates(t, taint) for t in soft)
            for taint in node.spec.taints
        )
        for node in plain.nodes
    }
    return reduced(raw, reverse=True)


def node_affinity(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    affinity = pod.spec.affinity.node_affinity

    def matches(node: v1.Node, term: v1.NodeSelectorTerm) -> bool:
        return all(
            node.metadata.labels.get(requirement.key) in requirement.values
            for requirement in term.match_expressions
        )

    return reduced(
        {
            name_of(node): sum(
                term.weight
                for term in affinity.preferred_during_scheduling_ignored_during_execution
                if matches(node, term.preference)
            )
            for node in plain.nodes
        }
    )


def image_locality(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    def has(node: v1.Node, image: str) -> int:
        return sum(i.size_bytes for i in node.status.images if image in i.names)

    found = {}
    for node in plain.nodes:
        summed = 0
        for container in pod.spec.containers:
            spread = sum(bool(has(n, container.image)) for n in plain.nodes) / len(plain.nodes)
            summed += int(has(node, container.image) * spread)
        clamped = min(max(summed, 23 * MIB), 1000 * MIB)
        found[name_of(node)] = 10 * (clamped - 23 * MIB) // (977 * MIB)
    return found


def prefer_avoid_pods(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    found = {}
    for node in plain.nodes:
        entries = json.loads(node.metadata.annotations.get(AVOID, "{}")).get("preferAvoidPods", [])
        listed = [(e["podSignature"]["podController"][k] for k in ("kind", "uid")) for e in entries]
        avoided = (
            owner is not None
            and owner.kind in ("ReplicaSet", "ReplicationController")
            and (owner.kind, owner.uid) in [tuple(one) for one in listed]
        )
        found[name_of(node)] = 0 if avoided else 10
    return found


def node_label(label: str, presence: bool) -> Callable[[Plain, v1.Pod], dict[str, int]]:
    def points(plain: Plain, pod: v1.Pod) -> dict[str, int]:
        return {
            name_of(n): 10 if (label in n.metadata.labels) == presence else 0 for n in plain.nodes
        }

    return points


def pod_affinity(plain: Plain, pod: v1.Pod) -> dict[str, int]:
    """Preferred terms of both sides and required affinity of the others, which weighs 1."""
    sums = dict.fromkeys(map(name_of, plain.nodes), 0)

    def near(node: v1.Node, key: str, weight: int) -> None:
        value = node.metadata.labels.get(key)
        for other in plain.nodes:
            if value is not None and other.metadata.labels.get(key) == value:
                sums[name_of(other)] += weight

    for node in plain.nodes:
        for there in plain.pods[name_of(node)]:
            for weight, term in preferred(pod):
                if selects(term.label_selector.match_labels, there):
                    near(node, term.topology_key, weight)
            hard = there.spec.affinity.pod_affinity
            theirs = [(1, t) for t in hard.required_during_scheduling_ignored_during_execution]
            for weight, term in [*preferred(there), *theirs]:
                if selects(term.label_selector.match_labels, pod):
                    near(node, term.topology_key, weight)
    low, high = min(0, *sums.values()), max(0, *sums.values())
    return {
        name: int(10.0 * ((summed - low) / (high - low))) if high > low else 0
        for name, summed in sums.items()
    }


def preferred(pod: v1.Pod) -> list[tuple[int, v1.PodAffinityTerm]]:
    near, far = pod.spec.affinity.pod_affinity, pod.spec.affinity.pod_anti_affinity
    wanted = near.preferred_during_scheduling_ignored_during_execution
    unwanted = far.preferred_during_scheduling_ignored_during_execution
    return [
        *((t.weight, t.pod_affinity_term) for t in wanted),
        *((-t.weight, t.pod_affinity_term) for t in unwanted),
    ]


# -------------------------------------------------------------------------------- predicates


def condition(node: v1.Node, kind: str, absent: str) -> str:
    return next((c.status for c in node.status.conditions if c.type == kind), absent)


def node_condition(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
    found = {}
    for node in plain.nodes:
        reasons = set()
        if condition(node, "Ready", "True") != "True":
            reasons.add("node(s) were not ready")
        if condition(node, "NetworkUnavailable", "False") != "False":
            reasons.add("node(s) had unavailable network")
        if node.spec.unschedulable:
            reasons.add("node(s) were unschedulable")
        found[name_of(node)] = reasons
    return found


def pressure(
    kind: str, reason: str, *, best_effort_only: bool = False
) -> Callable[[Plain, v1.Pod], dict[str, set[str]]]:
    def reasons(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
        asks = any(c.resources.requests or c.resources.limits for c in pod.spec.containers)
        return {
            name_of(n): {reason}
            if condition(n, kind, "") == "True" and not (best_effort_only and asks)
            else set()
            for n in plain.nodes
        }

    return reasons


def label_presence(
    labels: Sequence[str], presence: bool
) -> Callable[[Plain, v1.Pod], dict[str, set[str]]]:
    def reasons(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
        return {
            name_of(n): {"node(s) didn't have the requested labels"}
            if any((label in n.metadata.labels) != presence for label in labels)
            else set()
            for n in plain.nodes
        }

    return reasons


def service_affinity(labels: Sequence[str]) -> Callable[[Plain, v1.Pod], dict[str, set[str]]]:
    def reasons(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
        wanted = {k: v for k, v in pod.spec.node_selector.items() if k in labels}
        selectors = service_selectors(plain, pod)
        running = [
            node
            for node in plain.nodes
            if any(selects(s, p) for s in selectors for p in plain.pods[name_of(node)])
        ]
        if running:
            first = running[0].metadata.labels
            wanted = {k: first[k] for k in labels if k in first} | wanted
        return {
            name_of(n): set()
            if all(n.metadata.labels.get(k) == v for k, v in wanted.items())
            else {"node(s) didn't match service affinity"}
            for n in plain.nodes
        }

    return reasons


def no_execute(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
    return {
        name_of(n): {"node(s) had taints that the pod didn't tolerate"}
        if any(
            taint.effect == "NoExecute"
            and not any(tolerates(t, taint) for t in pod.spec.tolerations)
            for taint in n.spec.taints
        )
        else set()
        for n in plain.nodes
    }


def disk_conflict(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
    def clash(mine: Any, theirs: Any) -> bool:
        if mine.HasField("aws_elastic_block_store"):
            other = theirs.aws_elastic_block_store.volume_id
            return bool(other) and mine.aws_elastic_block_store.volume_id == other
        if mine.HasField("gce_persistent_disk") and theirs.HasField("gce_persistent_disk"):
            disks = mine.gce_persistent_disk, theirs.gce_persistent_disk
            return disks[0].pd_name == disks[1].pd_name and not all(d.read_only for d in disks)
        return False

    found = {}
    for node in plain.nodes:
        taken = any(
            clash(mine, theirs)
            for other in plain.pods[name_of(node)]
            for mine in pod.spec.volumes
            for theirs in other.spec.volumes
        )
        found[name_of(node)] = {"node(s) had no available disk"} if taken else set()
    return found


def ebs_count(limit: int) -> Callable[[Plain, v1.Pod], dict[str, set[str]]]:
    def disks(plain: Plain, pod: v1.Pod) -> set[str]:
        found = set()
        for volume in pod.spec.volumes:
            if volume.HasField("aws_elastic_block_store"):
                found.add(volume.aws_elastic_block_store.volume_id)
            if not volume.HasField("persistent_volume_claim"):
                continue
            claim = plain.claims.get(volume.persistent_volume_claim.claim_name)
            if claim is None:
                continue
            behind = plain.volumes.get(claim.spec.volume_name)
            if behind is not None and behind.spec.HasField("aws_elastic_block_store"):
                found.add(behind.spec.aws_elastic_block_store.volume_id)
            made_by = plain.classes.get(claim.spec.storage_class_name)
            if behind is None and made_by == "kubernetes.io/aws-ebs":
                found.add(f"claim {claim.metadata.name}")
        return found

    def reasons(plain: Plain, pod: v1.Pod) -> dict[str, set[str]]:
        new, found = disks(plain, pod), {}
        for node in plain.nodes:
            there = set().union(*(disks(plain, p) for p in plain.pods[name_of(node)]))
            declared = node.status.allocatable.get("attachable-volumes-aws-ebs")
            kind = node.metadata.labels.get("beta.kubernetes.io/instance-type", "")
            nitro = re.search(r"^[cmr]5.*|t3|z1d", kind)
            most = int(declared) if declared is not None else limit or (25 if nitro else 39)
            over = bool(new) and len(there) + len(new - there) > most
            found[name_of(node)] = {"node(s) exceed max volume count"} if over else set()
        return found

    return reasons
