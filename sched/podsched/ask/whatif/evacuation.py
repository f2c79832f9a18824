"""Drain nodes: which pods are evicted, in which waves, and where their replacements go.

A wave evicts all pods that budgets permit. Then their replacements are scheduled, and those with a
node count as healthy before the next wave::

    wave 1   evict web-0, web-1    budget web permits 2      web-0 -> node-3, web-1 -> node-4
    wave 2   evict web-2           permitted again
    ...      no wave is possible any more: the remaining pods are blocked

Guarantee: never more pods of a budget are disrupted than it permits (property test).

The order of a scenario (``play``): add nodes, cordon the nodes to drain, remove nodes with their
pods, drain nodes in waves, and then schedule the pods one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum

from podsched.api.objects import Node, Pod
from podsched.api.owners import controller_of
from podsched.api.service_accounts import is_mirror_pod
from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.deciding import Outcome
from podsched.ask.whatif.world import World, pods_on
from podsched.framework.pods import PodInfo

_DAEMON_SET = "DaemonSet"

UNMANAGED = "no controller would replace it"


class MoveOutcome(Enum):
    """The outcome for a pod on a node that is drained or removed."""

    MOVES = "Moves"
    NO_LONGER_FITS = "NoLongerFits"
    BLOCKED = "Blocked"
    STAYS = "Stays"
    LOST = "Lost"
    GOES_WITH_NODE = "GoesWithNode"


@dataclass(frozen=True, slots=True)
class Move:
    """A pod of a node that is drained or removed. ``wave`` counts from 1; 0: not evicted."""

    pod: PodInfo
    from_node: str
    outcome: MoveOutcome
    to_node: str = ""
    wave: int = 0
    reason: str = ""
    #: Names of the budgets that cover the pod.
    budgets: tuple[str, ...] = ()
    #: Pods that the replacement preempts.
    victims: tuple[PodInfo, ...] = ()


def stays(pod: Pod) -> str:
    """Return why a drain does not evict the pod; "" if it does."""
    if is_mirror_pod(pod):
        return "a static pod of its node"
    controller = controller_of(pod.metadata)
    if controller is None:
        return UNMANAGED
    return "of a DaemonSet" if controller.kind == _DAEMON_SET else ""


def replacement(pod: Pod) -> Pod:
    """Return the replacement that a controller would create: the same pod without a node.

    It is new, except that a Job in a queue keeps its place there.
    """
    fresh, controller = deepcopy(pod), controller_of(pod.metadata)
    if controller is None or controller.kind != "Job":
        fresh.metadata.ClearField("creation_timestamp")
    fresh.metadata.uid = f"{pod.metadata.uid}-again"
    fresh.metadata.ClearField("deletion_timestamp")
    fresh.spec.node_name = ""
    fresh.ClearField("status")
    return fresh


def drain(world: World, names: Sequence[str], budgets: Budgets) -> list[Move]:
    """Cordon nodes and evict their pods in waves; return the outcome of each pod, by name."""
    names = list(dict.fromkeys(names))  # A user may name one twice.
    for name in names:
        world.changes.cordon(name)
    moves: list[Move] = []
    waiting: list[PodInfo] = []
    for name in names:
        for pod in pods_on(world, name):
            if pod.terminating:
                continue
            why = stays(pod.pod)
            if why:
                moves.append(_left(budgets, pod, MoveOutcome.STAYS, why))
            else:
                waiting.append(pod)
    wave = 0
    while evicted := _evict_wave(world, budgets, waiting):
        wave += 1
        moves += _come_back(world, budgets, evicted, wave)
        # Some may have been preempted, too.
        waiting = [pod for pod in waiting if world.has_node(pod)]
    moves += [_left(budgets, p, MoveOutcome.BLOCKED, budgets.refusal(p.pod)) for p in waiting]
    return sorted(moves, key=lambda move: (move.from_node, move.pod.key))


def lose(world: World, names: Sequence[str], budgets: Budgets) -> list[Move]:
    """Remove nodes with their pods, regardless of budgets; return the outcome of each pod."""
    moves: list[Move] = []
    gone: list[PodInfo] = []
    for name in names:
        for pod in pods_on(world, name):
            world.changes.remove(pod)
            if pod.terminating:
                continue
            budgets.spend(pod.pod)
            why = stays(pod.pod)
            if why == UNMANAGED:
                moves.append(_left(budgets, pod, MoveOutcome.LOST, why))
            elif why:
                moves.append(_left(budgets, pod, MoveOutcome.GOES_WITH_NODE, why))
            else:
                gone.append(pod)
        world.changes.remove_node(name)
    moves += _come_back(world, budgets, gone, wave=0)
    return sorted(moves, key=lambda move: (move.from_node, move.pod.key))


def _evict_wave(world: World, budgets: Budgets, waiting: Iterable[PodInfo]) -> list[PodInfo]:
    evicted = []
    for pod in waiting:
        if not budgets.refusal(pod.pod):
            budgets.spend(pod.pod)
            world.changes.remove(pod)
            evicted.append(pod)
    return evicted


def schedule_all(world: World, pods: Sequence[PodInfo]) -> tuple[list[Outcome], list[Move]]:
    """Schedule pods in this order, then the replacements of their victims.

    Returns the outcomes of the pods and of the victims, without those that are being deleted: they
    have their replacements already. It ends, because a victim has a lower priority than its
    preemptor.
    """
    outcomes = world.schedule(pods)
    moves: list[Move] = []
    latest: Sequence[Outcome] = outcomes
    while victims := [
        (pod, one.pod) for one in latest for pod in one.victims if not pod.terminating
    ]:
        again: dict[str, tuple[PodInfo, PodInfo]] = {}
        for pod, preemptor in victims:
            if stays(pod.pod):
                reason = f"preempted by {preemptor.key}, and {stays(pod.pod)}"
                moves.append(Move(pod, pod.node_name, MoveOutcome.LOST, reason=reason))
            else:
                again[world.changes.submit(replacement(pod.pod)).uid] = pod, preemptor
        queue = world.profiles.in_queue_order(pod for pod in world.pods() if pod.uid in again)
        latest = world.schedule(queue)
        for one in latest:
            pod, preemptor = again[one.pod.uid]
            fate = MoveOutcome.MOVES if one.node_name else MoveOutcome.NO_LONGER_FITS
            reason = f"preempted by {preemptor.key}"
            reason += f"; {one.message}" if one.message else ""
            moves.append(Move(pod, pod.node_name, fate, one.node_name, reason=reason))
    return outcomes, moves


def _come_back(world: World, budgets: Budgets, gone: Sequence[PodInfo], wave: int) -> list[Move]:
    """Schedule the replacements of pods that are gone."""
    submitted = [(world.changes.submit(replacement(pod.pod)), pod) for pod in gone]
    before = {again.uid: pod for again, pod in submitted}
    queue = world.profiles.in_queue_order(again for again, _ in submitted)
    outcomes, moves = schedule_all(world, queue)
    for victim in moves:
        budgets.spend(victim.pod.pod)
        if victim.to_node:
            budgets.restore(victim.pod.pod)
    for one in outcomes:
        pod = before[one.pod.uid]
        if one.node_name:
            budgets.restore(pod.pod)
        fate = MoveOutcome.MOVES if one.node_name else MoveOutcome.NO_LONGER_FITS
        names = _names(budgets, pod)
        moves.append(
            Move(pod, pod.node_name, fate, one.node_name, wave, one.message, names, one.victims)
        )
    return moves


def _left(budgets: Budgets, pod: PodInfo, fate: MoveOutcome, reason: str) -> Move:
    """Return the outcome of a pod that is not scheduled again."""
    return Move(pod, pod.node_name, fate, reason=reason, budgets=_names(budgets, pod))


def _names(budgets: Budgets, pod: PodInfo) -> tuple[str, ...]:
    return tuple(budget.name for budget in budgets.of(pod.pod))


@dataclass(frozen=True, slots=True)
class Scenario:
    """Changes to a cluster. ``pods`` are scheduled in order, after pending ones if ``pending``.

    Nodes to remove or drain must exist, and no node may be both.
    """

    pods: Sequence[Pod] = ()
    pending: bool = False
    add: Sequence[Node] = ()
    remove: Sequence[str] = ()
    drain: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a scenario: moves of pods that left a node, and outcomes of the others."""

    moves: list[Move]
    outcomes: list[Outcome]

    @property
    def failed(self) -> bool:
        """Whether a plugin failed."""
        return any(outcome.failed for outcome in self.outcomes)

    @property
    def fits(self) -> bool:
        """Whether every pod has a node, and none was lost or blocked."""
        homeless = (MoveOutcome.NO_LONGER_FITS, MoveOutcome.BLOCKED, MoveOutcome.LOST)
        return all(one.node_name for one in self.outcomes) and not any(
            move.outcome in homeless for move in self.moves
        )


def play(world: World, scenario: Scenario) -> Report:
    """Make the changes of a scenario to the world, and return the result."""
    budgets = Budgets(world.cluster.list("PodDisruptionBudget"), [pod.pod for pod in world.pods()])
    for node in scenario.add:
        world.changes.put_node(node)
    for name in scenario.drain:
        world.changes.cordon(name)
    waiting = world.pending() if scenario.pending else []
    moves = lose(world, scenario.remove, budgets) + drain(world, scenario.drain, budgets)
    waiting += [world.changes.submit(pod) for pod in scenario.pods]
    outcomes, preempted = schedule_all(world, [*waiting, *world.waiting_with(waiting)])
    return Report(moves + preempted, outcomes[: len(waiting)])
