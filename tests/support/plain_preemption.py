"""SelectVictimsOnNode and pickOneNodeForPreemption read plainly, node by node, for comparison.

Only cpu and the number of pods count; everything else of these clusters fits everywhere.
Written from the rules (P4 to P6), without looking at the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cmp_to_key

INFINITE = float("inf")


@dataclass(frozen=True)
class PlainPod:
    name: str
    cpu: int
    priority: int
    start: float = 0.0
    """Seconds; 0 for a pod that has not started, which counts as starting now."""
    labels: frozenset[str] = frozenset()

    @property
    def started(self) -> float:
        return self.start or INFINITE


@dataclass(frozen=True)
class PlainNode:
    name: str
    cpu: int
    most_pods: int
    pods: tuple[PlainPod, ...]


@dataclass
class PlainBudget:
    label: str
    allowed: int
    disrupted: frozenset[str] = frozenset()


@dataclass
class PlainVictims:
    names: list[str] = field(default_factory=list)
    violations: int = 0
    pods: list[PlainPod] = field(default_factory=list)


def more_important(a: PlainPod, b: PlainPod) -> int:
    if a.priority != b.priority:
        return -1 if a.priority > b.priority else 1
    if a.started != b.started:
        return -1 if a.started < b.started else 1
    return 0


def by_importance(pods: Sequence[PlainPod]) -> list[PlainPod]:
    return sorted(pods, key=cmp_to_key(more_important))


def fits(node: PlainNode, there: Sequence[PlainPod], pod: PlainPod) -> bool:
    used = sum(p.cpu for p in there) + pod.cpu
    return used <= node.cpu and len(there) + 1 <= node.most_pods


def select_victims(
    node: PlainNode, pod: PlainPod, budgets: Sequence[PlainBudget]
) -> PlainVictims | None:
    """None: preemption does not help here."""
    lower = [p for p in node.pods if p.priority < pod.priority]
    there = [p for p in node.pods if p not in lower]
    if not lower or not fits(node, there, pod):
        return None
    left = [budget.allowed for budget in budgets]
    violating, others = [], []
    for victim in by_importance(lower):
        violated = False
        for index, budget in enumerate(budgets):
            if budget.label in victim.labels and victim.name not in budget.disrupted:
                left[index] -= 1
                violated = violated or left[index] < 0
        (violating if violated else others).append(victim)
    found = PlainVictims()
    for group in (violating, others):
        for victim in group:
            if fits(node, [*there, victim], pod):
                there.append(victim)
                continue
            found.pods.append(victim)
            found.violations += group is violating
    found.pods = by_importance(found.pods)
    found.names = [p.name for p in found.pods]
    return found


def pick(candidates: dict[str, PlainVictims]) -> set[str]:
    """The nodes that are left after all six criteria but the last (any of them)."""
    left = dict(candidates)
    criteria = [
        lambda v: v.violations,
        lambda v: v.pods[0].priority,
        lambda v: sum(p.priority + 2**31 for p in v.pods),
        lambda v: len(v.pods),
        lambda v: -min(p.started for p in v.pods if p.priority == v.pods[0].priority),
    ]
    for criterion in criteria:
        best = min(criterion(victims) for victims in left.values())
        left = {name: v for name, v in left.items() if criterion(v) == best}
    return set(left)
