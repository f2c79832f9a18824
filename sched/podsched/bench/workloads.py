"""The workloads: which nodes, which pods first, which pods are measured.

Shapes are those of kube-scheduler's scheduler_perf: a node has 4 cpu, 32Gi and room for 110 pods;
the default pod asks 100m and 500Mi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def node(index: int, labels: Mapping[str, str] | None = None) -> AnyObject:
    """Node number ``index``."""
    name = f"node-{index:05d}"
    return from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
            "status": {
                "allocatable": {"cpu": "4", "memory": "32Gi", "pods": "110"},
                "capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    ).message


def pod_template(
    *,
    cpu: str = "100m",
    memory: str = "500Mi",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """A pod to make copies of."""
    resources = {"cpu": cpu, "memory": memory}
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "template", "namespace": namespace, "labels": dict(labels or {})},
            "spec": {
                "containers": [
                    {
                        "name": "pause",
                        "image": "registry.example/pause:3.10",
                        "resources": {"requests": resources, "limits": resources},
                    }
                ],
                **spec,
            },
        }
    ).message
    assert isinstance(message, Pod)
    return message


def copies(template: Pod, prefix: str, count: int) -> Iterator[Pod]:
    """``count`` pods of a template, named prefix-number."""
    for index in range(count):
        pod = Pod()
        pod.CopyFrom(template)
        pod.metadata.name = f"{prefix}-{index}"
        yield pod


def _affinity(kind: str, color: str, key: str) -> dict[str, Any]:
    term = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": key,
        "namespaces": ["sched-0", "sched-1"],
    }
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


@dataclass(frozen=True, slots=True)
class Workload:
    """``first`` pods are bound before the clock starts; then ``pods`` are measured."""

    name: str
    nodes: int
    first: int
    pods: int
    first_template: Callable[[], Pod] = pod_template
    template: Callable[[], Pod] = pod_template
    node_labels: Callable[[int], Mapping[str, str]] = field(default=lambda index: {})


WORKLOADS: Mapping[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("SchedulingBasic", 5000, 1000, 10000),
        Workload(
            "SchedulingPodAntiAffinity",
            5000,
            1000,
            2000,
            lambda: pod_template(
                namespace="sched-0",
                labels={"color": "green"},
                affinity=_affinity("podAntiAffinity", "green", HOSTNAME),
            ),
            lambda: pod_template(
                namespace="sched-1",
                labels={"color": "green"},
                affinity=_affinity("podAntiAffinity", "green", HOSTNAME),
            ),
        ),
        Workload(
            "SchedulingPodAffinity",
            5000,
            5000,
            5000,
            lambda: pod_template(
                namespace="sched-0",
                labels={"color": "blue"},
                affinity=_affinity("podAffinity", "blue", ZONE),
            ),
            lambda: pod_template(
                namespace="sched-1",
                labels={"color": "blue"},
                affinity=_affinity("podAffinity", "blue", ZONE),
            ),
            lambda index: {ZONE: "zone1"},
        ),
        Workload(
            "TopologySpreading",
            5000,
            5000,
            5000,
            pod_template,
            lambda: pod_template(
                labels={"color": "blue"},
                topologySpreadConstraints=[
                    {
                        "maxSkew": 5,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": "DoNotSchedule",
                        "labelSelector": {"matchLabels": {"color": "blue"}},
                    }
                ],
            ),
            lambda index: {ZONE: f"moon-{index % 3 + 1}"},
        ),
        Workload(
            "PreemptionBasic",
            1000,
            4000,
            1000,
            lambda: pod_template(cpu="900m", priority=0, terminationGracePeriodSeconds=0),
            lambda: pod_template(cpu="3000m", priorityClassName="bench-high"),
        ),
    )
}
