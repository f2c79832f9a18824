"""Select victims for a whole PodGroup: workload-aware preemption of kube-scheduler v1.36.

Victims are chosen in the whole cluster, as *units*: all pods of a PodGroup that is evicted whole
(``disruptionMode: PodGroup``), otherwise single pods. First the group is tried with all units of
lower priority removed. Then the units are put back one after another, those that a budget protects
first, then the most important first. A unit with which the group no longer fits is removed again;
these units are the victims.

kube-scheduler tries the group after each unit. Usually few of many units are victims, so here:

1. All units but the last one, two, four, ... are put back, until the group fits. All victims are
   among the units that are still removed.
2. Of these, the first one, two, four, ... are put back, until the group does not fit. A binary
   search then finds the first unit with which it does not fit: a victim. This is repeated with the
   units after it.

So ``k`` victims take a few times ``k`` tries, however many units there are, and each try removes
about ``k`` units. The victims are those of kube-scheduler if a group that fits beside some pods
also fits beside fewer.

A terminating pod is never put back: its resources become free anyway.

Source: ``framework/preemption/podgrouppreemption.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import Final

import numpy as np

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import PodGroup, VictimSearch, pod_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status, unresolvable, unschedulable
from podsched.plugins.default_preemption.dry_run import BUDGET, Budgets

REASON_NEVER: Final = "not eligible due to preemptionPolicy=Never."
REASON_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
REASON_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
MEMBER_OF_GROUP: Final = "not eligible due to workload aware preemption enabled"
MEMBER_OF_PLACEMENT: Final = "not eligible due to placement-based pod group scheduling limitation"

_IMPORTANCE: Final = attrgetter("importance")
#: Units that are put in order, or compared with budgets, at a time.
_PIECE: Final = 100


@dataclass(frozen=True, slots=True)
class Unit:
    """Pods that are evicted together or not at all."""

    pods: tuple[PodInfo, ...]
    priority: int

    @property
    def importance(self) -> tuple[int, bool, int, float]:
        """Sort key that puts more important units first.

        Higher priority; members of groups before other pods; more pods; earlier start.
        """
        starts = [pod.start_time or float("inf") for pod in self.pods]
        return -self.priority, not self.pods[0].group, -len(self.pods), min(starts)


def search_victims(
    group: PodGroup, members: Sequence[PodInfo], cluster: ClusterView, evicting: Collection[str]
) -> VictimSearch:
    """Search for victims: yield the pods to remove for a try, get whether the group fits then.

    ``evicting``: uids of pods whose eviction was requested. The generator returns the victims, or
    a status if there are none.
    """
    if any(pod.cls.preemption_policy == "Never" for pod in members):
        return unschedulable(REASON_NEVER)
    waits = yield from _waits_for_victims(group, members, cluster, evicting)
    if waits:
        return Status(Code.WAIT, (REASON_TERMINATING,))
    units = yield from _lower_units(group, cluster)
    if not units:
        return unresolvable(REASON_NO_VICTIMS)
    fits = yield _pods_of(units)
    if not fits:
        return unschedulable()
    going: list[Unit] = []
    staying: list[Unit] = []
    for unit in units:
        (going if all(pod.terminating for pod in unit.pods) else staying).append(unit)
    violating, others = yield from _by_budget(staying, cluster)
    violate = {pod.uid for unit in violating for pod in unit.pods}
    left, out = [*violating, *others], going
    # Step 1. A try costs as much as it removes, so it begins with one unit.
    last = 1
    while last < len(left):
        fits = yield _pods_of([*out, *left[-last:]])
        if fits:
            break
        last *= 2
    left = left[-last:]
    while left:
        # Step 2. In the end, the first ``fitting`` units can be put back, and not one more.
        fitting, too_many = 0, len(left) + 1
        while too_many - fitting > 1:
            doubled = 2 * fitting or 1
            size = min(doubled, len(left)) if too_many > len(left) else (fitting + too_many) // 2
            fits = yield _pods_of([*out, *left[size:]])
            fitting, too_many = (size, too_many) if fits else (fitting, size)
        out, left = [*out, *left[fitting : fitting + 1]], left[too_many:]
    victims = _pods_of(sorted(out, key=_IMPORTANCE))
    return Victims(victims, sum(pod.uid in violate for pod in victims))


def _pods_of(units: Iterable[Unit]) -> tuple[PodInfo, ...]:
    return tuple(pod for unit in units for pod in unit.pods)


def _waits_for_victims(
    group: PodGroup, members: Sequence[PodInfo], cluster: ClusterView, evicting: Collection[str]
) -> Generator[Sequence[PodInfo], bool | None, bool]:
    """Return whether the group fits once pods have left that terminate on its nominated nodes.

    It does not if such a node has failed meanwhile; they may terminate for ever there.
    """
    rows = {cluster.nodes.row_of(cluster.nominator.node_of(pod.uid)) for pod in members}
    leaving = [
        other
        for row in rows
        if row is not None
        for other in cluster.nodes.pods(row).values()
        if other.priority < group.priority and (other.uid in evicting or other.terminating)
    ]
    fits = (yield leaving) if leaving else None
    return bool(fits)


def _lower_units(group: PodGroup, cluster: ClusterView) -> Generator[None, bool | None, list[Unit]]:
    """Return the units of lower priority than the group, the most important first.

    Yields where other tasks may run, because there may be tens of thousands.
    """
    by_node: list[list[Unit]] = []
    whole: dict[str, list[PodInfo]] = {}
    groups: dict[str, PodGroup | None] = {}
    for row in np.flatnonzero(cluster.nodes.alive).tolist():
        yield
        single: list[Unit] = []
        for pod in cluster.nodes.pods(row).values():
            if not pod.group:
                single.append(Unit((pod,), pod.priority))
                continue
            if pod.group not in groups:
                groups[pod.group] = pod_group(cluster, pod.group)
            found = groups[pod.group]
            if found is not None and found.evicted_whole:
                whole.setdefault(pod.group, []).append(pod)
            elif pod.group != group.key:
                single.append(Unit((pod,), pod.priority))
        by_node.append(_lower(single, group))
    evicted_whole: list[Unit] = []
    for key, pods in whole.items():
        found = groups[key]
        if found is not None and key != group.key:
            evicted_whole.append(Unit(tuple(pods), found.priority))
    return (yield from _merged([*by_node, _lower(evicted_whole, group)]))


def _lower(units: Sequence[Unit], group: PodGroup) -> list[Unit]:
    """Return those of the units that are of lower priority, the most important first."""
    return sorted((unit for unit in units if unit.priority < group.priority), key=_IMPORTANCE)


def _merged(parts: Sequence[Sequence[Unit]]) -> Generator[None, bool | None, list[Unit]]:
    """Return the units of all parts, the most important first; yields as ``_lower_units`` does."""
    units: list[Unit] = []
    for unit in merge(*parts, key=_IMPORTANCE):
        units.append(unit)
        if len(units) % _PIECE == 0:
            yield
    return units


def _by_budget(
    units: Sequence[Unit], cluster: ClusterView
) -> Generator[None, bool | None, tuple[list[Unit], list[Unit]]]:
    """Split units into those whose eviction, in this order, exceeds a budget, and the rest.

    Yields where other tasks may run, as ``_lower_units`` does.
    """
    budgets, allowed = Budgets(cluster.list(BUDGET)), dict[int, int]()
    violating: list[Unit] = []
    others: list[Unit] = []
    for number, unit in enumerate(units):
        if number % _PIECE == 0:
            yield
        # Not ``any``: each pod counts for its budgets.
        violations = sum(budgets.violates(pod, allowed) for pod in unit.pods)
        (violating if violations else others).append(unit)
    return violating, others
