"""Looking at a cache from outside: dump, comparison with a listing (D1), check of invariants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from podsched.cache.cache import Cache, Stage
from podsched.cache.columns import Columns
from podsched.framework.pods import PodInfo


class CacheInconsistentError(AssertionError):
    """The cache differs from what its nodes and pods amount to: a bug of the cache."""

    def __init__(self, differences: list[str]) -> None:
        self.differences = differences
        super().__init__("; ".join(differences[:10]))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a listing has and the cache has not (missed), and the other way round (redundant)."""

    missed_nodes: tuple[str, ...]
    redundant_nodes: tuple[str, ...]
    missed_pods: tuple[str, ...]
    redundant_pods: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not (
            self.missed_nodes or self.redundant_nodes or self.missed_pods or self.redundant_pods
        )


def compare(
    cache: Cache, node_names: Iterable[str], pod_uids: Iterable[str], waiting: Iterable[str] = ()
) -> Comparison:
    """kube-scheduler's cache comparer: ``pod_uids`` are all unfinished pods there are, ``waiting``
    those that the queue holds. Assumed pods are never redundant.
    """
    nodes, listed = set(node_names), set(pod_uids)
    columns = cache.columns
    known_nodes = {columns.names[row] for row in columns.live_rows.tolist()}
    added = {pod.uid for pod, stage in cache.held_pods() if stage is Stage.ADDED}
    held = {pod.uid for pod, _ in cache.held_pods()}
    queued = set(waiting)
    return Comparison(
        missed_nodes=tuple(sorted(nodes - known_nodes)),
        redundant_nodes=tuple(sorted(known_nodes - nodes)),
        missed_pods=tuple(sorted(listed - held - queued)),
        redundant_pods=tuple(sorted((added | queued) - listed)),
    )


def dump(cache: Cache) -> str:
    """kube-scheduler's cache dump: every node with its usage, pods and nominated pods."""
    return "\n".join(_dump_lines(cache))


def _dump_lines(cache: Cache) -> Iterator[str]:
    columns = cache.columns
    yield (
        f"Dump of cached NodeInfo: {cache.node_count} nodes, {cache.pod_count} pods "
        f"({cache.assumed_count} assumed)"
    )
    for row in columns.ordered_rows.tolist():
        name = columns.names[row]
        yield f"Node name: {name}"
        yield f"Requested Resources: {_amounts(columns, row, allocatable=False)}"
        yield f"Allocatable Resources: {_amounts(columns, row, allocatable=True)}"
        yield f"Scheduled Pods(number: {len(columns.pods(row))}):"
        yield from (_pod_line(cache, pod) for pod in columns.pods(row).values())
        nominated = cache.nominator.pods(name)
        yield f"Nominated Pods(number: {len(nominated)}):"
        yield from (_pod_line(cache, pod) for pod in nominated)


def _amounts(columns: Columns, row: int, allocatable: bool) -> dict[str, int]:
    of = columns.allocatable if allocatable else columns.requested
    pods = columns.allowed_pod_number if allocatable else columns.pod_count
    names = sorted({*columns.resource_names, "cpu", "memory"})
    return {**{name: int(of(name)[row]) for name in names}, "pods": int(pods[row])}


def _pod_line(cache: Cache, pod: PodInfo) -> str:
    assumed = ", assumed" if cache.is_assumed(pod.uid) else ""
    return f"name: {pod.name}, namespace: {pod.namespace}, uid: {pod.uid}{assumed}"


def check(cache: Cache) -> None:
    """Recomputes everything from nodes and pods. Raises CacheInconsistentError."""
    differences = list(_differences(cache))
    if differences:
        raise CacheInconsistentError(differences)


