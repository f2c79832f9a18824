"""A dump of a cluster whose nodes have hollow devices."""

from __future__ import annotations

from typing import Any

from podsched.api.hollow_nodes import DEVICES_ANNOTATION, class_of, parse_devices, slices_of
from podsched.api.manifest import from_manifest, to_manifest

API = "resource.k8s.io/v1"


def node(name: str, devices: str) -> list[dict[str, Any]]:
    """The manifests of a node, its slices, and the classes of its devices."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "annotations": {DEVICES_ANNOTATION: devices}},
        "status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}},
    }
    made = from_manifest(manifest).message
    classes = [class_of(of) for of in parse_devices(devices)]
    return [manifest, *map(to_manifest, (*slices_of(made), *classes))]


def claim(name: str, requests: list[dict[str, Any]], *, on: str = "", **more: Any) -> Any:
    """A claim; ``on``: POOL/DEVICE,... of its first request's class that it has."""
    driver = requests[0]["exactly"]["deviceClassName"]
    results = [
        {"request": requests[0]["name"], "driver": driver, "pool": pool, "device": device}
        for pool, device in (each.split("/") for each in on.split(",") if each)
    ]
    made = {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": requests, **more}},
    }
    if results:
        users = [{"resource": "pods", "name": f"user-of-{name}", "uid": "1"}]
        made["status"] = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    return made


def request(name: str, driver: str, count: int = 1, *selectors: str) -> dict[str, Any]:
    """A request for devices of a class that match CEL selectors."""
    exactly: dict[str, Any] = {
        "deviceClassName": driver,
        "allocationMode": "ExactCount",
        "count": count,
    }
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": exactly}


def pod(name: str, *claims: str) -> dict[str, Any]:
    """A pod that uses claims."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"pod-{name}"},
        "spec": {
            "containers": [{"name": "c", "image": "c"}],
            "resourceClaims": [{"name": each, "resourceClaimName": each} for each in claims],
        },
    }
