"""GangScheduling: the members of a gang start together, or not at all (kube-scheduler v1.36).

PreEnqueue keeps members out of activeQ until their PodGroup exists and has minCount members.
PlacementFeasible then lets the group start as soon as minCount members have a node.

kube-scheduler counts in Permit, where placed members wait for the others. Here a group is decided
in one trial and assumed as one, so that no member ever waits while it takes room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from podsched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.hint_index import HintIndex, KeyedIndex
from podsched.framework.plugin import Handle
from podsched.framework.pod_groups import PodGroup, pod_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, unresolvable
from podsched.v1 import objects_pb2 as v1

REASON_NO_GROUP = "waiting for pods's pod group {} to appear in scheduling queue"
REASON_TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
REASON_WAITING = "waiting for minCount pods from a gang to be scheduled"


class GangScheduling:
    """See the module."""

    name: ClassVar[str] = "GangScheduling"

    def __init__(self, args: None, handle: Handle) -> None:
        self._cluster = handle.cluster

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject members unresolvably while their group is missing or has too few members."""
        if not pod.group:
            return SUCCESS
        if pod_group(self._cluster, pod.group) is None:
            name = pod.group.partition("/")[2]
            return unresolvable(REASON_NO_GROUP.format(f'"{name}"'))
        return SUCCESS if self._is_complete(pod.group) else unresolvable(REASON_TOO_FEW)

    def placement_feasible(self, group: PodGroup, scheduled: int) -> Status:
        """Succeed once minCount members have a node."""
        if scheduled < (group.min_count or 0):
            return Status(Code.WAIT, (REASON_WAITING,), self.name)
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for new members, and for the group itself."""
        member = ClusterEvent(Resource.POD, ActionType.ADD)
        group = ClusterEvent(Resource.POD_GROUP, ActionType.ADD | ActionType.UPDATE)
        return [
            ClusterEventWithHint(member, self._after_member, index=self._by_group(_group_of_pod)),
            ClusterEventWithHint(group, self._after_group, index=self._by_group(_key)),
        ]

    def _by_group(self, key_of: Callable[[Any], str]) -> Callable[[], HintIndex]:
        """Return a factory of indexes that name the members of the event's group.

        They name none while the group is incomplete: without this check every new member would
        cost a look at all earlier ones, 50 million for a gang of 10,000.
        """

        def event_keys(old: Any | None, new: Any | None) -> Iterable[str]:
            key = "" if new is None or _same_spec(old, new) else key_of(new)
            return (key,) if key and self._is_complete(key) else ()

        return lambda: KeyedIndex(lambda pod: (pod.group,), event_keys)

    def _is_complete(self, key: str) -> bool:
        group = pod_group(self._cluster, key)
        return group is not None and len(self._cluster.members(key)) >= (group.min_count or 0)

    def _after_member(self, pod: PodInfo, old: Any | None, new: Any | None) -> QueueingHint:
        return _queue_if(new is not None and _group_of_pod(new) == pod.group)

    def _after_group(self, pod: PodInfo, old: Any | None, new: Any | None) -> QueueingHint:
        return _queue_if(new is not None and _key(new) == pod.group and not _same_spec(old, new))


def _same_spec(old: Any | None, new: Any) -> bool:
    """Whether only the status or metadata changed, as by the condition of the last attempt."""
    return old is not None and bool(old.spec == new.spec)


def _queue_if(helps: bool) -> QueueingHint:
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def _group_of_pod(pod: v1.Pod) -> str:
    spec = pod.spec
    if not spec.HasField("scheduling_group"):
        return ""
    return f"{pod.metadata.namespace}/{spec.scheduling_group.pod_group_name}"


def _key(group: v1.PodGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"
