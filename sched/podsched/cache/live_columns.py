"""The live columns as plugins read them: ``framework.nodes.JournaledColumns``.

The answers are in ``node_table``, ``pod_table`` and the journal; the contract says what each means.
``Columns`` adds the changes of nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from podsched.api.host_ports import HostPort
from podsched.cache.fork import Fork
from podsched.cache.journal import Journal
from podsched.cache.node_table import NodeTable
from podsched.cache.pod_table import PodTable
from podsched.cache.usage_columns import NONZERO, POD_COUNT
from podsched.cache.versions import Versions
from podsched.framework.nodes import Bools, Int32s, Int64s, PodQuery, TermFamily
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1


class LiveColumns:
    """Reads the parts of the columns. Arrays are read-only views, of shape ``(size,)``.

    They show later changes until the columns grow, so they are not to be kept.
    """

    versions: Versions
    journal: Journal
    node_table: NodeTable
    pod_table: PodTable
    size: int
    names: Sequence[str]
    alive: Bools
    unschedulable: Bools
    taint_set: Int32s
    allowed_pod_number: Int64s
    pod_count: Int64s

    def _take_arrays(self) -> None:
        """Set the attributes that are read for every decision; the arrays are new after growth."""
        nodes = self.node_table
        self.size, self.names = nodes.size, nodes.names
        self.alive, self.unschedulable = nodes.alive.view, nodes.unschedulable.view
        self.taint_set, self.allowed_pod_number = nodes.taint_set.view, nodes.allowed_pods.view
        self.pod_count = self.pod_table.usage.of(POD_COUNT)

    @property
    def topology_version(self) -> int:
        return self.node_table.topology.version

    @property
    def nodes_version(self) -> int:
        return self.node_table.nodes.version

    @property
    def node_changes(self) -> int:
        return self.node_table.changes

    @property
    def position(self) -> int:
        # ``Journal.position`` inlined: it is read ten times per decision.
        journal = self.journal
        return journal.start + len(journal.keys)

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
        return self.node_table.taint_sets.taints[taint_set]

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
        return self.pod_table.counters.terms.in_cluster(family)

    def terms_version(self, family: TermFamily) -> int:
        return self.pod_table.counters.terms.version(family)

    # Not an attribute: a cycle of references would keep a dropped copy until the next collection.
    @property
    def base(self) -> LiveColumns:
        return self

    @property
    def base_rows(self) -> Rows:
        return np.arange(self.size, dtype=np.intp)

    def fork(self, rows: Rows) -> Fork:
        """Copy rows to try changes on; valid until the columns change."""
        return Fork(self, self.pod_table, rows)
