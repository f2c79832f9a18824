"""Apply deltas to the columns of a shard; used by evaluator actors."""

from __future__ import annotations

from podsched.cache.columns import Columns
from podsched.cache.deltas import Delta, DeltaGapError, NodeDelta, PodDelta, make_class
from podsched.framework.pods import PodClass, PodInfo
from podsched.v1 import objects_pb2 as v1


class DeltaDecoder:
    """A shard's columns, kept current by deltas."""

    def __init__(self) -> None:
        self.columns = Columns()
        self._classes: dict[int, tuple[PodClass, v1.Pod]] = {}
        self._next = 0

    def apply(self, delta: Delta) -> None:
        """Apply the next delta. Raises DeltaGapError, and changes nothing, if it is not the next.

        After a full delta (number 0), ``columns`` is a new object.
        """
        if delta.number == 0:
            self.columns = Columns(delta.size)
            self._classes.clear()
        elif delta.number != self._next:
            raise DeltaGapError(f"delta {delta.number} came where {self._next} was due")
        self._next = delta.number + 1
        # Rows and classes first: the nodes and pods below name them.
        self.columns.reserve(delta.size)
        self._classes |= {content.id: make_class(content) for content in delta.classes}
        self._apply_gone(delta)
        self._apply_nodes(delta.nodes)
        self._apply_pods(delta.pods)
        for class_id in delta.forgotten_classes:
            self._classes.pop(class_id, None)

    @property
    def next_number(self) -> int:
        """The number that the next delta must have."""
        return self._next

    def _apply_gone(self, delta: Delta) -> None:
        # Removals first, pods before their nodes: a node may come back in another row.
        for row, uid in delta.pods.removed:
            self.columns.pod_table.remove(row, self.columns.pods(row)[uid])
        for name in delta.nodes.removed:
            self.columns.remove_node(name)

    def _apply_nodes(self, nodes: NodeDelta) -> None:
        for row, message in nodes.put:
            node = v1.Node.FromString(message)
            if self.columns.row_of(node.metadata.name) is None:
                self.columns.add_node(node, row)
            else:
                self.columns.update_node(node)

    def _apply_pods(self, pods: PodDelta) -> None:
        """Add or replace the delta's pods."""
        for i, row in enumerate(pods.rows):
            (cls, message), name = self._classes[pods.classes[i]], pods.names[i]
            pod = PodInfo(pods.uids[i], f"{cls.namespace}/{name}", name, cls, message)
            pod.node_name = self.columns.names[row]
            pod.start_time = pods.start_times[i]
            pod.creation_time = pods.creation_times[i]
            pod.terminating = pods.terminating[i]
            if pod.uid in self.columns.pods(row):
                self.columns.pod_table.replace(row, pod)
            else:
                self.columns.pod_table.add(row, pod)
