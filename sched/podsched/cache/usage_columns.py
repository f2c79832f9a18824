"""The columns that sum up what the pods of each row use."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any, Final

import numpy as np

from podsched.api.quantity import as_int64
from podsched.cache.column import Column
from podsched.framework.nodes import Int64s
from podsched.framework.pods import PodClass
from podsched.framework.verdicts import Rows

#: The columns of resources have the resources' names; the others, names that no resource can have.
POD_COUNT: Final = "#pods"
NONZERO: Final = {"cpu": "#nonzero cpu", "memory": "#nonzero memory"}
FIRST_COLUMNS: Final = (POD_COUNT, *NONZERO.values(), "cpu", "memory", "ephemeral-storage")
#: What a pod adds: pairs of a column's index and an amount.
Amounts = tuple[tuple[int, int], ...]
#: Max columns for resources that no node offers. Pods may name any resource, and each column takes
#: 8 bytes per node.
MOST_RESOURCES: Final = 500


def usage_of(cls: PodClass) -> dict[str, int]:
    """Return what one pod of the class adds to each usage column, by the column's name."""
    return {
        POD_COUNT: 1,
        NONZERO["cpu"]: cls.nonzero[0],
        NONZERO["memory"]: cls.nonzero[1],
        **cls.requests,
    }


class UsageColumns:
    """The usage columns, numbered in the order in which pods first used them."""

    def __init__(self, size: int) -> None:
        #: The names of the columns, with their indices.
        self.index = {name: i for i, name in enumerate(FIRST_COLUMNS)}
        self.columns: list[Column[np.int64]] = [Column(np.int64, size) for _ in FIRST_COLUMNS]
        #: The memoryviews of ``columns`` at the same indices, always in this list.
        self.cells = [column.cells for column in self.columns]
        #: The column of every resource that no pod requests, or no node offers.
        self.zeros = Column(np.int64, size)

    def copy(self) -> UsageColumns:
        """Return an independent copy."""
        made = UsageColumns(0)
        made.index = dict(self.index)
        made.columns = [column.copy() for column in self.columns]
        made.cells = [column.cells for column in made.columns]
        made.zeros = self.zeros.copy()
        return made

    def grow(self, size: int) -> None:
        """Make room for ``size`` rows."""
        for column in (*self.columns, self.zeros):
            column.grow(size)
        self.cells[:] = [column.cells for column in self.columns]

    def of(self, name: str) -> Int64s:
        """Return the column of that name, read-only."""
        index = self.index.get(name)
        return self.zeros.view if index is None else self.columns[index].view

    def amounts_of(self, cls: PodClass, offered: Container[str]) -> Amounts:
        """Return what a pod of the class adds.

        Columns that are missing are created, at most MOST_RESOURCES for resources that no node
        offers: pods may request any name, and no decision depends on those.
        """
        amounts = []
        for name, amount in usage_of(cls).items():
            if not amount:
                continue
            index = self.index.get(name)
            if index is None:
                if len(self.columns) >= MOST_RESOURCES and name not in offered:
                    continue
                index = self.index[name] = len(self.columns)
                self.columns.append(Column(np.int64, len(self.zeros.array)))
                self.cells.append(self.columns[-1].cells)
            amounts.append((index, as_int64(amount)))
        return tuple(amounts)


class ForkedUsage:
    """Copies of some rows of the usage columns.

    A column that the base gets later, for a resource that is new, is copied when it is needed.
    ``copied``: the first columns, where they differ from the base's.
    """

    __slots__ = ("_arrays", "_base", "_cells", "_rows")

    def __init__(self, base: UsageColumns, rows: Rows, copied: Iterable[Int64s] = ()) -> None:
        self._base, self._rows = base, rows
        self._arrays = list(copied)
        self._cells: list[memoryview[Any]] = [memoryview(array) for array in self._arrays]  # type: ignore[arg-type]
        self._add_columns()

    def _add_columns(self) -> None:
        """Copy the base's columns that are not here yet."""
        for column in self._base.columns[len(self._arrays) :]:
            array = column.array[self._rows]
            self._arrays.append(array)
            self._cells.append(memoryview(array))  # type: ignore[arg-type]

    def fork(self, rows: Rows) -> ForkedUsage:
        """Return copies of some of these rows."""
        return ForkedUsage(self._base, self._rows[rows], [array[rows] for array in self._arrays])

    def of(self, name: str) -> Int64s:
        """Return the column of that name."""
        index = self._base.index.get(name)
        if index is None:
            return np.zeros(len(self._rows), dtype=np.int64)
        if index >= len(self._arrays):
            self._add_columns()
        return self._arrays[index]

    def add(self, row: int, amounts: Amounts, pods: int) -> None:
        """Add ``pods`` pods to a row, or remove them when negative."""
        cells = self._cells
        if len(cells) < len(self._base.columns):
            self._add_columns()
        for index, amount in amounts:
            column = cells[index]
            try:
                column[row] += amount * pods
            except ValueError:
                column[row] = as_int64(column[row] + amount * pods)

    def add_copies(self, amounts: Amounts, copies: Int64s) -> None:
        """Add ``copies[i]`` pods to row ``i``."""
        self._add_columns()
        for index, amount in amounts:
            self._arrays[index] += amount * copies
