"""What the gRPC services read of requests."""

from __future__ import annotations

import pytest

from podsched.serve.server.errors import ApiError
from podsched.serve.server.service import fence_of
from podsched.v1 import api_pb2 as v1


@pytest.mark.parametrize("lock", ["", "kube-scheduler", "/a", "a/", f"a/{'x' * 5000}"])
def test_a_fence_with_what_is_no_lock_is_refused(lock: str) -> None:
    request = v1.DeleteRequest(fence=v1.Fence(lock=lock, term=1))
    with pytest.raises(ApiError, match="lock must be"):
        fence_of(request)
