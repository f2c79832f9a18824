"""What is packed is unpacked again, in few bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from podsched.actors.packing import (
    dump,
    load,
    pack_numbers,
    pack_request,
    pack_result,
    unpack_numbers,
    unpack_result,
)
from podsched.decide.accelerators.evaluation_result import EvaluationResult
from podsched.decide.accelerators.sharding import EvaluationRequest
from podsched.framework.plugin import CycleState
from podsched.framework.status import Code
from podsched.framework.verdicts import Reason, Verdicts

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.one_of(st.integers(-5, 300), INT64), max_size=30))
def test_scores_come_back_as_they_were(values: list[int]) -> None:
    scores = np.array(values, dtype=np.int64)
    assert unpack_numbers(pack_numbers(scores)).view(np.int64).tolist() == values


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_reason_bits_come_back_as_they_were(values: list[int]) -> None:
    bits = np.array(values, dtype=np.uint64)
    assert unpack_numbers(pack_numbers(bits)).tolist() == values


def test_a_result_comes_back_as_it_was() -> None:
    reasons = (Reason(Code.UNSCHEDULABLE, "full"),)
    result = EvaluationResult(
        np.array([1, 4, 9]),
        {"A": Verdicts(np.array([0, 1, 0], dtype=np.uint64), reasons),
         "B": Verdicts(np.zeros(3, dtype=np.uint64), ())},
        np.array([True, False, True]),
        {"S": np.array([-3, 100])},
    )  # fmt: skip
    back = unpack_result(pack_result(result, 12))
    assert back.rows.tolist() == [1, 4, 9] and back.fits.tolist() == [True, False, True]
    assert back.verdicts["A"].bits.tolist() == [0, 1, 0]
    assert back.verdicts["A"].reasons == reasons and not back.verdicts["B"].bits.any()
    assert back.raw["S"].tolist() == [-3, 100]


def test_the_scores_of_many_nodes_fit_into_a_call() -> None:
    rows = np.arange(0, 100_000, 2)
    scores = {f"S{i}": rows % 101 for i in range(4)}
    result = EvaluationResult(rows, {}, np.ones(len(rows), dtype=np.bool_), scores)
    assert len(pack_result(result, 100_000)) < 100_000


def test_what_is_large_is_compressed() -> None:
    assert len(dump(b"x" * 200_000)) < 1000 and load(dump(b"x" * 200_000)) == b"x" * 200_000


def test_plugins_whose_state_is_large_or_cannot_travel_are_left_to_the_leader() -> None:
    data = {"Large": np.zeros(10_000), "Odd": lambda: 0, "OddScore": lambda: 0, "Fine": (1, 2)}
    state = CycleState(dict(data))
    names = ("Fine", "Large", "Odd", "Plain")
    packed = pack_request(EvaluationRequest("s", b"", state, names, ("Odd", "Fine")))
    assert packed is not None
    sent = load(packed)
    assert sent.filters == ("Fine", "Plain") and sent.scores == ("Fine",)
    assert sent.state.data == {"Fine": (1, 2)} and state.data.keys() == data.keys()
