"""Which evictions budgets permit."""

from __future__ import annotations

from typing import Any

import pytest

from podsched.ask.whatif.budgets import Budgets
from podsched.v1 import objects_pb2 as v1
from support.whatif_world import budget, owned


def running(name: str, *, ready: bool = True, **parts: Any) -> v1.Pod:
    """A pod with a status as of a kubelet."""
    made = owned(name, "a", **parts)
    made.status.phase = "Running"
    made.status.conditions.add(type="Ready", status="True" if ready else "False")
    return made


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"min_available": "3"}, 1),
        ({"min_available": "60%"}, 1),
        ({"max_unavailable": "25%"}, 1),
        ({"max_unavailable": "2"}, 2),
        ({"min_available": "9"}, 0),
    ],
)
def test_a_budget_without_a_status_is_counted(spec: dict[str, str], allowed: int) -> None:
    pods = [owned(f"web-{i}", "a") for i in range(4)]
    assert Budgets([budget("web", **spec)], pods).all[0].allowed == allowed


@pytest.mark.parametrize("field", ["min_available", "max_unavailable"])
def test_a_budget_whose_number_cannot_be_read_permits_nothing(field: str) -> None:
    """Its controller cannot read it either, and never says how many evictions it permits."""
    pods = [owned(f"web-{i}", "a") for i in range(2)]
    budgets = Budgets([budget("web", **{field: "many"})], pods)
    assert budgets.refusal(pods[0]) == "budget web needs 2 healthy pods and has 2"


def test_a_budget_whose_pods_its_controller_cannot_count_permits_nothing() -> None:
    """It has no numbers in its status then, which does not mean that they can be counted here."""
    failed = budget("web", max_unavailable="1")
    why = "jobs.batch does not implement the scale subresource"
    failed.status.conditions.add(
        type="DisruptionAllowed", status="False", reason="SyncFailed", message=why
    )
    pods = [running(f"web-{i}") for i in range(2)]
    assert Budgets([failed], pods).refusal(pods[0]) == f"budget web failed sync: {why}"


def test_a_pod_that_is_being_deleted_is_not_counted_as_healthy() -> None:
    pods = [owned(f"web-{i}", "a") for i in range(2)]
    pods[0].metadata.deletion_timestamp.GetCurrentTime()
    budgets = Budgets([budget("web", min_available="1")], pods)
    assert budgets.refusal(pods[1]) == "budget web needs 1 healthy pods and has 1"
    assert not budgets.refusal(pods[0])


def test_a_status_counts_for_more_than_what_can_be_counted() -> None:
    known = budget("web", min_available="1")
    known.status.observed_generation, known.status.disruptions_allowed = 1, 0
    known.status.desired_healthy, known.status.current_healthy = 1, 1
    pods = [running(f"web-{i}") for i in range(4)]
    assert Budgets([known], pods).refusal(pods[0])


def test_an_eviction_is_spent_and_a_replacement_restores_it() -> None:
    pods = [owned(f"web-{i}", "a") for i in range(2)]
    budgets = Budgets([budget("web", max_unavailable="1")], pods)
    assert not budgets.refusal(pods[0])
    budgets.spend(pods[0])
    assert budgets.refusal(pods[1]) == "budget web needs 1 healthy pods and has 1"
    budgets.restore(pods[0])
    assert not budgets.refusal(pods[1])


@pytest.mark.parametrize("phase", ["Running", "Pending"])
def test_the_replacement_of_a_pod_that_was_not_ready_counts_as_ready(phase: str) -> None:
    sick = running("web-2", ready=False)
    sick.status.phase = phase
    pods = [running("web-0"), running("web-1"), sick]
    budgets = Budgets([budget("web", min_available="2")], pods)
    budgets.spend(sick)
    assert budgets.refusal(pods[0]) == "budget web needs 2 healthy pods and has 2"
    budgets.restore(sick)
    assert not budgets.refusal(pods[0])
    budgets.spend(pods[0])
    assert budgets.refusal(pods[1]) == "budget web needs 2 healthy pods and has 2"


def test_in_whatever_order_pods_go_and_are_replaced_their_budget_permits_the_same() -> None:
    pods = [running("web-0"), running("web-1", ready=False)]
    for gone in pods, pods[::-1]:
        for back in pods, pods[::-1]:
            budgets = Budgets([budget("web", min_available="1")], pods)
            for pod in gone:
                budgets.spend(pod)
            for pod in back:
                budgets.restore(pod)
            assert budgets.all[0].allowed == 1


def test_a_pod_that_is_not_ready_may_go_where_enough_others_are() -> None:
    sick = running("web-2", ready=False)
    pods = [running("web-0"), running("web-1"), sick]
    enough = Budgets([budget("web", min_available="2")], pods)
    assert not enough.refusal(sick)
    assert enough.refusal(pods[0])
    short = Budgets([budget("web", min_available="3")], pods)
    assert short.refusal(sick)
    policy = {"min_available": "3", "unhealthy_pod_eviction_policy": "AlwaysAllow"}
    assert not Budgets([budget("web", **policy)], pods).refusal(sick)


def test_two_budgets_for_one_pod_permit_no_eviction() -> None:
    other = budget("web", max_unavailable="5")
    other.metadata.name = "more"
    pod = owned("web-0", "a")
    refusal = Budgets([budget("web", max_unavailable="5"), other], [pod]).refusal(pod)
    assert refusal == "several budgets cover it (web, more), which evictions do not support"


def test_a_pod_that_has_not_started_needs_no_budget() -> None:
    starting = owned("web-0", "a")
    starting.status.phase = "Pending"
    assert not Budgets([budget("web", min_available="1")], [starting]).refusal(starting)


def test_a_pod_that_waits_for_a_node_counts_as_one_that_is_not_healthy() -> None:
    pods = [owned("web-0", "a"), owned("web-1", "a"), owned("web-2")]
    budgets = Budgets([budget("web", max_unavailable="1")], pods)
    assert budgets.refusal(pods[0]) == "budget web needs 2 healthy pods and has 2"


def test_a_budget_without_a_number_permits_nothing() -> None:
    pods = [owned(f"web-{i}", "a") for i in range(2)]
    assert Budgets([budget("web")], pods).refusal(pods[0])


def test_a_pod_that_is_being_deleted_has_its_replacement_already() -> None:
    pods = [owned(f"web-{i}", "a") for i in range(4)]
    pods[0].metadata.deletion_timestamp.GetCurrentTime()
    assert not Budgets([budget("web", max_unavailable="1")], pods).refusal(pods[1])
