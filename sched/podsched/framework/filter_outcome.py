"""The outcome of all Filter plugins of a profile on a set of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from podsched.framework.status import SUCCESS, Code, Status
from podsched.framework.verdicts import Bits, Reason, Rows, status_of

#: The plugin that rejects a row, by its index among the filters, or one of the values below.
PluginIndices = NDArray[np.int16]

#: Values of ``FilterOutcome.plugin`` that are not an index.
PASSED = -1
EXCLUDED = -2


class StatusGroup(NamedTuple):
    """Rows with the same status: their places in ``FilterOutcome.rows``, ascending."""

    plugin: int
    status: Status
    places: Rows


@dataclass(frozen=True)
class FilterOutcome:
    """The verdicts of a profile's filters on rows; the first plugin to reject a row decides it.

    ``plugin`` has shape ``(len(rows),)``: the index into ``plugins`` of the rejecting plugin,
    PASSED where the node is feasible, EXCLUDED where PreFilterResult left it out. ``bits`` are the
    reason bits of that plugin, whose meaning is in ``reasons``.
    """

    rows: Rows
    plugin: PluginIndices
    bits: Bits
    plugins: tuple[str, ...]
    reasons: tuple[tuple[Reason, ...], ...]
    #: The status of the rows that are EXCLUDED.
    excluded: Status = SUCCESS

    def rejecting(self) -> list[tuple[int, tuple[Reason, ...]]]:
        """Return the indices of the plugins that may have rejected a row, and their reasons."""
        return [(index, reasons) for index, reasons in enumerate(self.reasons) if reasons]

    def status(self, index: int) -> Status:
        """Return the status of the row at position ``index`` of ``rows``."""
        return self._status(int(self.plugin[index]), int(self.bits[index]))

    def _status(self, plugin: int, word: int) -> Status:
        if plugin == PASSED:
            return SUCCESS
        if plugin == EXCLUDED:
            return self.excluded
        return status_of(word, self.reasons[plugin], self.plugins[plugin])

    @cached_property
    def resolvable(self) -> Rows:
        """The rows that evicting pods may help, in their order: those with status Unschedulable."""
        helped = np.zeros(len(self.rows), dtype=np.bool_)
        for group in self.groups:
            helped[group.places] = group.status.code is Code.UNSCHEDULABLE
        resolvable: Rows = self.rows[helped]
        return resolvable

    @cached_property
    def groups(self) -> Sequence[StatusGroup]:
        """The rows grouped by rejecting plugin and its reasons, sorted by both.

        Computed once, because events, metrics and explanations all read it. There are few groups,
        because a plugin rarely has more than a few combinations of reasons. The arrays may be
        reused for the next outcome, so read it before.
        """
        found = []
        for plugin, places in _by_value(self.plugin, np.arange(len(self.plugin))):
            if plugin < 0:
                found.append(StatusGroup(plugin, self._status(plugin, 0), places))
                continue
            for word, of_word in _by_value(self.bits, places):
                found.append(StatusGroup(plugin, self._status(plugin, word), of_word))
        return found


def _by_value(values: NDArray[Any], places: Rows) -> list[tuple[int, Rows]]:
    """Return the distinct values at some places, ascending, and the places of each."""
    if not len(places):
        return []
    mine = values[places]
    # Usually all values are equal, and comparing takes a fifth of the time of ``np.unique``.
    if (mine == mine[0]).all():
        return [(int(mine[0]), places)]
    return [(value, places[mine == value]) for value in np.unique(mine).tolist()]
