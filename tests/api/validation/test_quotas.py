"""Validation of ResourceQuotas."""

from __future__ import annotations

import pytest

from podsched.api.kinds import KINDS
from podsched.api.objects import ResourceQuota
from podsched.api.validation import validate, validate_status

QUOTA = KINDS["ResourceQuota"]


def quota(hard: dict[str, str]) -> ResourceQuota:
    item = ResourceQuota()
    item.metadata.name, item.metadata.namespace = "limits", "default"
    item.spec.hard.update(hard)
    return item


def test_everything_that_is_counted_can_be_limited() -> None:
    """Counts, requests, limits, devices and pages."""
    names = (
        "pods", "count/pods", "count/deployments.apps", "services", "cpu", "requests.cpu",
        "limits.memory", "ephemeral-storage", "requests.example.com/gpu", "hugepages-2Mi",
        "requests.hugepages-1Gi",
    )  # fmt: skip
    assert validate(QUOTA, quota(dict.fromkeys(names, "4"))) == []


@pytest.mark.parametrize(
    "name", ["requests.storage", "services.nodeports", "gpu", "example.com/gpu", "limits.pods"]
)
def test_what_is_not_counted_is_refused(name: str) -> None:
    """A limit that nobody watches would be worse than none."""
    (error,) = validate(QUOTA, quota({name: "4"}))
    assert error.path == f"spec.hard[{name}]"
    assert "is not counted here" in error.reason


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("pods", "-1", "greater than or equal to 0"),
        ("pods", "1500m", "integer"),
        ("count/pods", "0.5", "integer"),
        ("requests.memory", "1m", "integer"),
        ("requests.cpu", "much", "quantities must match"),
    ],
)
def test_amounts_are_checked(name: str, text: str, reason: str) -> None:
    """Only cores can be divided."""
    (error,) = validate(QUOTA, quota({name: text}))
    assert reason in error.reason


def test_scopes_are_refused() -> None:
    """They would be ignored."""
    item = quota({"pods": "1"})
    item.spec.scopes.append("BestEffort")
    item.spec.scope_selector.update({"matchExpressions": []})
    assert [error.path for error in validate(QUOTA, item)] == ["spec.scopes", "spec.scopeSelector"]


def test_the_status_is_checked() -> None:
    """What creates are charged to can be read."""
    item = quota({"pods": "1"})
    item.status.used["pods"] = "many"
    (error,) = validate_status(QUOTA, item, quota({"pods": "1"}))
    assert error.path == "status.used[pods]"
