"""The tree of cohorts and queues as the page shows it, with what their status says is used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from podsched.api.objects import AnyObject, ClusterQueue, LocalQueue
from podsched.api.quantity import QuantityError
from podsched.queues.amounts import amount, amount_text
from podsched.queues.quota import Amounts, FlavorResource, Node
from podsched.queues.shares import dominant_share
from podsched.queues.snapshot import Snapshot
from podsched.queues.stored import read_cluster_queue, read_cohort

#: Queues that are shown, and quotas of each.
MOST_QUEUES: Final = 200
MOST_QUOTAS: Final = 32
KINDS: Final = ("ClusterQueue", "LocalQueue", "Cohort")


class QueueTable:
    """Cohorts, ClusterQueues and LocalQueues by kind and key."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
        #: The rows, until something changes.
        self._rows: list[dict[str, Any]] | None = None

    def put(self, kind: str, key: str, found: AnyObject | None) -> None:
        """Update an object; None: it is gone."""
        self._rows = None
        if found is None:
            self._objects[kind].pop(key, None)
        else:
            self._objects[kind][key] = found

    def document(self) -> dict[str, Any]:
        """Return the first rows of the tree, each below its parent, and how many there are.

        A row has its kind, name and depth, what waits and is admitted, the share in thousandths,
        why it admits nothing, and by flavor and resource what is used, borrowed and the quota.
        """
        if self._rows is None:
            self._rows = self._made()
        return {"queues": self._rows[:MOST_QUEUES], "count": len(self._rows)}

    def _made(self) -> list[dict[str, Any]]:
        snapshot = self._snapshot()
        local_queues: dict[str, list[LocalQueue]] = {}
        for _, item in sorted(self._objects["LocalQueue"].items()):
            local_queues.setdefault(item.spec.cluster_queue, []).append(item)
        forest = snapshot.forest
        below: dict[Node | None, list[Node]] = {}
        # The last first, as a stack is taken from its end.
        nodes = [*forest.cohorts.values(), *forest.queues.values()]
        for node in sorted(nodes, key=lambda one: (not one.is_cohort, one.name), reverse=True):
            below.setdefault(node.parent, []).append(node)
        rows, stack = [], [(node, 0) for node in below.get(None, ())]
        while stack:
            node, depth = stack.pop()
            rows.append(self._row(node, depth))
            if not node.is_cohort:
                rows += [_local_row(item, depth + 1) for item in local_queues.get(node.name, ())]
            stack += [(child, depth + 1) for child in below.get(node, ())]
        return rows

    def _snapshot(self) -> Snapshot:
        queues, used = [], {}
        for name, item in self._objects["ClusterQueue"].items():
            try:
                queues.append(read_cluster_queue(item))
                used[name] = _amounts(item.status.flavors_reservation)
            except QuantityError:
                continue  # Nothing that a server stores: it has checked the amounts.
        snapshot = Snapshot(queues, map(read_cohort, self._objects["Cohort"].values()))
        for name, amounts in used.items():
            snapshot.add_usage(name, amounts)
        return snapshot

    def _row(self, node: Node, depth: int) -> dict[str, Any]:
        row = {
            "kind": "Cohort" if node.is_cohort else "ClusterQueue",
            "name": node.name,
            "depth": depth,
            "share": dominant_share(node).rounded,
            "problem": "",
            "quotas": [_quota(node, key) for key in sorted({*node.quota, *node.usage})],
        }
        row["quotas"] = row["quotas"][:MOST_QUOTAS]
        item = None if node.is_cohort else self._objects["ClusterQueue"].get(node.name)
        return row | ({} if item is None else _said(item))


def _quota(node: Node, key: FlavorResource) -> list[Any]:
    """Return flavor, resource, used, quota and borrowed as texts, and the first two as shares.

    The shares are of the larger of usage and quota: of what is used within the quota, and of what
    is borrowed.
    """
    quota, used = node.quota.get(key, 0), node.usage.get(key, 0)
    borrowed = max(0, used - quota) if node.parent is not None else 0
    texts = [amount_text(key.resource, number) for number in (used, quota, borrowed)]
    whole = max(used, quota, 1)
    return [*key, *texts, round((used - borrowed) / whole, 3), round(borrowed / whole, 3)]


def _local_row(item: LocalQueue, depth: int) -> dict[str, Any]:
    row = {
        "kind": "LocalQueue",
        "name": f"{item.metadata.namespace}/{item.metadata.name}",
        "depth": depth,
        "quotas": [],
    }
    return row | _said(item)


def _said(item: ClusterQueue | LocalQueue) -> dict[str, Any]:
    """Return what a queue's status says: its counts, and why it admits nothing."""
    active = next((one for one in item.status.conditions if one.type == "Active"), None)
    return {
        "waiting": item.status.pending_workloads,
        "admitted": item.status.reserving_workloads,
        "problem": active.message if active is not None and active.status == "False" else "",
    }


def _amounts(flavors: Iterable[Any]) -> Amounts:
    """Return what a status says is used. Raises QuantityError."""
    return {
        FlavorResource(flavor.name, one.name): amount(one.name, one.total)
        for flavor in flavors
        for one in flavor.resources
    }
