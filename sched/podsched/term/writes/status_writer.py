"""Write the statuses of pods, in batches.

A patch that has not been sent is merged with a later one of the same pod: the later one wins for
the conditions and the nomination that it sets. Best effort, as in kube-scheduler: a patch that is
refused is dropped, because the next attempt writes a new one; a call that fails with a retryable
error is repeated for a while. Only conditions of admission are repeated until the API is back:
nothing else would tell the next leader what they say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from podsched.api.conditions import POD_SCHEDULED
from podsched.api.reasons import StatusReason
from podsched.serve.client.errors import Unavailable, of_result, raise_if_unavailable
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2

#: Max seconds for which a call is repeated after retryable errors.
RETRY_FOR = 5.0
#: Why a patch is refused if the object was deleted, another has its name, or the term is over.
_GONE = {
    StatusReason.NOT_FOUND,
    StatusReason.CONFLICT,
    StatusReason.PRECONDITION_FAILED,
    StatusReason.FENCE_LOST,
}

_log = get_logger("status")

PatchStatuses = Callable[
    [Sequence[api_pb2.PodStatusPatch]], Awaitable[Sequence[api_pb2.BatchResult]]
]


class StatusWriter:
    """Sends PodStatusPatches in batches; at most one of each pod waits."""

    def __init__(self, send: PatchStatuses, called: Callable[[float, bool], None]) -> None:
        """``send`` returns a result for each patch and raises ClientError.

        ``called`` gets the seconds of each call, and whether it failed.
        """
        self._send_patches = send
        self._called = called
        self._outbox: Outbox[api_pb2.PodStatusPatch] = Outbox(
            self._send, self._answered, merge=_merged, retry_for=RETRY_FOR
        )

    def submit(self, patch: api_pb2.PodStatusPatch) -> None:
        """Write a patch with the next call."""
        self._outbox.put(f"{patch.namespace}/{patch.name}", patch)

    def has(self, key: str) -> bool:
        """Return whether a patch of a pod ("namespace/name") is waiting or being sent."""
        return self._outbox.has(key)

    def __len__(self) -> int:
        """Return the number of pods whose patches are not under way."""
        return len(self._outbox)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written."""
        return self._outbox.is_idle

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(
        self, patches: Sequence[api_pb2.PodStatusPatch]
    ) -> Sequence[api_pb2.BatchResult]:
        clock = asyncio.get_running_loop().time
        began, failed = clock(), True
        try:
            results = await self._send_patches(patches)
            failed = False
        finally:
            self._called(clock() - began, failed)
        raise_if_unavailable(results)
        log_refused("Could not write pod statuses", "pods", results)
        return results

    def _answered(
        self, key: str, patch: api_pb2.PodStatusPatch, result: api_pb2.BatchResult
    ) -> None:
        kept = [one for one in patch.conditions if one.type != POD_SCHEDULED]
        if kept and isinstance(of_result(result), Unavailable):
            again = api_pb2.PodStatusPatch(
                namespace=patch.namespace, name=patch.name, uid=patch.uid, conditions=kept
            )
            self._outbox.put_back(key, again)


def log_refused(event: str, unit: str, results: Sequence[api_pb2.BatchResult]) -> None:
    """Log the patches of statuses that were refused though their objects exist, if any were."""
    if refused := [result for result in results if result.code and result.reason not in _GONE]:
        _log.warning(event, **{unit: len(refused)}, error=refused[0].message)


def _merged(
    earlier: api_pb2.PodStatusPatch, later: api_pb2.PodStatusPatch
) -> api_pb2.PodStatusPatch:
    """Return the later patch with what only the earlier one sets, if it is of the same pod."""
    # The pod was deleted, and another one was created with its name.
    if earlier.uid != later.uid:
        return later
    if earlier.HasField("nominated_node_name") and not later.HasField("nominated_node_name"):
        later.nominated_node_name = earlier.nominated_node_name
    types = {condition.type for condition in later.conditions}
    later.conditions.extend(c for c in earlier.conditions if c.type not in types)
    return later
