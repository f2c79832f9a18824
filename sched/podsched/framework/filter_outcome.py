"""The outcome of all Filter plugins of a profile on a set of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsched.framework.status import SUCCESS, Status
from podsched.framework.verdicts import Bits, Reason, Rows, status_of

#: Which plugin rejects a row, by its place among the filters, or one of the values below.
PluginIndices = NDArray[np.int16]

#: Values of ``FilterOutcome.plugin`` that are no index.
PASSED = -1
EXCLUDED = -2


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
        plugin = int(self.plugin[index])
        if plugin == PASSED:
            return SUCCESS
        if plugin == EXCLUDED:
            return self.excluded
        return status_of(int(self.bits[index]), self.reasons[plugin], self.plugins[plugin])
