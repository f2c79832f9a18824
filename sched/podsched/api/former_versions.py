"""Manifests of versions that are read, and stored in a later one.

Source: Kueue 0.20, apis/kueue/v1beta1/clusterqueue_conversion.go; Kubernetes v1.36,
pkg/apis/resource/v1beta1/conversion.go. Of the other kinds, what a client writes is the same in
both versions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from podsched.api.objects import ExactDeviceRequest

QUEUES_GROUP: Final = "kueue.x-k8s.io"
QUEUES_VERSION: Final = "v1beta1"
"""The former version of queues that is also served."""
_QUEUES: Final = f"{QUEUES_GROUP}/{QUEUES_VERSION}"
_DEVICES: Final = "resource.k8s.io/v1beta1"
_CURRENT: Final = {
    _QUEUES: "kueue.x-k8s.io/v1beta2",
    _DEVICES: "resource.k8s.io/v1",
    "resource.k8s.io/v1beta2": "resource.k8s.io/v1",
}
#: A kind that is stored in a version which is a former one for other kinds.
_NOT_FORMER: Final = ("resource.k8s.io/v1beta2", "DeviceTaintRule")
#: Values of v1beta1 in a flavorFungibility; now "MayStopSearch".
_STOPS: Final = ("Borrow", "Preempt")
#: What v1beta1 has in a request itself, beside ``name`` and ``firstAvailable``.
_EXACTLY: Final = tuple(field.json_name for field in ExactDeviceRequest.DESCRIPTOR.fields)

_Convert = Callable[[Mapping[str, Any]], dict[str, Any]]


def current_version(document: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest in the version that is stored; others are returned as they are."""
    former, kind = document.get("apiVersion"), document.get("kind")
    if not isinstance(former, str) or not isinstance(kind, str) or former not in _CURRENT:
        return document
    if (former, kind) == _NOT_FORMER:
        return document
    found, convert = {**document, "apiVersion": _CURRENT[former]}, _CONVERT.get((former, kind))
    return found if convert is None else _with_spec(found, convert)


def hide_former_queue(content: dict[str, Any]) -> dict[str, Any]:
    """Convert a ClusterQueue from v1beta1 to the version that is stored."""
    return _with_spec(content, _queue_spec)


def show_former_queue(content: dict[str, Any]) -> dict[str, Any]:
    """Convert a ClusterQueue from the version that is stored to v1beta1.

    Its admission checks and flavorFungibility are valid there, too.
    """
    spec = content.get("spec")
    if not isinstance(spec, dict) or "cohortName" not in spec:
        return content
    renamed = {"cohort" if name == "cohortName" else name: spec[name] for name in spec}
    return {**content, "spec": renamed}


def _queue_spec(former: Mapping[str, Any]) -> dict[str, Any]:
    spec = dict(former)
    if "cohort" in spec:
        spec["cohortName"] = spec.pop("cohort")
    checks = spec.get("admissionChecks")
    if isinstance(checks, list):
        del spec["admissionChecks"]
        if checks:
            named = [{"name": name} for name in checks]
            spec["admissionChecksStrategy"] = {"admissionChecks": named}
    fungibility = spec.get("flavorFungibility")
    if isinstance(fungibility, dict):
        spec["flavorFungibility"] = {
            key: "MayStopSearch" if value in _STOPS else value for key, value in fungibility.items()
        }
    return spec


def _device(former: dict[str, Any]) -> dict[str, Any]:
    device = dict(former)
    basic = device.pop("basic", None)
    return {**device, **basic} if isinstance(basic, dict) else former


def _claim_spec(former: Mapping[str, Any]) -> dict[str, Any]:
    devices = former.get("devices")
    if not isinstance(devices, dict):
        return dict(former)
    return {**former, "devices": _each(devices, "requests", _request)}


def _request(former: dict[str, Any]) -> dict[str, Any]:
    exactly = {name: former[name] for name in _EXACTLY if name in former}
    rest = {name: value for name, value in former.items() if name not in exactly}
    return {**rest, "exactly": exactly} if exactly else rest


def _with_spec(parent: Mapping[str, Any], convert: _Convert) -> dict[str, Any]:
    """Return a parent with its spec converted, if it is an object."""
    spec = parent.get("spec")
    return {**parent, "spec": convert(spec)} if isinstance(spec, dict) else dict(parent)


def _each(
    parent: Mapping[str, Any], name: str, convert: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any]:
    """Return a parent with the objects of its list of this name converted."""
    items = parent.get(name)
    if not isinstance(items, list):
        return dict(parent)
    return {**parent, name: [convert(each) if isinstance(each, dict) else each for each in items]}


_CONVERT: Final[Mapping[tuple[str, str], _Convert]] = {
    (_QUEUES, "ClusterQueue"): _queue_spec,
    (_DEVICES, "ResourceSlice"): lambda spec: _each(spec, "devices", _device),
    (_DEVICES, "ResourceClaim"): _claim_spec,
    (_DEVICES, "ResourceClaimTemplate"): lambda spec: _with_spec(spec, _claim_spec),
}
