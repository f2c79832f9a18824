"""The conditions of PodGroups: those in the cache, with writes that the cache does not show yet.

A write replaces all conditions of a group, so it contains these earlier ones, too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from podsched.api.codec import write
from podsched.api.conditions import remove_condition, set_condition
from podsched.api.objects import copy_of, timestamp
from podsched.cache.objects import ClusterState
from podsched.framework.pod_groups import KIND, PodGroup, stored_group
from podsched.serve.client.cluster import merge_patch_request
from podsched.v1 import api_pb2
from podsched.v1 import objects_pb2 as v1

#: While ``_unseen`` has more groups, each write drops one that need not be there any more.
_MOST_UNSEEN: Final = 1_000
#: The wanted status, reason and message of a condition; None: no such condition.
Wanted = tuple[str, str, str] | None


@dataclass(slots=True)
class _Unseen:
    """Conditions of a group that were written, or will be, and may not be in the cache yet."""

    group: PodGroup
    wanted: dict[str, Wanted] = field(default_factory=dict)
    """By type of the condition."""
    changed: dict[str, Timestamp] = field(default_factory=dict)
    """When their status changed last. The API server sees one write of several changes, and may see
    no change at all: of a unit that is evicted and admitted again."""
    number: int = 0
    """The number of the last write."""
    sent: bool = False
    """Whether the last write has been answered; ``failed``: with an error."""
    failed: bool = False


class GroupConditions:
    """The conditions of all groups as they will be once everything is written."""

    def __init__(self, cluster: ClusterState, wall: Callable[[], float]) -> None:
        """``wall`` is wall time in seconds."""
        self._cluster = cluster
        self._wall = wall
        #: By uid of the group.
        self._unseen: OrderedDict[str, _Unseen] = OrderedDict()

    def _known(self, group: PodGroup) -> v1.PodGroup | None:
        known = stored_group(self._cluster, group.key)
        return known if known is not None and known.metadata.uid == group.uid else None

    def current(self, group: PodGroup) -> dict[str, Wanted] | None:
        """Return a group's conditions, including unseen writes; None if it is gone."""
        known = self._known(group)
        if known is None:
            self._unseen.pop(group.uid, None)
            return None
        found: dict[str, Wanted] = {
            c.type: (c.status, c.reason, c.message) for c in known.status.conditions
        }
        unseen = self._unseen.get(group.uid)
        if unseen is None:
            return found
        # Only after the answer: the cache may show an earlier write with the same content.
        if unseen.sent and all(found.get(type_) == it for type_, it in unseen.wanted.items()):
            del self._unseen[group.uid]
        return found | unseen.wanted

    def want(
        self, group: PodGroup, wanted: Mapping[str, Wanted]
    ) -> tuple[Callable[[], api_pb2.PatchRequest], int] | None:
        """Return what makes the patch, and the number of this write; None if the group is gone."""
        current = self.current(group)
        if current is None:
            return None
        self._forget_one()
        unseen = self._unseen.setdefault(group.uid, _Unseen(group))
        now = timestamp(self._wall(), whole=True)
        for type_, it in wanted.items():
            if it is not None and it[0] != (current.get(type_) or ("",))[0]:
                unseen.changed[type_] = now
        unseen.wanted |= wanted
        unseen.number += 1
        unseen.sent = unseen.failed = False
        # With copies: the patch is made when it is sent, and later calls change these.
        patch = partial(self._patch, group, dict(unseen.wanted), dict(unseen.changed), now)
        return patch, unseen.number

    def _patch(self, group: PodGroup, *parts: Any) -> api_pb2.PatchRequest:
        known = self._known(group)
        # As it is by then: while the API was away for us, others may have changed it.
        status = v1.PodGroupStatus() if known is None else known.status
        return _conditions_patch(group, status, *parts)

    def answered(self, uid: str, number: int, *, failed: bool = False) -> None:
        """Note that a write of a group has been answered."""
        unseen = self._unseen.get(uid)
        # A newer write may be waiting, and its conditions are not sent yet.
        if unseen is not None and unseen.number == number:
            unseen.sent, unseen.failed = True, failed

    def has_failed(self, group: PodGroup) -> bool:
        """Return whether the last write of a group has failed."""
        return group.uid in self._unseen and self._unseen[group.uid].failed

    def _forget_one(self) -> None:
        """Forget the oldest write, if the cache shows it or the group is gone."""
        if len(self._unseen) > _MOST_UNSEEN:
            uid, oldest = next(iter(self._unseen.items()))
            # If it has to stay, the next call looks at another one.
            self._unseen.move_to_end(uid)
            self.current(oldest.group)


def _conditions_patch(
    group: PodGroup,
    status: v1.PodGroupStatus,
    wanted: Mapping[str, Wanted],
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
    return patch_of(group, {"status": {"conditions": conditions}})


def patch_of(group: PodGroup, body: Mapping[str, Any]) -> api_pb2.PatchRequest:
    """Return a merge patch of a group."""
    namespace, _, name = group.key.partition("/")
    return merge_patch_request(KIND, namespace, name, body, group.uid)
