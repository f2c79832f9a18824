"""Results of parts are merged, and cut down to some rows, without changing what they say."""

from __future__ import annotations

import numpy as np

from podsched.decide.accelerators.evaluation_result import EvaluationResult, merge
from podsched.framework.status import Code
from podsched.framework.verdicts import Reason, Verdicts

CPU = Reason(Code.UNSCHEDULABLE, "Insufficient cpu")
PODS = Reason(Code.UNSCHEDULABLE, "Too many pods")


def part(rows: list[int], bits: list[int], reasons: tuple[Reason, ...]) -> EvaluationResult:
    """A result of one filter, and of one score that is the row's number."""
    words = np.array(bits, dtype=np.uint64)
    fits = words == 0
    numbers = np.array(rows, dtype=np.intp)
    return EvaluationResult(
        numbers, {"Fit": Verdicts(words, reasons)}, fits, {"Fit": numbers[fits].astype(np.int64)}
    )


def said(result: EvaluationResult) -> dict[int, str]:
    """The filter's message by row."""
    verdicts = result.verdicts["Fit"]
    return {row: verdicts.status(place).message for place, row in enumerate(result.rows.tolist())}


def test_parts_that_number_their_reasons_differently_keep_their_meaning() -> None:
    merged = merge([part([0, 2], [0, 1], (CPU,)), part([1, 3], [1, 2], (PODS, CPU))])
    assert said(merged) == {0: "", 2: CPU.text, 1: PODS.text, 3: CPU.text}
    assert merged.raw["Fit"].tolist() == [0]


def test_cut_down_to_some_rows_scores_stay_with_their_rows() -> None:
    whole = part([4, 5, 6, 7], [0, 1, 0, 0], (CPU,))
    some = whole.only(np.array([False, True, True, True]))
    assert said(some) == {5: CPU.text, 6: "", 7: ""}
    assert some.raw["Fit"].tolist() == [6, 7]