def _differences(cache: Cache) -> Iterator[str]:
    columns = cache.columns
    fresh = Columns(size=columns.size)
    for row in columns.live_rows.tolist():
        fresh.add_node(columns.node(row))
    for pod, _ in cache.held_pods():
        row_number = fresh.row_of(pod.node_name)
        if row_number is not None:
            fresh.add_pod(row_number, pod)
        elif pod.uid not in {other.uid for other in cache.pods_without_node(pod.node_name)}:
            yield f"pod {pod.key} is on no row and not kept for node {pod.node_name}"
        if cache.nominator.node_of(pod.uid) is not None:
            yield f"pod {pod.key} has node {pod.node_name} and is nominated"
    yield from column_differences(columns, fresh)


def column_differences(actual: Columns, expected: Columns) -> Iterator[str]:
    """Where columns differ from others that were built from the same nodes and pods."""
    live = actual.live_rows
    names = [actual.names[row] for row in live.tolist()]
    if set(names) != {expected.names[row] for row in expected.live_rows.tolist()}:
        yield "the nodes differ"
        return
    rows = np.array([expected.row_of(name) for name in names], dtype=np.intp)
    for title, mine, other in _comparable(actual, expected):
        if not np.array_equal(mine[live], other[rows]):
            wrong = np.flatnonzero(mine[live] != other[rows])
            row = int(wrong[0])
            yield f"{title} of {names[row]}: {mine[live][row]} instead of {other[rows][row]}"
        dead = np.delete(mine, live)
        if len(dead) and (dead != dead[0]).any():
            yield f"{title} of rows without a node"
    for row, other_row in zip(live.tolist(), rows.tolist(), strict=True):
        yield from _row_differences(actual, row, expected, other_row)
    yield from _shared_differences(actual, expected)


def _comparable(
    actual: Columns, expected: Columns
) -> Iterator[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    for name in {*actual.resource_names, *expected.resource_names}:
        yield f"allocatable {name}", actual.allocatable(name), expected.allocatable(name)
    for name in {*actual.usage_names, *expected.usage_names}:
        yield f"requested {name}", actual.requested(name), expected.requested(name)
    yield "allowed pods", actual.allowed_pod_number, expected.allowed_pod_number
    yield (
        "unschedulable",
        actual.unschedulable.astype(np.int64),
        expected.unschedulable.astype(np.int64),
    )
    for query in actual.queries:
        yield f"counter {query}", actual.counter(query), expected.counter(query)


def _row_differences(actual: Columns, row: int, expected: Columns, other: int) -> Iterator[str]:
    name = actual.names[row]
    if dict(actual.pods(row)) != dict(expected.pods(other)):
        yield f"the pods of {name}"
    if dict(actual.used_ports(row)) != dict(expected.used_ports(other)):
        yield f"the ports of {name}"
    mine, theirs = (
        [(t.key, t.value, t.effect) for t in c.taints(int(c.taint_set[r]))]
        for c, r in ((actual, row), (expected, other))
    )
    if mine != theirs:
        yield f"the taints of {name}"
    for key in actual.label_keys:
        if actual.value(int(actual.label(key)[row])) != expected.value(
            int(expected.label(key)[other])
        ):
            yield f"the label {key} of {name}"


def _shared_differences(actual: Columns, expected: Columns) -> Iterator[str]:
    for family in actual.families:
        if set(actual.terms_in_cluster(family)) != set(expected.terms_in_cluster(family)):
            yield f"the carried terms of {family.name}"
    ported = {actual.names[row] for row in actual.rows_with_ports.tolist()}
    if ported != {expected.names[row] for row in expected.rows_with_ports.tolist()}:
        yield "the rows with ports"
    for image in {*actual.image_names, *expected.image_names}:
        if _images(actual, image) != _images(expected, image):
            yield f"the nodes with image {image}"
    if sorted(actual.ordered_rows.tolist()) != actual.live_rows.tolist():
        yield "the order of nodes does not name each node once"


def _images(columns: Columns, image: str) -> dict[str, int]:
    rows, sizes = columns.image_rows(image)
    return {columns.names[r]: int(s) for r, s in zip(rows.tolist(), sizes.tolist(), strict=True)}
