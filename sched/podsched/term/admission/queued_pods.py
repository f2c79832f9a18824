"""Count the pods of queues: each pod for its unit, with the quota that it uses.

A pod without a node waits, one with a node (bound or assumed) uses quota (``pod_usage``).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from podsched.framework.local_queues import local_queue
from podsched.framework.pods import PodInfo
from podsched.queues.quota import Amounts
from podsched.term.admission.books import Books, Keys, pop_first
from podsched.term.admission.devices import DeviceQuota
from podsched.term.admission.pod_usage import PodUsage
from podsched.term.admission.tallies import Tallies
from podsched.term.admission.units import Unit, unit_key
from podsched.term.admission.usage import Flavors


@dataclass(slots=True)
class _Place:
    """The unit that a pod is counted for, and the quota that it uses there."""

    pod: PodInfo
    unit: str
    held: bool
    amounts: Amounts
    queue: str
    """The ClusterQueue of the unit."""

    def uses_the_same(self, old: _Place) -> bool:
        """Whether a changed pod uses the same quota as before, and terminates only if it did."""
        amounts, terminating = old.amounts, old.pod.terminating
        return (self.queue, self.amounts, self.pod.terminating) == (old.queue, amounts, terminating)


class QueuedPods:
    """The pods that are in queues, kept current pod by pod."""

    def __init__(
        self,
        books: Books,
        queues_only: Collection[str],
        devices: DeviceQuota,
        tallies: Tallies,
        *,
        running_changed: Callable[[], object],
        counts_ready: bool,
    ) -> None:
        """Count the pods in the units of ``books``.

        ``queues_only``: namespaces whose pods have to be in a queue; "*" for all but kube-system.
        ``running_changed`` is called whenever a pod with a node joins or leaves. ``counts_ready``:
        whether a unit also changes with the readiness of its pods.
        """
        self._books = books
        self._units = books.units
        self._cluster = books.cluster
        self._queues_only = queues_only
        self._devices = devices
        self.usage = PodUsage(books, devices, tallies)
        self._running_changed = running_changed
        self._counts_ready = counts_ready
        #: By key of the pod.
        self._places: dict[str, _Place] = {}
        #: The LocalQueues of pods that were assumed, by uid, until the pod is gone. Their bindings
        #: write them to annotations.
        self._admitted_by: dict[str, str] = {}
        #: Keys of pods to count again.
        self._stale_pods: Keys = OrderedDict()
        self.leaving: Counter[str] = Counter()
        """By ClusterQueue: the number of terminating pods that still use quota."""

    def begin(self) -> dict[str, _Place]:
        """Begin without pods; return the pods so far, for ``note_moved``."""
        before, self._places = self._places, {}
        self._devices.forget()
        self.usage.begin()
        self.leaving.clear()
        return before

    def note_moved(self, before: Mapping[str, _Place], moved: dict[str, None]) -> Iterator[None]:
        """Add the uids of the pods that have joined or left queues since ``begin``, in steps."""
        for old, new in ((before, self._places), (self._places, before)):
            for key, place in old.items():
                other = new.get(key)
                if other is None or other.pod.uid != place.pod.uid:
                    moved[place.pod.uid] = None
                    if old is before:
                        self._forget(place.pod.uid)
                yield

    def assumed(self, flavors: Mapping[str, Flavors], local_queue: str) -> None:
        """Note the flavors of pods that were assumed, by uid; ``count`` counts the pods."""
        self.usage.assumed |= flavors
        self._admitted_by |= dict.fromkeys(flavors, local_queue)

    def queue_of(self, pod: PodInfo) -> str | None:
        """Return the LocalQueue of a pod, "" if it must name one but does not, None without one."""
        name = local_queue(self._cluster, pod)
        if name:
            return name
        needed = pod.namespace in self._queues_only or (
            "*" in self._queues_only and pod.namespace != "kube-system"
        )
        return "" if needed else None

    def count(self, keys: Collection[str]) -> None:
        """Count pods, given by their keys, from the cache, and settle their usage."""
        for key in keys:
            self.count_one(key)
        while self._stale_pods:
            self._recount(pop_first(self._stale_pods))
        self.usage.settle()

    def count_one(self, key: str) -> None:
        """Count a pod for its unit from the cache, without settling its usage."""
        old, known = self._places.get(key), self._cluster.pods.get(key)
        name = None if known is None else self.queue_of(known)
        if old is None and name is None:
            return  # The fast path: most pods of a cluster may be in no queue.
        pod, held = self._find(key, old)
        if held and pod is not None:
            # The version with the node may be older, and in another queue.
            name = self._admitted_by.get(pod.uid) or self.queue_of(pod)
        # A pod that should be in a queue but names none waits without end, so that its unit is told
        # so; once it has a node, no queue has quota that it could use.
        if pod is None or name is None or (held and not name):
            if old is not None:
                del self._places[key]
                self._leave(old)
                self._forget(old.pod.uid)
            return
        unit = unit_key(pod)
        if old is not None:
            if self._stays(old, pod, unit, name, held=held):
                return
            self._leave(old, released=False)
            if old.pod.uid != pod.uid:
                self._forget(old.pod.uid)
        new = self._places[key] = self._join(pod, unit, name, held=held)
        # Only if its usage has changed: a user may change labels of running pods all the time, and
        # that helps nobody.
        if old is not None and old.amounts and not new.uses_the_same(old):
            self._books.freed.append((old.queue, old.amounts.keys()))

    def _forget(self, uid: str) -> None:
        """Forget how a pod was admitted that is gone."""
        self.usage.assumed.pop(uid, None)
        self._admitted_by.pop(uid, None)

    def _stays(self, old: _Place, pod: PodInfo, key: str, name: str, *, held: bool) -> bool:
        """Whether a changed pod counts as before; the new version takes the place of the old."""
        unit = self._units[old.unit]
        place = unit.key, unit.local_queue, old.held, old.pod.uid
        if place != (key, name, held, pod.uid):
            return False
        (unit.held if held else unit.waiting)[pod.uid] = pod
        # A pod with a node may have become Ready. The annotations of one that waits may say how
        # many members its group has, or which topology it asks for.
        before, now = old.pod.pod.metadata.annotations, pod.pod.metadata.annotations
        if (held and self._counts_ready) or (not held and before != now):
            self._books.stale[key] = None
        if pod.cls is not old.pod.cls or pod.terminating is not old.pod.terminating:
            return False
        old.pod = pod
        return True

    def _recount(self, key: str) -> None:
        """Count a pod again to which the devices of a shared claim have passed."""
        place = self._places.get(key)
        if place is not None and place.held:
            # It must not leave the claim: the devices would pass on to the next pod, without end.
            unit = self._units[place.unit]
            self._use(unit, place, -1)
            place.amounts = self.usage.amounts(place.pod, unit)
            self._use(unit, place, 1)

    def _find(self, key: str, old: _Place | None) -> tuple[PodInfo | None, bool]:
        """Return the pod of a key, and whether it has a node; None if it is in no queue.

        A pod that was deleted while it was being bound keeps its node until its binding ends.
        """
        known = self._cluster.pods.get(key)
        for pod in (known, old.pod if old else None):
            if pod is not None and (held := self._books.cache.held.get(pod.uid)) is not None:
                return held.info, True
        if known is None or known.terminating:
            return None, False
        ours = self._books.cache.is_responsible_for(known.cls.scheduler_name)
        return (known if ours else None), False

    def _join(self, pod: PodInfo, key: str, name: str, *, held: bool) -> _Place:
        """Add a pod to its unit in the LocalQueue ``name``, and count the quota that it uses."""
        unit = self._units.get(key)
        # Kueue's rule: the queue of a unit stays once quota is reserved.
        if unit is None or (unit.local_queue != name and not unit.held):
            unit = self._units.setdefault(key, Unit(key))
            # ``Admission`` looks for it only in the queue that it has then.
            self._books.snapshot.workloads.get(unit.queue, {}).pop(key, None)
            local = self._cluster.get("LocalQueue", unit.namespace, name)
            # If a LocalQueue changes, all units are made anew.
            unit.move_to(name, "" if local is None else local.spec.cluster_queue)
        place = _Place(pod, key, held, {}, unit.queue)
        if not held:
            self._books.stale[key] = None
            unit.waiting[pod.uid] = pod
            self._devices.wait(pod, key)
        else:
            unit.held[pod.uid] = pod
            place.amounts = self.usage.amounts(pod, unit)
            self._use(unit, place, 1)
        return place

    def _use(self, unit: Unit, place: _Place, sign: int) -> None:
        """Count the quota that a pod with a node uses, or no longer (``sign`` -1)."""
        self._books.stale[unit.key] = None
        self._running_changed()
        if place.amounts:
            self.usage.add(unit, place.amounts, sign)
            self.leaving[unit.queue] += sign * place.pod.terminating

    def _leave(self, place: _Place, *, released: bool = True) -> None:
        """Remove a pod from its unit, with the quota that it used.

        ``released``: whether this may help others; False if the pod is counted again at once.
        """
        unit = self._units[place.unit]
        if not place.held:
            self._books.stale[unit.key] = None
            unit.waiting.pop(place.pod.uid, None)
            self._devices.end_wait(place.pod)
            return
        unit.held.pop(place.pod.uid, None)
        for heir in self._devices.leave(place.pod):
            self._stale_pods[heir] = None
        self._use(unit, place, -1)
        if place.amounts and released:
            self._books.freed.append((place.queue, place.amounts.keys()))
