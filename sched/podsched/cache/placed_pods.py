"""The pods on nodes: each counts on the row of its node, or is kept until its node is known.

A pod on an unknown node (not seen yet, or removed before its pods) is kept under the node's name
and counted as soon as the node is added.

Invariant: the columns equal those built from the same nodes and pods, in the same order.
"""

from __future__ import annotations

from podsched.cache.changes import Anomaly, AnomalyKind, Applied, Change
from podsched.cache.columns import Columns
from podsched.cache.ordering import Orders
from podsched.cache.pod_table import has_same_usage
from podsched.framework.classify import node_update_actions, single_actions
from podsched.framework.events import NODE_ADD, NODE_DELETE, ClusterEvent, Resource
from podsched.framework.pods import PodInfo
from podsched.v1 import objects_pb2 as v1


class PlacedPods:
    """The nodes, and the pods by node; ``orders`` hears of pods that come last on their node."""

    def __init__(self, columns: Columns, orders: Orders) -> None:
        self._columns, self._orders = columns, orders
        self._row_of, self._pod_table = columns.node_table.row_of, columns.pod_table
        #: The pods on unknown nodes, by node name and uid.
        self.on_unknown_nodes: dict[str, dict[str, PodInfo]] = {}

    # ------------------------------------------------------------------ pods

    def on(self, node_name: str) -> dict[str, PodInfo]:
        """Return the pods on a node with pods, known or unknown, in order."""
        row = self._row_of.get(node_name)
        return self.on_unknown_nodes[node_name] if row is None else self._pod_table.rows[row]

    def add(self, pod: PodInfo) -> None:
        """Count a pod on its node's row, or keep it with the pods on unknown nodes."""
        row = self._row_of.get(pod.node_name)
        if row is None:
            self.on_unknown_nodes.setdefault(pod.node_name, {})[pod.uid] = pod
        else:
            self._pod_table.add(row, pod)
        self._orders.added(pod.node_name, pod.uid)

    def remove(self, pod: PodInfo) -> None:
        """Undo ``add``."""
        row = self._row_of.get(pod.node_name)
        if row is not None:
            self._pod_table.remove(row, pod)
            return
        pods = self.on_unknown_nodes[pod.node_name]
        del pods[pod.uid]
        if not pods:
            del self.on_unknown_nodes[pod.node_name]

    def replace(self, pod: PodInfo) -> None:
        """Replace a pod by a newer state, in its old place, or last if its usage changed.

        The order is the same for known and unknown nodes, because a trial may have added the node.
        """
        row = self._row_of.get(pod.node_name)
        if row is not None:
            keeps_place = self._pod_table.replace(row, pod)
        else:
            pods = self.on_unknown_nodes[pod.node_name]
            keeps_place = has_same_usage(pods[pod.uid], pod)
            if not keeps_place:
                del pods[pod.uid]
            pods[pod.uid] = pod
        if not keeps_place:
            self._orders.added(pod.node_name, pod.uid)

    # ------------------------------------------------------------------ nodes

    def add_node(self, node: v1.Node, row: int | None = None) -> None:
        """Add a node, with pods already known to be on it, or update it.

        ``row``: the row that was kept when the node was removed.
        """
        name = node.metadata.name
        if name in self._row_of:
            self._columns.update_node(node)
            return
        row = self._columns.add_node(node, row)
        for pod in self.on_unknown_nodes.pop(name, {}).values():
            self._pod_table.add(row, pod)

    def remove_node(self, name: str, *, keep_row: bool = False) -> Anomaly | None:
        """Remove a node. Its pods are kept until they are deleted, because the node may return.

        ``keep_row``: see ``Columns.remove_node``.
        """
        if name not in self._row_of:
            return Anomaly(AnomalyKind.UNKNOWN_NODE, name, "removed")
        pods = self._columns.remove_node(name, keep_row=keep_row)
        if pods:
            self.on_unknown_nodes[name] = {pod.uid: pod for pod in pods}
        return None

    def apply(self, old: v1.Node | None, new: v1.Node | None) -> Applied:
        """Apply an informer's event; an update is one cluster event for each kind of change."""
        if new is None:
            assert old is not None
            anomaly = self.remove_node(old.metadata.name)
            return Applied((Change(NODE_DELETE, old, None),), anomaly=anomaly)
        row = self._row_of.get(new.metadata.name)
        if row is None:
            self.add_node(new)
            return Applied((Change(NODE_ADD, None, new),))
        known = self._columns.node(row)
        actions = node_update_actions(known, new)
        self._columns.update_node(new)
        events = (ClusterEvent(Resource.NODE, action) for action in single_actions(actions))
        return Applied(tuple(Change(event, known, new) for event in events))
