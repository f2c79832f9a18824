"""Select victims: which pods to evict from each node, found by dry runs on a fork.

All nodes are tried at once, each as a row of one fork:

1. All pods of lower priority are removed from every row, and the filters run on all rows.
2. In each round, one pod is put back (reprieved) on every row and the filters run again. If the
   preemptor no longer fits on a row, the pod is removed again and is a victim.

Pods whose eviction violates a PodDisruptionBudget are put back first; among equals, the most
important pod first. So there are as many passes of the filters as the node with the most potential
victims has, not as many as there are potential victims on all nodes. A trial (``cache.trial``)
would try one node at a time: for 100 nodes with four pods each it takes 525 ms, a fork 18 ms.

Source: ``SelectVictimsOnNode`` and ``filterPodsWithPDBViolation`` of kube-scheduler v1.36
(``defaultpreemption/default_preemption.go``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from podsched.api.selectors import SelectorError, compile_selector
from podsched.framework.filter_outcome import PASSED
from podsched.framework.nodes import ForkedColumns, NodeColumns
from podsched.framework.plugin import CycleState, FilterRunner, Victims
from podsched.framework.pods import PodInfo
from podsched.framework.preemption import DryRuns
from podsched.framework.status import Code, Status
from podsched.framework.verdicts import Rows

#: Makes all priorities positive: otherwise a further victim with a negative priority would lower
#: the sum.
_PRIORITY_OFFSET = 1 << 31

#: The cost of the victims on a node; the tuples are compared element by element, lower is better.
Cost = tuple[int, int, int, int, float]

BUDGET: Final = "PodDisruptionBudget"

REASON_NO_VICTIMS = "No preemption victims found for incoming pod"


class DryRun(DryRuns):
    """The results of dry runs by row: the victims, or the status that rejects the node."""

    __slots__ = ()

    def add(self, other: DryRuns) -> None:
        """Add the results for other nodes."""
        self.candidates |= other.candidates
        self.rejected |= other.rejected

    def suffices(self, wanted: int) -> bool:
        """Return whether ``wanted`` candidates are found, one of them without a budget violation.

        kube-scheduler's ``DryRunPreemption`` then stops trying nodes.
        """
        if len(self.candidates) < wanted:
            return False
        return not all(victims.num_pdb_violations for victims in self.candidates.values())


def cost(victims: Victims) -> Cost:
    """Return the cost of victims by the criteria of ``pickOneNodeForPreemption``, in its order.

    Budget violations; the highest priority; the sum of priorities (each plus 2^31); the number of
    victims; minus the earliest start time of the victims of highest priority, since a later one is
    better.
    """
    highest = victims.pods[0].priority
    total = sum(pod.priority + _PRIORITY_OFFSET for pod in victims.pods)
    starts = [p.start_time or float("inf") for p in victims.pods if p.priority == highest]
    return victims.num_pdb_violations, highest, total, len(victims.pods), -min(starts)


def importance(pod: PodInfo) -> tuple[float, float]:
    """Sort key that puts more important pods first: higher priority, then earlier start.

    A pod that has not started counts as starting now, later than any that has.
    """
    return (-pod.priority, pod.start_time or float("inf"))


class Budgets:
    """PodDisruptionBudgets with compiled selectors.

    A budget whose selector is empty or invalid protects no pod.
    """

    def __init__(self, budgets: Sequence[Any]) -> None:
        self._by_namespace: dict[str, list[tuple[Any, Any]]] = {}
        for budget in budgets:
            try:
                selector = compile_selector(budget.spec.selector)
            except SelectorError:
                continue
            if budget.spec.selector.match_labels or budget.spec.selector.match_expressions:
                entries = self._by_namespace.setdefault(budget.metadata.namespace, [])
                entries.append((budget, selector))

    def split(self, pods: Sequence[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Split pods into those whose eviction, in this order, exceeds a budget, and the rest."""
        if not self._by_namespace:
            return [], list(pods)
        allowed: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self.violates(pod, allowed) else others).append(pod)
        return violating, others

    def violates(self, pod: PodInfo, allowed: dict[int, int]) -> bool:
        """Return whether evicting the pod exceeds a budget.

        ``allowed`` has the disruptions that are left of each budget (by ``id``), at first nothing;
        the pod is subtracted there.
        """
        violated = False
        if not pod.cls.labels:
            return False
        for budget, selector in self._by_namespace.get(pod.namespace, ()):
            if not selector.matches(pod.cls.labels) or pod.name in budget.status.disrupted_pods:
                continue
            # No early end: the eviction counts for every budget that selects the pod.
            left = allowed.get(id(budget), budget.status.disruptions_allowed) - 1
            allowed[id(budget)] = left
            violated = violated or left < 0
        return violated


