"""Explain whether nodes have room for a unit that waits in its queue, apart from quota.

All its waiting pods are tried together, first on the nodes as they are, then without the pods that
it would preempt. The node labels of flavors are ignored, because only the leader's cycle chooses
the flavors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from podsched.ask.whatif.pod_group_explanation import asked_group
from podsched.ask.whatif.world import World
from podsched.decide.domain_search import REASON_SLICES_NOT_FILLED
from podsched.framework.pods import PodInfo
from podsched.framework.status import Status
from podsched.term.admission.units import LONE, is_lone, lone_group
from podsched.v1.scheduling_pb2 import Explanation

#: End of the message for a unit that has quota. ``_lack`` may be appended.
WAITS_FOR_NODES: Final = "its quota suffices, so it waits for nodes"
#: Start of the message for a unit that has started. Its other members may follow.
IS_ADMITTED: Final = "it is admitted to ClusterQueue"


def add_node_room(answer: Explanation, world: World, unit: str, victims: Sequence[str]) -> None:
    """Add to the explanation of a unit whether nodes have room for it.

    ``answer`` already has the explanation of its fit. ``unit``: its key; ``victims``: the pods that
    it would preempt by quota, "namespace/name".
    """
    pods, domains = _waiting(world, unit), answer.pod_group.domains
    if not answer.HasField("admission") or not pods or not (domains or is_lone(unit)):
        return
    admission = answer.admission
    fits = answer.pod_group.fits if domains else answer.feasible_nodes > 0
    text = "room for all of it now" if fits else _lack(answer, world, unit, pods)
    if not fits and victims:
        then = "no room, so none is evicted"
        if _attempt(world, unit, pods, victims).ok:
            then = "room"
        text += f"; without those it would preempt, {then}"
    admission.nodes = text
    sentence = f"{admission.sentence[:1].lower()}{admission.sentence[1:]}"
    if domains and not sentence.startswith((WAITS_FOR_NODES, IS_ADMITTED)):
        answer.pod_group.fits = False
    if sentence.startswith(WAITS_FOR_NODES) and not fits:
        admission.sentence = f"{admission.sentence.rstrip('.')}: {text}."


def _lack(answer: Explanation, world: World, unit: str, pods: Sequence[PodInfo]) -> str:
    if not answer.pod_group.domains:
        return answer.message.rstrip(".")
    best = answer.pod_group.domains[0]
    if not best.lacks:  # It holds the pods, but would split their slices.
        return next(iter(_attempt(world, unit, pods).reasons), REASON_SLICES_NOT_FILLED)
    where = best.name or "all nodes together"
    text = f"{where} hold{'s' if best.name else ''} {best.holds} of its pods, {best.lacks} too few"
    return f"{text} ({best.misfit.message.rstrip('.')})" if best.misfit.message else text


def _waiting(world: World, unit: str) -> list[PodInfo]:
    if is_lone(unit):
        found = world.cluster.pods.get(unit.replace(LONE, "/", 1))
        pods = [found] if found is not None else []
    else:
        pods = sorted(world.cluster.members(unit), key=lambda pod: pod.name)
    return [pod for pod in pods if not world.has_node(pod)]


def _attempt(
    world: World, unit: str, pods: Sequence[PodInfo], victims: Sequence[str] = ()
) -> Status:
    """Return whether the pods could start together without the victims, and why not."""
    group = asked_group(world.cluster, unit) or lone_group(unit, pods[0])
    with world.changes.trial():
        for key in victims:
            victim = world.cluster.pods.get(key)
            if victim is not None:
                world.changes.remove(victim)
        return world.deciding.start(group, pods)
