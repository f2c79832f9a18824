"""The one line of a pod group and its members."""

from __future__ import annotations

import pytest

from podsched.api.objects import Pod, PodGroup
from podsched.ask.web.pod_groups import (
    WAITING_FOR_GROUP,
    WAITING_FOR_MEMBERS,
    PodGroupLine,
    pod_group_line,
    pod_group_row,
)
from podsched.ask.web.rows import pod_row
from support.page_world import START, pod, pod_group


def line(group: PodGroup | None, *members: Pod) -> PodGroupLine:
    row = None if group is None else pod_group_row(group)
    return pod_group_line(row, [pod_row(member) for member in members])


def waiting(name: str, message: str = "no room", at: float = START) -> Pod:
    return pod(name, message=message, group="g", at=at)


def bound(name: str, on: str = "n0", at: float = START) -> Pod:
    return pod(name, on, group="g", at=at)


def gated(name: str) -> Pod:
    made = pod(name, group="g")
    made.spec.scheduling_gates.add(name="quota")
    return made


GANG = pod_group("g", 2, message="0/3 placements are available")
STARTED = pod_group("g", 2, scheduled=True)


@pytest.mark.parametrize(
    ("group", "members", "state", "message"),
    [
        (None, [waiting("a")], WAITING_FOR_GROUP, ""),
        (pod_group("g", 2), [waiting("a")], WAITING_FOR_MEMBERS, "1 of 2 are there"),
        (pod_group("g"), [], WAITING_FOR_MEMBERS, "0 of 1 are there"),
        (
            GANG,
            [waiting("a"), gated("b")],
            WAITING_FOR_MEMBERS,
            "1 of 2 are there, 1 more with scheduling gates",
        ),
        (pod_group("g", 2), [waiting("a"), waiting("b")], "Pending", "not tried yet"),
        (GANG, [waiting("a"), waiting("b")], "Unschedulable", "0/3 placements are available"),
        (STARTED, [bound("a"), bound("b")], "Scheduled", ""),
        (STARTED, [bound("a"), bound("b"), waiting("c", "too late")], "Scheduled", "too late"),
        (STARTED, [], "Scheduled", ""),
    ],
)
def test_a_group_has_a_state_and_says_why(
    group: PodGroup | None, members: list[Pod], state: str, message: str
) -> None:
    row = line(group, *members).row
    assert (row.reason, row.message) == (state, message)


@pytest.mark.parametrize(
    ("group", "members", "waits"),
    [
        (GANG, [waiting("a"), waiting("b")], True),
        (GANG, [], True),
        (STARTED, [bound("a"), bound("b")], False),
        (STARTED, [bound("a"), waiting("b")], True),
        (STARTED, [], False),
    ],
)
def test_a_group_waits_that_has_not_started_or_of_which_members_wait(
    group: PodGroup, members: list[Pod], waits: bool
) -> None:
    assert line(group, *members).waits is waits


def test_members_are_counted_without_those_that_have_ended() -> None:
    ended = pod("c", "n0", phase="Succeeded", group="g")
    found = line(STARTED, bound("a"), waiting("b"), ended)
    assert (found.row.with_node, found.row.members, found.row.policy) == (
        1,
        2,
        "gang of at least 2",
    )


def test_without_a_pod_group_the_age_is_that_of_the_member_that_waits_longest() -> None:
    assert line(None, waiting("a", at=START + 9), waiting("b", at=START)).row.since == START
    assert line(GANG, waiting("a", at=START + 9)).row.since == START, "its own age"


def test_the_decision_about_a_group_is_the_latest_one_about_a_member() -> None:
    assert line(pod_group("g", 2), pod("a", group="g")).decision is None
    found = line(STARTED, bound("a", at=START), bound("b", at=START + 3), waiting("c")).decision
    assert found is not None and (found.at, found.node) == (START + 3, "")
    assert (found.reason, found.message) == ("Scheduled", "2 of 3 members have a node")
    failed = line(GANG, waiting("a"), waiting("b")).decision
    assert failed is not None
    assert (failed.reason, failed.message) == ("Unschedulable", "0/3 placements are available")


def test_while_victims_end_it_says_on_how_many_nodes_room_is_made() -> None:
    members = [waiting("a"), waiting("b"), waiting("c")]
    for member, node in zip(members, ("n0", "n1", "n1"), strict=True):
        member.status.nominated_node_name = node
    assert line(GANG, *members).row.nominated == "2 nodes"
    assert line(GANG, waiting("a")).row.nominated == ""
