"""The conditions of PodGroups, written in batches.

``PodGroupScheduled`` has the outcome of the last attempt, as in kube-scheduler. It is best effort,
like the statuses of pods: a newer condition of a group replaces one that has not been sent, and one
that could not be written is written with the next attempt. A condition that is True stays so,
unless the group is taken back.

``podsched.io/Binding`` is written before the first member of a gang is bound and removed once
enough members are bound. It tells the next leader which gangs may be partly bound.

Source: ``updatePodGroupCondition`` in ``schedule_one_podgroup.go`` of kube-scheduler v1.36.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import write
from podsched.api.conditions import (
    FALSE,
    POD_GROUP_BINDING,
    POD_GROUP_SCHEDULED,
    REASON_BINDING,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
    TRUE,
    is_pod_group_binding,
    remove_condition,
    set_condition,
)
from podsched.api.objects import copy_of, object_key, timestamp
from podsched.api.reasons import StatusCode
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup, stored_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status
from podsched.lib.event_loop import Turn
from podsched.serve.client.cluster import merge_patch_request
from podsched.serve.client.errors import ClientError
from podsched.serve.client.outbox import Outbox
from podsched.telemetry.logs import get_logger
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: Max seconds for which a call is repeated after retryable errors.
RETRY_FOR: Final = 5.0
#: While ``_unseen`` has more groups, each write drops one that need not be there any more.
_MOST_UNSEEN: Final = 1_000

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
    patch: Callable[[], api_pb2.PatchRequest]
    """Makes the patch when it is sent: a later write may have replaced it by then."""
    number: int
    written: Written | None = None


#: The wanted status, reason and message of a condition; None: no such condition.
_Wanted = tuple[str, str, str] | None


@dataclass(slots=True)
class _Unseen:
    """Conditions of a group that were written, or will be, and may not be in the cache yet."""

    group: PodGroup
    wanted: dict[str, _Wanted] = field(default_factory=dict)
    """By type of the condition."""
    changed: dict[str, Timestamp] = field(default_factory=dict)
    """When their status changed last. The API server sees one write of several changes, and may see
    no change at all: of a unit that is evicted and admitted again."""
    number: int = 0
    """The number of the last write."""
    sent: bool = False
    """Whether the last write has been answered."""


class PodGroupConditions:
    """Writes the outcomes of attempts to schedule groups.

    A write replaces all conditions, so it contains earlier ones that the cache does not show yet.
    """

    def __init__(
        self, cluster: ClusterState, patch: PatchObjects, wall: Callable[[], float]
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
        #: The groups ("namespace/name") some members of which may be bound while others are not.
        self.binding: set[str] = set()
        #: By uid of the group.
        self._unseen: OrderedDict[str, _Unseen] = OrderedDict()

    # ------------------------------------------------------------------ outcomes of attempts

    def decided(self, group: PodGroup, status: Status) -> None:
        """Write the outcome of an attempt, unless the group's status has it already."""
        # ``binding_begins`` has written the condition; ``binding_ended`` will write the outcome.
        if group.key in self.binding:
            return
        now = self._current(group)
        if now is None:
            return
        old, new = now.get(POD_GROUP_SCHEDULED), _outcome(status)
        if old != new and (old is None or old[0] != TRUE):
            self._put(group, {POD_GROUP_SCHEDULED: new})

    def condition(self, group: PodGroup, type_: str) -> tuple[str, str, str] | None:
        """Return the status, reason and message of a condition, with writes still under way."""
        found = self._current(group)
        return None if found is None else found.get(type_)

    def write_conditions(self, group: PodGroup, conditions: Sequence[QueueCondition]) -> None:
        """Write the conditions of admission."""
        self._put(group, {one.type: one[1:] for one in conditions})

    def annotate(self, group: PodGroup, annotations: Mapping[str, str | None]) -> None:
        """Write annotations of a group; None removes one."""
        body = {"metadata": {"annotations": dict(annotations)}}
        # A later write replaces an earlier one of the same annotations, and no other.
        names = ",".join(sorted(annotations))
        self._outbox.put(f"{group.uid}/{names}", _Write(partial(_patch_of, group, body), 0))

    def annotate_pod(self, pod: PodInfo, annotations: Mapping[str, str | None]) -> None:
        """Write annotations of a pod without a PodGroup; None removes one."""
        body = {"metadata": {"annotations": dict(annotations)}}
        patch = merge_patch_request("Pod", pod.namespace, pod.name, body, pod.uid)
        self._outbox.put(f"{pod.uid}/annotations", _Write(lambda: patch, 0))

    # ------------------------------------------------------------------ groups being bound

    def binding_begins(self, group: PodGroup, message: str, written: Written) -> None:
        """Write that the group's members are about to be bound, with this message.

        ``written`` is called once that is written, or has failed.
        """
        self.binding.add(group.key)
        binding = TRUE, REASON_BINDING, message
        wanted = {POD_GROUP_SCHEDULED: _outcome(SUCCESS), POD_GROUP_BINDING: binding}
        if not self._put(group, wanted, written):
            self.binding.discard(group.key)
            written("the pod group is gone")

    def binding_ended(self, group: PodGroup, status: Status) -> None:
        """Write that no member is being bound any more; ``status`` is the attempt's outcome."""
        self.binding.discard(group.key)
        self._put(group, {POD_GROUP_SCHEDULED: _outcome(status), POD_GROUP_BINDING: None})

    def resume(self) -> list[str]:
        """Return the keys of the groups that an earlier term was binding."""
        found = (g for g in self._cluster.list(KIND) if is_pod_group_binding(g.status))
        self.binding = {object_key(group) for group in found}
        return sorted(self.binding)

    # ------------------------------------------------------------------ writing

    def _known(self, group: PodGroup) -> v1.PodGroup | None:
        known = stored_group(self._cluster, group.key)
        return known if known is not None and known.metadata.uid == group.uid else None

    def _current(self, group: PodGroup) -> dict[str, _Wanted] | None:
        """Return a group's conditions, including unseen writes; None if it is gone."""
        known = self._known(group)
        if known is None:
            self._unseen.pop(group.uid, None)
            return None
        found: dict[str, _Wanted] = {
            c.type: (c.status, c.reason, c.message) for c in known.status.conditions
        }
        unseen = self._unseen.get(group.uid)
        if unseen is None:
            return found
        # Only after the answer: the cache may show an earlier write with the same content.
        if unseen.sent and all(found.get(type_) == it for type_, it in unseen.wanted.items()):
            del self._unseen[group.uid]
        return found | unseen.wanted

    def _put(
        self, group: PodGroup, wanted: Mapping[str, _Wanted], written: Written | None = None
    ) -> bool:
        """Write conditions of a group; return False if it is gone."""
        known, current = self._known(group), self._current(group)
        if known is None or current is None:
            return False
        self._forget_one()
        unseen = self._unseen.setdefault(group.uid, _Unseen(group))
        now, status = timestamp(self._wall(), whole=True), known.status
        for type_, it in wanted.items():
            if it is not None and it[0] != (current.get(type_) or ("",))[0]:
                unseen.changed[type_] = now
        unseen.wanted |= wanted
        unseen.number += 1
        unseen.sent = False
        patch = partial(
            _conditions_patch, group, status, dict(unseen.wanted), dict(unseen.changed), now
        )
        self._outbox.put(group.uid, _Write(patch, unseen.number, written))
        return True

    def _forget_one(self) -> None:
        """Forget the oldest write, if the cache shows it or the group is gone."""
        if len(self._unseen) > _MOST_UNSEEN:
            uid, oldest = next(iter(self._unseen.items()))
            # If it has to stay, the next call looks at another one.
            self._unseen.move_to_end(uid)
            self._current(oldest.group)

    async def run(self) -> None:
        """Send until cancelled. Raises FenceLost when the term is over."""
        await self._outbox.run()

    async def _send(self, writes: Sequence[_Write]) -> Sequence[api_pb2.BatchResult]:
        patches, turn = [], Turn()
        for one in writes:
            patches.append(one.patch())
            if turn.is_over:
                await turn.give_way()
        return await self._patch(patches)

    def _answered(self, uid: str, sent: _Write, result: api_pb2.BatchResult) -> None:
        unseen = self._unseen.get(uid)
        # A newer write may be waiting, and its conditions are not sent yet.
        if unseen is not None and unseen.number == sent.number:
            unseen.sent = True
        if sent.written is not None:
            failed = result.code != StatusCode.OK
            sent.written((result.message or result.reason) if failed else "")

    def _given_up(self, writes: Sequence[_Write], failure: ClientError) -> None:
        _log.warning("Could not write pod group statuses", groups=len(writes), error=str(failure))
        for one in writes:
            if one.written is not None:
                one.written(str(failure) or "unavailable")


def _conditions_patch(
    group: PodGroup,
    status: v1.PodGroupStatus,
    wanted: Mapping[str, _Wanted],
    changed: Mapping[str, Timestamp],
    now: Timestamp,
) -> api_pb2.PatchRequest:
    after = copy_of(status)
    for type_, it in wanted.items():
        if it is None:
            remove_condition(after, type_)
        else:
            condition = set_condition(after, type_, *it, now)
            if type_ in changed:
                condition.last_transition_time.CopyFrom(changed[type_])
    conditions = [write(condition) for condition in after.conditions]
    return _patch_of(group, {"status": {"conditions": conditions}})


def _patch_of(group: PodGroup, body: Mapping[str, Any]) -> api_pb2.PatchRequest:
    namespace, _, name = group.key.partition("/")
    return merge_patch_request(KIND, namespace, name, body, group.uid)


def _outcome(status: Status) -> tuple[str, str, str]:
    """Return the condition's status, reason and message."""
    if status.ok:
        return TRUE, "Scheduled", ""
    is_error = status.code is Code.ERROR
    reason = REASON_SCHEDULER_ERROR if is_error else REASON_UNSCHEDULABLE
    return FALSE, reason, status.message
