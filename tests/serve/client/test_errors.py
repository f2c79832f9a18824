"""What a client makes of the errors that a server sends."""

from __future__ import annotations

import grpc
import pytest

from podsched.api.kinds import KINDS
from podsched.serve.client.errors import (
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unavailable,
    as_result,
    of_rpc,
    raise_first,
)
from podsched.serve.server import errors
from podsched.serve.server.errors import ApiError
from podsched.serve.server.status import details
from podsched.v1.api_pb2 import BatchResult


def sent(error: ApiError) -> Exception:
    """Return the error that a client raises for one of the server's."""
    trailer = grpc.aio.Metadata(("grpc-status-details-bin", details(error, "request-1")))
    code = grpc.StatusCode[error.code.name]
    return of_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailer, error.message))


def test_a_client_is_told_after_which_time_to_try_again() -> None:
    error = sent(errors.too_many_requests("calm down", 1.5))
    assert isinstance(error, TooManyRequests) and isinstance(error, Unavailable)
    assert error.retryable
    assert error.retry_after == 1.5


def test_other_errors_name_no_such_time() -> None:
    error = sent(errors.not_found(KINDS["Pod"], "web"))
    assert isinstance(error, NotFound)
    assert error.retry_after == 0


def test_an_error_names_the_request() -> None:
    error = sent(errors.not_found(KINDS["Pod"], "web"))
    assert isinstance(error, NotFound)
    assert error.request_id == "request-1"


def test_a_call_beyond_the_streams_of_a_connection_is_one_of_too_many() -> None:
    """So that the client stays with the server; gRPC says it only in a text."""
    text = "Stream removed (RST_STREAM (Received RST_STREAM with error code 7))"
    no_metadata = grpc.aio.Metadata()
    refused = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, no_metadata, no_metadata, text)
    error = of_rpc(refused)
    assert isinstance(error, TooManyRequests)
    assert not error.outcome_unknown


def test_of_a_batch_the_first_error_is_raised() -> None:
    failed = [as_result(NotFound("gone")), as_result(Unavailable("no leader"))]
    with pytest.raises(NotFound, match="gone"):
        raise_first([BatchResult(), *failed])
    raise_first([BatchResult(), BatchResult()])


def test_items_of_a_call_without_an_answer_may_have_been_written() -> None:
    with pytest.raises(OutcomeUnknown):
        raise_first([as_result(OutcomeUnknown("Socket closed"))])
