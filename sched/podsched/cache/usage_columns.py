"""The columns that sum up what the pods of each row use."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import numpy as np

from podsched.api.quantity import as_int64
from podsched.cache.column import Column
from podsched.framework.nodes import Int64s
from podsched.framework.pods import PodClass

#: The columns of resources have the resources' names; the others, names that no resource can have.
POD_COUNT: Final = "#pods"
NONZERO: Final = {"cpu": "#nonzero cpu", "memory": "#nonzero memory"}
FIRST_COLUMNS: Final = (POD_COUNT, *NONZERO.values(), "cpu", "memory", "ephemeral-storage")
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

    def amounts_of(self, cls: PodClass, offered: Container[str]) -> tuple[tuple[int, int], ...]:
        """Return what a pod of the class adds, as pairs of a column's index and an amount.

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
