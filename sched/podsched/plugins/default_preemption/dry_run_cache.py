"""A cache of dry runs of preemption, per pod class, until something they depend on changes.

Often many pods of one template preempt, and kube-scheduler tries at least a hundred nodes for each.
The result of a dry run is valid for the next pod of the class as long as nothing that it depends on
changes, so most pods try only the nodes that changed:

    depends on                                   when it changes
    ------------------------------------------   -----------------------------------
    what the filters read beyond the row         all results of the class are dropped
    (``FilterRunner.inputs``), the budgets
    the node and its pods, their start times,    the results of these rows are dropped
    the pods nominated to it

Dry runs may also be made by another process (``learn``). Their results are cached like others, but
the dry run on the chosen node is repeated here before any pod is evicted (``confirm``).

Guarantee: the same results as trying every node anew (property test).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsched.framework.nodes import ClusterView, NodeColumns
from podsched.framework.plugin import CycleState, FilterRunner, Victims
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.preemption import VictimUids
from podsched.framework.status import Status
from podsched.framework.verdicts import Rows
from podsched.plugins.default_preemption.dry_run import Budgets, DryRun, cost, dry_run

BUDGET = "PodDisruptionBudget"
#: Max classes of preemptors with cached results; the least recently used are dropped.
MAX_CLASSES = 64
#: Pods on the nodes that are tried together, which takes some 4 ms. With half as many, the cost per
#: pod is a sixth higher.
PART = 800

_UNTRIED, _CANDIDATE, _REJECTED = 0, 1, 2


class Moment(NamedTuple):
    """The versions of what dry runs depend on.

    If ``inputs`` or ``budgets`` changes, all results are dropped. The other three are positions in
    journals, which tell the rows that changed.
    """

    inputs: Hashable
    budgets: int
    rows: int
    start_times: int
    nominations: int


@dataclass(slots=True)
class _ClassEntry:
    """The results for one pod class, valid at a moment.

    ``verdict`` has shape ``(size,)``: one of the constants above. ``costs`` has a column for each
    number of ``cost``, defined only for candidates.
    """

    moment: Moment
    verdict: NDArray[np.int8]
    costs: tuple[NDArray[Any], ...]
    candidates: dict[int, Victims] = field(default_factory=dict)
    rejected: dict[int, Status] = field(default_factory=dict)
    #: Rows whose dry runs another process made.
    remote: set[int] = field(default_factory=set)

    @classmethod
    def empty(cls, moment: Moment, size: int) -> _ClassEntry:
        types = (np.int64, np.int64, np.int64, np.int64, np.float64)
        costs = tuple(np.zeros(size, dtype=of_number) for of_number in types)
        return cls(moment, np.zeros(size, dtype=np.int8), costs)

    def of(self, rows: Rows) -> DryRun:
        """Return the results for the rows among ``rows`` that were tried."""
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
        for row, victims in found.candidates.items():
            for column, value in zip(self.costs, cost(victims), strict=True):
                column[row] = value

    def candidates_among(self, rows: Rows) -> Rows:
        """Return the rows that are candidates, in the given order."""
        candidates: Rows = rows[self.verdict[rows] == _CANDIDATE]
        return candidates

    def suffices(self, candidates: Rows, wanted: int) -> bool:
        """Return the result of ``DryRun.suffices`` for these candidates."""
        if len(candidates) < wanted:
            return False
        return bool(np.count_nonzero(self.costs[0][candidates]) < len(candidates))

    def cheapest(self, candidates: Rows) -> int:
        """Return the candidate with the lowest cost, the lowest row of several."""
        for column in self.costs:
            values = column[candidates]
            candidates = candidates[values == np.minimum.reduce(values)]
            if len(candidates) == 1:
                break
        return int(candidates.min())


class Found:
    """The result of a search, valid until the cluster changes.

    ``is_complete``: the search was not stopped before it had tried enough nodes.
    """

    def __init__(
        self, entry: _ClassEntry, rows: Rows, candidates: Rows, *, is_complete: bool
    ) -> None:
        self._entry = entry
        self._rows = rows
        self._candidates = candidates
        self._moment = entry.moment
        self.is_complete = is_complete

    @property
    def memory(self) -> object:
        """The object that holds the results; the same until all of them are dropped."""
        return self._entry

    def holds(self, cluster: ClusterView, runner: FilterRunner) -> bool:
        """Return whether certainly nothing has changed since."""
        return runner.inputs is not None and self._moment == _moment(cluster, runner)

    def best(self) -> int | None:
        """Return the candidate with the lowest cost, the lowest row of several, or None."""
        return self._entry.cheapest(self._candidates) if len(self._candidates) else None

    def victims(self, row: int) -> Victims:
        """Return the victims on a candidate."""
        return self._entry.candidates[row]

    def results(self) -> DryRun:
        """Return the results for all rows that were tried."""
        return self._entry.of(self._rows)


class DryRunCache:
    """Makes dry runs for preemptors, once for each class and node as long as nothing changes."""

    def __init__(self) -> None:
        self._entries: OrderedDict[PodClass, _ClassEntry] = OrderedDict()
        self._budgets: tuple[int, Budgets] | None = None

    def dry_run(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
        runner: FilterRunner,
    ) -> DryRun:
        """Return the results for these rows; only those not cached are tried."""
        entry = self._current(pod, cluster, runner)
        untried = rows[entry.verdict[rows] == _UNTRIED]
        if len(untried):
            self._try(entry, state, pod, cluster, untried, runner)
        return entry.of(rows)

    def search(
        self,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        chunks: Sequence[Rows],
        runner: FilterRunner,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Found:
        """Try chunk after chunk until there are as many candidates as the first chunk has rows.

        Ends early, after a part of a chunk, if ``should_stop`` returns True.
        """
        entry = self._current(pod, cluster, runner)
        tried, candidates, made = [], np.empty(0, dtype=np.intp), False
        for chunk in chunks:
            untried = chunk[entry.verdict[chunk] == _UNTRIED]
            for part in _in_parts(cluster.nodes, untried) if len(untried) else ():
                if made and should_stop():
                    return Found(entry, chunk[:0], candidates, is_complete=False)
                self._try(entry, state, pod, cluster, part, runner)
                made = True
            tried.append(chunk)
            found = entry.candidates_among(chunk)
            candidates = np.concatenate([candidates, found]) if len(candidates) else found
            if entry.suffices(candidates, len(chunks[0])):
                break
        rows = tried[0] if len(tried) == 1 else np.concatenate(tried)
        return Found(entry, rows, candidates, is_complete=True)

    def _try(
        self,
        entry: _ClassEntry,
        state: CycleState,
        pod: PodInfo,
        cluster: ClusterView,
        rows: Rows,
        runner: FilterRunner,
    ) -> None:
        budgets = self._compiled_budgets(cluster)
        entry.put(dry_run(state, pod, cluster.nodes, rows, runner, budgets))
        entry.remote.difference_update(rows.tolist())

    # ------------------------------------------------------------------ remote dry runs

    def cached(
        self, pod: PodInfo, cluster: ClusterView, rows: Rows, runner: FilterRunner
    ) -> tuple[DryRun, Rows]:
        """Return the cached results for these rows, and the other rows that may be tried remotely.

        The latter have no nominated pods that count for the pod, because other processes know no
        nominations.
        """
        entry = self._current(pod, cluster, runner)
        untried = rows[entry.verdict[rows] == _UNTRIED]
        if len(untried):
            untried = untried[~np.isin(untried, _nominated_rows(pod, cluster))]
        return entry.of(rows), untried

    def moment(self, pod: PodInfo) -> Moment | None:
        """Return the versions for dry runs that are made right after ``cached``."""
        entry = self._entries.get(pod.cls)
        return None if entry is None else entry.moment

    def learn(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        moment: Moment,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        """Store remote results for rows without nominated pods, computed at a moment.

        Ignored if the class's entry was updated since. Rows that changed since are detected when
        the results are read, as for other results.
        """
        entry, nodes = self._entries.get(pod.cls), cluster.nodes
        if entry is None or entry.moment != moment:
            return
        taken = DryRun()
        for row, one in found.items():
            if entry.verdict[row] != _UNTRIED:
                continue
            if isinstance(one, Status):
                taken.rejected[row] = one
            else:
                there, (uids, violations) = nodes.pods(row), one
                if all(uid in there for uid in uids):
                    taken.candidates[row] = Victims(tuple(there[uid] for uid in uids), violations)
        entry.put(taken)
        entry.remote.update(taken.candidates, taken.rejected)

    def confirm(
        self, state: CycleState, pod: PodInfo, cluster: ClusterView, row: int, runner: FilterRunner
    ) -> bool:
        """Return whether a remote result, if the row's is one, is the same when repeated here.

        Otherwise all remote results of the class are dropped.
        """
        known = self._entries.get(pod.cls)
        if known is not None and row not in known.remote:
            return True
        entry = self._current(pod, cluster, runner)
        before = entry.candidates.get(row)
        entry.verdict[row] = _UNTRIED
        again = self.dry_run(state, pod, cluster, np.array([row], dtype=np.intp), runner)
        if again.candidates.get(row) == before:
            return True
        entry.verdict[list(entry.remote)] = _UNTRIED
        entry.remote.clear()
        return False

    # ------------------------------------------------------------------ validity

    def _current(self, pod: PodInfo, cluster: ClusterView, runner: FilterRunner) -> _ClassEntry:
        """Return the entry of the class, without the results for rows that have changed."""
        nodes, now = cluster.nodes, _moment(cluster, runner)
        entry = self._entries.get(pod.cls)
        changed = None if entry is None else _changed_rows(entry, now, cluster)
        if entry is None or changed is None:
            entry = self._entries[pod.cls] = _ClassEntry.empty(now, nodes.size)
            if len(self._entries) > MAX_CLASSES:
                self._entries.popitem(last=False)
            return entry
        entry.verdict[changed] = _UNTRIED
        entry.moment = now
        self._entries.move_to_end(pod.cls)
        return entry

    def _compiled_budgets(self, cluster: ClusterView) -> Budgets:
        version = cluster.version(BUDGET)
        if self._budgets is None or self._budgets[0] != version:
            self._budgets = version, Budgets(cluster.list(BUDGET))
        return self._budgets[1]


def _in_parts(nodes: NodeColumns, rows: Rows) -> Sequence[Rows]:
    """Divide rows into parts with about PART pods on their nodes."""
    parts, begins, pods = [], 0, 0
    # Mostly two or three rows, for which arrays would take longer.
    for place, row in enumerate(rows.tolist(), start=1):
        pods += len(nodes.pods(row))
        if pods >= PART:
            parts.append(rows[begins:place])
            begins, pods = place, 0
    if begins < len(rows):
        parts.append(rows[begins:])
    return parts


def _moment(cluster: ClusterView, runner: FilterRunner) -> Moment:
    nodes = cluster.nodes
    return Moment(
        runner.inputs,
        cluster.version(BUDGET),
        nodes.position,
        nodes.start_times_position,
        cluster.nominations_version,
    )


def _changed_rows(entry: _ClassEntry, now: Moment, cluster: ClusterView) -> Rows | None:
    """Return the rows that changed, or whose pods or nominated pods did; None: perhaps all."""
    nodes, before = cluster.nodes, entry.moment
    if now.inputs is None or now[:2] != before[:2] or len(entry.verdict) != nodes.size:
        return None
    changed = nodes.changed_since(before.rows)
    start_times = nodes.start_times_changed_since(before.start_times)
    names = cluster.nominations_since(before.nominations)
    if changed is None or start_times is None or names is None:
        return None
    found = (nodes.row_of(name) for name in names)
    nominated = np.array([row for row in found if row is not None], dtype=np.intp)
    return np.concatenate([changed, start_times, nominated])


def _nominated_rows(pod: PodInfo, cluster: ClusterView) -> Rows:
    """Return the rows with nominated pods that count for the pod."""
    found = []
    for name in cluster.nominated_nodes():
        row = cluster.nodes.row_of(name)
        others = cluster.nominated_pods(name)
        if row is not None and any(p.priority >= pod.priority and p.uid != pod.uid for p in others):
            found.append(row)
    return np.array(found, dtype=np.intp)