@dataclass(slots=True)
class _NodeDryRun:
    """The dry run on one node.

    ``to_reprieve``: the potential victims in the order in which they are put back. A budget
    protects the first ``violating`` of them. ``victims``: those that could not be put back, of
    which ``violations`` are protected.
    """

    row: int
    to_reprieve: list[PodInfo]
    violating: int
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0


def dry_run(
    state: CycleState,
    pod: PodInfo,
    nodes: NodeColumns,
    rows: Rows,
    runner: FilterRunner,
    budgets: Budgets,
) -> DryRun:
    """Select the victims on each of ``rows``, tried independently of each other."""
    result = DryRun()
    lower = {
        row: [other for other in nodes.pods(row).values() if other.priority < pod.priority]
        for row in rows.tolist()
    }
    for row, pods in lower.items():
        if not pods:
            result.rejected[row] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (REASON_NO_VICTIMS,))
    tried = np.array([row for row, pods in lower.items() if pods], dtype=np.intp)
    if not len(tried):
        return result
    fork = nodes.fork(tried)
    runs = {}
    for fork_row, row in enumerate(tried.tolist()):
        for victim in lower[row]:
            fork.remove_pod(fork_row, victim)
    emptied = runner.run_filters(state, pod, fork, np.arange(len(tried), dtype=np.intp))
    for fork_row, row in enumerate(tried.tolist()):
        if emptied.plugin[fork_row] != PASSED:
            result.rejected[row] = emptied.status(fork_row)
            continue
        violating, others = budgets.split(sorted(lower[row], key=importance))
        runs[fork_row] = _NodeDryRun(row, violating + others, len(violating))
    _reprieve(state, pod, fork, runs, runner)
    for run in runs.values():
        _conclude(run, nodes, result)
    return result


def _reprieve(
    state: CycleState,
    pod: PodInfo,
    fork: ForkedColumns,
    runs: dict[int, _NodeDryRun],
    runner: FilterRunner,
) -> None:
    """Put the potential victims back, one per row and round; those that must stay out are victims.

    ``runs``: by row of the fork.
    """
    round_number = 0
    while True:
        rows = [r for r, run in runs.items() if round_number < len(run.to_reprieve)]
        if not rows:
            return
        for row in rows:
            fork.add_pod(row, runs[row].to_reprieve[round_number])
        outcome = runner.run_filters(state, pod, fork, np.array(rows, dtype=np.intp))
        for index, row in enumerate(rows):
            if outcome.plugin[index] == PASSED:
                continue
            run = runs[row]
            victim = run.to_reprieve[round_number]
            fork.remove_pod(row, victim)
            run.victims.append(victim)
            run.violations += round_number < run.violating
        round_number += 1


def _conclude(run: _NodeDryRun, nodes: NodeColumns, result: DryRun) -> None:
    """Store the result of one node's dry run."""
    if not run.victims:
        text = f'expected at least one victim pod on node "{nodes.names[run.row]}"'
        result.rejected[run.row] = Status(Code.ERROR, (text,))
        return
    victims = tuple(sorted(run.victims, key=importance))
    result.candidates[run.row] = Victims(victims, run.violations)
