"""Errors as Kubernetes' ``Status``."""

from __future__ import annotations

import json

import pytest

from podsched.api.field_errors import invalid
from podsched.api.kinds import KINDS
from podsched.serve.server import errors
from podsched.serve.server.rest.failures import bad_request, failure


@pytest.mark.parametrize(
    "error",
    [
        bad_request("\0" * 1_000_000),
        errors.not_found(KINDS["Pod"], "\0" * 1_000_000),
        errors.invalid_fields(KINDS["Pod"], "web", [invalid("x" * 1_000_000, "a", "is wrong")]),
    ],
)
def test_the_answer_for_an_error_is_bounded(error: errors.ApiError) -> None:
    """A megabyte in the request was two or six in the answer, which waits for the client."""
    answer = failure(error)
    assert isinstance(answer.body, bytes)
    assert len(answer.body) < 20_000
    assert json.loads(answer.body)["code"] == answer.status
