"""The choices of flavors on which a workload may start without victims, one after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Final

from podsched.queues.assignment import Assignment, Mode
from podsched.queues.cycle import Rules, nominate
from podsched.queues.objects import PODS, ClusterQueue, Fungibility, Preemption, Workload
from podsched.queues.quota import Amounts
from podsched.queues.snapshot import Snapshot

#: Max choices of flavors that ``fitting_by_set`` tries, and max pod sets in all of them together:
#: each pod of a unit may be a pod set of its own, which takes 0.05 ms in each choice.
_MOST_CHOICES: Final = 64
_MOST_CHOSEN: Final = 1_024


def fitting(
    snapshot: Snapshot, queue: ClusterQueue, workload: Workload, rules: Rules
) -> Iterator[Assignment]:
    """Yield the choices that have room in quota, in the order of the queue."""
    queue = replace(queue, preemption=Preemption())
    left: Workload | None = replace(workload, tried=())
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
    queue, workload = replace(queue, preemption=Preemption()), replace(workload, tried=())
    options = [
        [(pods.name, resources, flavor) for flavor in group.flavors]
        for pods in workload.pod_sets
        for group in queue.groups
        if (resources := group.resources & {*pods.requests, PODS})
    ]
    most = min(_MOST_CHOICES, _MOST_CHOSEN // len(workload.pod_sets))
    for choice in islice(product(*options), most):
        chosen = {(name, one): flavor for name, of, flavor in choice for one in of}
        found, _ = nominate(snapshot, queue, workload, rules, chosen)
        if found.mode is Mode.FIT:
            yield found


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
        return [*fitting(*parts), *fitting_by_set(*parts)]
