"""The shards that a leader asks, all at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from podsched.actors.ray_cluster import RayUnavailable
from podsched.actors.shard_sync import ShardSync
from podsched.telemetry.logs import get_logger

_log = get_logger("ray")

T = TypeVar("T")


class Shards:
    """The shards of one term; none until Ray is in use."""

    def __init__(self, shards: Sequence[ShardSync] = ()) -> None:
        self.all = list(shards)

    @property
    def current(self) -> list[ShardSync]:
        """Those that can be asked at the moment."""
        return [shard for shard in self.all if shard.current]

    async def ask(self, call: Callable[[ShardSync], Awaitable[T | None]]) -> list[T]:
        """Return the answers of the current shards; a shard that does not answer has none.

        What a failed shard would have found out is found out by the leader, so it is no error.
        """
        calls = [call(shard) for shard in self.current]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        found: list[T] = []
        for answer in answers:
            if isinstance(answer, RayUnavailable):
                _log.warning("A shard did not answer", error=str(answer))
            elif isinstance(answer, BaseException):
                raise answer
            elif answer is not None:
                found.append(answer)
        return found
