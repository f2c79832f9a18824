"""Kueue's labels and annotations on pods and PodGroups."""

from __future__ import annotations

import pytest

from podsched.api.defaulting import default_object
from podsched.api.manifest import from_manifest
from podsched.api.objects import Condition, Job, Pod, PodGroup
from podsched.api.pod_groups import label_group_key, label_min_count
from podsched.api.priorities import PriorityClasses
from podsched.api.queue_labels import LEAST_PARALLELISM
from podsched.api.validation import validate

QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
GROUP, COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
TIME = "kueue.x-k8s.io/max-exec-time-seconds"


def pod(labels: dict[str, str], annotations: dict[str, str] | None = None, node: str = "") -> Pod:
    metadata = {"name": "p", "namespace": "d", "labels": labels, "annotations": annotations or {}}
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
    found = from_manifest(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    ).message
    assert isinstance(found, Pod)
    return found


def group(labels: dict[str, str], reserved: str = "") -> PodGroup:
    found = PodGroup()
    found.metadata.name, found.metadata.namespace = "g", "d"
    found.metadata.labels.update(labels)
    found.spec.scheduling_policy.gang.min_count = 2
    if reserved:
        found.status.conditions.append(Condition(type="QuotaReserved", status=reserved))
    return found


def job(labels: dict[str, str], *, suspend: bool = False) -> Job:
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    found = from_manifest(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "j", "namespace": "d", "labels": labels},
            "spec": {"template": {"spec": spec}, "suspend": suspend},
        }
    ).message
    assert isinstance(found, Job)
    default_object(found, now=1, uid="u", priority_classes=PriorityClasses([]))
    return found


def complaints(new: Pod | PodGroup | Job, old: Pod | PodGroup | Job | None = None) -> list[str]:
    return [str(error) for error in validate(type(new).__name__, new, old)]


BOTH = f"Required value: both the '{COUNT}' annotation and the '{GROUP}' label should be set"


@pytest.mark.parametrize(
    ("labels", "annotations", "found"),
    [
        ({QUEUE: "q", PRIORITY: "p", TIME: "60", GROUP: "g"}, {COUNT: "2"}, []),
        ({GROUP: "g"}, {}, [f"metadata.annotations[{COUNT}]: {BOTH}"]),
        ({}, {COUNT: "2"}, [f"metadata.labels[{GROUP}]: {BOTH}"]),
        (
            {GROUP: "g"},
            {COUNT: "two"},
            [
                f'metadata.annotations[{COUNT}]: Invalid value: "two": strconv.Atoi: parsing '
                '"two": invalid syntax'
            ],
        ),
        (
            {GROUP: "g"},
            {COUNT: "9" * 20},
            [
                f'metadata.annotations[{COUNT}]: Invalid value: "{"9" * 20}": strconv.Atoi: '
                f'parsing "{"9" * 20}": value out of range'
            ],
        ),
        (
            {GROUP: "g"},
            {COUNT: "0"},
            [
                f'metadata.annotations[{COUNT}]: Invalid value: "0": incorrect annotation value '
                f"'{COUNT}=0': group total count should be greater than zero"
            ],
        ),
        (
            {TIME: "0"},
            {},
            [f"metadata.labels[{TIME}]: Invalid value: 0: should be greater than 0"],
        ),
    ],
)
def test_labels_are_checked_as_kueue_does(
    labels: dict[str, str], annotations: dict[str, str], found: list[str]
) -> None:
    assert complaints(pod(labels, annotations)) == found


def test_the_name_of_a_queue_is_that_of_an_object() -> None:
    for item in (pod({QUEUE: "Q_1"}), group({QUEUE: "Q_1"})):
        (found,) = complaints(item)
        assert found.startswith(f'metadata.labels[{QUEUE}]: Invalid value: "Q_1": a lowercase RFC')


