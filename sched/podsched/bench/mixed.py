"""Workloads whose pods differ from each other, as in most real clusters.

Nodes have 32 CPUs, 128Gi and room for 110 pods, over three zones. A pod is made from its number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Node, Pod, PriorityClass
from podsched.bench.shapes import HOSTNAME, ZONE, node, pod_template

TEMPLATES = 100
PRIORITIES = 10


def large_node(index: int) -> Node:
    """Return node number ``index``."""
    zone = {ZONE: f"zone-{index % 3 + 1}"}
    return node(f"node-{index:05d}", zone, cpu="32", memory="128Gi")


def own_image(index: int) -> Pod:
    """Return a pod of one of 100 templates that differ in nothing but the image."""
    pod = pod_template()
    pod.spec.containers[0].image = f"registry.example/app-{index % TEMPLATES}:1"
    return pod


def own_template(index: int) -> Pod:
    """Return a pod of one of 100 templates, each with labels, requests and spreading of its own.

    Every fifth template prefers nodes without pods of its own.
    """
    template = index % TEMPLATES
    labels = {"app": f"app-{template}"}
    selector = {"matchLabels": labels}
    spec: dict[str, Any] = {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": ZONE,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": selector,
            }
        ]
    }
    if template % 5 == 0:
        term = {"labelSelector": selector, "topologyKey": HOSTNAME}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 100, "podAffinityTerm": term}
                ]
            }
        }
    cpu, memory = f"{50 + 2 * template}m", f"{100 + 5 * template}Mi"
    pod = pod_template(cpu=cpu, memory=memory, labels=labels, **spec)
    pod.spec.containers[0].image = f"registry.example/app-{template}:1"
    return pod


def own_template_and_priority(index: int) -> Pod:
    """Return a pod as ``own_template`` does, with one of ten priorities."""
    pod = own_template(index)
    pod.spec.priority_class_name = _priority_name(index // 7 % PRIORITIES)
    return pod


def _priority_name(number: int) -> str:
    return f"bench-{number}"


def priority_classes(_: int) -> Iterator[AnyObject]:
    """Yield ten PriorityClasses, whatever the number of pods."""
    for number in range(PRIORITIES):
        found = PriorityClass(value=number)
        found.metadata.name = _priority_name(number)
        yield found


def own_label(index: int) -> Pod:
    """Return a pod with a label of its own, as a StatefulSet's has."""
    labels = {"app": "web", "statefulset.kubernetes.io/pod-name": f"web-{index}"}
    return pod_template(labels=labels)


def own_requests(index: int) -> Pod:
    """Return a pod with CPU and memory requests of its own."""
    # A prime modulus: no request repeats within a million pods, and neighbours differ widely.
    memory = 102_400 + index * 7919 % 1_048_573
    return pod_template(cpu=f"{50 + index % 149}m", memory=f"{memory}Ki")


def own_claim(index: int) -> Pod:
    """Return a pod with a bound claim of its own."""
    claim = {"claimName": f"data-{index}"}
    return pod_template(volumes=[{"name": "data", "persistentVolumeClaim": claim}])


def claims(count: int) -> Iterator[AnyObject]:
    """Yield ``count`` volumes and the claims that are bound to them."""
    for index in range(count):
        volume, claim = f"volume-{index}", f"data-{index}"
        shared = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeMode": "Filesystem",
        }
        storage = {"storage": "1Gi"}
        yield from_manifest(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {
                    **shared,
                    "capacity": storage,
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "namespace": "default",
                        "name": claim,
                    },
                    "csi": {"driver": "csi.bench.example", "volumeHandle": volume},
                },
                "status": {"phase": "Bound"},
            }
        ).message
        yield from_manifest(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": claim,
                    "namespace": "default",
                    "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
                },
                "spec": {**shared, "volumeName": volume, "resources": {"requests": storage}},
                "status": {"phase": "Bound", "capacity": storage},
            }
        ).message
