"""Evict pods, again after a pause if an eviction fails, until each is evicted or gone."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from podsched.api.reasons import StatusCode, StatusReason
from podsched.framework.pods import PodInfo
from podsched.lib.backoff import Backoff
from podsched.serve.client.cluster import eviction
from podsched.serve.client.errors import ClientError, FenceLost
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2

#: Results of an eviction that mean that the pod is already gone.
GONE: Final = frozenset({StatusReason.NOT_FOUND, StatusReason.PRECONDITION_FAILED})
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0

_log = get_logger("scheduler")

#: Asks the API for evictions. Raises ClientError.
Evict = Callable[[Sequence[api_pb2.EvictRequest]], Awaitable[Sequence[api_pb2.BatchResult]]]
#: Called for each pod that is evicted or gone; the bool: whether it still existed.
Evicted = Callable[[PodInfo, bool], None]


async def evict_all(
    evict: Evict, pods: Sequence[PodInfo], reason: str, message: str, evicted: Evicted
) -> None:
    """Evict pods regardless of budgets. ``reason`` and ``message`` are those of DisruptionTarget.

    Raises FenceLost.
    """
    pause, left = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random), list(pods)
    while True:
        left = await _evict(evict, left, reason, message, evicted)
        if not left:
            return
        await asyncio.sleep(pause.next_delay())


async def _evict(
    evict: Evict, pods: Sequence[PodInfo], reason: str, message: str, evicted: Evicted
) -> list[PodInfo]:
    """Evict pods; return those whose eviction has to be tried again."""
    try:
        results = await evict(
            [eviction(pod.pod, reason, f"{pod.cls.scheduler_name}: {message}") for pod in pods]
        )
    except FenceLost:
        raise
    except ClientError as failure:
        _log.info("An eviction has to wait", pods=len(pods), error=str(failure))
        return list(pods)
    left = []
    for pod, result in zip(pods, results, strict=True):
        # A pod that is gone needs no eviction.
        if result.code == StatusCode.OK or result.reason in GONE:
            evicted(pod, result.code == StatusCode.OK)
        else:
            left.append(pod)
    return left
