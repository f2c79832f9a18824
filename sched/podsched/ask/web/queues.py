"""The tree of cohorts and queues as the page shows it, with the usage from their status."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from podsched.api.conditions import condition_of
from podsched.api.objects import AnyObject, ClusterQueue, Cohort, LocalQueue, object_key
from podsched.api.quantity import QuantityError
from podsched.lib.groups import lists_by_key
from podsched.queues.amounts import amount, amount_text
from podsched.queues.quota import Amounts, FlavorResource, Node
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort

#: Max queues that are shown, and max quotas of each.
MOST_QUEUES: Final = 200
MOST_QUOTAS: Final = 32
KINDS: Final = ("ClusterQueue", "LocalQueue", "Cohort")


class QueueTable:
    """Cohorts, ClusterQueues and LocalQueues by kind and key."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        #: The document, until something changes.
        self._made: asyncio.Future[dict[str, Any]] | None = None

    def put(self, kind: str, key: str, found: AnyObject | None) -> None:
        """Update an object; None: it is gone."""
        self._made = None
        if found is None:
            self._objects[kind].pop(key, None)
        else:
            self._objects[kind][key] = found

    async def document(self) -> dict[str, Any]:
        """Return the first rows of the tree, each below its parent, and the number of all rows.

        LocalQueues without their ClusterQueue come last. A row has kind, name and depth, the
        numbers of waiting and admitted units, the share in thousandths, why the queue admits
        nothing, and by flavor and resource usage, borrowed amount and quota.
        """
        if self._made is None:
            # In a thread, as a thousand queues would block the event loop for too long.
            kinds = (tuple(self._objects[kind].values()) for kind in KINDS)
            self._made = asyncio.ensure_future(asyncio.to_thread(_document, *kinds))
        return await asyncio.shield(self._made)


def _document(
    queues: Iterable[ClusterQueue], local_queues: Iterable[LocalQueue], cohorts: Iterable[Cohort]
) -> dict[str, Any]:
    named = {item.metadata.name: item for item in queues}
    forest = _snapshot(named.values(), cohorts).forest
    by_name = sorted(local_queues, key=object_key)
    joins = lists_by_key((item.spec.cluster_queue, item) for item in by_name)
    # In reverse order, as ``stack`` is popped from its end.
    nodes = [*forest.cohorts.values(), *forest.queues.values()]
    nodes.sort(key=lambda one: (not one.is_cohort, one.name), reverse=True)
    below = lists_by_key((node.parent, node) for node in nodes)
    rows: list[dict[str, Any]] = []
    stack = [(node, 0) for node in below.get(None, ())]
    while stack and len(rows) < MOST_QUEUES:
        node, depth = stack.pop()
        rows.append(_row(node, depth, named.get(node.name)))
        if not node.is_cohort:
            rows += [_local_row(item, depth + 1) for item in joins.get(node.name, ())]
        stack += [(child, depth + 1) for child in below.get(node, ())]
    lost = [item for name, items in joins.items() if name not in forest.queues for item in items]
    rows += [_local_row(item, 0) for item in lost]
    return {"queues": rows[:MOST_QUEUES], "count": len(nodes) + sum(map(len, joins.values()))}


def _snapshot(items: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> Snapshot:
    queues, used = [], {}
    for item in items:
        try:
            queues.append(read_cluster_queue(item))
            used[item.metadata.name] = _amounts(item.status.flavors_reservation)
        except QuantityError:
            continue  # Cannot happen with a server, which validates the amounts.
    snapshot = Snapshot(queues, map(read_cohort, cohorts))
    for name, amounts in used.items():
        snapshot.add_usage(name, amounts)
    return snapshot


def _row(node: Node, depth: int, item: ClusterQueue | None) -> dict[str, Any]:
    row = {
        "kind": "Cohort" if node.is_cohort else "ClusterQueue",
        "name": node.name,
        "depth": depth,
        "share": dominant_share(node).rounded,
        "problem": "",
        "quotas": [_quota(node, key) for key in sorted({*node.quota, *node.usage})[:MOST_QUOTAS]],
    }
    return row if node.is_cohort or item is None else row | _status_of(item)


def _quota(node: Node, key: FlavorResource) -> list[Any]:
    """Return flavor, resource; used, quota and borrowed as texts; and two shares for a bar.

    The shares are the usage within the quota and the borrowed amount, each divided by the larger of
    usage and quota.
    """
    quota, used, borrowed = node.quota.get(key, 0), node.usage.get(key, 0), node.borrowed(key)
    texts = [amount_text(key.resource, number) for number in (used, quota, borrowed)]
    whole = max(used, quota, 1)
    return [*key, *texts, round((used - borrowed) / whole, 3), round(borrowed / whole, 3)]


def _local_row(item: LocalQueue, depth: int) -> dict[str, Any]:
    row = {"kind": "LocalQueue", "name": object_key(item), "depth": depth, "quotas": []}
    return row | _status_of(item)


def _status_of(item: ClusterQueue | LocalQueue) -> dict[str, Any]:
    """Return parts of a queue's status: its counts, and why it admits nothing."""
    active = condition_of(item.status, "Active")
    return {
        "waiting": item.status.pending_workloads,
        "admitted": item.status.reserving_workloads,
        "problem": active.message if active is not None and active.status == "False" else "",
    }


def _amounts(flavors: Iterable[Any]) -> Amounts:
    """Return the usage in a status. Raises QuantityError."""
    return {
        FlavorResource(flavor.name, one.name): amount(one.name, one.total)
        for flavor in flavors
        for one in flavor.resources
    }
