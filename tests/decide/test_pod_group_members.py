"""Decisions for the members of a pod group."""

from __future__ import annotations

from typing import Any, cast

from podsched.decide.decision import Decision
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.pod_group_members import GroupDecision
from podsched.framework.plugin import CycleState


class Read(Diagnosis):
    """Counts how often its plugins are read."""

    times = 0

    @property
    def unschedulable_plugins(self) -> set[str]:
        Read.times += 1
        return set(self.rejected_elsewhere)


def refused(members: int, plugin: str) -> GroupDecision:
    decisions = [
        Decision(cast(Any, None), CycleState(), diagnosis=Read(1, rejected_elsewhere={plugin}))
        for _ in range(members)
    ]
    return GroupDecision(decisions=decisions)


def test_the_plugins_of_another_try_are_read_once_for_each_of_its_members() -> None:
    mine, other = refused(30, "Mine"), refused(20, "Others")
    Read.times = 0
    mine.also_rejected_by(other)
    assert Read.times == 20
    assert mine.rejecting == {"Mine", "Others"}
