"""The state of a PodGroup, from the objects alone."""

from __future__ import annotations

from typing import Final

from podsched.api.conditions import POD_GROUP_SCHEDULED, POD_SCHEDULED, condition_of
from podsched.framework.nodes import ClusterView
from podsched.framework.pod_groups import REASON_UNSCHEDULABLE, pod_group, stored_group
from podsched.framework.pods import PodInfo
from podsched.v1.scheduling_pb2 import Explanation, PodGroupStanding

#: Max stuck members that are listed.
MAX_MEMBERS: Final = 5


def standing_answer(cluster: ClusterView, key: str) -> Explanation | None:
    """Return an explanation with the state of a group.

    None if there is neither the group nor a member of it.
    """
    standing = pod_group_standing(cluster, key)
    if not standing.exists and not standing.members:
        return None
    return Explanation(pod_group=standing, message=standing.message)


def pod_group_standing(cluster: ClusterView, key: str) -> PodGroupStanding:
    """Return the state of the group "namespace/name".

    A member is stuck if the last attempt found no node for it even alone.
    """
    namespace, _, name = key.partition("/")
    members = sorted(cluster.members(key), key=lambda member: member.name)
    found = PodGroupStanding(namespace=namespace, name=name, members=len(members))
    found.with_node = sum(bool(member.node_name) for member in members)
    group = pod_group(cluster, key)
    if group is None:
        return found
    found.exists = True
    found.priority = group.priority
    if group.min_count is not None:
        found.min_count = group.min_count
    stored = stored_group(cluster, key)
    for condition in stored.status.conditions if stored is not None else ():
        if condition.type == POD_GROUP_SCHEDULED:
            found.message = condition.message
    for member in members:
        why = _why_stuck(member)
        found.stuck_members += bool(why)
        if why and len(found.stuck) < MAX_MEMBERS:
            found.stuck.add(name=member.name, message=why)
    return found


def _why_stuck(member: PodInfo) -> str:
    """Return why a member fits no node; "" if it has a node, would fit, or was not tried."""
    condition = condition_of(member.pod.status, POD_SCHEDULED)
    if member.node_name or condition is None or REASON_UNSCHEDULABLE in condition.message:
        return ""
    return condition.message
