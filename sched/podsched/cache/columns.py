"""The nodes as NumPy columns with one row per node, updated in place as pods and nodes change.

``Columns`` implements ``framework.nodes.JournaledColumns`` over its two parts, ``node_table`` and
``pod_table``, and changes what concerns both; the package's docstring has the layout.

**Journal.** Every change of a row is noted in a journal. A reader keeps its ``position`` and gets
the rows to read again from ``changed_since``. So the cost of a decision depends on the changes
since the last decision, not on the number of nodes. A change of anything that plugins read of a row
must be noted; otherwise evaluations keep an outdated result for the row.

Guarantee: the columns after any sequence of changes equal those built from scratch
(``tests/cache/test_columns.py``). Non-goals: pods on unknown nodes (``Cache`` keeps them), threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from podsched.api.host_ports import HostPort
from podsched.cache.fork import Fork
from podsched.cache.journal import Journal
from podsched.cache.node_table import FIRST_SIZE, NodeTable
from podsched.cache.pod_table import PodTable
from podsched.cache.usage_columns import NONZERO, POD_COUNT
from podsched.cache.versions import Versions
from podsched.framework.nodes import Bools, Int32s, Int64s, PodQuery, TermFamily
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


class Columns:
    """The columns of all nodes. Arrays to read are read-only views, of shape ``(size,)``.

    They show later changes until the columns grow, so they are not to be kept.
    """

    size: int
    names: Sequence[str]
    alive: Bools
    unschedulable: Bools
    taint_set: Int32s
    allowed_pod_number: Int64s
    pod_count: Int64s

    def __init__(self, size: int = FIRST_SIZE) -> None:
        self.versions = Versions()
        self.journal = Journal()
        self.node_table = NodeTable(size, self.versions)
        self.pod_table = PodTable(self.node_table, self.versions, self.journal)
        self._take_arrays()

    def _take_arrays(self) -> None:
        """Set the attributes that are read for every decision; the arrays are new after growth."""
        nodes = self.node_table
        self.size, self.names = nodes.size, nodes.names
        self.alive, self.unschedulable = nodes.alive.view, nodes.unschedulable.view
        self.taint_set, self.allowed_pod_number = nodes.taint_set.view, nodes.allowed_pods.view
        self.pod_count = self.pod_table.usage.of(POD_COUNT)

    def copy(self) -> Columns:
        """Return an independent copy with the same nodes and pods in the same rows.

        Takes 30 ms at 5,000 nodes and 20,000 pods. The journals start empty, because no reader of
        the original reads the copy.
        """
        made = Columns(0)
        made.versions = Versions(self.versions.latest)
        made.node_table = self.node_table.copy(made.versions)
        made.pod_table = self.pod_table.copy(made.node_table, made.versions, made.journal)
        made._take_arrays()
        return made

    # ------------------------------------------------------------------ nodes

    def add_node(self, node: v1.Node, row: int | None = None) -> int:
        """Add a node and return its row. Raises ValueError if a node of that name exists.

        ``row``: the row to use. It is either the row kept for the node or, in columns that mirror
        others, the row that the node has there; then it must exist (``reserve``) and be free.
        """
        if node.metadata.name in self.node_table.row_of:
            raise ValueError(f"node {node.metadata.name} is there already")
        if row is None and not self.node_table.free_rows:
            # By an eighth: doubling would leave up to half of the rows empty, and every pass of a
            # plugin over a column reads the empty rows, too.
            self.reserve(self.size + max(FIRST_SIZE, self.size // 8))
        row = self.node_table.add(node, row)
        self.journal.note(row)
        return row

    def update_node(self, node: v1.Node) -> bool:
        """Replace a node's object; return whether anything changed that a plugin can see.

        Raises KeyError if there is no such node.
        """
        row = self.node_table.row_of[node.metadata.name]
        changed = self.node_table.update(row, node)
        if changed:
            self.journal.note(row)
        return changed

    def remove_node(self, name: str, *, keep_row: bool = False) -> list[PodInfo]:
        """Remove a node and return its pods. Raises KeyError if there is no such node.

        ``keep_row``: no other node gets the row until it is in ``node_table.free_rows``.
        """
        row = self.node_table.row_of[name]
        # The pods first, so that usage, counters and ports are 0 for the next node in this row.
        pods = list(self.pod_table.rows[row].values())
        for pod in pods:
            self.pod_table.remove(row, pod)
        self.node_table.remove(row, keep_row=keep_row)
        self.journal.note(row)
        return pods

    def reserve(self, nodes: int) -> None:
        """Make room for that many nodes at once, in O(nodes)."""
        if nodes > self.size:
            self.node_table.grow(nodes)
            self.pod_table.grow(nodes)
            self._take_arrays()
            # What readers computed has the old size, so they must read all rows again.
            self.journal.restart()

    # ------------------------------------------------------------------ as in JournaledColumns

    @property
    def topology_version(self) -> int:
        return self.node_table.topology.version

    @property
    def nodes_version(self) -> int:
        return self.node_table.nodes.version

    @property
    def position(self) -> int:
        # ``Journal.position`` inlined: it is read ten times per decision.
        journal = self.journal
        return journal.start + len(journal.rows)

    def changed_since(self, position: int) -> Rows | None:
        return self.journal.changed_since(position)

    @property
    def ordered_rows(self) -> Rows:
        return self.node_table.ordered_rows

    @property
    def start_times(self) -> Journal:
        return self.pod_table.start_times

    def row_of(self, name: str) -> int | None:
        return self.node_table.row_of.get(name)

    def node(self, row: int) -> v1.Node:
        return self.node_table.node(row)

    def pods(self, row: int) -> Mapping[str, PodInfo]:
        return self.pod_table.rows[row]

    def allocatable(self, resource: str) -> Int64s:
        return self.node_table.allocatable.get(resource, self.pod_table.usage.zeros).view

    def requested(self, resource: str) -> Int64s:
        return self.pod_table.usage.of(resource)

    def nonzero_requested(self, resource: str) -> Int64s:
        return self.pod_table.usage.of(NONZERO[resource])

    def taints(self, taint_set: int) -> tuple[v1.Taint, ...]:
        return self.node_table.taints[taint_set]

    def label(self, key: str) -> Int32s:
        return self.node_table.labels.column(key).view

    def value_id(self, value: str) -> int:
        return self.node_table.labels.value_id(value)

    def value(self, value_id: int) -> str:
        return self.node_table.labels.value(value_id)

    def used_ports(self, row: int) -> Mapping[HostPort, int]:
        return self.pod_table.ports.on(row)

    @property
    def rows_with_ports(self) -> Rows:
        return self.pod_table.ports.rows

    def image_rows(self, image: str) -> tuple[Rows, Int64s]:
        return self.node_table.images.rows(image)

    def counter(self, query: PodQuery) -> Int64s:
        return self.pod_table.counters.get(query).column.view

    def counter_sums(self, query: PodQuery, groups: Rows, number: int) -> Int64s:
        return self.pod_table.counters.get(query).sums(groups, number)

    def counter_version(self, query: PodQuery) -> int:
        return self.pod_table.counters.get(query).version

    def own_delta(self, query: PodQuery) -> Int64s | None:
        return None

    def terms_in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        return self.pod_table.counters.terms_in_cluster(family)

    def terms_version(self, family: TermFamily) -> int:
        return self.pod_table.counters.terms_version(family)

    # Not an attribute: a cycle of references would keep a dropped copy until the next collection.
    @property
    def base(self) -> Columns:
        return self

    @property
    def base_rows(self) -> Rows:
        return np.arange(self.size, dtype=np.intp)

    def fork(self, rows: Rows) -> Fork:
        """Copy rows to try changes on; valid until the columns change."""
        return Fork(self, rows)
