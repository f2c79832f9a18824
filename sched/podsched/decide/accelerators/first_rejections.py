"""For each row the first Filter plugin that rejects it, and its reason bits.

kube-scheduler stops at the first plugin that rejects a node; here every plugin has a column, and
the first rejection follows from the columns::

    row            0      1      2      3      4
    candidate      yes    yes    yes    no     no     alive, and not left out by PreFilter
    columns[0]     0b00   0b01   0b00   -      -      reason bits; 0 lets the row pass
    columns[1]     0b00   0b10   0b10   -      -
      ...
    plugin         -1     0      1      -2     -3     index, or PASSED, EXCLUDED, NO_NODE
    bits           0      0b01   0b10   0      0      those of that plugin
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from podsched.decide.accelerators.filter_column import FilterColumn
from podsched.decide.evaluation.filtering import renumbered
from podsched.decide.evaluation.row_sets import NO_ROWS, union
from podsched.decide.runtime.plugin_calls import PluginFailure
from podsched.framework.filter_outcome import PASSED, FilterOutcome, PluginIndices
from podsched.framework.nodes import Bools
from podsched.framework.status import Code
from podsched.framework.verdicts import FEW_ROWS, MAX_REASONS, Bits, Rows, status_of

#: In place of a plugin's index: the row has no node.
NO_NODE = -3


class FirstRejections:
    """Keeps the first rejection of each row; ``columns``: the filters' verdicts, in order.

    ``plugin``: the index of the rejecting plugin, or PASSED, EXCLUDED or NO_NODE; int16, shape
    ``(size,)``. ``bits``: its reason bits; uint64, shape ``(size,)``, but empty until ``any`` row
    is rejected, because for most classes no row ever is.
    """

    def __init__(self, columns: Sequence[FilterColumn]) -> None:
        self._columns = columns
        self.plugin: PluginIndices = np.zeros(0, dtype=np.int16)
        self.any = False
        self.bits: Bits = np.zeros(0, dtype=np.uint64)

    def reset(self, plugin: PluginIndices) -> None:
        """Forget all rejections; ``plugin`` has PASSED, EXCLUDED or NO_NODE for each row."""
        self.plugin, self.any = plugin, False
        self.bits = np.zeros(0, dtype=np.uint64)

    def continue_from(self, other: FirstRejections) -> None:
        """Start with the rejections of another class."""
        self.plugin, self.bits, self.any = other.plugin.copy(), other.bits.copy(), other.any

    def update(self, rows: Rows | None, candidate: Bools) -> None:
        """Find the first rejections of candidate rows again, among ``rows`` (None: all)."""
        if self.any or any(column.active and column.rejects for column in self._columns):
            self._make_room_for_bits()
            first_rejections(self._columns, rows, candidate, self.plugin, self.bits)

    def _make_room_for_bits(self) -> None:
        if not self.any:
            self.any = True
            self.bits = np.zeros(len(self.plugin), dtype=np.uint64)

    def reject(self, rows: Rows, outcome: FilterOutcome) -> None:
        """Store the rejections of an outcome that is parallel to ``rows``."""
        if len(rows) <= FEW_ROWS:
            self._reject_few(rows, outcome)
            return
        for index, reasons in outcome.rejecting():
            rejected = outcome.plugin == index
            if rejected.any():
                self._make_room_for_bits()
                mine = rows[rejected]
                self.plugin[mine] = index
                known = self._columns[index].reasons
                self.bits[mine] = renumbered(outcome.bits[rejected], reasons, known)

    def _reject_few(self, rows: Rows, outcome: FilterOutcome) -> None:
        """Store rejections cell by cell: usually one row was nominated since the last decision."""
        for place, row in enumerate(rows.tolist()):
            index = outcome.plugin.item(place)
            if index == PASSED:
                continue
            self._make_room_for_bits()
            word, known = outcome.bits[place : place + 1], self._columns[index].reasons
            self.plugin[row] = index
            self.bits[row] = renumbered(word, outcome.reasons[index], known)[0]

    def prefer_node_filters(self, rows: Rows, candidate: Bools) -> None:
        """Prefer rejections by plugins that read only Nodes and come earlier in the order.

        Call it for the rows that ``NominatedRows.first_pass`` has filtered: that pass skips these
        plugins, because nominated pods do not change their verdicts.
        """
        of_nodes = [c for c in self._columns if c.only_nodes and c.active and c.rejects]
        if not of_nodes:
            return
        plugin = np.full(len(self.plugin), PASSED, dtype=np.int16)
        bits = np.zeros(len(self.plugin), dtype=np.uint64)
        first_rejections(of_nodes, rows, candidate, plugin, bits)
        first, now = plugin[rows], self.plugin[rows]
        earlier = rows[(first != PASSED) & (first < now)]
        self.plugin[earlier], self.bits[earlier] = plugin[earlier], bits[earlier]

    def on_few(self, rows: Rows | None) -> list[tuple[int, int]] | None:
        """Return rejecting plugin and reason bits of each row; None for more than a few rows.

        If they are the same after a change, ``Feasibility.outcome`` stays valid. For many rows,
        comparing them would take longer than computing the outcome again.
        """
        if rows is None or len(rows) > FEW_ROWS:
            return None
        plugin, bits, known = self.plugin, self.bits, self.any
        return [(plugin.item(row), bits.item(row) if known else 0) for row in rows.tolist()]

    def failed(self) -> Rows:
        """Return the rows on which a plugin failed and no earlier plugin rejects, ascending."""
        failed = NO_ROWS
        for column in self._columns:
            # This runs after every change, and most columns have no reasons at all.
            if column.reasons and column.may_fail:
                errors = [reason.code is Code.ERROR for reason in column.reasons[:MAX_REASONS]]
                word = np.uint64(sum(1 << place for place, fails in enumerate(errors) if fails))
                rows = np.flatnonzero(self.plugin == column.index)
                failed = union(failed, rows[self.bits[rows] & word != 0])
        return failed

    def failure(self, row: int) -> PluginFailure:
        """Return how a plugin failed on one of these rows."""
        column = self._columns[self.plugin.item(row)]
        status = status_of(self.bits.item(row), tuple(column.reasons), column.named.name)
        return PluginFailure(column.named.name, status.message)


def first_rejections(
    columns: Sequence[FilterColumn],
    rows: Rows | None,
    candidate: Bools,
    plugin: PluginIndices,
    bits: Bits,
) -> None:
    """Set ``plugin`` and ``bits`` of candidate rows: the first rejecting plugin, and its bits.

    ``rows``: rows to update, None for all. Rows that are no candidates are left unchanged.
    """
    if rows is not None and len(rows) <= FEW_ROWS:
        _first_of_few(columns, rows, candidate, plugin, bits)
        return
    if rows is not None:
        rows = rows[candidate[rows]]
        plugin[rows], bits[rows] = _first(columns, rows, len(rows))
        return
    # Use whole columns, because picking rows is slower. Every pod whose plugins count over the
    # cluster (topology spread, inter-pod affinity) takes this path.
    first, words = _first(columns, slice(None), len(plugin))
    np.copyto(plugin, first, where=candidate)
    np.copyto(bits, words, where=candidate)


def _first_of_few(
    columns: Sequence[FilterColumn], rows: Rows, candidate: Bools, plugin: PluginIndices, bits: Bits
) -> None:
    """Update a few rows cell by cell: usually one or two, and a NumPy call takes 1 µs."""
    rejecting = [column for column in columns if column.active and column.rejects]
    for row in rows.tolist():
        if not candidate.item(row):
            continue
        first, word = PASSED, 0
        for column in rejecting:
            word = column.bits.item(row)
            if word:
                first = column.index
                break
        plugin[row], bits[row] = first, word


def _first(
    columns: Sequence[FilterColumn], rows: Rows | slice, size: int
) -> tuple[PluginIndices, Bits]:
    """Return the first rejecting plugin and its bits; from the last column to the first."""
    first = np.full(size, PASSED, dtype=np.int16)
    words = np.zeros(size, dtype=np.uint64)
    for column in reversed(columns):
        if column.active and column.rejects:
            mine = column.bits[rows]
            hit = mine != 0
            np.putmask(first, hit, column.index)
            np.copyto(words, mine, where=hit)
    return first, words
