"""Registers hollow nodes in the API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence

from podsched.api.objects import Node
from podsched.lib.backoff import Backoff
from podsched.serve.agent.nodes import registration
from podsched.serve.client import errors
from podsched.serve.client.api_client import ApiClient
from podsched.serve.client.errors import AlreadyExists, ClientError
from podsched.telemetry.logs import get_logger

_log = get_logger("agent")
#: Nodes registered in one call.
_BATCH = 500


class AgentError(Exception):
    """The API rejected a node that the agent was to register."""


async def register(client: ApiClient, nodes: Sequence[Node], now: Callable[[], float]) -> None:
    """Create the nodes that do not exist; wait while no API server answers.

    Raises AgentError if a node is rejected.
    """
    for start in range(0, len(nodes), _BATCH):
        await _register_batch(client, nodes[start : start + _BATCH], now)


async def _register_batch(
    client: ApiClient, batch: Sequence[Node], now: Callable[[], float]
) -> None:
    backoff = Backoff(0.1, 2.0, random.random)
    while True:
        try:
            results = await client.create_many([registration(node, now()) for node in batch])
            break
        except ClientError as error:
            if not error.retryable:
                raise AgentError(f"cannot register nodes: {error}") from error
            _log.info("Waiting for the API server", error=str(error))
            await asyncio.sleep(backoff.next_delay())
    for node, result in zip(batch, results, strict=True):
        failed = errors.of_result(result)
        if failed is not None and not isinstance(failed, AlreadyExists):
            raise AgentError(f'node "{node.metadata.name}" was rejected: {failed}') from failed
