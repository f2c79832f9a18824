"""The choices of flavors on which a workload may start without victims, one after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from podsched.queues.assignment import Assignment, Mode
from podsched.queues.cycle import Rules, nominate
from podsched.queues.objects import PODS, ClusterQueue, Fungibility, Preemption, Workload
from podsched.queues.quota import Amounts, FlavorResource
from podsched.queues.snapshot import Snapshot

#: Max choices of flavors that ``fitting_by_set`` tries, and max pod sets in all of them together:
#: each pod of a unit may be a pod set of its own, which takes 0.05 ms in each choice.
_MOST_CHOICES: Final = 64
_MOST_CHOSEN: Final = 1_024
#: Max options that are looked at on the way to these choices, some 10 ms.
_MOST_STEPS: Final = 10_000


def fitting(
    snapshot: Snapshot, queue: ClusterQueue, workload: Workload, rules: Rules
) -> Iterator[Assignment]:
    """Yield the choices that have room in quota, in the order of the queue."""
    queue = replace(queue, preemption=Preemption())
    left: Workload | None = replace(workload, tried={})
    while left is not None:
        assignment, _ = nominate(snapshot, queue, left, rules)
        if assignment.mode is not Mode.FIT:
            return
        yield assignment
        left = without_flavors(queue, left, assignment)


def without_flavors(queue: ClusterQueue, workload: Workload, of: Assignment) -> Workload | None:
    """Return a workload that refuses the flavors of an assignment; None if no others are left.

    A flavor that is the only one of its resource group is not refused.
    """
    groups = ((key.flavor, queue.group(key.resource)) for key in of.usage)
    refused = {flavor for flavor, group in groups if group is not None and len(group.flavors) > 1}
    return replace(workload, refused=workload.refused | refused) if refused else None


def fitting_by_set(
    snapshot: Snapshot, queue: ClusterQueue, workload: Workload, rules: Rules
) -> Iterator[Assignment]:
    """Yield the choices for several pod sets that have room in quota: each flavor for each set.

    ``without_flavors`` reaches only some of these: a flavor that it refuses is refused for all pod
    sets.
    """
    if len(workload.pod_sets) < 2:
        return
    queue, workload = replace(queue, preemption=Preemption()), replace(workload, tried={})
    node = snapshot.node(queue.name)
    room = Counter({key: node.available(key) for key in queue.quotas})
    most = min(_MOST_CHOICES, _MOST_CHOSEN // len(workload.pod_sets))
    for choice in islice(_with_room(_options(queue, workload), room), most):
        chosen = {(one.pod_set, key.resource): key.flavor for one in choice for key in one.least}
        found, _ = nominate(snapshot, queue, workload, rules, chosen)
        if found.mode is Mode.FIT:
            yield found


class _Option(NamedTuple):
    """A flavor for the resources of a group that a pod set requests, and the least it takes."""

    pod_set: str
    least: Amounts


def _options(queue: ClusterQueue, workload: Workload) -> list[list[_Option]]:
    """Return the options of each pod set and resource group."""
    options = []
    for pods in workload.pod_sets:
        count = pods.count if pods.min_count is None else min(pods.count, pods.min_count)
        least = {**pods.total(count), PODS: count}
        for group in queue.groups:
            if of_group := group.resources & least.keys():
                amounts = (
                    {FlavorResource(flavor, resource): least[resource] for resource in of_group}
                    for flavor in group.flavors
                )
                options.append([_Option(pods.name, one) for one in amounts])
    return options


def _with_room(
    options: Sequence[Sequence[_Option]], room: Counter[FlavorResource]
) -> Iterator[Sequence[_Option]]:
    """Yield the choices of one option each that may fit into the room, in order.

    Not each in turn: if only the quota of a promise is left, nearly all of them have no room.
    """
    chosen: list[_Option] = []
    tries = [iter(options[0])] if options else []
    for _ in range(_MOST_STEPS):
        option = next(tries[-1], None) if tries else None
        if option is None:
            if not chosen:
                return
            tries.pop()
            room.update(chosen.pop().least)
        elif all(room[key] >= amount for key, amount in option.least.items()):
            room.subtract(option.least)
            chosen.append(option)
            if len(chosen) == len(options):
                yield tuple(chosen)
                room.update(chosen.pop().least)
            else:
                tries.append(iter(options[len(chosen)]))


def fitting_into(
    snapshot: Snapshot, workload: Workload, rules: Rules, usage: Amounts
) -> list[Assignment]:
    """Return the choices that take no more than this quota, and have room.

    ``fitting`` may choose others, or more pods, as soon as quota has room for them at one time. But
    they may have none for as long as they would run, or none on nodes.
    """
    # The first flavors with room are those that took ``usage``, whichever it was.
    queue = replace(snapshot.queues[workload.queue], fungibility=Fungibility())
    node = snapshot.node(queue.name)
    beyond = {key: max(0, node.available(key) - usage.get(key, 0)) for key in queue.quotas}
    with snapshot.with_usage(queue.name, beyond):
        parts = snapshot, queue, workload, rules
        found: dict[Hashable, Assignment] = {}
        for one in (*fitting(*parts), *fitting_by_set(*parts)):
            found.setdefault((one.choice, frozenset(one.usage.items())), one)
        return list(found.values())
