"""A growable NumPy array with one cell for each row, that is, for each node."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", np.int64, np.int32, np.bool_)


class Column(Generic[Scalar]):
    """One value per row: ``array`` to write, ``view`` for plugins (read-only), and ``cells``.

    All three show the same memory and are replaced when the column grows, so callers must not keep
    them. ``cells`` is a memoryview: reading or writing a single cell through it takes half the time
    of NumPy's scalars, and a placed pod changes single cells of several columns. Unlike an array it
    raises ValueError for a sum outside of int64; the callers then wrap the sum as Go does.
    """

    __slots__ = ("_fill", "array", "cells", "view")

    array: NDArray[Scalar]
    cells: memoryview[Any]
    view: NDArray[Scalar]

    def __init__(self, dtype: type[Scalar], size: int, fill: int = 0) -> None:
        self._fill = fill
        self._adopt(np.full(size, fill, dtype=dtype))

    def _adopt(self, array: NDArray[Scalar]) -> None:
        self.array = array
        self.cells = memoryview(array)  # type: ignore[arg-type]
        self.view = array.view()
        self.view.flags.writeable = False

    def copy(self) -> Column[Scalar]:
        """Return an independent copy."""
        made: Column[Scalar] = Column.__new__(Column)
        made._fill = self._fill
        made._adopt(self.array.copy())
        return made

    def grow(self, size: int) -> None:
        """Make the column longer; new cells get the fill value."""
        grown = np.full(size, self._fill, dtype=self.array.dtype)
        grown[: len(self.array)] = self.array
        self._adopt(grown)
