"""Outcomes of batches as gRPC sends them."""

from __future__ import annotations

from podsched.api.kinds import KINDS
from podsched.serve.server import errors
from podsched.serve.server.errors import ApiError, Violation
from podsched.serve.server.status import batch_response
from podsched.v1.api_pb2 import BatchResponse


def wrong(count: int) -> ApiError:
    mistakes = [
        Violation(f"spec.a[{at}]", "Required value", "Required value") for at in range(count)
    ]
    return errors.invalid(KINDS["Pod"], "web", mistakes)


def test_of_many_mistakes_of_an_object_the_first_are_told() -> None:
    error = wrong(5000)
    assert len(error.violations) == errors.MAX_VIOLATIONS
    assert error.message.endswith("spec.a[99]: Required value, and more]")
    assert wrong(1).message == 'Pod "web" is invalid: spec.a[0]: Required value'


def test_of_a_batch_full_of_mistakes_each_item_says_what_is_wrong_and_the_first_give_details() -> (
    None
):
    response = BatchResponse.FromString(batch_response([wrong(40)] * 5000))
    assert all("spec.a[0]: Required value" in result.message for result in response.results)
    assert len(response.results[0].violations) == 40
    assert sum(len(result.violations) for result in response.results) == 2000
