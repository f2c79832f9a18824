"""The evaluation of one pod class in one profile, kept current row by row.

Pods made from one template are equal to every plugin, so what the plugins said for one holds for
the next: only rows that changed since (the columns' journal) are asked about again, and a plugin
whose ``inputs`` changed is asked about all rows. Normalisation is done again when the scores it
depends on change. Nominated pods are counted as kube-scheduler does: rows that have some are
filtered twice, once on a fork with them added.

Guarantee: after ``refresh`` everything equals an evaluation from scratch (property test).
Non-goals: choosing among the feasible rows (``selection``), threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from podsched.engine.evaluation.class_columns import FilterColumn, ScoreColumn, first_rejections
from podsched.engine.evaluation.diagnosis import Diagnosis
from podsched.engine.evaluation.filtering import (
    Nominees,
    PreFiltered,
    PreFilterMerge,
    filter_one,
    pre_filter_one,
    renumbered,
    run_with_nominees,
)
from podsched.engine.evaluation.row_sets import union
from podsched.engine.evaluation.scoring import pre_score_one, score_one
from podsched.engine.runtime.plugin_calls import PluginFailure, guarded
from podsched.engine.runtime.plugin_metrics import EvaluationCost
from podsched.engine.runtime.profile_runtime import ProfileRuntime
from podsched.framework.nodes import Bools, ClusterView
from podsched.framework.plugin import (
    EXCLUDED,
    PASSED,
    CycleState,
    FilterOutcome,
    InputsPlugin,
    PreFilterResult,
)
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Bits, Rows, Scores, Verdicts, status_of

#: In place of a plugin's index: the row has no node.
NO_NODE = -3
#: The total of rows that are not feasible.
NO_TOTAL = -1

INPUTS_WORDING = 'reading the inputs of plugin "{}"'


class Findings(Protocol):
    """What plugins said of some rows, by plugin; plugins that are missing were not asked.

    ``verdicts`` and ``fits`` (no filter asked rejects the row) are parallel to the rows; ``raw``
    scores are of the rows that fit alone.
    """

    @property
    def verdicts(self) -> Mapping[str, Verdicts]: ...
    @property
    def fits(self) -> Bools: ...
    @property
    def raw(self) -> Mapping[str, Scores]: ...


@dataclass(frozen=True, slots=True)
class _PreFilterEntry:
    inputs: Hashable
    result: PreFilterResult


class ClassEvaluation:
    """Feasibility, reasons and scores of all rows for a pod class.

    After ``refresh``: ``feasible`` and ``total`` (NO_TOTAL where not feasible) have shape
    ``(size,)``; ``failure`` is the error that ends the cycle, if there was one; ``pre_filtered``
    tells what PreFilter came to.
    """

    def __init__(self, runtime: ProfileRuntime, cluster: ClusterView, cls: PodClass) -> None:
        self.runtime = runtime
        self.cluster = cluster
        self.cls = cls
        self.state = CycleState()
        self.pre_filtered = PreFiltered()
        self.failure: PluginFailure | None = None
        self.filters = [FilterColumn(i, named) for i, named in enumerate(runtime.filter)]
        self.scores = [ScoreColumn(named) for named in runtime.score]
        self.feasible: Bools = np.zeros(0, dtype=np.bool_)
        self.total: Scores = np.zeros(0, dtype=np.int64)
        self.plugin: Scores = np.zeros(0, dtype=np.int64)
        self.bits: Bits = np.zeros(0, dtype=np.uint64)
        self._candidate: Bools = np.zeros(0, dtype=np.bool_)
        self._feasible_rows: Rows = np.empty(0, dtype=np.intp)
        self._position: int | None = None
        self._pre: dict[str, _PreFilterEntry] = {}
        self._names: frozenset[str] | None = None
        self._stale: set[str] = set()
        self._other_inputs: dict[str, Hashable] = {}
        self._readers = self._plugins_with_inputs()
        self._nominated: dict[int, tuple[PodInfo, ...]] = {}
        self._nominations: tuple[int, int] | None = None
        self._overruled: int | None = None
        self._nodes_version: int | None = None
        #: Whether only pods came and went since the last refresh.
        self._same_nodes = False
        self.cost = EvaluationCost(runtime.meter.clock)

    def _plugins_with_inputs(self) -> list[tuple[str, Any]]:
        """Plugins that name their inputs but have no PreFilter."""
        covered = {named.name for named in self.runtime.pre_filter}
        found: dict[str, Any] = {named.name: named.plugin for named in self.runtime.filter}
        found |= {named.name: named.plugin for named in self.runtime.score}
        found = {name: plugin for name, plugin in found.items() if name not in covered}
        return [
            (name, plugin) for name, plugin in found.items() if isinstance(plugin, InputsPlugin)
        ]

    # ------------------------------------------------------------------ reading

    @property
    def feasible_rows(self) -> Rows:
        """Ascending rows on which the pod fits."""
        return self._feasible_rows

    @property
    def nominated_rows(self) -> dict[int, tuple[PodInfo, ...]]:
        """Rows with nominated pods that count for this class."""
        return self._nominated

    def fingerprint(self, pod: PodInfo) -> tuple[Hashable, ...]:
        """Return the versions of all that the plugins read beyond the rows. Raises PluginFailure."""
        cluster = self.cluster
        return tuple(
            guarded(name, INPUTS_WORDING, plugin.inputs, pod, cluster)
            for name, plugin in (
                *((named.name, named.plugin) for named in self.runtime.pre_filter),
                *self._readers,
            )
        )

    @property
    def input_names(self) -> tuple[str, ...]:
        """The plugins of ``fingerprint``, in its order."""
        pre = (named.name for named in self.runtime.pre_filter)
        return (*pre, *(name for name, _ in self._readers))

    @property
    def last_inputs(self) -> tuple[Hashable, ...]:
        """The fingerprint that the evaluation rests on."""
        names = [named.name for named in self.runtime.pre_filter]
        pre = (self._pre[name].inputs for name in names if name in self._pre)
        return (*pre, *self._other_inputs.values())

    @property
    def reads_pods(self) -> bool:
        """Whether a plugin that takes part looks at the single pods of a node."""
        return any(
            column.active and column.named.traits.reads_pods
            for columns in (self.filters, self.scores)
            for column in columns
        )

    def override_row(self, row: int, outcome: FilterOutcome) -> None:
        """Take over another outcome for one row, until the next refresh looks at it again.

        For pods to which a row's nominated pods mean something else than to their class.
        """
        index = int(outcome.plugin[0])
        self.plugin[row] = index
        self.feasible[row] = False
        self.total[row] = NO_TOTAL
        self._feasible_rows = np.flatnonzero(self.feasible)
        if index >= 0:
            reasons = outcome.reasons[index]
            known = self.filters[index].reasons
            self.bits[row] = renumbered(outcome.bits, reasons, known)[0]
        self._overruled = row

    def outcome(self) -> FilterOutcome:
        """Return what the filters said of every node."""
        rows = np.flatnonzero(self.cluster.nodes.alive)
        reasons = tuple(tuple(column.reasons) for column in self.filters)
        names = tuple(column.named.name for column in self.filters)
        if not self.pre_filtered.status.ok:
            everywhere = np.full(len(rows), EXCLUDED, dtype=np.int16)
            bits = np.zeros(len(rows), dtype=np.uint64)
            return FilterOutcome(rows, everywhere, bits, names, reasons, self.pre_filtered.status)
        excluded = SUCCESS if self._names is None else self.pre_filtered.excluded
        return FilterOutcome(
            rows, self.plugin[rows].astype(np.int16), self.bits[rows], names, reasons, excluded
        )

    def diagnosis(self) -> Diagnosis:
        """Why the pod does not fit where it does not."""
        num_all_nodes = int(np.count_nonzero(self.cluster.nodes.alive))
        outcome = self.outcome() if self.pre_filtered.status.ok else None
        return Diagnosis(num_all_nodes, self.pre_filtered, outcome)

    def status(self, row: int) -> Status:
        """Return what the filters said of one node."""
        plugin = int(self.plugin[row])
        if plugin == PASSED:
            return SUCCESS
        if plugin == EXCLUDED:
            return self.pre_filtered.excluded
        column = self.filters[plugin]
        return status_of(int(self.bits[row]), tuple(column.reasons), column.named.name)

    # ------------------------------------------------------------------ refreshing

    def refresh(self, pod: PodInfo) -> None:
        """Brings everything up to date for a pod of the class."""
        self.failure = None
        self.cost.begin()
        try:
            self._refresh(pod)
        except PluginFailure as failure:
            self.failure = failure
            self._position = None
        self.cost.end(feasible=bool(len(self._feasible_rows)))

    # ------------------------------------------------------------------ evaluation elsewhere

    @property
    def is_evaluated(self) -> bool:
        """Whether the next refresh looks at changed rows alone."""
        return self._position is not None

    def discard(self) -> None:
        """Nothing came of what ``begin`` began: the next refresh looks at all rows."""
        self._position = None

    def begin(self, pod: PodInfo) -> bool:
        """Get ready for a first evaluation whose bulk is done elsewhere (``sharding``).

        Runs PreFilter, and PreScore where it does not depend on the feasible rows. False when the
        class is evaluated already, or is turned down before Filter. Raises PluginFailure.
        """
        self.failure = None
        self._read_inputs(pod)
        if not self.pre_filtered.status.ok or self._position is not None:
            return False
        self._changed_rows()
        for column in self.filters:
            column.active = column.named.name not in self.state.skip_filter
        for score in self.scores:
            if not score.depends_on_feasible:
                nobody = np.empty(0, dtype=np.intp)
                pre_score_one(self.runtime, score.named, self.state, pod, self.cluster, nobody)
                score.active = score.named.name not in self.state.skip_score
                score.known = True
        return True

    def adopt(self, pod: PodInfo, rows: Rows, findings: Findings) -> None:
        """Take over what was found elsewhere for rows, as they were at ``begin``.

        Rows not among them are evaluated here, those changed since at the next refresh.
        Raises PluginFailure.
        """
        kept = self._candidate[rows]
        known = np.zeros(len(self.feasible), dtype=np.bool_)
        known[rows] = True
        rest = np.flatnonzero(self._candidate & ~known)
        for column in self.filters:
            found = findings.verdicts.get(column.named.name)
            if found is not None:
                verdicts = Verdicts(found.bits[kept], found.reasons) if found.reasons else found
                column.put(rows[kept], verdicts, all_rows=True)
            asked = self._candidates() if found is None else rest
            if column.active and len(asked):
                own = filter_one(column.named, self.state, pod, self.cluster.nodes, asked)
                column.put(asked, own, all_rows=False)
        fitting = kept & findings.fits
        for score in self.scores:
            raw = findings.raw.get(score.named.name)
            if raw is not None:
                score.put(rows[fitting], raw[kept[findings.fits]])
        self._stale.clear()
        self._same_nodes = False
        self._judge(pod, None, rows[:0], adopted=True)

    def _refresh(self, pod: PodInfo) -> None:
        self._read_inputs(pod)
        if not self.pre_filtered.status.ok:
            self._reject_all()
            return
        self.cost.pre_filter_done()
        changed = self._changed_rows()
        everything = changed is None
        rows = self._candidates() if changed is None else self._update_candidates(changed)
        version = self.cluster.version("Node")
        self._same_nodes = version == self._nodes_version and not everything
        self._nodes_version = version
        stale = self._filter(pod, rows, everything=everything)
        looked_at = self._candidates() if stale else rows
        self.runtime.meter.looked_at(len(looked_at), all_of_class=stale)
        judged = None
        if changed is not None and not stale:
            judged = union(changed, self._renominated())
        self._judge(pod, judged, rows, everything=everything)
        self._stale.clear()

    def _judge(
        self,
        pod: PodInfo,
        judged: Rows | None,
        rows: Rows,
        *,
        everything: bool = False,
        adopted: bool = False,
    ) -> None:
        """Feasibility and scores after verdicts were taken in.

        ``judged``: the rows with other verdicts, None for all; ``rows``: those that changed and
        may be feasible.
        """
        self._renominated()
        first_rejections(self.filters, judged, self._candidate, self.plugin, self.bits)
        self._filter_with_nominees(pod, self._candidates() if judged is None else judged)
        self._raise_errors()
        fresh, feasible_changed = self._update_feasible(judged)
        self.cost.filter_done()
        weigh_all = everything or adopted
        for column in self.scores:
            if adopted:
                # What fits elsewhere may not fit here, where nominated pods count too.
                column.scored &= self.feasible
            stale = everything or column.named.name in self._stale
            if stale or (feasible_changed and column.depends_on_feasible):
                column.forget()
        # After a look at every row, those to score are the feasible ones: no set to put together.
        whole = everything or adopted
        asked = self._feasible_rows if whole else union(rows[self.feasible[rows]], fresh)
        self._score(pod, rows, asked, feasible_changed=feasible_changed, weigh_all=weigh_all)

    def _renominated(self) -> Rows:
        """Rows to judge again: their nominated pods changed, or they have been overruled."""
        rows = self._read_nominations()
        if self._overruled is not None:
            again = np.array([self._overruled], dtype=np.intp)
            rows = union(rows, again[self._candidate[again]])
            self._overruled = None
        return rows

    def _read_inputs(self, pod: PodInfo) -> None:
        """PreFilter, for plugins whose inputs changed; notes them as stale."""
        merge = PreFilterMerge()
        for named in self.runtime.pre_filter:
            name = named.name
            inputs = guarded(name, INPUTS_WORDING, named.plugin.inputs, pod, self.cluster)
            entry = self._pre.get(name)
            if entry is None or entry.inputs != inputs:
                result = pre_filter_one(named, self.state, pod, self.cluster)
                entry = self._pre[name] = _PreFilterEntry(inputs, result)
                self._stale.add(name)
            if not merge.add(name, entry.result):
                break
        for name, plugin in self._readers:
            inputs = guarded(name, INPUTS_WORDING, plugin.inputs, pod, self.cluster)
            if name not in self._other_inputs or self._other_inputs[name] != inputs:
                self._other_inputs[name] = inputs
                self._stale.add(name)
        self.pre_filtered = merge.done()
        if self.pre_filtered.status.ok and self.pre_filtered.node_names != self._names:
            self._names = self.pre_filtered.node_names
            self._position = None

    def _reject_all(self) -> None:
        """PreFilter turned the pod down. The rows are looked at again when it no longer does."""
        self._position = None
        self.feasible = np.zeros(self.cluster.nodes.size, dtype=np.bool_)
        self.total = np.full(self.cluster.nodes.size, NO_TOTAL, dtype=np.int64)
        self._feasible_rows = np.empty(0, dtype=np.intp)

    def _changed_rows(self) -> Rows | None:
        nodes = self.cluster.nodes
        changed = None if self._position is None else nodes.changed_since(self._position)
        self._position = nodes.position
        if changed is None:
            self._clear(nodes.size)
        return changed

    def _clear(self, size: int) -> None:
        for filter_column in self.filters:
            filter_column.clear(size)
        for score_column in self.scores:
            score_column.clear(size)
        self.feasible = np.zeros(size, dtype=np.bool_)
        self.total = np.full(size, NO_TOTAL, dtype=np.int64)
        self.plugin = np.full(size, NO_NODE, dtype=np.int64)
        self.bits = np.zeros(size, dtype=np.uint64)
        self._feasible_rows = np.empty(0, dtype=np.intp)
        self._nominated = {}
        self._nominations = None
        self._candidate = np.zeros(size, dtype=np.bool_)
        self._mark_candidates(np.arange(size))

    def _mark_candidates(self, rows: Rows) -> None:
        nodes = self.cluster.nodes
        alive = nodes.alive[rows]
        if self._names is None:
            self._candidate[rows] = alive
            self.plugin[rows] = np.where(alive, PASSED, NO_NODE)
            return
        found = (nodes.row_of(name) for name in self._names)
        named = np.zeros(nodes.size, dtype=np.bool_)
        named[[row for row in found if row is not None]] = True
        self._candidate[rows] = named[rows]
        self.plugin[rows] = np.where(named[rows], PASSED, np.where(alive, EXCLUDED, NO_NODE))

    def _candidates(self) -> Rows:
        return np.flatnonzero(self._candidate)

    def _update_candidates(self, changed: Rows) -> Rows:
        if len(changed):
            before = self._candidate[changed]
            self._mark_candidates(changed)
            if not np.array_equal(before, self._candidate[changed]):
                # A node that has just come may have pods nominated to it long ago.
                self._nominations = None
        return changed[self._candidate[changed]]

    # ------------------------------------------------------------------ filter

    def _filter(self, pod: PodInfo, rows: Rows, *, everything: bool) -> bool:
        """Filter changed rows, stale plugins all rows; whether any plugin looked at all rows."""
        all_rows: Rows | None = None
        nodes, state = self.cluster.nodes, self.state
        for column in self.filters:
            named = column.named
            active = named.name not in state.skip_filter
            stale = everything or named.name in self._stale or active != column.active
            column.active = active
            if stale and all_rows is None:
                all_rows = rows if everything else self._candidates()
            if not active:
                continue
            asked = all_rows if stale and all_rows is not None else rows
            if len(asked) and (stale or not (column.only_nodes and self._same_nodes)):
                verdicts = filter_one(named, state, pod, nodes, asked)
                column.put(asked, verdicts, all_rows=stale)
        return all_rows is not None

    def _read_nominations(self) -> Rows:
        """Return the rows whose nominated pods (those that count) changed."""
        version = (self.cluster.nominations_version, self.cluster.nodes.topology_version)
        before = self._nominations
        if version == before:
            return np.empty(0, dtype=np.intp)
        self._nominations = version
        names = None
        if before is not None and before[1] == version[1]:
            names = self.cluster.nominations_since(before[0])
        now = self._nominated_to(self.cluster.nominated_nodes() if names is None else names)
        if names is None:
            gone = self._nominated.keys() - now.keys()
            now.update((row, ()) for row in gone)
        differ = [row for row, pods in now.items() if pods != self._nominated.get(row, ())]
        for row in differ:
            if now[row]:
                self._nominated[row] = now[row]
            else:
                del self._nominated[row]
        rows = np.array(sorted(differ), dtype=np.intp)
        return rows[self._candidate[rows]]

    def _nominated_to(self, names: Iterable[str]) -> dict[int, tuple[PodInfo, ...]]:
        """Return the nominated pods that count, by row; () where there are none."""
        found: dict[int, tuple[PodInfo, ...]] = {}
        for name in names:
            row = self.cluster.nodes.row_of(name)
            if row is not None:
                pods = self.cluster.nominated_pods(name) if self._candidate[row] else ()
                found[row] = tuple(p for p in pods if p.priority >= self.cls.priority)
        return found

    def _filter_with_nominees(self, pod: PodInfo, judged: Rows) -> None:
        if not self._nominated:
            return
        if len(judged) < len(self._nominated):
            mine = [i for i, row in enumerate(judged.tolist()) if row in self._nominated]
            places = np.array(mine, dtype=np.intp)
        else:
            marked = np.zeros(len(self.plugin), dtype=np.bool_)
            marked[list(self._nominated)] = True
            places = np.flatnonzero(marked[judged])
        if not len(places):
            return
        others = tuple(self._nominated[row] for row in judged[places].tolist())
        first = run_with_nominees(
            self.runtime, self.state, pod, self.cluster.nodes, judged, Nominees(places, others)
        )
        for index, reasons in enumerate(first.reasons):
            rejected = first.plugin == index
            if rejected.any():
                rows = judged[places[rejected]]
                self.plugin[rows] = index
                self.bits[rows] = renumbered(
                    first.bits[rejected], reasons, self.filters[index].reasons
                )

    def _raise_errors(self) -> None:
        """kube-scheduler gives up the cycle when a Filter fails on any node."""
        for column in self.filters:
            if not column.may_fail:
                continue
            for row in np.flatnonzero(self.plugin == column.index).tolist():
                status = self.status(row)
                if status.code is Code.ERROR:
                    raise PluginFailure(column.named.name, status.message)

    def _update_feasible(self, judged: Rows | None) -> tuple[Rows, bool]:
        """Return the rows that became feasible, and whether any row became or ceased to be."""
        if judged is None:
            now = np.equal(self.plugin, PASSED)
            other = np.flatnonzero(now != self.feasible)
        else:
            other = judged[(self.plugin[judged] == PASSED) != self.feasible[judged]]
        if not len(other):
            return other, False
        self.feasible[other] = ~self.feasible[other]
        came = self.feasible[other]
        gone = other[~came]
        self.total[gone] = NO_TOTAL
        for column in self.scores:
            # Whatever is normalised while they are gone passes them by.
            column.scored[gone] = False
        self._feasible_rows = np.flatnonzero(self.feasible)
        return other[came], True

    # ------------------------------------------------------------------ score

    def _score(
        self, pod: PodInfo, rows: Rows, asked: Rows, *, feasible_changed: bool, weigh_all: bool
    ) -> None:
        """Scores ``asked``: the feasible ones of ``rows``, which changed, and those that came."""
        feasible = self._feasible_rows
        all_touched = weigh_all
        for column in self.scores:
            if not (column.only_nodes and self._same_nodes):
                column.scored[rows] = False
            unscored, weigh = asked, weigh_all
            if not column.known:
                if not len(feasible):
                    continue
                self.cost.time_pre_score(
                    partial(
                        pre_score_one,
                        self.runtime, column.named, self.state, pod, self.cluster, feasible,
                    )
                )  # fmt: skip
                column.active = column.named.name not in self.state.skip_score
                column.known = all_touched = weigh = True
                unscored = feasible
            elif len(asked):
                unscored = asked[~column.scored[asked]]
            if not column.active or not len(feasible):
                continue
            if len(unscored):
                nodes = self.cluster.nodes
                raw = score_one(column.named, self.state, pod, nodes, unscored)
                column.put(unscored, raw)
            if weigh or len(unscored) or feasible_changed:
                changed = feasible if weigh else unscored
                all_touched |= column.weigh(self.state, changed, feasible)
        self._add_up(None if all_touched else asked)

    def _add_up(self, rows: Rows | None) -> None:
        """Sum the weighted scores, of all feasible rows for None."""
        columns = [column for column in self.scores if column.active]
        if rows is not None:
            total = np.zeros(len(rows), dtype=np.int64)
            for column in columns:
                total += column.scores[rows]
            self.total[rows] = total if self.scores else 1
            return
        total = np.zeros(len(self.total), dtype=np.int64)
        for column in columns:
            total += column.scores
        np.copyto(self.total, total if self.scores else 1, where=self.feasible)
