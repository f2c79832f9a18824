"""What admission makes of a new PodGroup."""

from __future__ import annotations

import pytest

from podsched.api.objects import PodGroup, PodGroupTemplate, PriorityClass, Workload
from podsched.api.pod_groups import (
    PROTECTION_FINALIZER,
    admit_pod_group,
    queue_group_key,
    template_refusal,
)
from podsched.api.priorities import PriorityClasses


def classes(*, default: bool = False) -> PriorityClasses:
    high = PriorityClass(value=1000, global_default=default)
    high.metadata.name = "high"
    return PriorityClasses([high])


def from_template(name: str = "t") -> PodGroup:
    group = PodGroup()
    reference = group.spec.pod_group_template_ref.workload
    reference.workload_name, reference.pod_group_template_name = "w", name
    return group


def test_a_new_group_is_protected_once() -> None:
    group = PodGroup()
    for _ in range(2):
        assert admit_pod_group(group, classes()) == ""
    assert group.metadata.finalizers == [PROTECTION_FINALIZER]


@pytest.mark.parametrize(
    ("name", "default", "expected"),
    [("", False, (0, "")), ("high", False, (1000, "high")), ("", True, (1000, "high"))],
)
def test_its_priority_is_that_of_its_class(
    name: str, default: bool, expected: tuple[int, str]
) -> None:
    group = PodGroup()
    group.spec.priority_class_name = name
    assert admit_pod_group(group, classes(default=default)) == ""
    assert group.spec.HasField("priority")
    assert (group.spec.priority, group.spec.priority_class_name) == expected


def test_the_priority_of_its_class_may_be_told_with_it() -> None:
    group = PodGroup()
    group.spec.priority_class_name, group.spec.priority = "high", 1000
    assert admit_pod_group(group, classes()) == ""


@pytest.mark.parametrize(("name", "computed"), [("high", 1000), ("", 0)])
def test_another_priority_is_refused(name: str, computed: int) -> None:
    group = PodGroup()
    group.spec.priority_class_name, group.spec.priority = name, 7
    assert admit_pod_group(group, classes()) == (
        f"priority set in the pod group (7) must match the priority computed ({computed}) based on "
        "the priority class set in the spec"
    )


def test_an_unknown_class_is_refused() -> None:
    group = PodGroup()
    group.spec.priority_class_name = "nope"
    assert admit_pod_group(group, classes()) == "no PriorityClass with name nope was found"


def test_a_group_of_no_template_needs_no_workload() -> None:
    assert template_refusal(PodGroup(), None) == ""


def test_a_group_is_of_a_template_that_there_is() -> None:
    workload = Workload()
    workload.spec.pod_group_templates.append(PodGroupTemplate(name="t"))
    assert template_refusal(from_template(), workload) == ""
    missing = 'PodGroup rejected: PodGroupTemplate "s" not found in Workload "w"'
    assert template_refusal(from_template("s"), workload) == missing
    assert template_refusal(from_template(), None) == 'PodGroup rejected: Workload "w" not found'
    workload.metadata.deletion_timestamp.seconds = 1
    deleted = 'PodGroup rejected: Workload "w" is being deleted'
    assert template_refusal(from_template(), workload) == deleted


def test_kueues_label_names_a_group_of_the_pods_namespace() -> None:
    assert queue_group_key("team", {}) == ""
    assert queue_group_key("team", {"kueue.x-k8s.io/pod-group-name": "train"}) == "team/train"
