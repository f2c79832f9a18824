"""Dry runs of preemption, remembered per pod class until something they rest on changes.

Preemptors come in numbers, made from one template, and kube-scheduler tries a hundred nodes for
each. What a trial found holds for the next pod of the class as long as the node and its pods, the
nominated pods that count there, the budgets and all that the filters read beyond the row
(``FilterRunner.inputs``) are the same; so most pods try only the nodes that changed.

Guarantee: the same results as trying every node anew (property test).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, FilterRunner, Victims
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows
from podsched.plugins.preemption_victims import Budgets, DryRun, dry_run

#: Classes of preemptors remembered.
MAX_CLASSES = 64

#: The pods nominated to a node that count for the preemptor.
_Nominated = tuple[tuple[str, int], ...]


class _Trial(NamedTuple):
    nominated: _Nominated
    found: Victims | Status


@dataclass(slots=True)
class _Known:
    """Trials by row, and what of the cluster they saw."""

    inputs: Hashable
    budgets: int
    position: int
    restated: int
    trials: dict[int, _Trial] = field(default_factory=dict)


class Trials:
    """Tries nodes for preemptors, each class and node once as long as nothing changes."""

    def __init__(self) -> None:
        self._known: OrderedDict[PodClass, _Known] = OrderedDict()
        self._budgets: tuple[int, Budgets] | None = None

    def dry_run(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
        runner: FilterRunner,
    ) -> DryRun:
        """What ``preemption_victims.dry_run`` finds on these rows."""
        known = self._current(pod, cluster, runner)
        result, stale = DryRun(), []
        names = cluster.nodes.names
        nominated: dict[int, _Nominated] = {}
        for row in rows.tolist():
            others = cluster.nominated_pods(names[row])
            counted = _counted(pod, others) if others else ()
            trial = known.trials.get(row)
            if trial is None or trial.nominated != counted:
                stale.append(row)
                nominated[row] = counted
            else:
                _put(result, row, trial.found)
        if stale:
            again = np.array(stale, dtype=np.intp)
            budgets = self._compiled_budgets(cluster)
            fresh = dry_run(state, pod, cluster.nodes, again, runner, budgets)
            found: dict[int, Victims | Status] = {**fresh.rejected, **fresh.candidates}
            for row, one in found.items():
                known.trials[row] = _Trial(nominated[row], one)
                _put(result, row, one)
        return result

    def _current(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> _Known:
        """The class's trials without those whose rows have changed."""
        nodes, budgets = cluster.nodes, cluster.version("PodDisruptionBudget")
        known = self._known.get(pod.cls)
        changed = restated = None
        if known is not None and known.inputs == runner.inputs and known.budgets == budgets:
            changed = nodes.changed_since(known.position)
            restated = nodes.restated_since(known.restated)
        position = nodes.position, nodes.restated_position
        if known is None or changed is None or restated is None or runner.inputs is None:
            known = self._known[pod.cls] = _Known(runner.inputs, budgets, *position)
            if len(self._known) > MAX_CLASSES:
                self._known.popitem(last=False)
            return known
        for row in (*changed.tolist(), *restated.tolist()):
            known.trials.pop(row, None)
        known.position, known.restated = position
        self._known.move_to_end(pod.cls)
        return known

    def _compiled_budgets(self, cluster: ClusterView) -> Budgets:
        version = cluster.version("PodDisruptionBudget")
        if self._budgets is None or self._budgets[0] != version:
            self._budgets = version, Budgets(cluster.list("PodDisruptionBudget"))
        return self._budgets[1]


def _counted(pod: PodInfo, nominated: Sequence[PodInfo]) -> _Nominated:
    return tuple(
        (p.uid, p.cls.id) for p in nominated if p.priority >= pod.priority and p.uid != pod.uid
    )


def _put(result: DryRun, row: int, found: Victims | Status) -> None:
    if isinstance(found, Victims):
        result.candidates[row] = found
    else:
        result.rejected[row] = found
