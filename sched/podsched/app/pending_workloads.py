"""List the pending workloads of a queue, computed from an API server's watch cache.

Unlike the leader, an API server has no admission state, so it counts the objects each time. It
reads only the pods of the queue's namespaces. A result is kept for a second, or for ten times as
long as it took to compute.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from podsched.api.conditions import is_finished, is_terminating
from podsched.api.kinds import KINDS
from podsched.api.objects import AnyObject, LocalQueue, Pod
from podsched.ask.queues.counting import fill
from podsched.cache.cache import Cache
from podsched.config.queues import QueuesConfiguration
from podsched.framework.pod_groups import stored_group
from podsched.queues.objects import Workload
from podsched.queues.order import queue_order
from podsched.serve.server.entries import Entry
from podsched.serve.server.fairness.turns import Work
from podsched.serve.server.rest.visibility import PendingWorkload
from podsched.serve.server.watchcache import WatchCache
from podsched.term.admission.admission import Admission
from podsched.term.admission.units import is_lone

#: Cluster-scoped kinds that the order of a queue depends on.
_CLUSTER: Final = (
    "ClusterQueue",
    "Cohort",
    "ResourceFlavor",
    "Topology",
    "WorkloadPriorityClass",
    "Namespace",
)
#: Units that are sorted in one step; it takes two milliseconds.
_SORTED = 1_000
_SECONDS: Final = 1.0
#: The character after "/", which separates namespace and name in a key.
_AFTER_SLASH: Final = "0"
_key = attrgetter("key")
#: A result is kept for this many times the duration of its computation.
_TIMES: Final = 10.0


class _Result(NamedTuple):
    until: float
    waiting: Sequence[PendingWorkload]


class PendingWorkloads:
    """A ``PendingSource`` that reads a watch cache; ``clock`` returns seconds."""

    def __init__(self, cache: WatchCache, clock: Callable[[], float] = time.monotonic) -> None:
        self._cache = cache
        self._clock = clock
        self._results: dict[str, _Result] = {}
        #: One result is computed at a time: several at once would only take more memory.
        self._turn = asyncio.Lock()

    async def __call__(self, queue: str) -> Sequence[PendingWorkload]:
        """Return the workloads that wait in a ClusterQueue, in its order."""
        async with self._turn:
            began = self._clock()
            self._results = {k: one for k, one in self._results.items() if one.until > began}
            if queue not in self._results:
                waiting = await self._computed(queue)
                now = self._clock()
                until = now + max(_SECONDS, _TIMES * (now - began))
                self._results[queue] = _Result(until, waiting)
            return self._results[queue].waiting

    async def _computed(self, queue: str) -> list[PendingWorkload]:
        found: list[PendingWorkload] = []
        work = Work()
        for one in self._steps(queue):
            if one is not None:
                found.append(one)
            if work.turn_is_over:
                await work.give_way()
        work.end()
        return found

    def _steps(self, queue: str) -> Iterator[PendingWorkload | None]:
        cache = Cache()
        admission = Admission(cache, QueuesConfiguration())
        yield from fill(admission, cache, self._objects(queue), skips_unusable=True)
        yield from _pending_workloads(admission, queue)

    def _objects(self, queue: str) -> Iterator[AnyObject | None]:
        """Yield the objects that the order of a queue depends on, and None for others."""
        for kind in _CLUSTER:
            yield from self._decoded(self._cache.in_order(KINDS[kind]))
        namespaces = set()
        for local in self._decoded(self._cache.in_order(KINDS["LocalQueue"])):
            assert isinstance(local, LocalQueue)
            if local.spec.cluster_queue == queue:
                namespaces.add(local.metadata.namespace)
            yield local
        for namespace in sorted(namespaces):
            yield from self._decoded(self._in_namespace("PodGroup", namespace))
            for pod in self._decoded(self._in_namespace("Pod", namespace)):
                assert isinstance(pod, Pod)
                yield None if is_finished(pod) else _waiting(pod)

    def _in_namespace(self, kind: str, namespace: str) -> Sequence[Entry]:
        entries = self._cache.in_order(KINDS[kind])
        first = bisect_left(entries, f"{namespace}/", key=_key)
        end = bisect_left(entries, f"{namespace}{_AFTER_SLASH}", key=_key)
        return entries[first:end]

    def _decoded(self, entries: Sequence[Entry]) -> Iterator[AnyObject]:
        """Yield decoded copies, so that the cache does not keep the decoded objects."""
        return (entry.decode() for entry in entries)


def _waiting(pod: Pod) -> Pod | None:
    """Return a waiting pod without its claims, which do not matter for the order; else None."""
    if pod.spec.node_name or is_terminating(pod):
        return None
    pod.spec.ClearField("resource_claims")
    return pod


def _pending_workloads(admission: Admission, queue: str) -> Iterator[PendingWorkload | None]:
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
