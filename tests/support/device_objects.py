"""Slices, classes, claims and pods that use them, as objects."""

from __future__ import annotations

from typing import Any

from podsched.api.manifest import from_manifest
from podsched.v1 import objects_pb2 as v1
from support.engine_world import pod

API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


def _made(kind: str, name: str, **parts: Any) -> Any:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", **parts.pop("metadata", {})}
    return from_manifest({"apiVersion": API, "kind": kind, "metadata": metadata, **parts}).message


def device_class(name: str = "gpu", *, resource: str = "") -> v1.DeviceClass:
    """A class of all devices; ``resource``: its extended resource."""
    spec = {"extendedResourceName": resource} if resource else {}
    made: v1.DeviceClass = _made("DeviceClass", name, spec=spec)
    return made


def devices(node: str, count: int, **device: Any) -> v1.ResourceSlice:
    """A node's devices gpu-0, gpu-1 ...; ``device``: further fields of each.

    In ``attributes`` and ``capacity``, a list has a value for each device.
    """
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    listed = [_device(f"gpu-{index}", index, device) for index in range(count)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": listed}
    made: v1.ResourceSlice = _made("ResourceSlice", f"slice-{node}", spec=spec)
    return made


def _device(name: str, index: int, device: dict[str, Any]) -> dict[str, Any]:
    found = {"name": name, **device}
    if "attributes" in device:
        found["attributes"] = {
            key: {"string": of[index] if isinstance(of, list) else of}
            for key, of in device["attributes"].items()
        }
    return found


def claim_spec(count: int = 1, *selectors: str, match: str = "", **exactly: Any) -> dict[str, Any]:
    """A claim's spec with one request, named gpus."""
    wanted = {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": count,
        "selectors": [{"cel": {"expression": of}} for of in selectors],
        **exactly,
    }
    constraints = [{"matchAttribute": match, "requests": []}] if match else []
    requests = [{"name": "gpus", "exactly": wanted}]
    return {"devices": {"requests": requests, "constraints": constraints}}


def resource_claim(name: str, *selectors: str, count: int = 1, **of: Any) -> v1.ResourceClaim:
    metadata = {"namespace": "default"}
    spec = claim_spec(count, *selectors, **of)
    made: v1.ResourceClaim = _made("ResourceClaim", name, spec=spec, metadata=metadata)
    return made


def template(name: str, *selectors: str, count: int = 1, **of: Any) -> v1.ResourceClaimTemplate:
    metadata = {"namespace": "default"}
    spec = {"spec": claim_spec(count, *selectors, **of)}
    made: v1.ResourceClaimTemplate = _made(
        "ResourceClaimTemplate", name, spec=spec, metadata=metadata
    )
    return made


def user(name: str, *, template: str = "", claim: str = "", group: str = "", **spec: Any) -> v1.Pod:
    """A pod with one claim."""
    ref = {"resourceClaimTemplateName": template} if template else {"resourceClaimName": claim}
    made = pod(name, {"resourceClaims": [{"name": "mine", **ref}], **spec})
    if group:
        made.spec.scheduling_group.pod_group_name = group
    return made
