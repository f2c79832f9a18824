"""Which changes a StatefulSet allows (ValidateStatefulSetUpdate)."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import apply_merge_patch, from_manifest
from podsched.api.objects import StatefulSet, copy_of
from podsched.api.validation import validate

REASON = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
    "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
    "'minReadySeconds' are forbidden"
)


def stateful_set() -> StatefulSet:
    """Return one that is stored."""
    container = {"name": "db", "image": "db:1"}
    spec = {
        "replicas": 3,
        "serviceName": "db",
        "podManagementPolicy": "OrderedReady",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {
                "restartPolicy": "Always",
                "dnsPolicy": "ClusterFirst",
                "containers": [container],
            },
        },
    }
    found = from_manifest(
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": spec,
        }
    ).message
    assert isinstance(found, StatefulSet)
    return found


def mistakes(spec: dict[str, Any], before: dict[str, Any] | None = None) -> list[str]:
    old = apply_merge_patch(stateful_set(), {"spec": before or {}}).message
    assert isinstance(old, StatefulSet)
    new = apply_merge_patch(copy_of(old), {"spec": spec}).message
    return [str(error) for error in validate("StatefulSet", new, old)]


@pytest.mark.parametrize(
    "spec",
    [
        {"serviceName": "other"},
        {"podManagementPolicy": "Parallel"},
        {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]},
        {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}},
    ],
)
def test_what_pods_and_claims_were_made_by_cannot_change(spec: dict[str, Any]) -> None:
    assert mistakes(spec) == [f"spec: Forbidden: {REASON}"]


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 5},
        {"ordinals": {"start": 1}},
        {"template": {"spec": {"terminationGracePeriodSeconds": 5}}},
        {"updateStrategy": {"type": "OnDelete"}},
        {"revisionHistoryLimit": 3},
        {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}},
        {"minReadySeconds": 10},
    ],
)
def test_the_other_fields_can_change(spec: dict[str, Any]) -> None:
    assert mistakes(spec) == []


def test_the_size_of_claims_may_be_written_in_another_way() -> None:
    def claims(size: str) -> dict[str, Any]:
        spec = {"resources": {"requests": {"storage": size}}}
        return {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": spec}]}

    assert mistakes(claims("1024Mi"), claims("1Gi")) == []
    assert mistakes(claims("2Gi"), claims("1Gi")) == [f"spec: Forbidden: {REASON}"]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"podManagementPolicy": "parallel"}, "spec.podManagementPolicy"),
        ({"updateStrategy": {"type": "onDelete"}}, "spec.updateStrategy.type"),
        (
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}},
            "spec.updateStrategy.rollingUpdate.partition",
        ),
        (
            {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "delete"}},
            "spec.persistentVolumeClaimRetentionPolicy.whenDeleted",
        ),
        ({"ordinals": {"start": -1}}, "spec.ordinals.start"),
    ],
)
def test_a_policy_that_does_not_exist_is_refused(spec: dict[str, Any], field: str) -> None:
    item = apply_merge_patch(stateful_set(), {"spec": spec}).message
    assert [error.path for error in validate("StatefulSet", item)] == [field]
