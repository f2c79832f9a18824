from __future__ import annotations

import grpc
import pytest

from podsched.api.reasons import StatusCode, StatusReason
from podsched.v1.api_pb2 import BatchResult


@pytest.mark.parametrize("code", StatusCode)
def test_a_status_code_has_grpcs_number(code: StatusCode) -> None:
    assert grpc.StatusCode[code.name].value[0] == code


def test_a_batch_result_takes_code_and_reason_as_they_are_and_gives_plain_values_back() -> None:
    result = BatchResult(code=StatusCode.FAILED_PRECONDITION, reason=StatusReason.FENCE_LOST)

    read = BatchResult.FromString(result.SerializeToString())

    assert (read.code, read.reason) == (9, "FENCE_LOST")
    assert read.code == StatusCode.FAILED_PRECONDITION
    assert read.reason == StatusReason.FENCE_LOST


@pytest.mark.parametrize("reason", StatusReason)
def test_a_reason_is_spelled_as_it_is_named(reason: StatusReason) -> None:
    assert reason.value == reason.name
