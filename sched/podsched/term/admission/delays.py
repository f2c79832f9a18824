"""Which promised start keeps a unit from starting now, for its message."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf

from podsched.framework.nodes import NodeColumns
from podsched.framework.pods import PodInfo
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import Workload
from podsched.queues.quota import Amounts
from podsched.term.admission.books import Books
from podsched.term.admission.reservation_text import start_text, time_text
from podsched.term.admission.reserved_devices import may_use_devices
from podsched.term.admission.reserved_ports import port_names
from podsched.term.admission.timetable import Timetable


class Delays:
    """See the module. Units that are evicted for another one are named by their keys."""

    def __init__(
        self, books: Books, timetable: Timetable, reserved: Mapping[str, Reservation]
    ) -> None:
        """``reserved``: by key of the unit."""
        self._books = books
        self._units = books.units
        self._timetable = timetable
        self._reserved = reserved

    def delay(self, workload: Workload, usage: Amounts, victims: Collection[str]) -> str:
        """Return which promised start would be broken if a unit started now, or "".

        The start may be its own.
        """
        if victims and (late := self._gone_late(workload, victims)):
            return late
        units, outlook = self._units, self._timetable.outlook
        gone = [(units[k].queue, units[k].usage, outlook.ends.get(k, inf)) for k in victims]
        who = workload.key, workload.queue, workload.priority
        until = self._timetable.ends.end_after(units[workload.key], victims)
        found = outlook.plan.delays(*who, usage, until, gone)
        if found is None:
            return ""
        what = f"{found.quota.resource} in flavor {found.quota.flavor}"
        return f"it would delay {self._of(found.key)}, by its use of {what}"

    def _gone_late(self, workload: Workload, victims: Collection[str]) -> str:
        """Return why victims would be gone too late for a promised start, or "".

        A unit that was promised the nodes of the victims cannot start on time otherwise: until they
        are gone they take the room, and the unit that evicts them is nominated there.
        """
        gone = self._timetable.ends.gone_at(victims, self._books.now)
        own = self._reserved.get(workload.key)
        if own is not None and gone > own.start:
            return "its victims would be gone only after its promised start"
        nodes = {pod.node_name for key in victims for pod in self._units[key].held.values()}
        others = self._timetable.outlook.plan.others(workload.key, workload.priority)
        for key, other in others.items():
            if gone > other.start and not nodes.isdisjoint(other.nodes):
                return f"its victims would be gone too late for {self._of(key)}"
        return ""

    def kept_node(self, workload: Workload) -> str:
        """Return for which promised start a node or devices are kept from a unit, or ""."""
        outlook, now = self._timetable.outlook, self._books.now
        others = outlook.plan.others(workload.key, workload.priority)
        others = dict(sorted(others.items(), key=lambda item: item[1].start))
        pod = self._units[workload.key].first
        until = self._timetable.ends.end_after(self._units[workload.key], ())
        for key, one in others.items():
            for node, amounts in outlook.taken([one], now, until):
                if _keeps_out(self._books.cluster.nodes, pod, node, amounts):
                    return f"node {node} is kept for {self._of(key)}"
            if one.devices and may_use_devices(pod) and one.start < until:
                driver, pool, *_ = one.devices[0]
                return f"devices of pool {driver}/{pool} are kept for {self._of(key)}"
        for key, _, node in self._timetable.apart(workload, others, now, until):
            return f"anti-affinity counts on node {node} as if {self._of(key)}, were there"
        return ""

    def _of(self, key: str) -> str:
        return f"{key}, which {start_text(time_text(self._reserved[key].start))}"


def _keeps_out(nodes: NodeColumns, pod: PodInfo, node: str, amounts: Mapping[str, int]) -> bool:
    """Whether a node has room for a pod, but not beside these amounts that are kept there."""
    row = nodes.row_of(node)
    if row is None:
        return False
    if not port_names(pod.pod.spec).isdisjoint(amounts):
        return True
    left = [
        (nodes.allocatable(name)[row] - nodes.requested(name)[row] - number, name)
        for name, number in pod.cls.requests.items()
        if number
    ]
    fits = all(free >= 0 for free, _ in left)
    return fits and any(free < amounts.get(name, 0) for free, name in left)
