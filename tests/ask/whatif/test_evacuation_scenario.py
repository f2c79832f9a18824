"""Scenarios: nodes that come and go, and pods that are submitted."""

from __future__ import annotations

from podsched.ask.whatif.evacuation import Scenario, play
from podsched.ask.whatif.world import pods_on
from support.gangs import gang
from support.whatif_world import node, owned, world

SMALL = {"cpu": "2", "pods": "9"}


def test_added_nodes_take_the_pods_that_wait() -> None:
    made = world([node("a", allocatable=SMALL), owned("waits", cpu="4")])
    report = play(made, Scenario(pending=True, add=[node("b")]))
    assert [(one.pod.name, one.node_name) for one in report.outcomes] == [("waits", "b")]
    assert report.fits


def test_what_a_lost_node_gives_up_does_not_go_to_one_that_is_being_drained() -> None:
    made = world([node("a"), node("b"), node("c"), owned("web-0", "a"), owned("web-1", "b")])
    report = play(made, Scenario(remove=["a"], drain=["b"]))
    assert {move.to_node for move in report.moves} == {"c"}


def test_new_members_of_a_gang_are_placed_together_with_those_that_wait() -> None:
    group, members = gang("train", 3, 3)
    made = world([node("a"), group, members[0], owned("another", cpu="1")])
    report = play(made, Scenario(pods=members[1:]))
    assert [(one.pod.name, one.node_name) for one in report.outcomes] == [
        ("train-1", "a"),
        ("train-2", "a"),
    ]
    assert sorted(pod.name for pod in pods_on(made, "a")) == ["train-0", "train-1", "train-2"]


def test_moved_pods_are_placed_before_new_ones() -> None:
    made = world([node("a", allocatable=SMALL), node("b", allocatable=SMALL),
                  owned("web-0", "a", "2")])  # fmt: skip
    report = play(made, Scenario(pods=[owned("new", cpu="2")], drain=["a"]))
    assert report.moves[0].to_node == "b"
    assert not report.outcomes[0].node_name
    assert not report.fits
