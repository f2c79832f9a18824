"""Decisions for the members of a pod group."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, cast

from podsched.decide.decision import Decision
from podsched.decide.evaluation.diagnosis import Diagnosis
from podsched.decide.pod_group_members import GroupDecision, GroupMembers
from podsched.framework.plugin import CycleState
from podsched.framework.pod_groups import Placement, PodGroup
from podsched.framework.status import SUCCESS


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


class Nowhere:
    """A decider that finds no node for the first pod of each call, and ends with it."""

    def decide(self, trial: Any, runtime: Any, batch: Sequence[Any], **_: Any) -> list[Decision]:
        return [Decision(batch[0], CycleState(), diagnosis=Diagnosis(1))]


class NoPlugins:
    """A profile without plugins for groups."""

    plugins: ClassVar[dict[str, Any]] = {}
    placement_generate = placement_score = ()


def test_where_a_member_may_go_is_not_asked_again_after_each_that_fits_nowhere() -> None:
    many, asked = 600, list[Any]()
    members = [cast(Any, SimpleNamespace(info=number)) for number in range(many)]
    trial: Any = SimpleNamespace(restrict=lambda names: None)
    decider, runtime, cluster = cast(Any, Nowhere()), cast(Any, NoPlugins()), cast(Any, None)
    group = GroupMembers(
        decider,
        cluster,
        runtime,
        PodGroup("default/g", min_count=many),
        members,
        (),
        lambda decision: SUCCESS,
        lambda decision: None,
        nodes_of=asked.append,
    )
    for _ in group.decide_members(trial, Placement(), members, lambda: False):
        pass
    assert [decision.queued for decision in group.result.decisions] == members
    assert len(asked) < 2 * many
