"""The conditions of PodGroups, written in batches.

``PodGroupScheduled`` has the outcome of the last attempt, as in kube-scheduler. It is best effort,
like the statuses of pods: a newer condition of a group replaces one that has not been sent, and one
that could not be written is written with the next attempt. A condition that is True stays so,
unless the group is taken back.

``podsched.io/Binding`` is written before the first member of a gang is bound and removed once
enough members are bound. A replica that takes over finds there which gangs may be partly bound.

Source: ``updatePodGroupCondition`` in ``schedule_one_podgroup.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, NamedTuple

from podsched.api.codec import write
from podsched.api.conditions import (
    FALSE,
    POD_GROUP_SCHEDULED,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
    TRUE,
    is_pod_group_binding,
    remove_pod_group_binding,
    set_condition,
    set_pod_group_binding,
    set_pod_group_condition,
)
from podsched.api.objects import object_key, timestamp
from podsched.api.reasons import StatusCode
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup
from podsched.framework.status import SUCCESS, Code, Status
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
#: Called when a write is done, with the reason if it failed, else "".
Written = Callable[[str], None]


class QueueCondition(NamedTuple):
    """A condition of admission: QuotaReserved, Admitted, Evicted, Preempted or Requeued."""

    type: str
    status: str
    reason: str
    message: str


class _Write(NamedTuple):
    patch: api_pb2.PatchRequest
    written: Written | None = None


class PodGroupConditions:
    """Writes the outcomes of attempts to schedule groups."""

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
        self._outbox: Outbox[_Write] = Outbox(
            self._send,
            self._answered,
            retry_for=RETRY_FOR,
            given_up=self._given_up,
            merge=lambda earlier, later: later._replace(written=later.written or earlier.written),
        )
        #: The keys of the groups whose members are being bound.
        self._binding: set[str] = set()
        #: By key, what the queue says of a group, until it is written.
        self._of_queue: dict[str, Sequence[QueueCondition]] = {}

    # ------------------------------------------------------------------ outcomes of attempts

    def decided(self, group: PodGroup, status: Status) -> None:
        """Write the outcome of an attempt, unless the group's status has it already."""
        known = self._known(group)
        if known is None or group.key in self._binding:
            return
        before = known.status
        if any(c.type == POD_GROUP_SCHEDULED and c.status == TRUE for c in before.conditions):
            return
        after = self._with_outcome(before, status)
        if after != before:
            self._put(group, after)

    def queued(self, group: PodGroup, conditions: Sequence[QueueCondition]) -> None:
        """Write what the group's queue says of it; later writes of the group repeat it."""
        known = self._known(group)
        if known is None:
            return
        self._of_queue[group.key] = conditions
        after = v1.PodGroupStatus()
        after.CopyFrom(known.status)
        self._put(group, after)

    # ------------------------------------------------------------------ groups being bound

    def binding_begins(self, group: PodGroup, message: str, written: Written) -> None:
        """Write that the group's members are about to be bound; ``written`` is called in the end.

        ``message`` is the condition's.
        """
        known = self._known(group)
        if known is None:
            written("the pod group is gone")
            return
        self._binding.add(group.key)
        after = self._with_outcome(known.status, SUCCESS)
        set_pod_group_binding(after, message, timestamp(self._wall(), whole=True))
        self._put(group, after, written)

    def binding_ended(self, group: PodGroup, status: Status) -> None:
        """Write that no member is being bound any more; ``status`` is the attempt's outcome."""
        self._binding.discard(group.key)
        known = self._known(group)
        if known is not None:
            after = self._with_outcome(known.status, status)
            remove_pod_group_binding(after)
            self._put(group, after)

    def is_binding(self, key: str) -> bool:
        """Whether members of this group ("namespace/name") may be bound while others are not."""
        return key in self._binding

    def resume(self) -> list[str]:
        """Return the keys of the groups that an earlier term was binding."""
        found = (g for g in self._cluster.list(KIND) if is_pod_group_binding(g.status))
        self._binding = {object_key(group) for group in found}
        return sorted(self._binding)

    def suppose_binding(self, keys: Collection[str]) -> None:
        """Take these groups, and no others, for groups whose members are being bound."""
        self._binding = set(keys)

    # ------------------------------------------------------------------ writing

    def _known(self, group: PodGroup) -> v1.PodGroup | None:
        namespace, _, name = group.key.partition("/")
        known: v1.PodGroup | None = self._cluster.get(KIND, namespace, name)
        return known if known is not None and known.metadata.uid == group.uid else None

    def _with_outcome(self, before: v1.PodGroupStatus, status: Status) -> v1.PodGroupStatus:
        after = v1.PodGroupStatus()
        after.CopyFrom(before)
        set_pod_group_condition(after, *_outcome(status), timestamp(self._wall(), whole=True))
        return after

    def _put(
        self, group: PodGroup, after: v1.PodGroupStatus, written: Written | None = None
    ) -> None:
        namespace, _, name = group.key.partition("/")
        now = timestamp(self._wall(), whole=True)
        known = self._known(group)
        for one in self._of_queue.get(group.key, ()):
            set_condition(after, *one, now)
        if known is not None and known.status == after:
            self._of_queue.pop(group.key, None)
        conditions = [write(condition) for condition in after.conditions]
        patch = api_pb2.PatchRequest(
            kind=KIND,
            namespace=namespace,
            name=name,
            uid=group.uid,
            merge_patch=json.dumps({"status": {"conditions": conditions}}).encode(),
        )
        self._outbox.put(group.key, _Write(patch, written))

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(self, writes: Sequence[_Write]) -> Sequence[api_pb2.BatchResult]:
        results = await self._patch([one.patch for one in writes])
        raise_if_fence_lost(results)
        return results

    def _answered(self, _: str, sent: _Write, result: api_pb2.BatchResult) -> None:
        if sent.written is not None:
            failed = result.code != StatusCode.OK
            sent.written((result.message or result.reason) if failed else "")

    def _given_up(self, writes: Sequence[_Write], failure: ClientError) -> None:
        _log.warning("Could not write pod group statuses", groups=len(writes), error=str(failure))
        for one in writes:
            if one.written is not None:
                one.written(str(failure) or "unavailable")


def _outcome(status: Status) -> tuple[str, str, str]:
    """Return the condition's status, reason and message."""
    if status.ok:
        return TRUE, "Scheduled", ""
    is_error = status.code is Code.ERROR
    reason = REASON_SCHEDULER_ERROR if is_error else REASON_UNSCHEDULABLE
    return FALSE, reason, status.message
