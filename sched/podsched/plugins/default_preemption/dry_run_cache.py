"""A cache of the results of preemption's dry runs, per pod class and node.

Often many pods of one template preempt, and by default at least a hundred nodes are tried for each.
A result is valid for the next pod of the class until something changes that it depends on, so for
most pods only the changed nodes are tried:

    a result depends on                          when that changes
    ------------------------------------------   -----------------------------------
    what the filters read beyond the row         all results of the class are dropped
    (``FilterRunner.inputs``), the budgets
    the node and its pods, their start times,    the results of these rows are dropped
    the pods nominated to it

A nominated pod has results of its own, because its nomination counts for the other pods of its
class, but not for itself.

Another process may make dry runs, too (``learn``). Their results are cached like others, but the
dry run on the chosen node is repeated in this process before any pod is evicted (``confirm``).

Guarantee: the results are the same as if every node were tried again (property test).
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
from podsched.plugins.default_preemption.dry_run import BUDGET, Budgets, DryRun, cost, dry_run

#: Max classes of preemptors with cached results; the least recently used are dropped.
MAX_CLASSES = 64
#: The number of pods on the nodes of one dry run, which takes some 4 ms. The loop can do other work
#: between two dry runs. With half as many, the cost per pod is a sixth higher.
PART = 800

_UNTRIED, _CANDIDATE, _REJECTED = 0, 1, 2

#: A class, and the uid of a nominated pod, which may get another class; "" for all other pods.
_Key = tuple[PodClass, str]


class Moment(NamedTuple):
    """The versions of everything that a dry run depends on.

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

    ``verdict``, of shape ``(size,)``, is one of the constants above. ``costs`` has an array of the
    same shape for each number of ``cost``; its cells are undefined for rows that are no candidates.
    ``candidates`` and ``rejected`` may have outdated rows: ``verdict`` decides.
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

    ``is_complete``: whether enough nodes were tried, so that the search was not stopped early.
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
        """The object that holds the class's results; another one after all were dropped."""
        return self._entry

    def holds(self, cluster: ClusterView, runner: FilterRunner) -> bool:
        """Return whether nothing has changed since the search; False if that is unknown."""
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
        self._entries: OrderedDict[_Key, _ClassEntry] = OrderedDict()
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
        """Try one chunk of nodes after another until there are enough candidates (``suffices``).

        As many are wanted as the first chunk has rows. The search stops early, but not before one
        part of a chunk was tried, if ``should_stop`` returns True.
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
        """Return the cached results for these rows, and the rows that other processes may try.

        These are the rows without a cached result, except those with nominated pods of the same or
        higher priority: other processes do not know nominations.
        """
        entry = self._current(pod, cluster, runner)
        untried = rows[entry.verdict[rows] == _UNTRIED]
        if len(untried):
            untried = untried[~np.isin(untried, _nominated_rows(pod, cluster))]
        return entry.of(rows), untried

    def moment(self, pod: PodInfo, cluster: ClusterView) -> Moment | None:
        """Return the versions that dry runs made right after ``cached`` depend on."""
        entry = self._entries.get(_key(pod, cluster))
        return None if entry is None else entry.moment

    def learn(
        self,
        pod: PodInfo,
        cluster: ClusterView,
        moment: Moment,
        found: Mapping[int, VictimUids | Status],
    ) -> None:
        """Store another process's results, computed at a moment, for rows that ``cached`` returned.

        They are ignored if the class's entry was updated after that moment. Rows that changed after
        it are found when the results are read, as for results of this process.
        """
        entry, nodes = self._entries.get(_key(pod, cluster)), cluster.nodes
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
        """Return whether the row's result is from this process, or is the same when repeated here.

        If not, all results of other processes for the class are dropped.
        """
        known = self._entries.get(_key(pod, cluster))
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
        """Return the entry of the pod, without the results for rows that have changed."""
        nodes, now, key = cluster.nodes, _moment(cluster, runner), _key(pod, cluster)
        entry = self._entries.get(key)
        changed = None if entry is None else _changed_rows(entry, now, cluster)
        if entry is None or changed is None:
            entry = self._entries[key] = _ClassEntry.empty(now, nodes.size)
            if len(self._entries) > MAX_CLASSES:
                self._entries.popitem(last=False)
            return entry
        entry.verdict[changed] = _UNTRIED
        entry.moment = now
        self._entries.move_to_end(key)
        return entry

    def _compiled_budgets(self, cluster: ClusterView) -> Budgets:
        version = cluster.version(BUDGET)
        if self._budgets is None or self._budgets[0] != version:
            self._budgets = version, Budgets(cluster.list(BUDGET))
        return self._budgets[1]


def _key(pod: PodInfo, cluster: ClusterView) -> _Key:
    return (pod.cls, pod.uid if cluster.nominator.node_of(pod.uid) else "")


def _in_parts(nodes: NodeColumns, rows: Rows) -> Sequence[Rows]:
    """Divide rows into parts with about PART pods on their nodes."""
    parts, begins, pods = [], 0, 0
    # There are mostly two or three rows; for so few, NumPy would be slower than this loop.
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
        nodes.start_times.position,
        cluster.nominator.version,
    )


def _changed_rows(entry: _ClassEntry, now: Moment, cluster: ClusterView) -> Rows | None:
    """Return the rows that changed, or whose pods or nominated pods did; None: perhaps all."""
    nodes, before = cluster.nodes, entry.moment
    # ``inputs`` is None if a filter does not tell what it reads: then nothing may be kept.
    if now.inputs is None or now[:2] != before[:2] or len(entry.verdict) != nodes.size:
        return None
    changed = nodes.changed_since(before.rows)
    start_times = nodes.start_times.changed_since(before.start_times)
    names = cluster.nominator.changed_since(before.nominations)
    if changed is None or start_times is None or names is None:
        return None
    found = (nodes.row_of(name) for name in names)
    nominated = np.array([row for row in found if row is not None], dtype=np.intp)
    return np.concatenate([changed, start_times, nominated])


def _nominated_rows(pod: PodInfo, cluster: ClusterView) -> Rows:
    """Return the rows with other nominated pods of at least the pod's priority."""
    found = []
    for name in cluster.nominator.nodes():
        row = cluster.nodes.row_of(name)
        others = cluster.nominator.pods(name)
        if row is not None and any(p.priority >= pod.priority and p.uid != pod.uid for p in others):
            found.append(row)
    return np.array(found, dtype=np.intp)
