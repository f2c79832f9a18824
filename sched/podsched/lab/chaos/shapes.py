"""The objects of the workload, from ``objects.yaml`` beside this module."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from podsched.api.manifest import from_manifest, load_documents
from podsched.api.objects import AnyObject, PersistentVolumeClaim, Pod, PodGroup

#: Nodes, and what API servers write down, as files for the processes.
NODES: Final = Path(__file__).with_name("nodes.yaml")
AUDIT_POLICY: Final = Path(__file__).with_name("audit-policy.yaml")
#: Pods of the application with a budget.
GUARDED_PODS: Final = 6
#: Devices of the nodes, and claims that pods share (``nodes.yaml``, ``objects.yaml``).
DEVICES, SHARED_CLAIMS = 30, ("shared-0", "shared-1", "shared-2")
#: The label of a gang's members that says how many have to start together.
MIN_COUNT: Final = "chaos.podsched.io/min-count"
_TEMPLATES: Final = (Pod, PersistentVolumeClaim)


@cache
def _objects() -> tuple[AnyObject, ...]:
    text = Path(__file__).with_name("objects.yaml").read_text()
    return tuple(from_manifest(document).message for document in load_documents(text))


def fixed() -> list[AnyObject]:
    """Return the initial objects: priorities, a budget, classes, claims that pods share."""
    return [item for item in _objects() if not isinstance(item, _TEMPLATES)]


def made(template: str, name: str) -> Any:
    """Return a pod or a claim of a template."""
    templates = (item for item in _objects() if isinstance(item, _TEMPLATES))
    known = next(item for item in templates if item.metadata.name == template)
    copy = deepcopy(known)
    copy.metadata.name = name
    return copy


def plain(name: str, cpu: str = "100m") -> Pod:
    """Return a pod that fits anywhere but in the tight pool."""
    pod: Pod = made("plain", name)
    pod.spec.containers[0].resources.requests["cpu"] = cpu
    return pod


def with_port(name: str, port: int) -> Pod:
    """Return a pod with a host port."""
    pod: Pod = made("port", name)
    pod.spec.containers[0].ports[0].host_port = port
    pod.spec.containers[0].ports[0].container_port = port
    return pod


def claiming(name: str, claim_name: str) -> Pod:
    """Return a pod that uses a claim."""
    pod: Pod = made("claiming", name)
    pod.spec.volumes[0].persistent_volume_claim.claim_name = claim_name
    return pod


def with_devices(name: str, claim_name: str = "") -> Pod:
    """Return a pod with devices of a shared claim, or of a claim of its own."""
    pod: Pod = made("device", name)
    if claim_name:
        ref = pod.spec.resource_claims[0]
        ref.ClearField("resource_claim_template_name")
        ref.resource_claim_name = claim_name
    return pod


def gang(name: str, size: int) -> tuple[PodGroup, list[Pod]]:
    """Return a group whose members start together, and its members."""
    group = PodGroup()
    group.metadata.name, group.metadata.namespace = name, "default"
    group.spec.scheduling_policy.gang.min_count = size
    members = [made("member", f"{name}-{number}") for number in range(size)]
    for member in members:
        member.metadata.labels[MIN_COUNT] = str(size)
        member.spec.scheduling_group.pod_group_name = name
    return group, members
