"""The workloads: nodes, initial pods, measured pods and background activity.

Shapes are those of kube-scheduler's scheduler_perf: a node has 4 CPUs, 32Gi and room for 110 pods;
the default pod requests 100m and 500Mi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from podsched.api.objects import AnyObject, Node, Pod
from podsched.bench import mixed
from podsched.bench.disturbances import (
    HIGH,
    Disturbance,
    deletions,
    mixed_churn,
    preemptors,
    unschedulable,
)
from podsched.bench.shapes import HOSTNAME, ZONE, node, pod_template


def default_node(index: int) -> Node:
    """Return node number ``index`` of most workloads."""
    return node(f"node-{index:05d}")


def roomy_node(index: int) -> Node:
    """Return a node with room for all pods of a workload."""
    return node(f"node-{index:05d}", cpu="1000", memory="4Ti", pods=100_000)


def _in_one_zone(index: int) -> Node:
    return node(f"node-{index:05d}", {ZONE: "zone1"})


def _over_three_zones(index: int) -> Node:
    return node(f"node-{index:05d}", {ZONE: f"moon-{index % 3 + 1}"})


def _first_is_roomy(index: int) -> Node:
    return default_node(index) if index else roomy_node(index)


@dataclass(frozen=True, slots=True)
class Workload:
    """``pods`` measured pods, with ``first`` bound and ``gated`` waiting before the clock starts.

    ``meanwhile`` runs while pods are measured. ``kube_scheduler``: pods/s of kube-scheduler v1.36
    with API server and etcd in scheduler_perf, on 2 cores; 0 if it was not measured. ``pod_of``:
    measured pods made from their number, instead of ``template``. ``objects_for``: what the
    measured pods need, by their number. ``rate``: pods created per second, one call each; 0: as
    fast as possible.
    """

    name: str
    nodes: int
    first: int
    pods: int
    kube_scheduler: float = 0.0
    first_template: Callable[[], Pod] = pod_template
    template: Callable[[], Pod] = pod_template
    node_of: Callable[[int], Node] = default_node
    gated: int = 0
    meanwhile: Disturbance | None = None
    pod_of: Callable[[int], Pod] | None = None
    objects_for: Callable[[int], Iterable[AnyObject]] | None = None
    rate: float = 0.0


def _colored(namespace: str, color: str, kind: str, key: str) -> Callable[[], Pod]:
    term = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": key,
        "namespaces": ["sched-0", "sched-1"],
    }
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return lambda: pod_template(namespace=namespace, labels={"color": color}, affinity=affinity)


def _spread() -> Pod:
    constraint: dict[str, Any] = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    return pod_template(labels={"color": "blue"}, topologySpreadConstraints=[constraint])


def _on_first_node() -> Pod:
    field = {"key": "metadata.name", "operator": "In", "values": ["node-00000"]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod_template(cpu="", memory="", affinity=affinity)


def _low() -> Pod:
    return pod_template(cpu="900m", priority=0, terminationGracePeriodSeconds=0)


def _high() -> Pod:
    return pod_template(cpu="3000m", priorityClassName=HIGH)


def _light() -> Pod:
    return pod_template(cpu="", memory="", terminationGracePeriodSeconds=0)


def gated_template() -> Pod:
    """Return a pod with a scheduling gate that is never removed."""
    return pod_template(cpu="", memory="", schedulingGates=[{"name": "bench.podsched/wait"}])


def _mixed(
    name: str,
    pod_of: Callable[[int], Pod],
    objects_for: Callable[[int], Iterable[AnyObject]] | None = None,
) -> Workload:
    return Workload(
        name, 5000, 0, 10000, node_of=mixed.large_node, pod_of=pod_of, objects_for=objects_for
    )


_WORKLOADS = (
    Workload("SchedulingBasic", 5000, 1000, 10000, 273.5),
    Workload(
        "SchedulingWithMixedChurn", 5000, 0, 10000, 283.8, meanwhile=Disturbance(0.5, mixed_churn)
    ),
    Workload("Unschedulable", 5000, 100, 10000, 224.4, meanwhile=Disturbance(0.2, unschedulable)),
    Workload("PreemptionBasic", 1000, 4000, 1000, 39.3, first_template=_low, template=_high),
    Workload(
        "PreemptionAsync",
        5000,
        20000,
        5000,
        227.6,
        first_template=_low,
        meanwhile=Disturbance(0.2, preemptors),
    ),
    Workload(
        "SchedulingPodAntiAffinity",
        5000,
        1000,
        2000,
        87.8,
        _colored("sched-0", "green", "podAntiAffinity", HOSTNAME),
        _colored("sched-1", "green", "podAntiAffinity", HOSTNAME),
    ),
    Workload(
        "SchedulingPodAffinity",
        5000,
        5000,
        5000,
        38.6,
        _colored("sched-0", "blue", "podAffinity", ZONE),
        _colored("sched-1", "blue", "podAffinity", ZONE),
        _in_one_zone,
    ),
    Workload(
        "TopologySpreading", 5000, 5000, 5000, 103.4, template=_spread, node_of=_over_three_zones
    ),
    Workload(
        "SchedulingDaemonset",
        15001,
        0,
        30000,
        332.7,
        template=_on_first_node,
        node_of=_first_is_roomy,
    ),
    Workload(
        "SchedulingWhileGated",
        1,
        20000,
        20000,
        486.9,
        _light,
        _light,
        roomy_node,
        gated=10000,
        meanwhile=Disturbance(0.2, deletions("first", 10, 20000)),
    ),
    _mixed("Templates", mixed.own_image),
    _mixed("TemplatesMixed", mixed.own_template),
    _mixed("TemplatesPriorities", mixed.own_template_and_priority, mixed.priority_classes),
    _mixed("UniqueLabels", mixed.own_label),
    _mixed("UniqueRequests", mixed.own_requests),
    _mixed("UniqueClaims", mixed.own_claim, mixed.claims),
    Workload("Latency", 5000, 0, 2000, node_of=mixed.large_node, rate=100.0),
)

WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _WORKLOADS}
