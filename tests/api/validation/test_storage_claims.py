"""Which changes a PersistentVolumeClaim allows (ValidatePersistentVolumeClaimUpdate)."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import apply_merge_patch, from_manifest
from podsched.api.objects import PersistentVolumeClaim
from podsched.api.validation import validate

FROZEN = (
    "spec: Forbidden: spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)
TOO_SMALL = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
APPLIED = {"currentVolumeAttributesClassName": "gold"}


def mistakes(
    spec: dict[str, Any], before: dict[str, Any] | None = None, **status: Any
) -> list[str]:
    """Return what is wrong with a change of the spec of a claim that wants 3Gi and has 2Gi."""
    old = from_manifest(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Filesystem",
                "storageClassName": "fast",
                "volumeName": "pv-1",
                "resources": {"requests": {"storage": "3Gi"}},
                **(before or {}),
            },
            "status": {"phase": "Bound", "capacity": {"storage": "2Gi"}, **status},
        }
    ).message
    new = apply_merge_patch(old, {"spec": spec}).message
    assert isinstance(new, PersistentVolumeClaim)
    return [str(error) for error in validate("PersistentVolumeClaim", new, old)]


def storage(size: str) -> dict[str, Any]:
    return {"resources": {"requests": {"storage": size}}}


@pytest.mark.parametrize(
    ("size", "wrong"),
    [("4Gi", []), ("2500Mi", []), ("2Gi", [TOO_SMALL]), ("1Gi", [TOO_SMALL])],
)
def test_a_bound_claim_grows_and_shrinks_to_more_than_its_volume_has(
    size: str, wrong: list[str]
) -> None:
    assert mistakes(storage(size)) == wrong


def test_a_claim_that_is_not_bound_keeps_its_size() -> None:
    assert mistakes(storage("4Gi"), phase="Pending", capacity={}) == [FROZEN]


def test_a_claim_that_is_not_bound_may_write_its_size_in_another_way() -> None:
    assert mistakes(storage("3072Mi"), phase="Pending", capacity={}) == []


def test_of_a_bound_claim_no_other_resource_changes() -> None:
    assert mistakes({"resources": {"limits": {"storage": "9Gi"}}}) == [FROZEN]
    assert mistakes({"resources": {"requests": {"cpu": "1"}}}) == [FROZEN]


def test_a_size_that_cannot_be_read_is_told_once() -> None:
    (wrong,) = mistakes(storage("much"))
    assert wrong.startswith('spec.resources[storage]: Invalid value: "much"')


@pytest.mark.parametrize("before", [{}, {"volumeAttributesClassName": "gold"}])
def test_a_bound_claim_may_get_other_attributes(before: dict[str, Any]) -> None:
    assert mistakes({"volumeAttributesClassName": "silver"}, before, **APPLIED) == []
    pending = mistakes({"volumeAttributesClassName": "silver"}, before, phase="Pending")
    assert pending == [FROZEN]


@pytest.mark.parametrize(("name", "what"), [(None, "nil"), ("", "empty string")])
def test_attributes_that_a_volume_has_are_not_removed(name: str | None, what: str) -> None:
    reason = (
        f"spec.volumeAttributesClassName: Forbidden: update to {what} is forbidden when "
        "status.currentVolumeAttributesClassName is not nil"
    )
    before, change = {"volumeAttributesClassName": "gold"}, {"volumeAttributesClassName": name}
    assert mistakes(change, before, **APPLIED) == [reason]
    assert mistakes(change, before) == [], "no volume has them yet"
    assert mistakes({}, **APPLIED) == [], "nothing changes"
