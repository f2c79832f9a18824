"""Manifests of versions that are read, and stored in a later one: ``kueue.x-k8s.io/v1beta1``.

Source: Kueue 0.20, apis/kueue/v1beta1/clusterqueue_conversion.go. Of the other kinds, what a client
writes is the same in both versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_FORMER: Final = "kueue.x-k8s.io/v1beta1"
_CURRENT: Final = "kueue.x-k8s.io/v1beta2"
#: Former values of a flavorFungibility.
_STOPS: Final = ("Borrow", "Preempt")


def current_version(document: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest in the version that is stored; others are returned as they are."""
    if document.get("apiVersion") != _FORMER:
        return document
    found = {**document, "apiVersion": _CURRENT}
    if document.get("kind") == "ClusterQueue" and isinstance(document.get("spec"), dict):
        found["spec"] = _queue_spec(document["spec"])
    return found


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
