"""The nodes as NumPy columns with one row per node, updated in place as pods and nodes change.

``Columns`` implements ``framework.nodes.NodeColumns``; the package's docstring has the layout. The
usage columns are those of kube-scheduler's ``NodeInfo``: requested, non-zero requested and the
number of pods, terminating ones included. Sums wrap around like Go's int64.

**Journal.** Every change of a row is noted in a journal. A reader keeps its ``position`` and gets
the rows to read again from ``changed_since``. So the cost of a decision depends on the changes
since the last decision, not on the number of nodes. A change of anything that plugins read of a row
must be noted; otherwise evaluations keep an outdated result for the row.

**Cost.** Adding or removing a pod is O(usage columns + counters of its class), independent of the
number of nodes and pods, because it happens for every binding. Growing is O(size).

Guarantee: the columns after any sequence of changes equal those built from scratch
(``tests/cache/test_columns.py``). Non-goals: pods on unknown nodes (``Cache`` keeps them), threads.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from podsched.api.host_ports import HostPort
from podsched.api.quantity import as_int64
from podsched.cache.class_usage import ClassUsage, ClassUsages
from podsched.cache.column import Column
from podsched.cache.counters import Counters
from podsched.cache.fork import Fork
from podsched.cache.host_ports import PortsInUse
from podsched.cache.journal import JOURNAL_LIMIT, Journal
from podsched.cache.node_table import FIRST_SIZE, NodeTable
from podsched.cache.usage_columns import FIRST_COLUMNS, NONZERO, usage_of
from podsched.cache.versions import Versions
from podsched.framework.nodes import Bools, Int32s, Int64s, PodQuery, TermFamily
from podsched.framework.pods import PodClass, PodInfo
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

#: Max columns for resources that no node offers. Pods may name any resource, and each column takes
#: 8 bytes per node.
MOST_RESOURCES = 500


class Columns:
    """The columns of all nodes. Returned arrays are read-only views, of shape ``(size,)``.

    They show later changes until the columns grow, so they are not to be kept. ``table`` and
    ``counters`` are for the other modules of the cache.
    """

    def __init__(self, size: int = FIRST_SIZE) -> None:
        self.versions = Versions()
        self.table = NodeTable(size, self.versions)
        self._pods: list[dict[str, PodInfo]] = [{} for _ in range(size)]
        #: The names of the usage columns, with their indices.
        self.usage_index: dict[str, int] = {name: i for i, name in enumerate(FIRST_COLUMNS)}
        self._usage: list[Column[np.int64]] = [Column(np.int64, size) for _ in FIRST_COLUMNS]
        #: The memoryviews of ``_usage`` at the same indices; replaced whenever columns grow.
        self._cells = [column.cells for column in self._usage]
        #: What is returned for resources that no node offers or no pod requests.
        self._zeros = Column(np.int64, size)
        self._usages = ClassUsages()
        self._running, self._terminating = self._usages.running, self._usages.terminating
        self.counters = Counters(size, self._usages, self.versions)
        self._ports = PortsInUse()
        self._journal = Journal()
        #: The rows where only start times of pods changed. No Filter or Score reads start times, so
        #: these rows are not evaluated again. But preemption prefers later started victims among
        #: those of equal priority, so copies of the columns and cached dry runs need the changes.
        self._start_times = Journal()

    def copy(self) -> Columns:
        """Return an independent copy with the same nodes and pods in the same rows.

        Counters are built again on first use. Takes 30 ms at 5,000 nodes and 20,000 pods.
        """
        made = Columns(0)
        made.versions = Versions(self.versions.latest)
        made.table = self.table.copy(made.versions)
        made._pods = [dict(pods) for pods in self._pods]
        made.usage_index = dict(self.usage_index)
        made._usage = [column.copy() for column in self._usage]
        made._cells = [column.cells for column in made._usage]
        made._zeros = self._zeros.copy()
        made._usages = self._usages.copy()
        made._running, made._terminating = made._usages.running, made._usages.terminating
        # The journals start empty, because no reader of the original reads the copy.
        made.counters = Counters(self.size, made._usages, made.versions)
        made._ports = self._ports.copy()
        return made

    # ------------------------------------------------------------------ nodes

    def add_node(self, node: v1.Node, row: int | None = None) -> int:
        """Add a node and return its row. Raises ValueError if a node of that name exists.

        ``row``: the row to use. It is either the row kept for the node or, in columns that mirror
        others, the row that the node has there; then it must exist (``reserve``) and be free.
        """
        if node.metadata.name in self.table.row_of:
            raise ValueError(f"node {node.metadata.name} is there already")
        if row is None and self.table.is_full:
            # By an eighth: doubling would leave up to half of the rows empty, and every pass of a
            # plugin over a column reads the empty rows, too.
            self._grow(self.size + max(FIRST_SIZE, self.size // 8))
        row = self.table.add(node, row)
        self._journal.rows.append(row)
        return row

    def update_node(self, node: v1.Node) -> bool:
        """Replace a node's object; return whether anything changed that a plugin can see.

        Raises KeyError if there is no such node.
        """
        row = self.table.row_of[node.metadata.name]
        changed = self.table.update(row, node)
        if changed:
            self._journal.rows.append(row)
        return changed

    def remove_node(self, name: str, *, keep_row: bool = False) -> list[PodInfo]:
        """Remove a node and return its pods. Raises KeyError if there is no such node.

        ``keep_row``: no other node gets the row until ``table.release``.
        """
        row = self.table.row_of[name]
        # The pods first, so that usage, counters and ports are 0 for the next node in this row.
        pods = list(self._pods[row].values())
        for pod in pods:
            self.remove_pod(row, pod)
        self.table.remove(row, keep_row=keep_row)
        self._journal.rows.append(row)
        return pods

    def reserve(self, nodes: int) -> None:
        """Make room for that many nodes at once."""
        if nodes > self.size:
            self._grow(nodes)

    def _grow(self, size: int) -> None:
        self.table.grow(size)
        for column in (*self._usage, self._zeros):
            column.grow(size)
        self._cells = [column.cells for column in self._usage]
        self._pods.extend({} for _ in range(size - len(self._pods)))
        self.counters.grow(size)
        # What readers computed has the old size, so they must read all rows again.
        self._journal.restart()

    # ------------------------------------------------------------------ pods

    def add_pod(self, row: int, pod: PodInfo) -> None:
        """Add a pod to a row. Raises ValueError if a pod of its uid is already there."""
        pods = self._pods[row]
        uid = pod.uid
        if uid in pods:
            raise ValueError(f"pod {pod.key} ({uid}) is on node {self.names[row]} already")
        # ``class_usage`` inlined: the usage exists for nearly every pod, so this saves a call.
        usage = (self._terminating if pod.terminating else self._running).get(pod.cls)
        if usage is None:
            usage = self.class_usage(pod)
        pods[uid] = pod
        # Memoryviews take half the time of NumPy's scalars. They refuse sums outside int64, which
        # no real pod reaches; such a sum wraps around, as in Go.
        cells = self._cells
        for index, amount in usage.amounts:
            column = cells[index]
            try:
                column[row] += amount
            except ValueError:
                column[row] = as_int64(column[row] + amount)
        rows = usage.rows
        rows[row] = rows.get(row, 0) + 1
        if usage.counters:
            self.counters.add(usage, row, 1)
        if usage.ports:
            self._ports.add(row, usage.ports)
        self.note(row)

    def remove_pod(self, row: int, pod: PodInfo) -> None:
        """Remove the pod of this uid from the row. Raises KeyError if it is not there."""
        # Subtract what was added: the caller's version of the pod may be of another class.
        pod = self._pods[row].pop(pod.uid)
        usage = (self._terminating if pod.terminating else self._running)[pod.cls]
        cells = self._cells
        for index, amount in usage.amounts:
            column = cells[index]
            try:
                column[row] -= amount
            except ValueError:
                column[row] = as_int64(column[row] - amount)
        rows = usage.rows
        left = rows[row] - 1
        if left:
            rows[row] = left
        else:
            del rows[row]
        if usage.counters:
            self.counters.add(usage, row, -1)
        if usage.ports:
            self._ports.remove(row, usage.ports)
        self.note(row)

    def ordered_pods(self, row: int) -> dict[str, PodInfo]:
        """Return the row's pods by uid; the caller may change only their order."""
        return self._pods[row]

    def replace_pod(self, row: int, pod: PodInfo) -> bool:
        """Replace the pod of the same uid by a newer version; return whether it keeps its place.

        If its usage is the same, nothing is counted again, and the row is not noted as changed:
        nearly all updates change only the status, on which no Filter or Score depends. The pod then
        keeps its place in the order of the row's pods; otherwise it comes last.
        """
        pods = self._pods[row]
        old = pods[pod.uid]
        if has_same_usage(old, pod):
            pods[pod.uid] = pod
            usage = (self._terminating if pod.terminating else self._running)[pod.cls]
            if usage.exemplar is old:
                usage.exemplar = pod  # Otherwise the old message would stay in memory as well.
            if old.start_time != pod.start_time:
                self._note_start_times(row)
            return True
        self.remove_pod(row, old)
        self.add_pod(row, pod)
        return False

    def add_pods(self, rows: Rows, pods: Sequence[PodInfo]) -> None:
        """Add pods of one class (none terminating) to distinct rows, in one NumPy step per column.

        Raises ValueError if they are not of one class, or a pod is already there.
        """
        if not len(pods):
            return
        cls = pods[0].cls
        # Check all pods before the first is added, so that nothing changes if this raises.
        numbers = rows.tolist()
        for row, pod in zip(numbers, pods, strict=True):
            if pod.cls is not cls or pod.terminating or pod.uid in self._pods[row]:
                raise ValueError(f"pod {pod.key} is not of the batch's class or there already")
        usage = self._running.get(cls) or self.class_usage(pods[0])
        for row, pod in zip(numbers, pods, strict=True):
            self._pods[row][pod.uid] = pod
            usage.rows[row] = usage.rows.get(row, 0) + 1
            if usage.ports:
                self._ports.add(row, usage.ports)
        for index, amount in usage.amounts:
            self._usage[index].array[rows] += amount
        if usage.counters:
            self.counters.add_one_each(usage, rows)
        self._journal.extend(numbers)

    def class_usage(self, pod: PodInfo) -> ClassUsage:
        """Return what a pod adds to its row, which is the same for its class and ``terminating``.

        Created for the first such pod, with the counters that such pods add to.
        """
        found = (self._terminating if pod.terminating else self._running).get(pod.cls)
        if found is None:
            # Before the new usage is added: it has no pods yet, so the sweep would drop it.
            self._usages.sweep(after=self.counters.sweep)
            found, like = self._usages.add(pod, self._amounts(pod.cls))
            self.counters.attach(found, like)
        return found

    def _amounts(self, cls: PodClass) -> tuple[tuple[int, int], ...]:
        return tuple(
            (index, as_int64(amount))
            for name, amount in usage_of(cls).items()
            if amount and (index := self._usage_column(name)) is not None
        )

    def _usage_column(self, name: str) -> int | None:
        """Return the column's index; None beyond MOST_RESOURCES resources that no node offers.

        Pods may request any name, and no decision depends on resources that no node offers.
        """
        index = self.usage_index.get(name)
        if index is None:
            if len(self._usage) >= MOST_RESOURCES and name not in self.table.allocatable:
                return None
            index = self.usage_index[name] = len(self._usage)
            self._usage.append(Column(np.int64, self.size))
            self._cells.append(self._usage[-1].cells)
        return index

    # ------------------------------------------------------------------ journal

    def note(self, row: int) -> None:
        """Note in the journal that something has changed that plugins read of a row."""
        rows = self._journal.rows
        rows.append(row)
        if len(rows) > JOURNAL_LIMIT:
            self._journal.trim()

    def _note_start_times(self, row: int) -> None:
        self._start_times.rows.append(row)
        if len(self._start_times.rows) > JOURNAL_LIMIT:
            self._start_times.trim()

    @property
    def position(self) -> int:
        """The position at the end of the journal of changed rows."""
        # ``Journal.position`` inlined: it is read ten times per decision.
        journal = self._journal
        return journal.start + len(journal.rows)

    @property
    def start_times_position(self) -> int:
        """The position at the end of the journal of rows where start times of pods changed."""
        return self._start_times.position

    def start_times_changed_since(self, position: int) -> Rows | None:
        """Like ``changed_since``, for start times only."""
        return self._start_times.changed_since(position)

    def changed_since(self, position: int) -> Rows | None:
        """Return the distinct rows that changed since the journal was at ``position``, ascending.

        None if that is no longer known; then all rows may have changed.
        """
        return self._journal.changed_since(position)

    # ------------------------------------------------------------------ reading: NodeColumns

    @property
    def size(self) -> int:
        return self.table.size

    @property
    def alive(self) -> Bools:
        return self.table.alive.view

    @property
    def live_rows(self) -> Rows:
        """The rows that have a node, ascending."""
        return self.table.live_rows

    @property
    def free_rows(self) -> list[int]:
        """The free rows; the next node gets the last one."""
        return self.table.free_rows

    @property
    def ordered_rows(self) -> Rows:
        """The live rows in kube-scheduler's order: round robin over zones (nodeTree)."""
        return self.table.ordered_rows

    @property
    def topology_version(self) -> int:
        return self.table.topology.version

    @property
    def nodes_version(self) -> int:
        """A version that changes with every node change that a plugin can see (not heartbeats)."""
        return self.table.nodes.version

    @property
    def names(self) -> Sequence[str]:
        return self.table.names

    def row_of(self, name: str) -> int | None:
        return self.table.row_of.get(name)

    def node(self, row: int) -> v1.Node:
        return self.table.node(row)

    def pods(self, row: int) -> Mapping[str, PodInfo]:
        return self._pods[row]

    def allocatable(self, resource: str) -> Int64s:
        return self.table.allocatable.get(resource, self._zeros).view

    def requested(self, resource: str) -> Int64s:
        index = self.usage_index.get(resource)
        return self._zeros.view if index is None else self._usage[index].view

    def nonzero_requested(self, resource: str) -> Int64s:
        return self.requested(NONZERO[resource])

    @property
    def allowed_pod_number(self) -> Int64s:
        return self.table.allowed_pods.view

    @property
    def pod_count(self) -> Int64s:
        return self._usage[0].view

    @property
    def unschedulable(self) -> Bools:
        return self.table.unschedulable.view

    @property
    def taint_set(self) -> Int32s:
        return self.table.taint_set.view

    def taints(self, taint_set: int) -> tuple[v1.Taint, ...]:
        return self.table.taints(taint_set)

    def label(self, key: str) -> Int32s:
        return self.table.label(key).view

    def value_id(self, value: str) -> int:
        return self.table.value_id(value)

    def value(self, value_id: int) -> str:
        return self.table.value(value_id)

    def used_ports(self, row: int) -> Mapping[HostPort, int]:
        return self._ports.on(row)

    @property
    def rows_with_ports(self) -> Rows:
        return self._ports.rows

    def image_rows(self, image: str) -> tuple[Rows, Int64s]:
        return self.table.images.rows(image)

    def counter(self, query: PodQuery) -> Int64s:
        return self.counters.get(query).column.view

    def counter_sums(self, query: PodQuery, groups: Rows, number: int) -> Int64s:
        return self.counters.get(query).sums(groups, number)

    def counter_version(self, query: PodQuery) -> int:
        return self.counters.get(query).version

    def own_delta(self, query: PodQuery) -> Int64s | None:
        return None

    def terms_in_cluster(self, family: TermFamily) -> Mapping[Hashable, PodQuery]:
        return self.counters.terms_in_cluster(family)

    def terms_version(self, family: TermFamily) -> int:
        return self.counters.terms_version(family)

    # ------------------------------------------------------------------ forks

    @property
    def base(self) -> Columns:
        return self

    @property
    def base_rows(self) -> Rows:
        return np.arange(self.size, dtype=np.intp)

    def usage(self, index: int) -> Int64s:
        """Return a usage column by index: see ``ClassUsage.amounts``."""
        return self._usage[index].view

    def fork(self, rows: Rows) -> Fork:
        """Copy rows to try changes on; valid until the columns change."""
        return Fork(self, rows)


def has_same_usage(old: PodInfo, new: PodInfo) -> bool:
    """Return whether two versions of a pod add the same usage to their node."""
    return old.cls is new.cls and old.terminating == new.terminating
