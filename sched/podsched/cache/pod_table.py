"""The pods of each row, and the columns computed from them: usage, counters, host ports.

The usage columns are those of kube-scheduler's ``NodeInfo``: requested, non-zero requested and the
number of pods, terminating ones included. Sums wrap around like Go's int64.

**Cost.** Adding or removing a pod is O(usage columns + counters of its class), independent of the
number of nodes and pods, because it happens for every binding.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.quantity import as_int64
from podsched.cache.class_usage import ClassUsage, ClassUsages
from podsched.cache.counters import Counters
from podsched.cache.host_ports import PortsInUse
from podsched.cache.journal import Journal
from podsched.cache.node_table import NodeTable
from podsched.cache.usage_columns import UsageColumns
from podsched.cache.versions import Versions
from podsched.framework.pods import PodInfo
from podsched.framework.verdicts import Rows


class PodTable:
    """The pods by row; it notes in ``journal`` the rows whose pods change."""

    def __init__(self, nodes: NodeTable, versions: Versions, journal: Journal) -> None:
        self._nodes, self._journal = nodes, journal
        #: By row, the pods by uid; others may change only their order.
        self.rows: list[dict[str, PodInfo]] = [{} for _ in range(nodes.size)]
        self.usage = UsageColumns(nodes.size)
        #: The list of ``usage`` itself, which is read for every pod that is added or removed.
        self._cells = self.usage.cells
        self._usages = ClassUsages()
        self._running, self._terminating = self._usages.running, self._usages.terminating
        self.counters = Counters(nodes.size, self._usages, versions)
        self.ports = PortsInUse()
        #: The rows where only start times of pods changed. No Filter or Score reads start times, so
        #: these rows are not evaluated again. But preemption prefers later started victims among
        #: those of equal priority, so copies of the columns and cached dry runs need the changes.
        self.start_times = Journal()

    def copy(self, nodes: NodeTable, versions: Versions, journal: Journal) -> PodTable:
        """Return an independent copy with the same pods. Its counters are built on first use."""
        made = PodTable(nodes, versions, journal)
        made.rows = [dict(pods) for pods in self.rows]
        made.usage = self.usage.copy()
        made._cells = made.usage.cells
        made._usages = self._usages.copy()
        made._running, made._terminating = made._usages.running, made._usages.terminating
        made.counters = Counters(nodes.size, made._usages, versions)
        made.ports = self.ports.copy()
        return made

    def grow(self, size: int) -> None:
        """Make room for ``size`` rows."""
        self.rows.extend({} for _ in range(size - len(self.rows)))
        self.usage.grow(size)
        self.counters.table.grow(size)

    def add(self, row: int, pod: PodInfo) -> None:
        """Add a pod to a row. Raises ValueError if a pod of its uid is already there."""
        pods = self.rows[row]
        uid = pod.uid
        if uid in pods:
            raise ValueError(f"pod {pod.key} ({uid}) is on node {self._nodes.names[row]} already")
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
            self.ports.add(row, usage.ports)
        self._journal.add(row)

    def remove(self, row: int, pod: PodInfo) -> None:
        """Remove the pod of this uid from the row. Raises KeyError if it is not there."""
        # Subtract what was added: the caller's version of the pod may be of another class.
        pod = self.rows[row].pop(pod.uid)
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
            self.ports.remove(row, usage.ports)
        self._journal.add(row)

    def replace(self, row: int, pod: PodInfo) -> bool:
        """Replace the pod of the same uid by a newer version; return whether it keeps its place.

        If its usage is the same, nothing is counted again, and the row is not noted as changed:
        nearly all updates change only the status, on which no Filter or Score depends. The pod then
        keeps its place in the order of the row's pods; otherwise it comes last.
        """
        pods = self.rows[row]
        old = pods[pod.uid]
        if has_same_usage(old, pod):
            pods[pod.uid] = pod
            usage = (self._terminating if pod.terminating else self._running)[pod.cls]
            if usage.exemplar is old:
                usage.exemplar = pod  # Otherwise the old message would stay in memory as well.
            if old.start_time != pod.start_time:
                self.start_times.add(row)
            return True
        self.remove(row, old)
        self.add(row, pod)
        return False

    def add_many(self, rows: Rows, pods: Sequence[PodInfo]) -> None:
        """Add pods of one class (none terminating) to distinct rows, in one NumPy step per column.

        Raises ValueError if they are not of one class, or a pod is already there.
        """
        if not len(pods):
            return
        cls = pods[0].cls
        # Check all pods before the first is added, so that nothing changes if this raises.
        numbers = rows.tolist()
        for row, pod in zip(numbers, pods, strict=True):
            if pod.cls is not cls or pod.terminating or pod.uid in self.rows[row]:
                raise ValueError(f"pod {pod.key} is not of the batch's class or there already")
        usage = self._running.get(cls) or self.class_usage(pods[0])
        for row, pod in zip(numbers, pods, strict=True):
            self.rows[row][pod.uid] = pod
            usage.rows[row] = usage.rows.get(row, 0) + 1
            if usage.ports:
                self.ports.add(row, usage.ports)
        # Unlike ``cells``, arrays wrap around by themselves.
        for index, amount in usage.amounts:
            self.usage.columns[index].array[rows] += amount
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
            amounts = self.usage.amounts_of(pod.cls, offered=self._nodes.allocatable)
            found, like = self._usages.add(pod, amounts)
            self.counters.attach(found, like)
        return found


def has_same_usage(old: PodInfo, new: PodInfo) -> bool:
    """Return whether two versions of a pod add the same usage to their node."""
    return old.cls is new.cls and old.terminating == new.terminating
