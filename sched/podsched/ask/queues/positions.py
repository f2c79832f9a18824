"""The units that wait in a ClusterQueue, in the order of the queue."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from podsched.framework.pod_groups import stored_group
from podsched.queues.objects import Workload
from podsched.queues.order import queue_order
from podsched.serve.server.rest.visibility import PendingWorkload
from podsched.term.admission.admission import Admission
from podsched.term.admission.units import is_lone

#: Units that are sorted in one step; it takes two milliseconds.
_SORTED = 1_000


def pending_workloads(admission: Admission, queue: str) -> Iterator[PendingWorkload | None]:
    """Yield the waiting units of a ClusterQueue in order; None after each short step of sorting."""
    found = [one for one in admission.turns.workloads.values() if one.queue == queue]
    parts = []
    for start in range(0, len(found), _SORTED):
        parts.append(sorted(found[start : start + _SORTED], key=queue_order))
        yield None
    for workload in heapq.merge(*parts, key=queue_order):
        yield _shown(admission, workload)


def _shown(admission: Admission, workload: Workload) -> PendingWorkload:
    unit = admission.units[workload.key]
    pod = next(iter(unit.waiting.values())).pod
    group = workload.key.partition("/")[2]
    of = stored_group(admission.cluster, workload.key) or pod
    return PendingWorkload(
        namespace=unit.namespace,
        name=pod.metadata.name if is_lone(workload.key) else group,
        created=of.metadata.creation_timestamp.ToJsonString(),
        priority=workload.priority,
        local_queue=unit.local_queue,
    )
