"""Nodes and pods of the workloads, with the shapes of kube-scheduler's scheduler_perf."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.node_labels import HOSTNAME
from podsched.api.objects import Node, Pod, copy_of


def node_status(cpu: str = "4", memory: str = "32Gi", pods: str = "110") -> dict[str, Any]:
    """Return the status of a ready node, as a manifest."""
    resources = {"cpu": cpu, "memory": memory, "pods": pods}
    ready = {"type": "Ready", "status": "True"}
    return {"allocatable": resources, "capacity": resources, "conditions": [ready]}


def containers(cpu: str = "100m", memory: str = "500Mi") -> list[dict[str, Any]]:
    """Return the only container of a pod, as a manifest; empty amounts mean no requests."""
    amounts = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    resources = {"requests": amounts, "limits": amounts}
    return [{"name": "pause", "image": "registry.example/pause:3.10", "resources": resources}]


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    cpu: str = "4",
    memory: str = "32Gi",
    pods: int = 110,
) -> Node:
    """Return a ready node."""
    metadata = {"name": name, "labels": {HOSTNAME: name, **(labels or {})}}
    status = node_status(cpu, memory, str(pods))
    manifest = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    message = from_manifest(manifest).message
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
    metadata = {"name": "template", "namespace": namespace, "labels": dict(labels or {})}
    full = {"containers": containers(cpu, memory), **spec}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": full}
    message = from_manifest(manifest).message
    assert isinstance(message, Pod)
    return message


def copies(template: Pod, prefix: str, count: int) -> Iterator[Pod]:
    """Yield ``count`` pods of a template, named prefix-number."""
    for index in range(count):
        pod = copy_of(template)
        pod.metadata.name = f"{prefix}-{index}"
        yield pod
