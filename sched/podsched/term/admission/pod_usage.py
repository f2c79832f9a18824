"""The quota that the pods of queues use.

It is added to the pod's unit, and by ``settle`` to the snapshot and the tallies.
"""

from __future__ import annotations

from podsched.framework.pods import PodInfo
from podsched.queues.quota import Amounts, FlavorResource
from podsched.term.admission.books import Books
from podsched.term.admission.devices import DeviceQuota
from podsched.term.admission.tallies import Tallies
from podsched.term.admission.units import Unit
from podsched.term.admission.usage import Flavors, read_flavors, usage_of


class PodUsage:
    """See the module."""

    def __init__(self, books: Books, devices: DeviceQuota, tallies: Tallies) -> None:
        self._books = books
        self._devices = devices
        self._tallies = tallies
        self.assumed: dict[str, Flavors] = {}
        """The flavors of pods that were assumed, by uid, until the pod is gone."""
        #: What decides about the amounts of the last pod that was counted, and these amounts: the
        #: next pod is mostly of the same class.
        self._last: tuple[tuple[object, ...], Amounts] = (), {}
        #: Changes of usage that the snapshot and the tallies lack, by ClusterQueue and LocalQueue.
        self._unsettled: dict[tuple[str, str], dict[FlavorResource, int]] = {}

    def begin(self) -> None:
        """Begin with a new snapshot, without pods; the flavors of assumed pods are kept."""
        self._unsettled.clear()

    def flavors_of(self, pod: PodInfo) -> Flavors:
        """Return the flavors that a pod was admitted with, by resource; empty if unknown."""
        # An assumed pod is counted before it gets its annotation, which comes with the binding.
        return self.assumed.get(pod.uid) or read_flavors(pod)

    def amounts(self, pod: PodInfo, unit: Unit) -> Amounts:
        """Return the quota that a pod with a node uses."""
        queue = self._books.snapshot.queues.get(unit.queue)
        if queue is None:
            return {}
        flavors = self.flavors_of(pod)
        devices, decides = self._devices.use(pod), (pod.cls, flavors, queue)
        if not devices and self._last[0] == decides:
            return self._last[1]
        amounts = usage_of(pod, queue, flavors, devices, self._books)
        # If ``flavors`` lacks a resource, its flavor depends on the pod's node: do not keep it.
        if not devices and all(one.flavor == flavors.get(one.resource) for one in amounts):
            self._last = decides, amounts
        return amounts

    def add(self, unit: Unit, amounts: Amounts, sign: int) -> None:
        """Add the usage of a pod to its unit, or remove it (``sign`` -1)."""
        unsettled = self._unsettled.setdefault((unit.queue, unit.local_queue_key), {})
        for one, amount in amounts.items():
            unit.usage[one] = unit.usage.get(one, 0) + sign * amount
            if not unit.usage[one]:
                del unit.usage[one]
            unsettled[one] = unsettled.get(one, 0) + sign * amount

    def settle(self) -> None:
        """Pass the changes of usage on to the snapshot and the tallies, once for many pods."""
        for (queue, local), amounts in self._unsettled.items():
            more = {one: amount for one, amount in amounts.items() if amount > 0}
            less = {one: -amount for one, amount in amounts.items() if amount < 0}
            self._books.snapshot.add_usage(queue, more)
            self._books.snapshot.remove_usage(queue, less)
            self._tallies.use(queue, local, amounts)
        self._unsettled.clear()
