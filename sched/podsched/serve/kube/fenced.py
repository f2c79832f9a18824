"""Writes of a leader to a Kubernetes cluster, each fenced by its term, with a result each.

Kubernetes has no fences, so they are checked here: right before each request is sent, after all
waiting, ``leads`` is asked whether the term is still valid. A request that was sent while it was
valid, but arrives later, is harmless: a pod can be bound only once, bindings have the pod's uid,
and patches have a uid or resourceVersion.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from podsched.api.reasons import StatusCode, StatusReason
from podsched.lib.token_bucket import TokenBucket
from podsched.serve.client import errors
from podsched.serve.client.errors import ClientError, FenceLost, as_result
from podsched.serve.kube.http import KubeHttp
from podsched.v1 import api_pb2 as v1

T = TypeVar("T")
Leads = Callable[[v1.Fence], bool]
"""Returns whether the term of a fence is still valid."""

DONE: Final = v1.BatchResult()
JSON: Final = "application/json"
_REASONS: Final[Sequence[tuple[type[ClientError], StatusReason]]] = (
    (errors.FenceLost, StatusReason.FENCE_LOST),
    (errors.NotFound, StatusReason.NOT_FOUND),
    (errors.AlreadyExists, StatusReason.ALREADY_EXISTS),
    (errors.DisruptionBudget, StatusReason.DISRUPTION_BUDGET),
    (errors.PreconditionFailed, StatusReason.PRECONDITION_FAILED),
    (errors.Conflict, StatusReason.CONFLICT),
)


class FencedWrites:
    """Sends the writes of a term, as long as it is valid; ``limit``: of all of them."""

    def __init__(self, http: KubeHttp, leads: Leads, limit: TokenBucket | None) -> None:
        self._http = http
        self._leads = leads
        self._limit = limit

    async def write(
        self, method: str, path: str, body: object, fence: v1.Fence, *args: Any, **options: Any
    ) -> v1.BatchResult:
        """Make a write, as ``send`` does."""
        await self.send(method, path, body, fence, *args, **options)
        return DONE

    async def send(
        self, method: str, path: str, body: object, fence: v1.Fence, form: str = JSON, **more: Any
    ) -> dict[str, Any]:
        """Make a write and return its answer; ``more``: as in ``KubeHttp.request``."""

        def check() -> None:
            if not self._leads(fence):
                raise FenceLost(f"term {fence.term} of {fence.lock} is over")

        more = {"repeatable": True, "limit": self._limit, "before": check, **more}
        return await self._http.request(method, path, body=body, content_type=form, **more)


async def each(
    items: Sequence[T], write: Callable[[T], Awaitable[v1.BatchResult]]
) -> list[v1.BatchResult]:
    """Write items concurrently, each independently; return their results."""

    async def result(item: T) -> v1.BatchResult:
        try:
            return await write(item)
        except ClientError as error:
            return _failed(error)

    return list(await asyncio.gather(*map(result, items)))


def _failed(error: ClientError) -> v1.BatchResult:
    result = as_result(error)
    result.reason = next((reason for cls, reason in _REASONS if isinstance(error, cls)), "")
    if error.outcome_unknown and errors.tells_nothing(error):
        result.reason = StatusReason.OUTCOME_UNKNOWN
    if isinstance(error, FenceLost):
        result.code = StatusCode.FAILED_PRECONDITION
    return result
