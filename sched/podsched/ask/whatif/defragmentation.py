"""Find a few moves of pods that empty nodes, or make room for a pending pod.

Pods move one after another: budgets must permit each eviction, and each replacement must fit
without a preemption. So a plan can be carried out step by step, and stopped after any step.

Both searches are greedy, because finding the fewest moves is bin packing (NP-hard). Nodes are
emptied in the order of their requests, the least used first, and the largest pods of a node move
first. To make room for a pod, the search tries each of the most promising nodes: it removes the
largest pods until the pod fits, and then puts back every pod that can stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from podsched.api.objects import Pod
from podsched.api.resources import CPU, MEMORY, PODS
from podsched.ask.whatif.budgets import Budgets
from podsched.ask.whatif.evacuation import UNMANAGED, replacement, stays
from podsched.ask.whatif.world import World, node_names, pods_on
from podsched.config.flags import flag
from podsched.framework.pods import PodInfo

#: Max nodes on which room for one pod is searched for.
MAX_CANDIDATES = 100
#: Lowest priority of pods that never move: that of system-cluster-critical.
_CRITICAL = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Rules:
    """Which pods may be moved, and how many."""

    max_moves: int = flag(10, "N", min=1, max=1000)
    """Move at most N pods."""
    force: bool = flag(False)
    """Also move pods without a controller, by a copy."""
    local_data: bool = flag(False, names="--delete-emptydir-data")
    """Also move pods with emptyDir volumes."""


@dataclass(frozen=True, slots=True)
class Step:
    """The move of a pod from one node to another."""

    pod: PodInfo
    from_node: str
    to_node: str


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Moves in order, the nodes that they empty, and the node that takes the pending pod."""

    steps: tuple[Step, ...] = ()
    freed: tuple[str, ...] = ()
    node_name: str = ""


def obstacle(pod: Pod, rules: Rules) -> str:
    """Return why a pod must not be moved; "" if it may be."""
    why = stays(pod)
    if why and not (why == UNMANAGED and rules.force):
        return why
    if pod.spec.priority >= _CRITICAL:
        return "critical for the system"
    if not rules.local_data and any(volume.HasField("empty_dir") for volume in pod.spec.volumes):
        return "with data in emptyDir volumes"
    return ""


# ---------------------------------------------------------------------- whole nodes


def free_nodes(world: World, number: int, rules: Rules, budgets: Budgets) -> Defragmentation:
    """Return moves that empty up to ``number`` nodes; does not change the world.

    A node is empty if it has only static pods and pods of DaemonSets. Nodes that are already empty
    stay empty.
    """
    candidates, best, failures = [], Defragmentation(), 0
    empty: set[str] = set()
    with world.changes.trial():
        for name in node_names(world):
            moving = _moving(world, name)
            if not moving:
                world.changes.cordon(name)
                empty.add(name)
            elif not any(obstacle(pod.pod, rules) or pod.terminating for pod in moving):
                candidates.append((len(moving), _size(moving), name))
        for count, _, name in sorted(candidates):
            if len(best.freed) == number or failures == MAX_CANDIDATES:
                break
            if len(best.steps) + count > rules.max_moves:
                break
            found = _emptied(world, (*best.freed, name), empty, budgets)
            if found is None:
                failures += 1
            else:
                best = found
    return best


def must_leave(pod: Pod) -> bool:
    """Whether a node is empty only without the pod: static pods and those of DaemonSets stay."""
    return stays(pod) in ("", UNMANAGED)


def _moving(world: World, name: str) -> list[PodInfo]:
    """Return the pods that must leave a node to empty it."""
    return [pod for pod in pods_on(world, name) if must_leave(pod.pod)]


def _emptied(
    world: World, names: tuple[str, ...], empty: Collection[str], budgets: Budgets
) -> Defragmentation | None:
    """Return the moves that empty all of these nodes, cordoned together; None if a pod cannot move.

    All moves are computed anew for each further node, because pods must not move to that node.
    ``empty``: nodes that must stay empty. Pods may tolerate that nodes are cordoned.
    """
    moving = [_moving(world, name) for name in names]
    steps: list[Step] = []
    with world.changes.trial():
        for name in names:
            world.changes.cordon(name)
        for some in moving:
            made = _relocate(world, _largest_first(some), budgets, {*names, *empty})
            if made is None:
                return None
            steps += made
    return Defragmentation(tuple(steps), names)


def _relocate(
    world: World, pods: Iterable[PodInfo], budgets: Budgets, avoided: Collection[str]
) -> list[Step] | None:
    """Move pods one after another; None if a budget refuses or no node but those has room."""
    steps = []
    for pod in pods:
        if budgets.refusal(pod.pod):
            return None
        node = _replaced(world, pod)
        if not node or node in avoided:
            return None
        steps.append(Step(pod, pod.node_name, node))
    return steps


