"""Dry runs of preemption, remembered per pod class until something they rest on changes.

Preemptors come in numbers, made from one template, and kube-scheduler tries a hundred nodes for
each. What a trial found holds for the next pod of the class as long as the node and its pods, the
nominated pods that count there, the budgets and all that the filters read beyond the row
(``FilterRunner.inputs``) are the same; so most pods try only the nodes that changed.

Trials may have been made elsewhere (``learn``). They are remembered like others, but the one that
is decisive is made here again before anybody is evicted (``confirm``).

Guarantee: the same results as trying every node anew (property test).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsched.framework.nodes import ClusterView
from podsched.framework.plugin import CycleState, FilterRunner, Victims, VictimUids
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows
from podsched.plugins.default_preemption.dry_run import Budgets, DryRun, dry_run

BUDGET = "PodDisruptionBudget"
#: Classes of preemptors remembered.
MAX_CLASSES = 64

_UNTRIED, _CANDIDATE, _REJECTED = 0, 1, 2


class Moment(NamedTuple):
    """What trials rest on beyond their rows, and places in the journals of what changes rows."""

    inputs: Hashable
    budgets: int
    position: int
    restated: int
    nominations: int


@dataclass(slots=True)
class _Known:
    """What came of trying rows, and what of the cluster it rests on.

    ``verdict`` has shape ``(size,)``: one of the constants above.
    """

    moment: Moment
    verdict: NDArray[np.int8]
    candidates: dict[int, Victims] = field(default_factory=dict)
    rejected: dict[int, Status] = field(default_factory=dict)

    #: Rows whose trials were made elsewhere.
    elsewhere: set[int] = field(default_factory=set)

    def of(self, rows: Rows) -> DryRun:
        """Return what is known of these rows."""
        verdict = self.verdict[rows]
        candidates, rejected = rows[verdict == _CANDIDATE], rows[verdict == _REJECTED]
        return DryRun(
            {row: self.candidates[row] for row in candidates.tolist()},
            {row: self.rejected[row] for row in rejected.tolist()},
        )

    def put(self, found: DryRun) -> None:
        self.candidates |= found.candidates
        self.rejected |= found.rejected
        self.verdict[list(found.candidates)] = _CANDIDATE
        self.verdict[list(found.rejected)] = _REJECTED


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
        """Return what ``preemption_victims.dry_run`` finds on these rows."""
        known = self._current(pod, cluster, runner)
        untried = rows[known.verdict[rows] == _UNTRIED]
        if len(untried):
            budgets = self._compiled_budgets(cluster)
            known.put(dry_run(state, pod, cluster.nodes, untried, runner, budgets))
            known.elsewhere.difference_update(untried.tolist())
        return known.of(rows)

    # ------------------------------------------------------------------ trials made elsewhere

    def remembered(
        self, pod: PodInfo, cluster: ClusterView, rows: Rows, runner: FilterRunner
    ) -> tuple[DryRun, Rows]:
        """Return what is known of these rows, and which of the others may be tried elsewhere: those
        without nominated pods that count.
        """
        known = self._current(pod, cluster, runner)
        untried = rows[known.verdict[rows] == _UNTRIED]
        if len(untried):
            untried = untried[~np.isin(untried, _nominated_rows(pod, cluster))]
        return known.of(rows), untried

    def moment(self, pod: PodInfo) -> Moment | None:
        """Return what trials rest on that are begun right after ``remembered``."""
        known = self._known.get(pod.cls)
        return None if known is None else known.moment

    def learn(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        moment: Moment,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        """Remembers trials of rows without nominated pods, as they were at a moment.

        Nothing when trials have been made here since. What has changed since is found out when the
        trials are needed, as always.
        """
        known, nodes = self._known.get(pod.cls), cluster.nodes
        if known is None or known.moment != moment:
            return
        taken = DryRun()
        for row, one in found.items():
            if known.verdict[row] != _UNTRIED:
                continue
            if isinstance(one, Status):
                taken.rejected[row] = one
            else:
                there, (uids, violations) = nodes.pods(row), one
                if all(uid in there for uid in uids):
                    taken.candidates[row] = Victims(tuple(there[uid] for uid in uids), violations)
        known.put(taken)
        known.elsewhere.update(taken.candidates, taken.rejected)

    def confirm(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, row: int, runner: FilterRunner
    ) -> bool:
        """Whether the trial of a row, if it was made elsewhere, has the same result here.

        Otherwise no trial from elsewhere is believed any more.
        """
        known = self._current(pod, cluster, runner)
        if row not in known.elsewhere:
            return True
        before = known.candidates.get(row)
        known.verdict[row] = _UNTRIED
        again = self.dry_run(state, pod, cluster, np.array([row], dtype=np.intp), runner)
        if again.candidates.get(row) == before:
            return True
        known.verdict[list(known.elsewhere)] = _UNTRIED
        known.elsewhere.clear()
        return False

    # ------------------------------------------------------------------ what trials rest on

    def _current(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> _Known:
        """Return what is known for the class, without the rows that have changed."""
        nodes = cluster.nodes
        now = Moment(
            runner.inputs,
            cluster.version(BUDGET),
            nodes.position,
            nodes.start_times_position,
            cluster.nominations_version,
        )
        known = self._known.get(pod.cls)
        changed = None if known is None else _changed_rows(known, now, cluster)
        if known is None or changed is None:
            known = self._known[pod.cls] = _Known(now, np.zeros(nodes.size, dtype=np.int8))
            if len(self._known) > MAX_CLASSES:
                self._known.popitem(last=False)
            return known
        known.verdict[changed] = _UNTRIED
        known.moment = now
        self._known.move_to_end(pod.cls)
        return known

    def _compiled_budgets(self, cluster: ClusterView) -> Budgets:
        version = cluster.version(BUDGET)
        if self._budgets is None or self._budgets[0] != version:
            self._budgets = version, Budgets(cluster.list(BUDGET))
        return self._budgets[1]


def _changed_rows(known: _Known, now: Moment, cluster: ClusterView) -> Rows | None:
    """Return the rows that changed, or whose pods or nominated pods did; None: maybe all."""
    nodes, before = cluster.nodes, known.moment
    if now.inputs is None or now[:2] != before[:2] or len(known.verdict) != nodes.size:
        return None
    changed = nodes.changed_since(before.position)
    restated = nodes.start_times_changed_since(before.restated)
    names = cluster.nominations_since(before.nominations)
    if changed is None or restated is None or names is None:
        return None
    found = (nodes.row_of(name) for name in names)
    nominated = np.array([row for row in found if row is not None], dtype=np.intp)
    return np.concatenate([changed, restated, nominated])


def _nominated_rows(pod: PodInfo, cluster: ClusterView) -> Rows:
    """Return the rows with nominated pods that count for the pod."""
    found = []
    for name in cluster.nominated_nodes():
        row = cluster.nodes.row_of(name)
        others = cluster.nominated_pods(name)
        if row is not None and any(p.priority >= pod.priority and p.uid != pod.uid for p in others):
            found.append(row)
    return np.array(found, dtype=np.intp)
