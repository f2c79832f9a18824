"""A Job's rules about failure and success are refused if they could never match as they read."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import from_manifest
from podsched.api.validation import validate


def mistakes(**spec: Any) -> list[str]:
    """Return the fields in which a Job has a mistake."""
    labels = {"app": "job"}
    container = {"name": "main", "image": "app:1"}
    pods = {"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "containers": [container]}
    job = from_manifest(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {
                "completions": 5,
                "completionMode": "Indexed",
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pods},
                **spec,
            },
        }
    ).message
    return [error.path for error in validate("Job", job)]


@pytest.mark.parametrize(
    ("codes", "wrong"),
    [
        ({"operator": "In"}, ""),
        ({"operator": "In", "containerName": "main"}, ""),
        ({"operator": "In", "containerName": "other"}, "containerName"),
        ({}, "operator"),
    ],
)
def test_exit_codes_are_of_a_container_that_there_is(codes: dict[str, Any], wrong: str) -> None:
    rule = {"action": "FailJob", "onExitCodes": {"values": [1], **codes}}
    at = "spec.podFailurePolicy.rules[0].onExitCodes"
    found = mistakes(podFailurePolicy={"rules": [rule]})
    assert found == ([f"{at}.{wrong}"] if wrong else [])


@pytest.mark.parametrize("indexes", ["", "0", "4", "0,2-4", "0-1,3"])
def test_a_job_may_succeed_with_some_of_its_indexes(indexes: str) -> None:
    assert not mistakes(successPolicy={"rules": [{"succeededIndexes": indexes}]})


@pytest.mark.parametrize("indexes", ["a", "5", "2,1", "3-3", "1-", "-1", "0-2,2", "0, 1"])
def test_it_cannot_succeed_with_what_are_no_indexes(indexes: str) -> None:
    at = "spec.successPolicy.rules[0].succeededIndexes"
    assert mistakes(successPolicy={"rules": [{"succeededIndexes": indexes}]}) == [at]


def test_only_a_job_with_indexes_has_rules_about_its_success() -> None:
    rules = {"rules": [{"succeededCount": 1}]}
    assert mistakes(successPolicy=rules, completionMode="NonIndexed") == ["spec.successPolicy"]
    assert mistakes(successPolicy={}) == ["spec.successPolicy.rules"]
    assert mistakes(successPolicy={"rules": [{}]}) == ["spec.successPolicy.rules[0]"]
