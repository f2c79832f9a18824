"""A filter column keeps the meaning of its bits."""

from __future__ import annotations

import numpy as np

from podsched.decide.accelerators.filter_column import FilterColumn
from podsched.decide.runtime.profile_runtime import Named
from podsched.framework.status import Code
from podsched.framework.verdicts import Reason, Verdicts

CPU = Reason(Code.UNSCHEDULABLE, "Insufficient cpu")
PODS = Reason(Code.UNSCHEDULABLE, "Too many pods")
ALL = np.arange(4)


def test_reasons_keep_their_bits_when_later_verdicts_number_them_differently() -> None:
    column = FilterColumn(0, Named("P", None))  # type: ignore[arg-type]
    column.clear(4)
    first = Verdicts(np.array([1, 0, 0, 0], dtype=np.uint64), (CPU,))
    column.put(ALL, first, all_rows=True)
    second = Verdicts(np.array([1, 2], dtype=np.uint64), (PODS, CPU))
    column.put(np.array([1, 2]), second, all_rows=False)
    assert column.reasons == [CPU, PODS]
    assert column.bits.tolist() == [1, 2, 1, 0]
    assert column.rejects


def test_a_column_that_passes_all_rows_rejects_nothing_any_more() -> None:
    column = FilterColumn(0, Named("P", None))  # type: ignore[arg-type]
    column.clear(4)
    column.put(ALL, Verdicts(np.ones(4, dtype=np.uint64), (CPU,)), all_rows=True)
    column.put(ALL, Verdicts(np.zeros(4, dtype=np.uint64), ()), all_rows=True)
    assert not column.rejects
    assert not column.bits.any()
