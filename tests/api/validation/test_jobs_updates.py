"""Which changes a Job allows (ValidateJobSpecUpdate, and the Job's strategy)."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.manifest import apply_merge_patch, from_manifest
from podsched.api.validation import validate

NOT_TEMPLATE = 'spec.template: Invalid value: "": field is immutable'
CONTAINER = {"name": "main", "image": "app:1"}
SUSPENDED = {"conditions": [{"type": "Suspended", "status": "True"}]}
STARTED = {"startTime": "2026-01-01T00:00:00Z"}


def mistakes(change: dict[str, Any], status: dict[str, Any], **spec: Any) -> list[str]:
    """Return what is wrong with a change of the spec of a suspended job."""
    labels = {"app": "job"}
    pods = {"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "containers": [CONTAINER]}
    old = from_manifest(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "job", "namespace": "default"},
            "spec": {
                "suspend": True,
                "parallelism": 2,
                "completions": 2,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pods},
                **spec,
            },
            "status": status,
        }
    ).message
    new = apply_merge_patch(old, {"spec": change}).message
    return [str(error) for error in validate("Job", new, old)]


CHANGES = [
    {"spec": {"nodeSelector": {"zone": "a"}}},
    {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
    {"spec": {"schedulingGates": [{"name": "example.com/gate"}]}},
    {"metadata": {"labels": {"more": "x"}, "annotations": {"more": "x"}}},
    {"spec": {"containers": [{**CONTAINER, "resources": {"requests": {"cpu": "1"}}}]}},
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_suspended_job_without_pods_may_change_where_they_go_and_what_they_need(
    change: dict[str, Any],
) -> None:
    template = {"template": change}
    assert mistakes(template, {}) == [], "it never ran"
    assert mistakes(template, STARTED | SUSPENDED) == [], "its pods are gone"
    assert mistakes(template, STARTED | SUSPENDED | {"active": 1}) == [NOT_TEMPLATE], (
        "a pod is still going"
    )
    assert mistakes(template, STARTED) == [NOT_TEMPLATE]
    assert mistakes(template, {}, suspend=False) == [NOT_TEMPLATE]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"containers": [{**CONTAINER, "image": "app:2"}]}},
        {"spec": {"containers": [{**CONTAINER, "name": "other"}]}},
        {"spec": {"terminationGracePeriodSeconds": 5}},
    ],
)
def test_nothing_else_of_its_template_changes(change: dict[str, Any]) -> None:
    assert mistakes({"template": change}, {}) == [NOT_TEMPLATE]


def test_the_completions_of_an_indexed_job_change_with_its_parallelism() -> None:
    reason = "can only be modified in tandem with spec.parallelism"
    indexed = {"completionMode": "Indexed"}
    assert mistakes({"completions": 3, "parallelism": 3}, {}, **indexed) == []
    assert mistakes({"completions": 3}, {}, **indexed) == [
        f"spec.completions: Invalid value: 3: {reason}"
    ]
    assert mistakes({"parallelism": 1}, {}, **indexed) == []


def test_the_requests_of_a_running_job_may_be_written_in_another_way() -> None:
    def template(cpu: str) -> dict[str, Any]:
        container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
        pods = {"restartPolicy": "Never", "dnsPolicy": "ClusterFirst", "containers": [container]}
        return {"template": {"metadata": {"labels": {"app": "job"}}, "spec": pods}}

    running = {"active": 1}
    assert mistakes(template("1000m"), running, suspend=False, **template("1")) == []
    wrong = mistakes(template("2"), running, suspend=False, **template("1"))
    assert wrong == [NOT_TEMPLATE]
