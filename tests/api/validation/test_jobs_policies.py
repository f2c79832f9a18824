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
                "manualSelector": True,
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


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 5}, ""),
        ({"maxFailedIndexes": 1}, "backoffLimitPerIndex"),
        ({"backoffLimitPerIndex": 1, "maxFailedIndexes": 6}, "maxFailedIndexes"),
        ({"parallelism": 100_001}, "parallelism"),
        ({"completions": 100_001, "backoffLimitPerIndex": 1}, "maxFailedIndexes"),
        (
            {"completions": 100_001, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_001},
            "maxFailedIndexes",
        ),
        (
            {
                "completions": 100_001,
                "backoffLimitPerIndex": 1,
                "maxFailedIndexes": 10_000,
                "parallelism": 10_001,
            },
            "parallelism",
        ),
        ({"completionMode": "NonIndexed", "backoffLimitPerIndex": 1}, "backoffLimitPerIndex"),
    ],
)
def test_indexes_may_fail_one_by_one_if_the_status_can_tell_them(
    spec: dict[str, Any], wrong: str
) -> None:
    assert mistakes(**spec) == ([f"spec.{wrong}"] if wrong else [])


def test_an_index_fails_by_a_rule_only_if_indexes_fail_one_by_one() -> None:
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [1]}}
    policy = {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [rule]}}
    assert mistakes(backoffLimitPerIndex=1, **policy) == []
    assert mistakes(**policy) == ["spec.podFailurePolicy.rules[0].action"]


def test_where_a_policy_judges_failed_pods_they_are_replaced_when_they_have_ended() -> None:
    rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
    policy = {"podFailurePolicy": {"rules": [rule]}}
    found = mistakes(podReplacementPolicy="TerminatingOrFailed", **policy)
    assert found == ["spec.podReplacementPolicy"]


@pytest.mark.parametrize(
    ("rule", "good"),
    [
        ({"succeededCount": 5}, True),
        ({"succeededCount": 6}, False),
        ({"succeededCount": 4, "succeededIndexes": "0,2-4"}, True),
        ({"succeededCount": 5, "succeededIndexes": "0,2-4"}, False),
    ],
)
def test_no_more_indexes_have_to_succeed_than_there_are(rule: dict[str, Any], good: bool) -> None:
    found = mistakes(successPolicy={"rules": [rule]})
    assert found == ([] if good else ["spec.successPolicy.rules[0].succeededCount"])
