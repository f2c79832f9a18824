"""Results of plugins on all rows, kept by projection and shared by the classes of a profile.

A plugin gives the same results for all pods with the same projection. So a plugin is asked about
all rows for a new class only if no earlier class had the same projection:

    pods differ in      their classes share             each class runs by itself
    labels, claims      the whole evaluation            nothing
    requests            taints, affinity, images ...    NodeResourcesFit, BalancedAllocation
    tolerations         requests, images ...            TaintToleration, NodeUnschedulable

    TaintToleration, ()        bits, raw     position 40   <-- class 1 (position 40), class 2 (38)
    NodeResourcesFit, 100m     bits, raw     position 40   <-- class 1
    NodeResourcesFit, 250m     bits, raw     position 38   <-- class 2

A column has a position in the cache's journal. When a class adopts a column, the plugin is asked
about the rows that changed since. Then class and column advance separately but share the arrays.
This is safe: each writes the current value of a changed row, and reads only rows that it has
checked itself. An evaluation of all rows goes to new arrays, so no class finds values that depend
on inputs which it has not seen yet.

Guarantee: adopting a column equals asking the plugin about all rows (property test).
Bound: MAX_BYTES. The least recently used columns are dropped first; a class that has adopted such a
column keeps its arrays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsched.decide.accelerators.filter_column import FilterColumn
from podsched.decide.accelerators.score_column import ScoreColumn
from podsched.decide.accelerators.totals import RowGroups
from podsched.decide.evaluation.row_sets import NO_ROWS
from podsched.decide.evaluation.scoring import in_range
from podsched.framework.nodes import ClusterView
from podsched.framework.verdicts import Rows, Scores, Verdicts

#: Max bytes of columns kept for future classes: 800 columns at 5,000 nodes, 40 at 100,000.
MAX_BYTES: Final = 32 * 1024 * 1024
MIN_COLUMNS: Final = 32
#: Max groupings of rows kept: one for each topology key that pods spread over.
MAX_GROUPS: Final = 8

#: Runs a plugin's Filter on some rows, or with None on all rows (shape ``(size,)``).
AskFilter = Callable[[Rows | None], Verdicts]
AskScore = Callable[[Rows | None], Scores]


@dataclass(slots=True)
class _Kept:
    """A column, and its state: inputs, position in the journal, changes of nodes."""

    inputs: Hashable
    position: int
    node_changes: int
    size: int
    filter: FilterColumn | None = None
    raw: Scores | None = None


class SharedColumns:
    """Keeps the columns of one profile over one cluster, and brings them up to date on use."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._alive: tuple[tuple[int, int], Rows, Rows] | None = None
        self._row_groups: list[RowGroups] = []

    def row_groups(self, groups: Rows, number: int) -> RowGroups:
        """Return the rows ordered by group; the same object for the same array."""
        known = next((found for found in self._row_groups if found.groups is groups), None)
        if known is None:
            known = RowGroups(groups, number)
            self._row_groups = [known, *self._row_groups[: MAX_GROUPS - 1]]
        return known

    @property
    def alive(self) -> Rows:
        """The rows with a node, ascending."""
        return self._rows()[0]

    def _rows(self) -> tuple[Rows, Rows]:
        nodes = self._cluster.nodes
        version = (self._cluster.version("Node"), nodes.size)
        if self._alive is None or self._alive[0] != version:
            alive = nodes.alive
            self._alive = (version, np.flatnonzero(alive), np.flatnonzero(~alive))
        return self._alive[1], self._alive[2]

    def filter(
        self, column: FilterColumn, projection: Hashable, inputs: Hashable, ask: AskFilter
    ) -> None:
        """Update a column for all rows, running the plugin on as few rows as possible."""
        key = (column.named.name, "filter", projection)
        kept = self._current(key, inputs)
        if kept is not None and kept.filter is not None:
            rows = self._to_ask(kept, only_nodes=column.only_nodes)
            if len(rows):
                kept.filter.put(rows, ask(rows), all_rows=False)
            self._mark_current(kept)
            column.adopt(kept.filter)
            self._forget_failed(key, column)
            return
        verdicts = ask(None)
        # A plugin over whole columns may have set bits of rows without a node.
        if verdicts.reasons:
            verdicts.bits[self._rows()[1]] = 0
        column.put_whole(verdicts)
        # A separate column object, because the class may clear its own; the arrays are shared.
        own = FilterColumn(column.index, column.named)
        own.adopt(column)
        self._keep(key, inputs, filtered=own)
        self._forget_failed(key, column)

    def _forget_failed(self, key: Hashable, column: FilterColumn) -> None:
        """Drop a column in which the plugin failed, so that the next class tries again."""
        if column.reasons and column.may_fail:
            del self._kept[key]

    def score(
        self, column: ScoreColumn, projection: Hashable, inputs: Hashable, ask: AskScore
    ) -> bool:
        """Update the raw scores of all rows, running the plugin on as few rows as possible.

        Return False, and share nothing, if a final score is out of range on some row. That is an
        error only for a feasible row, so the caller then scores only those. Raises PluginFailure.
        """
        key = (column.named.name, "score", projection)
        kept = self._current(key, inputs)
        if kept is not None and kept.raw is not None:
            rows = self._to_ask(kept, only_nodes=column.only_nodes)
            if len(rows):
                scores = ask(rows)
                if not _in_range(column, scores):
                    del self._kept[key]
                    return False
                kept.raw[rows] = scores
            self._mark_current(kept)
            column.adopt(kept.raw)
            return True
        raw = ask(None)
        dead = self._rows()[1]
        # Scores of rows without a node are undefined, and the check looks at every element.
        if len(dead):
            raw[dead] = 0
        if not _in_range(column, raw):
            return False
        column.adopt(raw)
        self._keep(key, inputs, raw=raw)
        return True

    # ------------------------------------------------------------------ kept columns

    def _current(self, key: Hashable, inputs: Hashable) -> _Kept | None:
        """Return the column with this key if the journal can bring it up to date, else None."""
        kept = self._kept.get(key)
        if kept is None or kept.inputs != inputs or kept.size != self._cluster.nodes.size:
            return None
        # The journal no longer reaches back that far.
        if self._cluster.nodes.changed_since(kept.position) is None:
            return None
        self._kept.move_to_end(key)
        return kept

    def _to_ask(self, kept: _Kept, *, only_nodes: bool) -> Rows:
        """Return the rows on which the plugin has to run again: those that changed since."""
        if only_nodes and kept.node_changes == self._cluster.nodes.node_changes:
            return NO_ROWS
        changed = self._cluster.nodes.changed_since(kept.position)
        assert changed is not None
        return changed[self._cluster.nodes.alive[changed]] if len(changed) else changed

    def _mark_current(self, kept: _Kept) -> None:
        kept.position = self._cluster.nodes.position
        kept.node_changes = self._cluster.nodes.node_changes

    def _keep(
        self,
        key: Hashable,
        inputs: Hashable,
        filtered: FilterColumn | None = None,
        raw: Scores | None = None,
    ) -> None:
        """Keep a column for other classes; drop the least recently used ones above the limit."""
        nodes = self._cluster.nodes
        state = nodes.position, nodes.node_changes, nodes.size
        self._kept[key] = _Kept(inputs, *state, filtered, raw)
        self._kept.move_to_end(key)
        limit = max(MIN_COLUMNS, MAX_BYTES // (8 * nodes.size + 1))
        while len(self._kept) > limit:
            self._kept.popitem(last=False)


def _in_range(column: ScoreColumn, raw: Scores) -> bool:
    """Whether raw scores are 0..100 on all rows; True if normalisation brings them into range."""
    return column.normalizes or in_range(raw)
