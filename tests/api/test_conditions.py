"""Conditions and when their status last changed."""

from __future__ import annotations

from podsched.api.conditions import condition_of, set_pod_condition
from podsched.api.objects import PodCondition, PodStatus, timestamp


def test_the_transition_time_moves_only_with_the_status() -> None:
    status = PodStatus()
    waiting = PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
    assert set_pod_condition(status, waiting, timestamp(1))
    assert not set_pod_condition(status, waiting, timestamp(2))
    waiting.message = "0/1 nodes are available"
    assert set_pod_condition(status, waiting, timestamp(3))
    stored = condition_of(status, "PodScheduled")
    assert stored is not None
    assert stored.last_transition_time == timestamp(1)
    assert set_pod_condition(status, PodCondition(type="PodScheduled", status="True"), timestamp(4))
    assert stored.last_transition_time == timestamp(4)
    assert len(status.conditions) == 1
