"""The conditions of PodGroups, written in batches.

A newer condition of a group replaces one that has not been sent. Conditions and annotations that
could not be written are repeated until the API is back: nothing else would tell the next leader
what they say. One that was refused is written with the next ones of its group. ``GroupOutcomes``
writes two conditions:

``PodGroupScheduled`` has the outcome of the last attempt, as in kube-scheduler. If it could not be
written, it is written with the next attempt. If it is True it stays so, unless the group is taken
back.

``podsched.io/Binding`` is written before the first member of a gang is bound and removed once
enough members are bound. It tells the next leader which gangs may be partly bound. Its removal is
repeated until it succeeds: a gang whose members have finished since would be taken back.

Source: ``updatePodGroupCondition`` in ``schedule_one_podgroup.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from podsched.api.conditions import (
    FALSE,
    POD_GROUP_BINDING,
    POD_GROUP_SCHEDULED,
    REASON_BINDING,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
    TRUE,
    true_condition,
)
from podsched.api.objects import object_key
from podsched.api.reasons import StatusCode
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status
from podsched.lib.backoff import Backoff
from podsched.lib.event_loop import Turn
from podsched.lib.tasks import TaskSet
from podsched.serve.client.cluster import merge_patch_request
from podsched.serve.client.errors import Unavailable, of_result
from podsched.serve.client.outbox import Outbox
from podsched.term.writes.group_conditions import GroupConditions, Wanted, patch_of
from podsched.term.writes.status_writer import log_refused
from podsched.v1 import api_pb2

#: Max seconds for which a call is repeated after retryable errors.
RETRY_FOR: Final = 5.0
#: Seconds before a failed removal of a record is repeated, at first and at most; or another write.
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

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
    patch: Callable[[], api_pb2.PatchRequest]
    """Makes the patch when it is sent: a later write may have replaced it by then."""
    number: int = 0
    written: tuple[Written, ...] = ()


class PodGroupConditions:
    """Writes the conditions and annotations of groups."""

    def __init__(
        self, cluster: ClusterState, patch: PatchObjects, wall: Callable[[], float]
    ) -> None:
        """``patch`` patches the status of PodGroups; ``wall`` is wall time in seconds."""
        self._patch = patch
        self._conditions = GroupConditions(cluster, wall)
        self.has_failed = self._conditions.has_failed
        self._outbox: Outbox[_Write] = Outbox(
            self._send,
            self._answered,
            retry_for=RETRY_FOR,
            merge=lambda earlier, later: later._replace(written=earlier.written + later.written),
        )
        #: By key in the outbox: what makes the last patch, until it is answered.
        self._last: dict[str, Callable[[], api_pb2.PatchRequest]] = {}

    def condition(self, group: PodGroup, type_: str) -> tuple[str, str, str] | None:
        """Return the status, reason and message of a condition, with writes still under way."""
        found = self._conditions.current(group)
        return None if found is None else found.get(type_)

    def write_conditions(self, group: PodGroup, conditions: Sequence[QueueCondition]) -> None:
        """Write the conditions of admission."""
        self.put(group, {one.type: one[1:] for one in conditions})

    def annotate(
        self, group: PodGroup, annotations: Mapping[str, str | None], *written: Written
    ) -> None:
        """Write annotations of a group; None removes one. ``written``: see ``put``."""
        body = {"metadata": {"annotations": dict(annotations)}}
        # A later write replaces an earlier one of the same annotations, and no other.
        names = ",".join(sorted(annotations))
        self._write(f"{group.uid}/{names}", _Write(partial(patch_of, group, body), written=written))

    def annotate_pod(self, pod: PodInfo, annotations: Mapping[str, str | None]) -> None:
        """Write annotations of a pod without a PodGroup; None removes one."""
        body = {"metadata": {"annotations": dict(annotations)}}
        patch = merge_patch_request("Pod", pod.namespace, pod.name, body, pod.uid)
        self._write(f"{pod.uid}/annotations", _Write(lambda: patch))

    def _write(self, key: str, write: _Write) -> None:
        self._last[key] = write.patch
        self._outbox.put(key, write)

    def _write_again(self, key: str, write: _Write) -> None:
        # Unless a later write has replaced it.
        if self._last.get(key) is write.patch:
            self._outbox.put(key, write._replace(written=()))

    def put(
        self, group: PodGroup, wanted: Mapping[str, Wanted], written: Written | None = None
    ) -> bool:
        """Write conditions of a group; return False if it is gone.

        ``written`` is called once they are written, or that has failed.
        """
        made = self._conditions.want(group, wanted)
        if made is not None:
            self._write(group.uid, _Write(*made, () if written is None else (written,)))
        return made is not None

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be written."""
        return self._outbox.is_idle

    async def _send(self, writes: Sequence[_Write]) -> Sequence[api_pb2.BatchResult]:
        patches, turn = [], Turn()
        for one in writes:
            patches.append(one.patch())
            if turn.is_over:
                await turn.give_way()
        results = await self._patch(patches)
        log_refused("Could not write pod group statuses", "groups", results)
        return results

    def _answered(self, key: str, sent: _Write, result: api_pb2.BatchResult) -> None:
        if self._last.get(key) is sent.patch:
            if isinstance(of_result(result), Unavailable):
                loop = asyncio.get_running_loop()
                loop.call_later(_FIRST_PAUSE, self._write_again, key, sent)
            else:
                del self._last[key]
        failed = result.code != StatusCode.OK
        self._conditions.answered(key, sent.number, failed=failed)
        for written in sent.written:
            written((result.message or result.reason or "unavailable") if failed else "")


