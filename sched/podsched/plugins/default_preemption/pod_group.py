"""Select victims for a whole PodGroup: workload-aware preemption of kube-scheduler v1.36.

Victims are chosen over the whole cluster, in *units*: all pods of a group that is evicted whole
(``disruptionMode: PodGroup``), otherwise single pods. First the group is tried without any unit of
lower priority. Then units are put back, the most important first, as long as the group still fits;
those that violate a budget come before the others. What stays out are the victims.

kube-scheduler tries the group again after each unit. Here all but the last one, two, four, ...
units are put back, until the group fits. Among these last, the next victim is searched for: units
are put back one, two, four, ... at once until the group does not fit, and then a binary search
finds the unit from which on it does not. ``k`` victims, out of however many units, take a few
``k`` tries, each of which removes about ``k`` units. The result is the same if a group that fits
beside some pods also fits beside fewer.

A terminating pod is never put back, since its room becomes free anyway.

Source: ``framework/preemption/podgrouppreemption.go``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import Victims
from podsched.framework.pod_groups import PodGroup, VictimSearch, pod_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import Code, Status, unresolvable, unschedulable
from podsched.plugins.default_preemption.dry_run import Budgets

REASON_NEVER: Final = "not eligible due to preemptionPolicy=Never."
REASON_TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
REASON_NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"
MEMBER_OF_GROUP: Final = "not eligible due to workload aware preemption enabled"
MEMBER_OF_PLACEMENT: Final = "not eligible due to placement-based pod group scheduling limitation"


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
    """Search for victims; ``evicting``: uids of pods whose eviction was requested."""
    if any(pod.cls.preemption_policy == "Never" for pod in members):
        return unschedulable(REASON_NEVER)
    if _waits_for_victims(group, members, cluster, evicting):
        return Status(Code.WAIT, (REASON_TERMINATING,))
    units = _lower_units(group, cluster)
    if not units:
        return unresolvable(REASON_NO_VICTIMS)
    fits = yield _pods_of(units)
    if not fits:
        return unschedulable()
    going: list[Unit] = []
    staying: list[Unit] = []
    for unit in units:
        (going if all(pod.terminating for pod in unit.pods) else staying).append(unit)
    violating, others = _by_budget(staying, cluster)
    violate = {pod.uid for unit in violating for pod in unit.pods}
    left, out = [*violating, *others], going
    # Few units of many have to go: look from the end how many suffice. A try costs what it removes.
    last = 1
    while last < len(left):
        fits = yield _pods_of([*out, *left[-last:]])
        if fits:
            break
        last *= 2
    left = left[-last:]
    while left:
        # How many can be put back: in the end, ``fitting`` of them, and not one more.
        fitting, too_many = 0, len(left) + 1
        while too_many - fitting > 1:
            doubled = 2 * fitting or 1
            size = min(doubled, len(left)) if too_many > len(left) else (fitting + too_many) // 2
            fits = yield _pods_of([*out, *left[size:]])
            fitting, too_many = (size, too_many) if fits else (fitting, size)
        out, left = [*out, *left[fitting : fitting + 1]], left[too_many:]
    victims = _pods_of(sorted(out, key=lambda unit: unit.importance))
    return Victims(victims, sum(pod.uid in violate for pod in victims))


def _pods_of(units: Iterable[Unit]) -> tuple[PodInfo, ...]:
    return tuple(pod for unit in units for pod in unit.pods)


def _waits_for_victims(
    group: PodGroup, members: Sequence[PodInfo], cluster: ClusterView, evicting: Collection[str]
) -> bool:
    """Return whether pods that were preempted before still have to leave the nominated nodes."""
    rows = {cluster.nodes.row_of(cluster.nominated_node(pod.uid)) for pod in members}
    return any(
        other.priority < group.priority and (other.uid in evicting or other.terminating)
        for row in rows
        if row is not None
        for other in cluster.nodes.pods(row).values()
    )


def _lower_units(group: PodGroup, cluster: ClusterView) -> list[Unit]:
    """Return the units of lower priority than the group, the most important first."""
    single: list[Unit] = []
    whole: dict[str, list[PodInfo]] = {}
    groups: dict[str, PodGroup | None] = {}
    for row in np.flatnonzero(cluster.nodes.alive).tolist():
        for pod in cluster.nodes.pods(row).values():
            if not pod.group:
                single.append(Unit((pod,), pod.priority))
                continue
            if pod.group not in groups:
                groups[pod.group] = pod_group(cluster, pod.group)
            of = groups[pod.group]
            if of is not None and of.evicted_whole:
                whole.setdefault(pod.group, []).append(pod)
            elif pod.group != group.key:
                single.append(Unit((pod,), pod.priority))
    units = [unit for unit in single if unit.priority < group.priority]
    for key, pods in whole.items():
        of = groups[key]
        if of is not None and key != group.key and of.priority < group.priority:
            units.append(Unit(tuple(pods), of.priority))
    return sorted(units, key=lambda unit: unit.importance)


def _by_budget(units: Sequence[Unit], cluster: ClusterView) -> tuple[list[Unit], list[Unit]]:
    """Split units into those whose eviction, in this order, exceeds a budget, and the rest."""
    budgets = Budgets(cluster.list("PodDisruptionBudget"))
    exceeding = {pod.uid for pod in budgets.split(_pods_of(units))[0]}
    violating: list[Unit] = []
    others: list[Unit] = []
    for unit in units:
        violates = any(pod.uid in exceeding for pod in unit.pods)
        (violating if violates else others).append(unit)
    return violating, others
