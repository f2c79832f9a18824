"""Status patches of pods, in batches: what comes while a call is under way goes out with the next.

A later patch of a pod replaces what an earlier one that has not been sent says of the same thing
(a condition, the nomination): only the last says how things are. Best effort, like
kube-scheduler's: a patch that fails is dropped, since the next attempt writes a new one; a call
that did not get through is repeated for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from podsched.api.reasons import StatusReason
from podsched.client.errors import ClientError, Unavailable
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2

BATCH = 500
RETRIES = 5
PAUSE = 0.2

_log = get_logger("status")

PatchStatuses = Callable[
    [Sequence[api_pb2.PodStatusPatch]], Awaitable[Sequence[api_pb2.BatchResult]]
]


class StatusWriter:
    """Sends PodStatusPatches; ``fence_lost`` is called when the term turns out to be over."""

    def __init__(self, send: PatchStatuses, fence_lost: Callable[[], None]) -> None:
        self._send = send
        self._fence_lost = fence_lost
        self._waiting: dict[str, api_pb2.PodStatusPatch] = {}
        self._wake = asyncio.Event()

    def submit(self, patch: api_pb2.PodStatusPatch) -> None:
        key = f"{patch.namespace}/{patch.name}"
        earlier = self._waiting.pop(key, None)
        if earlier is not None and earlier.uid == patch.uid:
            _keep_unsaid(earlier, patch)
        self._waiting[key] = patch
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                keys = list(self._waiting)[:BATCH]
                await self._write([self._waiting.pop(key) for key in keys])

    async def _write(self, patches: list[api_pb2.PodStatusPatch]) -> None:
        for _ in range(RETRIES):
            try:
                results = await self._send(patches)
            except Unavailable:
                await asyncio.sleep(PAUSE)
                continue
            except ClientError as exc:
                _log.warning("Could not write pod statuses", pods=len(patches), error=str(exc))
                return
            if any(result.reason == StatusReason.FENCE_LOST for result in results):
                self._fence_lost()
            return
        _log.warning("Could not write pod statuses: no API server answers", pods=len(patches))


def _keep_unsaid(earlier: api_pb2.PodStatusPatch, patch: api_pb2.PodStatusPatch) -> None:
    """Take over from an earlier patch what the later one does not speak of."""
    if earlier.HasField("nominated_node_name") and not patch.HasField("nominated_node_name"):
        patch.nominated_node_name = earlier.nominated_node_name
    said = {condition.type for condition in patch.conditions}
    patch.conditions.extend(c for c in earlier.conditions if c.type not in said)