def _replaced(world: World, pod: PodInfo) -> str:
    """Replace a pod by another one; return its node, "" if there is no room.

    A pod without a controller stays until its copy has a node, as when the moves are carried out.
    """
    again = replacement(pod.pod)
    is_copied = stays(pod.pod) == UNMANAGED
    if is_copied:
        again.metadata.name = again.metadata.uid  # A name that no other pod has.
    else:
        world.changes.remove(pod)
    [outcome] = world.schedule([world.changes.submit(again)], preempt=False)
    if is_copied:
        world.changes.remove(pod)
    return outcome.node_name


# ---------------------------------------------------------------------- room for one pod


def make_room(
    world: World, waiting: PodInfo, rules: Rules, budgets: Budgets
) -> Defragmentation | None:
    """Return the fewest moves found after which a pending pod fits; None if none are found.

    Pods of a higher priority than the pending one do not move: their replacements could take the
    room again before the pending pod.
    """
    best: tuple[tuple[int, int], Defragmentation] | None = None
    for name in _promising(world, waiting, rules):
        with world.changes.trial():
            found = _room_on(world, waiting, name, rules, budgets)
        if found is None or len(found.steps) > rules.max_moves:
            continue
        cost = len(found.steps), _size([step.pod for step in found.steps])
        if best is None or cost < best[0]:
            best = cost, found
        if cost[0] <= 1:  # No other node needs fewer moves.
            break
    return None if best is None else best[1]


def _promising(world: World, waiting: PodInfo, rules: Rules) -> list[str]:
    """Return nodes with enough allocatable resources, those first that lack least free room."""
    nodes, requests = world.cluster.nodes, waiting.cls.requests
    found = []
    for row in np.flatnonzero(nodes.alive).tolist():
        name = nodes.names[row]
        movable = _movable(world, name, waiting, rules)
        lacking, enough = 0.0, bool(movable)
        for resource, amount in {**requests, PODS: 1}.items():
            if resource == PODS:
                free = int(nodes.allowed_pod_number[row] - nodes.pod_count[row])
                gained = len(movable)
            else:
                free = int(nodes.allocatable(resource)[row] - nodes.requested(resource)[row])
                gained = sum(pod.cls.requests.get(resource, 0) for pod in movable)
            enough = enough and free + gained >= amount
            lacking = max(lacking, (amount - free) / max(amount, 1))
        if enough:
            found.append((lacking, name))
    return [name for _, name in sorted(found)[:MAX_CANDIDATES]]


def _movable(world: World, name: str, waiting: PodInfo, rules: Rules) -> list[PodInfo]:
    return [
        pod
        for pod in pods_on(world, name)
        if pod.priority <= waiting.priority and not pod.terminating and not obstacle(pod.pod, rules)
    ]


def _room_on(
    world: World, waiting: PodInfo, name: str, rules: Rules, budgets: Budgets
) -> Defragmentation | None:
    """Return the moves off a node that make the pending pod fit; changes the world."""
    movable = _movable(world, name, waiting, rules)
    permitted = [pod for pod in _largest_first(movable) if not budgets.refusal(pod.pod)]
    going: list[PodInfo] = []
    for pod in permitted:
        if len(going) == rules.max_moves or _fits(world, waiting, name, going):
            break
        going.append(pod)
    if not going or not _fits(world, waiting, name, going):
        return None
    # Smaller pods first: those may have gone in vain, before a larger one made the room.
    for pod in reversed(going):
        without = [other for other in going if other is not pod]
        if _fits(world, waiting, name, without):
            going = without
    world.changes.nominate(waiting, name)
    steps = _relocate(world, going, budgets, {name})
    if steps is None:
        return None
    [outcome] = world.schedule([waiting], preempt=False)
    return Defragmentation(tuple(steps), node_name=name) if outcome.node_name == name else None


def _fits(world: World, waiting: PodInfo, name: str, going: Iterable[PodInfo]) -> bool:
    """Whether the pending pod fits a node without some pods."""
    with world.changes.trial():
        for pod in going:
            world.changes.remove(pod)
        evaluation = world.evaluation(waiting)
        row = world.cluster.nodes.row_of(name)
        return evaluation.failure is None and bool((evaluation.feasible_rows == row).any())


def _largest_first(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return sorted(pods, key=lambda pod: (-_size([pod]), pod.key))


def _size(pods: Iterable[PodInfo]) -> int:
    """Return the size of pods' requests: MiB of memory plus 4 per milli-cpu (4 GiB per cpu)."""
    return sum(
        4 * pod.cls.requests.get(CPU, 0) + pod.cls.requests.get(MEMORY, 0) // 2**20 for pod in pods
    )
