"""GangScheduling: the pods of a PodGroup start together, or not at all (kube-scheduler v1.36).

The pods of a PodGroup are its members. PreEnqueue keeps members out of activeQ until the PodGroup
exists and has minCount members. PlacementFeasible then lets the group start as soon as minCount
members have a node.

kube-scheduler counts in Permit, where members that have a node wait for the others. Here all
members are decided in one trial and assumed together, so no member holds resources while it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from podsched.api.objects import object_key
from podsched.api.pod_groups import group_key, label_group_key, queue_group_key
from podsched.config.plugin_args import GangSchedulingArgs
from podsched.framework.events import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
    Resource,
)
from podsched.framework.hint_index import KeyedIndex
from podsched.framework.plugin import Handle
from podsched.framework.pod_groups import PodGroup, label_group, read_pod_group, stored_group
from podsched.framework.pods import PodInfo
from podsched.framework.status import SUCCESS, Code, Status, unresolvable
from podsched.v1 import objects_pb2 as v1

#: The texts are kube-scheduler's, "pods's" included.
REASON_NO_GROUP = "waiting for pods's pod group {} to appear in scheduling queue"
REASON_TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
REASON_WAITING = "waiting for minCount pods from a gang to be scheduled"

#: Max parsed PodGroups kept: nobody asks for a group whose members are gone.
_MOST_KEPT: Final = 1024


class GangScheduling:
    """PreEnqueue waits until minCount members exist, PlacementFeasible until they have a node."""

    name: ClassVar[str] = "GangScheduling"

    def __init__(self, args: GangSchedulingArgs | None, handle: Handle) -> None:
        self.label_groups = args is not None and args.label_groups
        self._cluster = handle.cluster
        #: Parsed PodGroups by key, each with the object that it was parsed from. A gang may have
        #: 10,000 members, and each of them asks for it.
        self._read: dict[str, tuple[v1.PodGroup, PodGroup]] = {}

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Reject a member while its group is missing or has fewer than minCount members."""
        if not pod.group:
            return SUCCESS
        group = self._group(pod.group)
        if group is None:
            name = pod.group.partition("/")[2]
            return unresolvable(REASON_NO_GROUP.format(f'"{name}"'))
        return SUCCESS if self._is_complete(group) else unresolvable(REASON_TOO_FEW)

    def placement_feasible(self, group: PodGroup, scheduled: int) -> Status:
        """Succeed once minCount members have a node."""
        if scheduled < (group.min_count or 0):
            return Status(Code.WAIT, (REASON_WAITING,))
        return SUCCESS

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Register for new members, and for new and updated groups."""
        member = ClusterEvent(Resource.POD, ActionType.ADD)
        group = ClusterEvent(Resource.POD_GROUP, ActionType.ADD | ActionType.UPDATE)
        return [self._about(member, self._key_of), self._about(group, object_key)]

    def _key_of(self, pod: v1.Pod) -> str:
        labelled = label_group_key(pod) if self.label_groups else ""
        meta = pod.metadata
        return group_key(pod) or labelled or queue_group_key(meta.namespace, meta.labels)

    def _about(self, event: ClusterEvent, key_of: Callable[[Any], str]) -> ClusterEventWithHint:
        """Return a registration that wakes the members of the event's group.

        Its index finds no pods while the group has too few members. Without this check, every new
        member would call the hint for all earlier ones: 50 million calls for a gang of 10,000.
        """

        def key(old: Any | None, new: Any | None) -> str:
            # A change of the status alone does not count: every failed attempt writes a condition.
            changed = new is not None and (old is None or old.spec != new.spec)
            return key_of(new) if changed else ""

        def hint(pod: PodInfo, old: Any | None, new: Any | None) -> QueueingHint:
            return QueueingHint.QUEUE if key(old, new) == pod.group else QueueingHint.SKIP

        def event_keys(old: Any | None, new: Any | None) -> Iterable[str]:
            found = key(old, new)
            group = self._group(found) if found else None
            return (found,) if group is not None and self._is_complete(group) else ()

        index = partial(KeyedIndex, lambda pod: (pod.group,), event_keys)
        return ClusterEventWithHint(event, hint, index=index)

    def _group(self, key: str) -> PodGroup | None:
        found = stored_group(self._cluster, key)
        if found is None:
            self._read.pop(key, None)
            return label_group(self._cluster, key)
        known = self._read.get(key)
        if known is None or known[0] is not found:
            if len(self._read) >= _MOST_KEPT:
                self._read.clear()
            known = self._read[key] = found, read_pod_group(found)
        return known[1]

    def _is_complete(self, group: PodGroup) -> bool:
        return len(self._cluster.members(group.key)) >= (group.min_count or 0)
