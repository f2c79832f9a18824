"""A new Job selects its own pods alone, unless it says that its selector is made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.api.validation import validate
from support.jobs import job

UID = "batch.kubernetes.io/controller-uid"


def mistakes(**spec: Any) -> list[str]:
    """Return what is wrong with a new Job, as it is once it has its defaults."""
    return [str(error) for error in validate("Job", job(**spec))]


def test_labels_and_selector_that_are_made_are_right() -> None:
    assert not mistakes()
    assert not mistakes(selector={"matchLabels": {UID: "uid-sum"}})


def test_a_selector_by_hand_needs_manual_selector() -> None:
    item = job(selector={"matchLabels": {"app": "sum"}})
    item.spec.template.metadata.labels["app"] = "sum"
    [error] = validate("Job", item)
    assert error.path == "spec.selector"
    assert "`selector` not auto-generated" in str(error)
    item.spec.manual_selector = True
    assert not validate("Job", item)


def test_a_copy_of_another_job_with_its_labels_and_selector_is_refused() -> None:
    """Of both Jobs, each would count the pods of the other as its own."""
    item = job("copy", selector={"matchLabels": {UID: "uid-sum"}})
    item.spec.template.metadata.labels[UID] = "uid-sum"
    paths = [error.path for error in validate("Job", item)]
    assert paths == ["spec.selector", f"spec.template.metadata.labels[{UID}]"]


@pytest.mark.parametrize("name", ["kubernetes.io/job-controller", "kueue.x-k8s.io/multi-kueue/a"])
def test_another_controller_has_a_path_in_a_domain(name: str) -> None:
    assert not mistakes(managedBy=name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "must be a domain-prefixed path"),
        ("kueue", "must be a domain-prefixed path"),
        ("/kueue", "must be a domain-prefixed path"),
        ("kueue.x-k8s.io/", "must be a domain-prefixed path"),
        ("Kueue/job", "a lowercase RFC 1123 subdomain"),
        ("kueue.x-k8s.io/a b", "Invalid path"),
        (f"kueue.x-k8s.io/{'a' * 50}", "may not be more than 63 bytes"),
    ],
)
def test_another_name_of_a_controller_is_refused(name: str, why: str) -> None:
    [error] = mistakes(managedBy=name)
    assert error.startswith("spec.managedBy") and why in error
