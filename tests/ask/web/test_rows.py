"""What the page shows of an object, and what never leaves the process."""

from __future__ import annotations

import pytest

from podsched.ask.web.rows import (
    CORDONED,
    HOLLOW,
    NOT_READY,
    TAINTED,
    TEXT,
    event_row,
    gist,
    node_row,
    node_state,
    pod_row,
    requests_of,
)
from support.page_world import event, node, pod


def test_amounts_are_millicores_and_mebibytes() -> None:
    row = node_row(node("n0", "3500m", "a"))
    assert row.allocatable == {"cpu": 3500, "memory": 8192, "pods": 110}
    made = pod("p", "n0", cpu="250m")
    made.spec.containers[0].resources.requests["memory"] = "100M"
    assert requests_of(made) == {"cpu": 250, "memory": 96, "pods": 1}, "rounded up"


def test_what_cannot_be_read_counts_as_none() -> None:
    assert node_row(node("n0", "a lot")).allocatable == {}
    assert requests_of(pod("p", cpu="much")) == {"pods": 1}


def test_the_state_of_a_node() -> None:
    assert node_state(node("n")) == 0
    off = node("n")
    off.status.conditions[0].status = "Unknown"
    assert node_state(off) == NOT_READY
    cordoned = node("n", cordoned=True)
    cordoned.spec.taints.add(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
    assert node_state(cordoned) == CORDONED, "its taint says the same"
    cordoned.spec.taints.add(key="gpu", effect="NoExecute")
    assert node_state(cordoned) == CORDONED | TAINTED
    preferred = node("n")
    preferred.spec.taints.add(key="gpu", effect="PreferNoSchedule")
    assert node_state(preferred) == 0
    hollow = node("n")
    hollow.metadata.labels["podsched.io/hollow"] = "true"
    assert node_state(hollow) == HOLLOW


def test_a_pod_waits_for_a_reason() -> None:
    def why(made_pending: object) -> tuple[str, str]:
        assert made_pending is not None
        return made_pending.reason, made_pending.message  # type: ignore[attr-defined]

    assert why(pod_row(pod("p")).pending) == ("Waiting", "not tried yet")
    told = pod_row(pod("p", message="0/3 nodes are available")).pending
    assert why(told) == ("Unschedulable", "0/3 nodes are available")
    gated = pod("p")
    gated.spec.scheduling_gates.add(name="quota")
    assert why(pod_row(gated).pending) == (
        "SchedulingGated",
        "waits for quota to be removed",
    )
    assert pod_row(pod("p", "n0")).pending is None
    assert pod_row(pod("p", phase="Failed")).pending is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_takes_no_room(phase: str) -> None:
    row = pod_row(pod("p", "n0", phase=phase))
    assert (row.node, row.ended, row.requests) == ("", True, {})


def test_the_latest_decision_is_read_off_the_pod() -> None:
    bound = pod_row(pod("p", "n0", at=50)).decision
    assert bound is not None and (bound.at, bound.node, bound.reason) == (50, "n0", "Scheduled")
    waits = pod_row(pod("p", message="no room", at=60)).decision
    assert waits is not None and (waits.node, waits.message) == ("", "no room")
    assert pod_row(pod("p")).decision is None


def test_long_texts_are_cut_in_lists() -> None:
    row = pod_row(pod("p", message="x" * 2 * TEXT)).pending
    assert row is not None and len(row.message) == TEXT and row.message.endswith("…")


@pytest.mark.parametrize(
    "message",
    [
        "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had untolerated taint(s).",
        "0/9 nodes are available: 9 node(s) had untolerated taint(s), 1 Insufficient cpu. "
        "no new claims to deallocate, preemption: 0/9 nodes are available: "
        "9 No preemption victims found for incoming pod.",
    ],
)
def test_pods_that_wait_for_the_same_have_the_same_gist(message: str) -> None:
    assert gist(message) == "Insufficient cpu, node(s) had untolerated taint(s)"


def test_another_message_is_its_own_gist() -> None:
    assert gist("waits for quota to be removed") == "waits for quota to be removed"


def test_an_event_is_told_with_its_latest_time_and_count() -> None:
    made = event("e", 100, "web-0")
    made.series.count = 7
    made.series.last_observed_time.seconds = 160
    row = event_row(made)
    assert (row.at, row.count, row.object) == (160, 7, "Pod default/web-0")
