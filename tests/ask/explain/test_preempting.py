"""What preemption could do, told to those who ask."""

from __future__ import annotations

import pytest

from podsched.ask import live_explanation
from support.explain_world import ExplainWorld


@pytest.fixture
def world() -> ExplainWorld:
    """Three full nodes: a with a pod of priority 5, b with one of 1, c with two of 1."""
    made = ExplainWorld()
    for name in "abc":
        made.node(name, allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"})
    made.pod("five", "4", on="a", priority=5)
    made.pod("one", "4", on="b", priority=1, labels={"app": "guarded"})
    made.pod("two", "2", on="c", priority=1)
    made.pod("three", "2", on="c", priority=1)
    return made


def test_candidates_are_told_with_their_victims_the_best_first(world: ExplainWorld) -> None:
    world.pod("web", "3", priority=9)
    found = world.explain("web").preemption
    assert found.eligible
    told = [(c.node, sorted(v.name for v in c.victims)) for c in found.candidates]
    assert told == [("b", ["one"]), ("c", ["three", "two"]), ("a", ["five"])]
    assert (found.candidate_nodes, found.tied_nodes, found.untried_nodes) == (3, 1, 0)


def test_budgets_in_the_way_are_named(world: ExplainWorld) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "guarded"}}},
        "status": {"disruptionsAllowed": 0},
    }
    world.manifest(budget)
    world.pod("web", "3", priority=9)
    guarded = next(c for c in world.explain("web").preemption.candidates if c.node == "b")
    assert (guarded.pdb_violations, list(guarded.budgets)) == (1, ["default/guard"])


def test_a_pod_that_may_not_preempt_is_told_why(world: ExplainWorld) -> None:
    world.pod("web", "3", priority=9, preemptionPolicy="Never")
    found = world.explain("web").preemption
    assert (found.eligible, found.reason) == (
        False,
        "not eligible due to preemptionPolicy=Never.",
    )


def test_nodes_that_preemption_cannot_help_on_are_counted_by_reason(world: ExplainWorld) -> None:
    world.pod("web", "3", priority=0)
    found = world.explain("web").preemption
    assert found.eligible
    assert not found.candidates
    assert found.reason.startswith("no node has victims")
    assert [(r.reason, r.nodes) for r in found.rejected] == [
        ("No preemption victims found for incoming pod", 3)
    ]


def test_live_answers_look_at_a_bounded_number_of_nodes(
    world: ExplainWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_explanation, "PREEMPTION_NODES", 1)
    world.pod("web", "3", priority=9)
    found = world.explain("web").preemption
    assert (found.candidate_nodes, found.untried_nodes) == (1, 2)
