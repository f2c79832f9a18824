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
from datetime import UTC, datetime
from typing import Any, Final

from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup
from podsched.framework.status import Code, Status
from podsched.serve.client.errors import ClientError
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.term.writes.fence import raise_if_fence_lost
from podsched.v1 import api_pb2

POD_GROUP_SCHEDULED: Final = "PodGroupScheduled"
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
        patch = self._changed(known, status)
        if patch is None:
            return
        self._outbox.put(
            group.key,
            api_pb2.PatchRequest(
                kind=KIND,
                namespace=namespace,
                name=name,
                uid=group.uid,
                merge_patch=json.dumps({"status": {"conditions": patch}}).encode(),
            ),
        )

    def _changed(self, known: Any, status: Status) -> list[dict[str, str]] | None:
        """Return all conditions with the new one; None if nothing changes."""
        wanted = _condition(status)
        others: list[dict[str, str]] = []
        changed_at = datetime.fromtimestamp(self._wall(), UTC)
        for condition in known.status.conditions:
            stamp = condition.last_transition_time.ToDatetime(UTC)
            if condition.type != POD_GROUP_SCHEDULED:
                others.append(_as_json(condition.type, condition.status, condition, stamp))
                continue
            if condition.status == "True" or (
                (condition.status, condition.reason, condition.message)
                == (wanted["status"], wanted["reason"], wanted["message"])
            ):
                return None
            if condition.status == wanted["status"]:
                changed_at = stamp
        return [*others, {**wanted, "lastTransitionTime": _text(changed_at)}]

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(self, patches: Sequence[api_pb2.PatchRequest]) -> Sequence[api_pb2.BatchResult]:
        results = await self._patch(patches)
        raise_if_fence_lost(results)
        return results

    def _given_up(self, patches: Sequence[api_pb2.PatchRequest], failure: ClientError) -> None:
        _log.warning("Could not write pod group statuses", groups=len(patches), error=str(failure))


def _condition(status: Status) -> dict[str, str]:
    if status.ok:
        return {"type": POD_GROUP_SCHEDULED, "status": "True", "reason": "Scheduled", "message": ""}
    reason = "SchedulerError" if status.code is Code.ERROR else "Unschedulable"
    return {
        "type": POD_GROUP_SCHEDULED,
        "status": "False",
        "reason": reason,
        "message": status.message,
    }


def _as_json(type_: str, status: str, condition: Any, changed_at: datetime) -> dict[str, str]:
    return {
        "type": type_,
        "status": status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _text(changed_at),
    }


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
