"""The condition PodGroupScheduled of PodGroups, written in batches.

Best effort, like the statuses of pods: a newer condition of a group replaces one that has not been
sent, and one that could not be written is written with the next attempt. A condition that is True
is never taken back: the group has started.

Source: ``updatePodGroupCondition`` in ``schedule_one_podgroup.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from podsched.api.codec import write
from podsched.api.conditions import (
    FALSE,
    POD_GROUP_SCHEDULED,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
    TRUE,
    set_pod_group_condition,
)
from podsched.api.objects import timestamp
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup
from podsched.framework.status import Code, Status
from podsched.serve.client.errors import ClientError
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.term.writes.fence import raise_if_fence_lost
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Seconds for which a call that does not get through is repeated.
RETRY_FOR: Final = 5.0

_log = get_logger("status")

PatchObjects = Callable[[Sequence[api_pb2.PatchRequest]], Awaitable[Sequence[api_pb2.BatchResult]]]


class PodGroupConditions:
    """Writes what became of attempts to schedule groups."""

    def __init__(
        self,
        cluster: ClusterState,
        patch: PatchObjects,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """``patch`` patches the status of PodGroups; ``wall`` is wall time in seconds."""
        self._cluster = cluster
        self._patch = patch
        self._wall = wall
        self._outbox: Outbox[api_pb2.PatchRequest] = Outbox(
            self._send, retry_for=RETRY_FOR, given_up=self._given_up
        )

    def decided(self, group: PodGroup, status: Status) -> None:
        """Write the outcome of an attempt, unless the group's status has it already."""
        namespace, _, name = group.key.partition("/")
        known = self._cluster.get(KIND, namespace, name)
        if known is None or known.metadata.uid != group.uid:
            return
        conditions = self._changed(known, status)
        if conditions is None:
            return
        self._outbox.put(
            group.key,
            api_pb2.PatchRequest(
                kind=KIND,
                namespace=namespace,
                name=name,
                uid=group.uid,
                merge_patch=json.dumps({"status": {"conditions": conditions}}).encode(),
            ),
        )

    def _changed(self, known: v1.PodGroup, status: Status) -> list[dict[str, Any]] | None:
        """Return all conditions with the new one; None if nothing changes."""
        before = known.status
        if any(c.type == POD_GROUP_SCHEDULED and c.status == TRUE for c in before.conditions):
            return None
        after = v1.PodGroupStatus()
        after.CopyFrom(before)
        now = timestamp(self._wall(), whole=True)
        set_pod_group_condition(after, *_outcome(status), now)
        return None if after == before else [write(condition) for condition in after.conditions]

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(self, patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        results = await self._patch(patches)
        raise_if_fence_lost(results)
        return results

    def _given_up(self, patches: Sequence[api_pb2.PatchRequest], failure: ClientError) -> None:
        _log.warning("Could not write pod group statuses", groups=len(patches), error=str(failure))


def _outcome(status: Status) -> tuple[str, str, str]:
    """Return the condition's status, reason and message."""
    if status.ok:
        return TRUE, "Scheduled", ""
    is_error = status.code is Code.ERROR
    reason = REASON_SCHEDULER_ERROR if is_error else REASON_UNSCHEDULABLE
    return FALSE, reason, status.message
