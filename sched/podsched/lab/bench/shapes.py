"""Nodes and pods of the workloads, with the shapes of kube-scheduler's scheduler_perf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.objects import Node, Pod, Service

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: int = 110,
) -> Node:
    """Return a ready node."""
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOSTNAME: name, **(labels or {})}},
            "status": {
                "allocatable": resources,
                "capacity": resources,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    ).message
    assert isinstance(message, Node)
    return message


def pod_template(
    *,
    cpu: str = "100m",
    memory: str = "500Mi",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Pod:
    """Return a pod template; empty ``cpu`` and ``memory`` mean no requests."""
    resources = {k: v for k, v in (("cpu", cpu), ("memory", memory)) if v}
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


def service(name: str) -> Service:
    """Return a Service that selects nothing of the workload."""
    message = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
        }
    ).message
    assert isinstance(message, Service)
    return message


def copies(template: Pod, prefix: str, count: int) -> Iterator[Pod]:
    """Yield ``count`` pods of a template, named prefix-number."""
    for index in range(count):
        pod = Pod()
        pod.CopyFrom(template)
        pod.metadata.name = f"{prefix}-{index}"
        yield pod


def key_of(pod: Pod) -> str:
    """Return "namespace/name"."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
