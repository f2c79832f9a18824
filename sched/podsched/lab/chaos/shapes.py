"""The objects of the workload."""

from __future__ import annotations

from typing import Any, Final

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject, Pod
from podsched.lab.chaos.manifests import POOL, TIGHT, ZONE

NAMESPACE: Final = "default"
LOW, HIGH = "chaos-low", "chaos-high"
GUARDED, GUARDED_PODS, GUARDED_LEFT = "guarded", 6, 4
CLASS: Final = "chaos"
_API_VERSIONS: Final = {
    "PriorityClass": "scheduling.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "StorageClass": "storage.k8s.io/v1",
}


def _object(kind: str, name: str, **fields: Any) -> AnyObject:
    metadata = {"name": name, **fields.pop("metadata", {})}
    if kind in ("Pod", "PodDisruptionBudget", "PersistentVolumeClaim"):
        metadata["namespace"] = NAMESPACE
    manifest = {"apiVersion": _API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata}
    return from_manifest({**manifest, **fields}).message


def fixed() -> list[AnyObject]:
    """Return what is there from the beginning: priorities, a budget, a storage class."""
    return [
        _object("PriorityClass", LOW, value=-10),
        _object("PriorityClass", HIGH, value=1000),
        _object("StorageClass", CLASS, provisioner="podsched.io/hollow"),
        _object(
            "PodDisruptionBudget",
            GUARDED,
            spec={
                "minAvailable": GUARDED_LEFT,
                "selector": {"matchLabels": {"app": GUARDED}},
            },
        ),
    ]


def _pod(name: str, app: str, cpu: str, *, ports: tuple[int, ...] = (), **spec: Any) -> Pod:
    container = {
        "name": "main",
        "image": "registry.example/chaos:1",
        "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}},
        "ports": [{"containerPort": port, "hostPort": port} for port in ports],
    }
    pod = _object(
        "Pod",
        name,
        metadata={"labels": {"app": app}},
        spec={"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    )
    assert isinstance(pod, Pod)
    return pod


def plain(name: str, cpu: str = "100m") -> Pod:
    """Return a pod that fits anywhere but in the tight pool."""
    return _pod(name, "plain", cpu, nodeSelector={POOL: "open"})


def spread(name: str) -> Pod:
    """Return a pod that is spread over the zones."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    selector = {POOL: "open"}
    constraints = [constraint]
    return _pod(
        name, "spread", "100m", nodeSelector=selector, topologySpreadConstraints=constraints
    )


def with_port(name: str, port: int) -> Pod:
    """Return a pod with a host port."""
    return _pod(name, "port", "50m", ports=(port,), nodeSelector={POOL: "open"})


def low(name: str) -> Pod:
    """Return a pod of the tight pool that has to go for others."""
    return _pod(name, "low", "900m", priorityClassName=LOW, nodeSelector={POOL: TIGHT})


def high(name: str) -> Pod:
    """Return a pod of the tight pool that others have to go for."""
    return _pod(name, "high", "900m", priorityClassName=HIGH, nodeSelector={POOL: TIGHT})


def guarded(name: str) -> Pod:
    """Return a pod of which so many have to be left."""
    return _pod(name, GUARDED, "200m", priorityClassName=HIGH, nodeSelector={POOL: "open"})


def claim(name: str) -> AnyObject:
    """Return a claim that one pod at a time may use."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {
        "accessModes": ["ReadWriteOncePod"],
        "storageClassName": CLASS,
        "resources": resources,
    }
    return _object("PersistentVolumeClaim", name, spec=spec)


def claiming(name: str, claim_name: str) -> Pod:
    """Return a pod that uses a claim."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return _pod(name, "claiming", "50m", volumes=[volume], nodeSelector={POOL: "open"})
