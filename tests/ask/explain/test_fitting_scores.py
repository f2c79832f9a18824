"""The scores of feasible nodes."""

from __future__ import annotations

from support.explain_world import ExplainWorld


def world_of(*cpus: str) -> ExplainWorld:
    world = ExplainWorld()
    for number, cpu in enumerate(cpus):
        world.node(f"n{number}", allocatable={"cpu": cpu, "memory": "8Gi", "pods": "10"})
    return world


def test_the_best_nodes_come_first_with_each_plugins_points() -> None:
    world = world_of("1", "2", "16")
    world.pod("web", "900m")
    answer = world.explain("web")
    assert [score.node for score in answer.scores] == ["n2", "n1", "n0"]
    assert [score.rank for score in answer.scores] == [1, 2, 3]
    for score in answer.scores:
        assert score.total == sum(plugin.score for plugin in score.plugins)
    weights = {plugin.plugin: plugin.weight for plugin in answer.scores[0].plugins}
    assert (weights["TaintToleration"], weights["NodeResourcesFit"]) == (3, 1)


def test_nodes_that_share_the_best_score_are_counted_and_share_a_rank() -> None:
    world = world_of(*["8"] * 7, "1")
    world.pod("web", "900m")
    answer = world.explain("web")
    assert answer.tied_nodes == 7
    assert [(score.node, score.rank) for score in answer.scores] == [
        (f"n{number}", 1) for number in range(5)
    ]
