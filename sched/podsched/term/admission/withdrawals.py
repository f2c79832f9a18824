"""Why a promised start cannot be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import inf

from podsched.framework.pods import PodInfo
from podsched.queues.backfill.plan import Reservation
from podsched.queues.objects import PODS
from podsched.term.admission.books import Books
from podsched.term.admission.endings import Endings, bound_at
from podsched.term.admission.limits import SLACK
from podsched.term.admission.reserved_ports import is_port, port_names
from podsched.term.admission.unit_ends import UnitEnds
from podsched.term.admission.units import Unit, unit_key


class Withdrawals:
    """Finds the reasons for which reservations are withdrawn."""

    def __init__(
        self, books: Books, endings: Endings, reserved: Mapping[str, Reservation], ends: UnitEnds
    ) -> None:
        """``reserved``: all reservations, by key of the unit."""
        self._books = books
        self._endings = endings
        self._reserved = reserved
        self._ends = ends

    def why(self, key: str, old: Reservation, kept_out: str) -> tuple[str, str]:
        """Return why a reservation cannot be kept: a condition's reason, and a text."""
        # From the cause that is certain to the one that is left when no other is known.
        if missing := self.missing_node(old):
            return "NodeGone", missing
        node = self._books.snapshot.forest.queues.get(old.queue)
        usage = old.usage.items()
        if node is None or any(amount > node.potential_available(one) for one, amount in usage):
            return "QuotaChanged", f"ClusterQueue {old.queue} has less quota"
        above = [
            other
            for other, one in self._reserved.items()
            if one.priority > old.priority and one.overlaps(old.start, old.end)
            if one.usage.keys() & old.usage.keys() or one.nodes.keys() & old.nodes.keys()
        ]
        if above:
            return "Overtaken", f"{above[0]} of higher priority takes what was reserved"
        overdue = (one for one, end in self._ends.of.items() if end <= self._books.now)
        if over := next(
            (one for one in overdue if self._overlaps(self._books.units[one], old)), ""
        ):
            return "LimitExceeded", f"{over} runs for longer than its limit"
        if found := self._pod_without_queue(key, old):
            pod, name = found
            return "NoLongerFits", f"pod {pod.key}, which is in no queue, takes room of node {name}"
        if kept_out:
            return "NoLongerFits", kept_out
        late = (
            other
            for other, end in self._ends.of.items()
            if self._endings.started_at(self._books.units[other]) + SLACK < old.start
            and end > old.start
            and self._overlaps(self._books.units[other], old)
        )
        if other := next(late, ""):
            return "Overtaken", f"{other} takes what was reserved"
        return "NoLongerFits", "its nodes have no room any more"

    def missing_node(self, one: Reservation) -> str:
        """Return why a node of a reservation cannot be used, or ""."""
        nodes = self._books.cluster.nodes
        for name in one.nodes:
            row = nodes.row_of(name)
            if row is None:
                return f"node {name} is gone"
            if nodes.node(row).spec.unschedulable:
                return f"node {name} is unschedulable"
        return ""

    def _pod_without_queue(self, key: str, old: Reservation) -> tuple[PodInfo, str] | None:
        """Return a pod in no queue that takes reserved room of a node, and the node.

        If there are several on the node, it is the one that was bound last.
        """
        nodes = self._books.cluster.nodes
        others = [o for k, o in self._reserved.items() if k != key and o.priority >= old.priority]
        # What is kept on a node grows only when a reservation starts.
        starts = {o.start for o in others if old.start < o.start < old.end}
        for name, amounts in old.nodes.items():
            row = nodes.row_of(name)
            pods = () if row is None else nodes.pods(row).values()
            for at in sorted({old.start, *starts}):
                stay = [pod for pod in pods if self._ends.of.get(unit_key(pod), inf) > at]
                need = Counter(amounts)
                kept = (o.nodes.get(name, {}) for o in others if o.start <= at < o.end)
                for used in (*(pod.cls.requests for pod in stay), *kept):
                    need.update(used)
                without = [pod for pod in stay if unit_key(pod) not in self._books.units]
                short = any(
                    need[one] > nodes.allocatable(one)[row]
                    for one in amounts
                    if one != PODS and not is_port(one)
                )
                if not short:
                    without = [p for p in without if not port_names(p.pod.spec).isdisjoint(amounts)]
                if without:
                    return max(without, key=bound_at), name
        return None

    def _overlaps(self, unit: Unit, old: Reservation) -> bool:
        """Whether a unit uses quota of a reservation, or the same resources of its nodes."""
        return bool(unit.usage.keys() & old.usage.keys()) or any(
            amount and resource in old.nodes.get(pod.node_name, ())
            for pod in unit.held.values()
            for resource, amount in pod.cls.requests.items()
        )