@pytest.mark.parametrize("name", [QUEUE, TIME])
def test_the_queue_and_the_time_limit_stay_while_quota_is_reserved(name: str) -> None:
    why = [f'metadata.labels[{name}]: Invalid value: "2": field is immutable']
    assert complaints(pod({name: "2"}, node="n"), pod({name: "1"}, node="n")) == why
    assert complaints(pod({name: "2"}), pod({name: "1"})) == []
    assert complaints(group({name: "2"}), group({name: "1"}, "True")) == why
    assert complaints(group({name: "2"}), group({name: "1"}, "False")) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("podsched.io/flavors", '{"cpu":"a"}'),
        ("podsched.io/local-queue", "team"),
        ("podsched.io/max-exec-time-seconds", "60"),
    ],
)
def test_what_a_bound_pod_was_admitted_with_stays(name: str, value: str) -> None:
    """A user could have it counted as cheaper flavors, in another queue, or let it run longer."""
    used, other = {name: value}, {name: "other"}
    assert complaints(pod({}, other), pod({}, used)) == []
    assert complaints(pod({}, used, "n"), pod({}, used, "n")) == []
    for new in (other, {}):
        (found,) = complaints(pod({}, new, "n"), pod({}, used, "n"))
        assert found.startswith(f"metadata.annotations[{name}]: Invalid value: ")
        assert found.endswith("field is immutable")


def test_a_priority_may_change_but_neither_come_late_nor_go() -> None:
    assert complaints(group({PRIORITY: "b"}), group({PRIORITY: "a"}, "True")) == []
    (late,) = complaints(group({PRIORITY: "b"}), group({}, "True"))
    assert late.endswith("WorkloadPriorityClass cannot be added to a non-suspended workload")
    (gone,) = complaints(group({}), group({PRIORITY: "a"}))
    assert gone.endswith("WorkloadPriorityClass cannot be removed from a workload")


def test_the_labels_that_a_job_gives_its_pods_are_checked_on_the_job() -> None:
    assert complaints(job({QUEUE: "q", PRIORITY: "p", TIME: "60"})) == []
    assert complaints(job({TIME: "0"})) == [
        f"metadata.labels[{TIME}]: Invalid value: 0: should be greater than 0"
    ]


@pytest.mark.parametrize(("least", "why"), [("x", "invalid syntax"), ("0", ""), ("3", "")])
def test_a_job_starts_with_fewer_pods_than_it_has_and_with_one_at_least(
    least: str, why: str
) -> None:
    made = job({})
    made.spec.parallelism, made.spec.completions = 8, 3
    made.metadata.annotations[LEAST_PARALLELISM] = "2"
    assert complaints(made) == []
    made.metadata.annotations[LEAST_PARALLELISM] = least
    [text] = complaints(made)
    assert text.startswith(f"metadata.annotations[{LEAST_PARALLELISM}]: Invalid value: ")
    assert text.endswith(why or "should be between 0 and 2")


def test_a_job_keeps_its_queue_unless_it_is_suspended() -> None:
    assert complaints(job({QUEUE: "b"}), job({QUEUE: "a"})) == [
        f'metadata.labels[{QUEUE}]: Invalid value: "b": field is immutable'
    ]
    assert complaints(job({QUEUE: "b"}), job({QUEUE: "a"}, suspend=True)) == []
    assert complaints(job({PRIORITY: "b"}), job({PRIORITY: "a"})) == []


def test_a_pod_stays_in_its_group() -> None:
    old = pod({GROUP: "g"}, {COUNT: "2"})
    assert complaints(pod({GROUP: "h"}, {COUNT: "2"}), old) == [
        f'metadata.labels[{GROUP}]: Invalid value: "h": field is immutable'
    ]


def test_a_group_of_kueue_is_read_as_those_of_other_conventions() -> None:
    member = pod({GROUP: "g"}, {COUNT: "2"})
    assert (label_group_key(member), label_min_count(member)) == ("d/g", 2)
