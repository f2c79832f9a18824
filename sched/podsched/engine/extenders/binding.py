"""Bind by an extender: it makes the call to the API server, and the informer shows that it did.

Such a bind carries no fence: an extender that is asked by a leader paused past its lease still
binds, and only that a pod is bound at most once protects the cluster then.

Source: extendersBinding of kube-scheduler v1.36, which takes the extender's word that a pod is
bound; here it has to be seen.
"""

from __future__ import annotations

import asyncio

from podsched.cache.cache import Cache
from podsched.engine.cycle.pre_bind import ClusterChanges
from podsched.engine.extenders.calls import ExtenderClient
from podsched.engine.extenders.wire import ExtenderError
from podsched.engine.writes.bind_queue import Assignment
from podsched.framework.status import SKIP, SUCCESS, Status, error
from podsched.telemetry.logs import get_logger

_log = get_logger("extenders")

#: Seconds within which the informer has to show what an extender says it has bound.
CONFIRMED_WITHIN = 30.0


async def bind_by_extender(
    client: ExtenderClient, assignment: Assignment, cache: Cache, changes: ClusterChanges
) -> Status:
    """Return SUCCESS when the pod is bound, SKIP when an ignorable extender failed, or an error."""
    pod = assignment.pod
    try:
        await client.bind(pod, assignment.node_name)
    except ExtenderError as failure:
        if not client.config.ignorable:
            return error(str(failure))
        _log.info(
            "Skipped an ignorable extender that failed to bind",
            extender=client.name,
            pod=pod.key,
            error=str(failure),
        )
        return SKIP
    if await _is_confirmed(assignment, cache, changes):
        return SUCCESS
    return error(
        f'extender "{client.name}" says that it has bound the pod to node '
        f'"{assignment.node_name}", but it is not bound'
    )


async def _is_confirmed(assignment: Assignment, cache: Cache, changes: ClusterChanges) -> bool:
    """Return whether the pod is seen with a node before time is up and before it is gone."""
    pod = assignment.pod
    clock = asyncio.get_running_loop().time
    deadline = clock() + CONFIRMED_WITHIN
    while cache.is_assumed(pod.uid):
        known = cache.cluster.pods.get(pod.key)
        left = deadline - clock()
        if known is None or known.uid != pod.uid or left <= 0:
            return False
        await changes.next(left)
    return True
