"""The places in which pods wait: what contradicts the invariants is found."""

from __future__ import annotations

from podsched.framework.pods import QueuedPodInfo
from podsched.queue.hints import HintTable, Strategy
from podsched.queue.observer import QueueObserver
from podsched.queue.pending_pods import PendingPods, count_failure
from support.queue_world import PrioritySort, pod


def pending_pods() -> PendingPods:
    observer = QueueObserver()
    hints = HintTable({}, observer)
    return PendingPods(PrioritySort(), {}, hints, observer, initial_backoff=1.0, max_backoff=10.0)


def entered(pods: PendingPods, name: str) -> QueuedPodInfo:
    queued = QueuedPodInfo(pod(name), 1.0)
    assert pods.to_active(queued, "PodAdd", 1.0) and pods.active.get(f"uid-{name}") is queued
    assert list(pods.problems()) == []
    return queued


def test_a_pod_in_two_places_is_a_problem() -> None:
    pods = pending_pods()
    pods.backoff.add(entered(pods, "a"))
    assert list(pods.problems()) == ["uid-a is in 2 places"]


def test_a_rejection_that_was_not_counted_is_a_problem() -> None:
    pods = pending_pods()
    queued = entered(pods, "a")
    queued.unschedulable_plugins.add("Fit")
    (problem,) = pods.problems()
    assert problem.startswith("rejections are")


def test_a_gated_pod_outside_unschedulable_pods_is_a_problem() -> None:
    pods = pending_pods()
    entered(pods, "a").gating_plugin = "Gates"
    assert list(pods.problems()) == ["default/a is gated outside unschedulablePods"]


def test_a_pod_that_backs_off_leaves_by_pop_when_active_q_is_empty() -> None:
    pods = pending_pods()
    queued = entered(pods, "a")
    assert pods.pop(1, 1.0, None) == [queued]
    queued.unschedulable_plugins.add("Fit")
    count_failure(queued, 1.0)
    pods.stamp(queued, 1.0)
    pods.rejections.add(queued)
    assert pods.requeue(queued, Strategy.AFTER_BACKOFF, "NodeAdd", 1.0) == "backoff"
    assert pods.pop(1, 1.0, None) == [queued]
    assert len(pods) == 0 and list(pods.problems()) == []
