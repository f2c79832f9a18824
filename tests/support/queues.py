"""Queues on a ``TermWorld``: ClusterQueues with one flavor or several, LocalQueues, gangs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from podsched.api.objects import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    Node,
    PodGroup,
    ResourceFlavor,
    Topology,
    WorkloadPriorityClass,
)
from support.engine_world import node
from support.term_world import TermWorld

QUEUE = "kueue.x-k8s.io/queue-name"
GPU = "example.com/gpu"

#: Quotas of a flavor by resource: the nominal quota, and limits on borrowing and lending.
Quotas = Mapping[str, Any]


def flavor(
    world: TermWorld,
    name: str = "default",
    tolerations: Sequence[Mapping[str, str]] = (),
    topology: str = "",
    **labels: str,
) -> None:
    made = ResourceFlavor()
    made.metadata.name = name
    made.spec.topology_name = topology
    made.spec.node_labels.update(labels)
    for one in tolerations:
        made.spec.tolerations.add(**one)
    world.cluster.create(made)


def topology(world: TermWorld, name: str, *levels: str) -> None:
    made = Topology()
    made.metadata.name = name
    for level in levels:
        made.spec.levels.add(node_label=level)
    world.cluster.create(made)


def _add_group(groups: Any, of_flavors: Mapping[str, Quotas]) -> None:
    group = groups.add()
    first = next(iter(of_flavors.values()))
    group.covered_resources.extend(GPU if name == "gpu" else name for name in first)
    for name, quotas in of_flavors.items():
        made = group.flavors.add(name=name)
        for resource, quota in quotas.items():
            limits = quota if isinstance(quota, tuple) else (quota,)
            nominal, borrowing, lending = (*limits, None, None)[:3]
            full = GPU if resource == "gpu" else resource
            one = made.resources.add(name=full, nominal_quota=str(nominal))
            if borrowing is not None:
                one.borrowing_limit = str(borrowing)
            if lending is not None:
                one.lending_limit = str(lending)


def cluster_queue(
    world: TermWorld,
    name: str,
    quotas: Quotas | None = None,
    *groups: Mapping[str, Quotas],
    cohort: str = "",
    **spec: Any,
) -> ClusterQueue:
    """A ClusterQueue for all namespaces, with a LocalQueue of its name in ``default``.

    ``quotas``: those of the flavor ``default``; ``groups``: quotas by flavor, a group each. The
    resource ``gpu`` is ``GPU``.
    """
    made = ClusterQueue()
    made.metadata.name = name
    made.metadata.annotations.update(spec.get("annotations", {}))
    made.spec.namespace_selector.SetInParent()
    made.spec.cohort_name = cohort
    for group in [*([{"default": quotas}] if quotas is not None else []), *groups]:
        _add_group(made.spec.resource_groups, group)
    made.spec.queueing_strategy = spec.get("strategy", "BestEffortFIFO")
    preemption = made.spec.preemption
    preemption.within_cluster_queue = spec.get("within", "Never")
    preemption.reclaim_within_cohort = spec.get("reclaim", "Never")
    preemption.borrow_within_cohort.policy = spec.get("borrow", "Never")
    fungibility = made.spec.flavor_fungibility
    fungibility.when_can_preempt = spec.get("when_can_preempt", "TryNextFlavor")
    fungibility.when_can_borrow = spec.get("when_can_borrow", "MayStopSearch")
    fungibility.preference = spec.get("preference", "")
    made.spec.stop_policy = spec.get("stop", "None")
    made.spec.admission_scope.admission_mode = spec.get("mode", "")
    if "weight" in spec:
        made.spec.fair_sharing.weight = str(spec["weight"])
    world.cluster.create(made)
    local_queue(world, name, name)
    return made


def local_queue(
    world: TermWorld, name: str, of: str, namespace: str = "default", weight: str = ""
) -> None:
    made = LocalQueue()
    if weight:
        made.spec.fair_sharing.weight = weight
    made.metadata.name, made.metadata.namespace = name, namespace
    made.spec.cluster_queue = of
    world.cluster.create(made)


def cohort(world: TermWorld, name: str, parent: str = "", **quotas: Quotas) -> None:
    made = Cohort()
    made.metadata.name = name
    made.spec.parent_name = parent
    if quotas:
        _add_group(made.spec.resource_groups, quotas)
    world.cluster.create(made)


def priority_class(world: TermWorld, name: str, value: int) -> None:
    made = WorkloadPriorityClass(value=value)
    made.metadata.name = name
    world.cluster.create(made)


def big_node(world: TermWorld, name: str, **parts: Any) -> Node:
    """A node with 8 CPUs and 8 GPUs, unless said otherwise."""
    allocatable = {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: "8", **parts.pop("of", {})}
    labels = {"kubernetes.io/hostname": name, **parts.pop("labels", {})}
    made = world.cluster.create(node(name, allocatable=allocatable, labels=labels, **parts))
    assert isinstance(made, Node)
    return made


def job(world: TermWorld, name: str, queue: str, priority: int = 0, **requests: Any) -> None:
    """A lone pod in a queue; ``gpu`` asks for GPUs, ``port`` for one of its node's, ``spec`` has
    more of it."""
    spec = requests.pop("spec", {})
    ports = [
        {"containerPort": port, "hostPort": port} for port in [requests.pop("port", 0)] if port
    ]
    labels = {QUEUE: queue, **requests.pop("labels", {})}
    if "gpu" in requests:
        requests[GPU] = requests.pop("gpu")
    amounts = {key: str(value) for key, value in requests.items()}
    resources = {"requests": amounts, "limits": {k: v for k, v in amounts.items() if k == GPU}}
    containers = [{"name": "c", "image": "x", "resources": resources, "ports": ports}]
    world.pod(name, cpu="", priority=priority, labels=labels, containers=containers, **spec)


def gang(
    world: TermWorld,
    name: str,
    queue: str,
    count: int,
    min_count: int | None = None,
    priority: int = 0,
    **requests: Any,
) -> None:
    """A gang of pods NAME-0, NAME-1, ... in a queue; ``pod_priority`` is that of pods alone."""
    made = PodGroup()
    made.metadata.name, made.metadata.namespace = name, "default"
    made.metadata.labels.update({QUEUE: queue, **requests.pop("group_labels", {})})
    made.spec.scheduling_policy.gang.min_count = count if min_count is None else min_count
    made.spec.priority = priority
    made.metadata.annotations.update(requests.pop("annotations", {}))
    world.cluster.create(made)
    spec = {"schedulingGroup": {"podGroupName": name}, **requests.pop("spec", {})}
    of_pods = requests.pop("pod_priority", priority)
    for index in range(count):
        job(world, f"{name}-{index}", queue, of_pods, spec=dict(spec), **requests)


async def job_and_wait(world: TermWorld, *args: Any, **requests: Any) -> None:
    """``job``, and a second in which the leader decides."""
    job(world, *args, **requests)
    await asyncio.sleep(1)


async def gang_and_wait(world: TermWorld, *args: Any, **requests: Any) -> None:
    """``gang``, and a second in which the leader decides."""
    gang(world, *args, **requests)
    await asyncio.sleep(1)


def one_node(team: Quotas | None = None, **queue: Any) -> TermWorld:
    """A world with ``n1``, a big node, and one flavor; ``team``: quotas of a ClusterQueue."""
    world = TermWorld()
    big_node(world, "n1")
    flavor(world)
    if team is not None:
        cluster_queue(world, "team", team, **queue)
    return world


def bound(world: TermWorld) -> list[str]:
    """The names of the pods that have a node, those of earlier worlds included."""
    pods = world.cluster.objects("Pod")
    return sorted(pod.metadata.name for pod in pods if pod.spec.node_name)  # type: ignore[union-attr]


def usage(world: TermWorld, queue: str) -> dict[str, int]:
    """What the leader counts as used in a ClusterQueue, by "flavor/resource", holds included."""
    for _ in world.state.admission.refresh(world.clock()):
        pass
    node = world.state.admission.snapshot.node(queue)
    return {f"{key.flavor}/{key.resource}": used for key, used in node.usage.items() if used}


def condition(world: TermWorld, group: str, type_: str = "QuotaReserved") -> tuple[str, str, str]:
    """A condition of a PodGroup: status, reason, message."""
    found = world.cluster.object("PodGroup", f"default/{group}")
    assert isinstance(found, PodGroup)
    one = next(c for c in found.status.conditions if c.type == type_)
    return one.status, one.reason, one.message


def message(world: TermWorld, name: str) -> str:
    """The message of a lone pod's condition PodScheduled."""
    return world.scheduled(name).message
