"""Compare the cache with the informer's store, and describe its nodes for the log.

After kube-scheduler's cache debugger (``comparer.go`` and ``dumper.go`` of v1.36).
``CacheDebugger`` runs it on a signal. Pure: the results are values, not log lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from podsched.api.conditions import is_finished
from podsched.api.objects import key_of
from podsched.cache.cache import Cache
from podsched.cache.pod_states import Stage
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Nodes by name or pods by "namespace/name" that differ between the cache and the store.

    ``missed`` are in the store alone, ``redundant`` in the cache alone; ``different`` are in both,
    but not in the same version, or not on the same node.
    """

    missed: tuple[str, ...] = ()
    redundant: tuple[str, ...] = ()
    different: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missed or self.redundant or self.different)


@dataclass(frozen=True, slots=True)
class NodeDump:
    """One node of the cache. ``deleted``: there is no Node object, but there are pods on it.

    Amounts are in milli-units for cpu, in whole units for the rest.
    """

    name: str
    deleted: bool
    requested: Mapping[str, int]
    allocatable: Mapping[str, int]
    pods: tuple[str, ...]
    nominated: tuple[str, ...]


def compare_nodes(cache: Cache, stored: Mapping[str, v1.Node]) -> Mismatch:
    """Compare the cache's nodes with the store's, which are given by name."""
    columns = cache.columns
    cached = {
        columns.names[row]: columns.node(row) for row in columns.node_table.live_rows.tolist()
    }
    return Mismatch(
        tuple(sorted(stored.keys() - cached.keys())),
        tuple(sorted(cached.keys() - stored.keys())),
        tuple(
            sorted(
                name
                for name in stored.keys() & cached.keys()
                if not _same_version(stored[name], cached[name])
            )
        ),
    )


def compare_pods(
    cache: Cache,
    stored: Iterable[v1.Pod],
    queued: Iterable[PodInfo],
    in_flight: Iterable[PodInfo] = (),
) -> Mismatch:
    """Compare the pods of the cache and the queue with the store's.

    A pod of the store must be in the cache if it has a node, and in the queue if it has none and
    one of the cache's profiles is responsible for it. ``queued`` are the pods in the queue. Pods
    ``in_flight`` may be an older version, because an attempt keeps the version that it began with.
    An assumed pod is never redundant nor different: its binding cycle notices such changes.
    """
    unfinished = {p.metadata.uid: p for p in stored if not is_finished(p)}
    added = {uid: held.info for uid, held in cache.held.items() if held.stage is Stage.ADDED}
    waiting = {pod.uid: pod for pod in queued}
    known = cache.held.keys() | waiting.keys() | {pod.uid for pod in in_flight}
    missed = (
        key_of(pod)
        for uid, pod in unfinished.items()
        if uid not in known
        and (pod.spec.node_name or cache.is_responsible_for(pod.spec.scheduler_name))
    )
    current = {**waiting, **added}
    redundant = (pod.key for uid, pod in current.items() if uid not in unfinished)
    different = (
        pod.key
        for uid, pod in current.items()
        if uid in unfinished
        and not (
            pod.node_name == unfinished[uid].spec.node_name
            and _same_version(pod.pod, unfinished[uid])
        )
    )
    return Mismatch(tuple(sorted(missed)), tuple(sorted(redundant)), tuple(sorted(different)))


def dump_nodes(cache: Cache) -> Iterator[NodeDump]:
    """Describe every node with its usage, pods and nominated pods.

    The cache may change between two descriptions; nodes removed meanwhile are left out.
    """
    columns = cache.columns
    for name in [columns.names[row] for row in columns.node_table.ordered_rows.tolist()]:
        row = columns.row_of(name)
        if row is not None:
            yield NodeDump(
                name,
                deleted=False,
                requested=_requested(cache, row),
                allocatable=_allocatable(cache, row),
                pods=tuple(describe_pod(pod, cache) for pod in columns.pods(row).values()),
                nominated=tuple(describe_pod(pod, cache) for pod in cache.nominator.pods(name)),
            )
    for name in sorted(cache.placed.on_unknown_nodes):
        apart = cache.placed.on_unknown_nodes.get(name, {})
        pods = tuple(describe_pod(pod, cache) for pod in apart.values())
        yield NodeDump(name, deleted=True, requested={}, allocatable={}, pods=pods, nominated=())


def describe_pod(pod: PodInfo, cache: Cache) -> str:
    """Describe a pod in kube-scheduler's words, and say whether it is assumed."""
    text = (
        f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}, "
        f"phase: {pod.pod.status.phase}, nominated node: {pod.nominated_node_name}"
    )
    return f"{text}, assumed" if pod.uid in cache.assumed else text


def _requested(cache: Cache, row: int) -> dict[str, int]:
    columns = cache.columns
    amounts = {name: int(columns.requested(name)[row]) for name in _resources(cache)}
    return {**amounts, "pods": int(columns.pod_count[row])}


def _allocatable(cache: Cache, row: int) -> dict[str, int]:
    columns = cache.columns
    amounts = {name: int(columns.allocatable(name)[row]) for name in _resources(cache)}
    return {**amounts, "pods": int(columns.allowed_pod_number[row])}


def _resources(cache: Cache) -> list[str]:
    return sorted({*cache.columns.node_table.allocatable, "cpu", "memory"})


def _same_version(one: v1.Node | v1.Pod, other: v1.Node | v1.Pod) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version
