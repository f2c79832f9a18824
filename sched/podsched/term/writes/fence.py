"""Detect a lost fence in the results of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.reasons import StatusReason
from podsched.serve.client.errors import FenceLost
from podsched.v1 import api_pb2


def raise_if_fence_lost(results: Sequence[api_pb2.BatchResult]) -> None:
    """Raise FenceLost when an item was refused because the term is over."""
    for result in results:
        if result.reason == StatusReason.FENCE_LOST:
            raise FenceLost(result.message, reason=result.reason)
