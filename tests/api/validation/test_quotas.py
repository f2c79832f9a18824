"""Validation of ResourceQuotas."""

from __future__ import annotations

import math

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
        "requests.hugepages-1Gi", "requests.storage",
        "gold.storageclass.storage.k8s.io/requests.storage",
        "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
        "secrets", "services.nodeports", "services.loadbalancers",
    )  # fmt: skip
    assert validate(QUOTA, quota(dict.fromkeys(names, "4"))) == []


@pytest.mark.parametrize(
    "name",
    [
        "limits.storage",
        "gold.storageclass.storage.k8s.io/pods",
        "gpu",
        "example.com/gpu",
        "limits.pods",
    ],
)
def test_what_is_not_counted_is_refused(name: str) -> None:
    """A limit that is not enforced would be worse than none."""
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


@pytest.mark.parametrize(
    ("scopes", "hard", "reason"),
    [
        (["BestEffort", "Terminating", "PriorityClass"], "pods", ""),
        (["NotBestEffort", "NotTerminating"], "requests.cpu", ""),
        (["CrossNamespacePodAffinity"], "requests.example.com/gpu", ""),
        (["VolumeAttributesClass"], "pods", "unsupported scope"),
        (["BestEffort"], "cpu", "unsupported scope applied to resource"),
        (["Terminating"], "configmaps", "unsupported scope applied to resource"),
        (["BestEffort", "NotBestEffort"], "pods", "conflicting scopes"),
        (["Terminating", "NotTerminating"], "pods", "conflicting scopes"),
    ],
)
def test_scopes_are_checked_as_in_kubernetes(scopes: list[str], hard: str, reason: str) -> None:
    """Counts of objects and devices may stand in any scope."""
    item = quota({hard: "1"})
    item.spec.scopes.extend(scopes)
    found = [(error.path, error.reason) for error in validate(QUOTA, item)]
    assert found == ([("spec.scopes", reason)] if reason else [])


_EXPRESSIONS = "spec.scopeSelector.matchExpressions"


@pytest.mark.parametrize(
    ("expression", "path", "reason"),
    [
        (("PriorityClass", "In", ["high"]), "", ""),
        (("PriorityClass", "DoesNotExist", []), "", ""),
        (("BestEffort", "Exists", []), "", ""),
        (("Any", "Exists", []), ".scopeName", "unsupported scope"),
        (("BestEffort", "In", ["a"]), ".operator", "must be 'Exist' when scope is any of"),
        (("PriorityClass", "NotIn", []), ".values", "must be at least one value when `operator`"),
        (("PriorityClass", "Exists", ["a"]), ".values", "must be no value when `operator`"),
        (("PriorityClass", "Gt", ["a"]), ".operator", "not a valid selector operator"),
        (("PriorityClass", 5, ["a"]), "", "must have a scopeName, an operator and values"),
        (("PriorityClass", "In", [5]), "", "must have a scopeName, an operator and values"),
    ],
)
def test_scope_selectors_are_checked_as_in_kubernetes(
    expression: tuple[str, object, list[object]], path: str, reason: str
) -> None:
    """With the words of Kubernetes; what has another shape is named, too."""
    item = quota({"pods": "1"})
    scope, operator, values = expression
    written = {"scopeName": scope, "operator": operator, "values": values}
    item.spec.scope_selector.update({"matchExpressions": [written]})
    found = validate(QUOTA, item)
    assert [error.path for error in found] == ([_EXPRESSIONS + path] if reason else [])
    assert all(error.reason.startswith(reason) for error in found)


def test_scopes_of_a_quota_cannot_change() -> None:
    """What is used was counted by them."""
    old, new = quota({"pods": "1"}), quota({"pods": "2"})
    assert validate(QUOTA, new, old) == []
    new.spec.scopes.append("Terminating")
    (error,) = validate(QUOTA, new, old)
    assert (error.path, error.reason) == ("spec.scopes", "field is immutable")


def test_the_status_is_checked() -> None:
    """What creates are charged to can be read."""
    item = quota({"pods": "1"})
    item.status.used["pods"] = "many"
    (error,) = validate_status(QUOTA, item, quota({"pods": "1"}))
    assert error.path == "status.used[pods]"


def test_a_selector_with_a_number_that_json_does_not_have_is_refused() -> None:
    item = quota({"pods": "4"})
    item.spec.scope_selector["n"] = math.nan
    (error,) = validate(QUOTA, item)
    assert error.path == "spec.scopeSelector"
