"""A cluster with nodes added, removed or drained, and pods submitted: what moves, what fits.

The order is that of the question: nodes are added, those to be drained are cordoned, the removed
ones go with all that runs there, the drained ones are emptied in waves, and then the pods are
scheduled one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from podsched.api.objects import Node, Pod
from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.evacuation import Fate, Move, drain, lose, schedule_all
from podsched.ask.whatif.world import Outcome, World


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is changed. ``pods`` are submitted in this order, after those that wait if ``pending``.

    Nodes that are removed or drained exist, and no node is both.
    """

    pods: Sequence[Pod] = ()
    pending: bool = False
    add: Sequence[Node] = ()
    remove: Sequence[str] = ()
    drain: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What came of it: of the pods that had to leave a node, and of those that had none."""

    moves: list[Move] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether a plugin failed."""
        return any(outcome.failed for outcome in self.outcomes)

    @property
    def fits(self) -> bool:
        """Whether every pod has a place, and none was lost or kept where it was to leave."""
        homeless = (Fate.NO_LONGER_FITS, Fate.BLOCKED, Fate.LOST)
        return all(one.node_name for one in self.outcomes) and not any(
            move.fate in homeless for move in self.moves
        )


def play(world: World, scenario: Scenario) -> Report:
    """Change the world as the scenario says."""
    budgets = Budgets(world.cluster.list("PodDisruptionBudget"), [pod.pod for pod in world.pods()])
    for node in scenario.add:
        world.put_node(node)
    for name in scenario.drain:
        world.cordon(name)
    waiting = world.pending() if scenario.pending else []
    moves = lose(world, scenario.remove, budgets) + drain(world, scenario.drain, budgets)
    waiting += [world.submit(pod) for pod in scenario.pods]
    outcomes, preempted = schedule_all(world, waiting)
    return Report(moves + preempted, outcomes)
