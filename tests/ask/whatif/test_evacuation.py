"""Emptying nodes in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.evacuation import Move, MoveOutcome, drain, lose, schedule_all
from podsched.ask.whatif.world import World, node_names, pods_on
from support.examples import examples
from support.whatif_world import budget, node, owned, world


def budgets_of(made: World) -> Budgets:
    return Budgets(made.cluster.list("PodDisruptionBudget"), [pod.pod for pod in made.pods()])


def fates(moves: list[Move]) -> dict[str, Any]:
    return {move.pod.name: (move.outcome, move.to_node, move.wave) for move in moves}


def test_pods_move_in_waves_that_their_budget_permits() -> None:
    pods = [owned(f"web-{i}", "a") for i in range(3)]
    made = world([node("a"), node("b"), *pods, budget("web", min_available="2")])
    moves = drain(made, ["a"], budgets_of(made))
    assert fates(moves) == {f"web-{i}": (MoveOutcome.MOVES, "b", i + 1) for i in range(3)}
    assert moves[0].budgets == ("web",)


def test_a_node_that_is_named_twice_is_drained_once() -> None:
    made = world([node("a"), node("b"), owned("web-0", "a")])
    moves = drain(made, ["a", "a"], budgets_of(made))
    assert fates(moves) == {"web-0": (MoveOutcome.MOVES, "b", 1)}


def test_a_budget_that_permits_nothing_blocks_and_is_named() -> None:
    made = world([node("a"), node("b"), owned("web-0", "a"), budget("web", min_available="1")])
    [move] = drain(made, ["a"], budgets_of(made))
    assert (move.outcome, move.reason) == (
        MoveOutcome.BLOCKED,
        "budget web needs 1 healthy pods and has 1",
    )
    assert [pod.name for pod in pods_on(made, "a")] == ["web-0"]


def test_without_a_place_for_the_first_ones_a_budget_lets_no_more_go() -> None:
    pods = [owned(f"web-{i}", "a", "2") for i in range(2)]
    made = world([node("a"), *pods, budget("web", max_unavailable="1")])
    assert sorted(move.outcome.value for move in drain(made, ["a"], budgets_of(made))) == [
        "Blocked",
        "NoLongerFits",
    ]


def test_what_replacements_preempt_counts_for_its_budget_in_the_next_wave() -> None:
    pods = [
        owned("high", "a", "2", owner="high", priority=10),
        owned("web-0", "a"),
        owned("web-1", "a"),
        owned("web-2", "b"),
    ]
    nodes = [node(name, allocatable={"cpu": cpu, "pods": "9"}) for name, cpu in ("a4", "b2", "c1")]
    made = world([*nodes, *pods, budget("web", min_available="2")])
    assert fates(drain(made, ["a"], budgets_of(made))) == {
        "high": (MoveOutcome.MOVES, "b", 1),
        "web-0": (MoveOutcome.MOVES, "c", 1),
        "web-1": (MoveOutcome.BLOCKED, "", 0),
        "web-2": (MoveOutcome.NO_LONGER_FITS, "", 0),
    }


def test_what_has_no_controller_or_belongs_to_the_node_stays() -> None:
    mirror = owned("static", "a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    alone, daemon = owned("alone", "a", owner=""), owned("ds", "a", kind="DaemonSet")
    made = world([node("a"), node("b"), mirror, alone, daemon])
    moves = drain(made, ["a"], budgets_of(made))
    assert {move.pod.name: move.reason for move in moves} == {
        "static": "a static pod of its node",
        "alone": "no controller would replace it",
        "ds": "of a DaemonSet",
    }


def test_a_node_that_is_lost_takes_its_pods_along_whatever_budgets_say() -> None:
    pods = [owned("web-0", "a"), owned("alone", "a", owner=""), owned("ds", "a", kind="DaemonSet")]
    made = world([node("a"), node("b"), *pods, budget("web", min_available="1")])
    moves = lose(made, ["a"], budgets_of(made))
    assert fates(moves) == {
        "web-0": (MoveOutcome.MOVES, "b", 0),
        "alone": (MoveOutcome.LOST, "", 0),
        "ds": (MoveOutcome.GOES_WITH_NODE, "", 0),
    }
    assert node_names(made) == ["b"]


@pytest.mark.parametrize("leave", [drain, lose])
def test_pods_that_are_being_deleted_are_no_loss(leave: Callable[..., list[Move]]) -> None:
    pods = [owned("web-0", "a"), owned("alone", "a", owner="")]
    for pod in pods:
        pod.metadata.deletion_timestamp.GetCurrentTime()
    made = world([node("a"), node("b"), *pods])
    assert not leave(made, ["a"], budgets_of(made))


def test_victims_of_a_preemption_are_looked_after() -> None:
    small = {"cpu": "2", "pods": "9"}
    pods = [owned("low", "a", "2"), owned("alone", "b", "2", owner="")]
    made = world([node("a", allocatable=small), node("b", allocatable=small), *pods])
    urgent = [made.changes.submit(owned(f"high-{i}", cpu="2", priority=10)) for i in range(2)]
    outcomes, moves = schedule_all(made, urgent)
    assert all(outcome.node_name for outcome in outcomes)
    assert {move.pod.name: move.outcome for move in moves} == {
        "low": MoveOutcome.NO_LONGER_FITS,
        "alone": MoveOutcome.LOST,
    }


def test_a_victim_that_is_being_deleted_is_not_replaced_again() -> None:
    leaving = owned("low", "a", "2")
    leaving.metadata.deletion_timestamp.GetCurrentTime()
    made = world([node("a", allocatable={"cpu": "2", "pods": "9"}), node("b"), leaving])
    made.changes.cordon("b")
    [high], moves = schedule_all(made, [made.changes.submit(owned("high", cpu="2", priority=10))])
    assert ([victim.name for victim in high.victims], moves) == (["low"], [])


APPS = ("web", "db", "bare")


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes, pods of up to three applications on them, and budgets of all forms."""
    count = draw(st.integers(2, 4))
    objects: list[Any] = [
        node(f"n{i}", allocatable={"cpu": str(draw(st.integers(2, 6))), "pods": "20"})
        for i in range(count)
    ]
    for number in range(draw(st.integers(1, 10))):
        app = draw(st.sampled_from(APPS))
        where = f"n{draw(st.integers(0, count - 1))}"
        objects.append(owned(f"{app}-{number}", where, "500m", owner=app))
    for app in APPS:
        form = draw(st.sampled_from(("min_available", "max_unavailable", "none")))
        amount = draw(st.sampled_from(("0", "1", "2", "50%")))
        if form != "none":
            objects.append(budget(app, **{form: amount}))
    return objects


@given(objects=clusters(), number=st.integers(1, 2))
@examples(30)
def test_at_no_moment_of_a_drain_is_a_budget_violated(objects: list[Any], number: int) -> None:
    made = world(objects)
    before = budgets_of(made)
    needed = {one.name: one.desired for one in before.all}
    there = Counter(pod.pod.metadata.labels["app"] for pod in made.pods())
    moves = drain(made, [f"n{i}" for i in range(number)], budgets_of(made))
    waves = sorted({move.wave for move in moves if move.wave})
    for wave in waves:
        gone = [move for move in moves if move.wave == wave]
        for move in gone:
            there[move.pod.pod.metadata.labels["app"]] -= 1
        touched = {name for move in gone for name in move.budgets}
        assert all(there[app] >= needed[app] for app in touched)
        for move in gone:
            there[move.pod.pod.metadata.labels["app"]] += move.outcome is MoveOutcome.MOVES
    left = [move for move in moves if move.outcome is MoveOutcome.BLOCKED]
    assert all(there[move.budgets[0]] <= needed[move.budgets[0]] for move in left)