class GroupOutcomes:
    """Writes the outcomes of attempts, and knows which groups are being bound."""

    def __init__(
        self, cluster: ClusterState, conditions: PodGroupConditions, tasks: TaskSet
    ) -> None:
        self._cluster = cluster
        self._conditions = conditions
        self._tasks = tasks
        self.binding: set[str] = set()
        """The groups ("namespace/name") some members of which may be bound while others are not."""

    def decided(self, group: PodGroup, status: Status) -> None:
        """Write the outcome of an attempt, unless the group's status has it already."""
        # ``binding_begins`` has written the condition; ``binding_ended`` will write the outcome.
        if group.key in self.binding:
            return
        old, new = self._conditions.condition(group, POD_GROUP_SCHEDULED), _outcome(status)
        is_told = old == new and not self._conditions.has_failed(group)
        if not is_told and (old is None or old[0] != TRUE):
            self._conditions.put(group, {POD_GROUP_SCHEDULED: new})

    def is_recorded(self, group: PodGroup) -> bool:
        """Return whether it is written that a group is being bound, not one that had its key."""
        is_written = self._conditions.condition(group, POD_GROUP_BINDING) is not None
        return is_written and group.key in self.binding

    def binding_begins(self, group: PodGroup, message: str, written: Written) -> None:
        """Write that the group's members are about to be bound, with this message.

        ``written`` is called once that is written, or has failed.
        """
        self.binding.add(group.key)
        binding = TRUE, REASON_BINDING, message
        wanted = {POD_GROUP_SCHEDULED: _outcome(SUCCESS), POD_GROUP_BINDING: binding}
        if not self._conditions.put(group, wanted, written):
            self.binding.discard(group.key)
            written("the pod group is gone")

    def binding_ended(self, group: PodGroup, status: Status) -> None:
        """Write that no member is being bound any more; ``status`` is the attempt's outcome."""
        self.binding.discard(group.key)
        wanted = {POD_GROUP_SCHEDULED: _outcome(status), POD_GROUP_BINDING: None}
        pause = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random.random)
        self._conditions.put(group, wanted, partial(self._removed, group, pause))

    def _removed(self, group: PodGroup, pause: Backoff, problem: str) -> None:
        if problem:
            self._tasks.start(self._remove_again(group, pause), f"clear {group.key}")

    async def _remove_again(self, group: PodGroup, pause: Backoff) -> None:
        await asyncio.sleep(pause.next_delay())
        if group.key not in self.binding:
            wanted = {POD_GROUP_BINDING: None}
            self._conditions.put(group, wanted, partial(self._removed, group, pause))

    def resume(self) -> list[str]:
        """Return the keys of the groups that an earlier term was binding."""
        groups = self._cluster.list(KIND)
        self.binding = {
            object_key(group) for group in groups if true_condition(group.status, POD_GROUP_BINDING)
        }
        return sorted(self.binding)


def _outcome(status: Status) -> tuple[str, str, str]:
    """Return the condition's status, reason and message."""
    if status.ok:
        return TRUE, "Scheduled", ""
    is_error = status.code is Code.ERROR
    reason = REASON_SCHEDULER_ERROR if is_error else REASON_UNSCHEDULABLE
    return FALSE, reason, status.message
