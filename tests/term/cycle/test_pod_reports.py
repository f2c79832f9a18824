"""What is written about a pod that was not scheduled, and when nothing needs to be."""

from __future__ import annotations

from podsched.api.conditions import REASON_SCHEDULER_ERROR, REASON_UNSCHEDULABLE
from podsched.framework.pods import PodInfo
from podsched.term.cycle.pod_reports import Failure, status_patch
from support.engine_pods import pod_info

TEXT = "0/1 nodes are available: 1 Insufficient cpu."


def told(message: str = TEXT, reason: str = REASON_UNSCHEDULABLE, nominated: str = "") -> PodInfo:
    """A pod whose status says this already."""
    pod = pod_info("a")
    pod.pod.status.conditions.add(
        type="PodScheduled", status="False", reason=reason, message=message
    )
    pod.pod.status.nominated_node_name = nominated
    return pod


def test_the_condition_says_that_and_why_the_pod_is_not_scheduled() -> None:
    patch = status_patch(pod_info("a"), Failure(REASON_UNSCHEDULABLE, TEXT))
    assert patch is not None
    assert (patch.namespace, patch.name, patch.uid) == ("default", "a", "uid-a")
    [condition] = patch.conditions
    assert (condition.type, condition.status) == ("PodScheduled", "False")
    assert (condition.reason, condition.message) == ("Unschedulable", TEXT)
    assert not patch.HasField("nominated_node_name")


def test_the_condition_names_the_generation_of_the_pod_that_was_tried() -> None:
    pod = pod_info("a")
    pod.pod.metadata.generation = 3
    patch = status_patch(pod, Failure(REASON_UNSCHEDULABLE, TEXT))
    assert patch is not None
    assert patch.conditions[0].observed_generation == 3


def test_nothing_is_written_when_the_status_says_it_already() -> None:
    assert status_patch(told(), Failure(REASON_UNSCHEDULABLE, TEXT)) is None
    assert status_patch(told(), Failure(REASON_UNSCHEDULABLE, TEXT, "")) is None
    assert status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT, "n1")) is None


def test_another_message_reason_or_nomination_is_written() -> None:
    for failure in (
        Failure(REASON_UNSCHEDULABLE, "another"),
        Failure(REASON_SCHEDULER_ERROR, TEXT),
        Failure(REASON_UNSCHEDULABLE, TEXT, "n1"),
    ):
        assert status_patch(told(), failure) is not None


def test_clearing_a_nomination_is_written_and_leaving_it_is_not() -> None:
    cleared = status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT, ""))
    assert cleared is not None
    assert cleared.HasField("nominated_node_name")
    assert status_patch(told(nominated="n1"), Failure(REASON_UNSCHEDULABLE, TEXT)) is None
