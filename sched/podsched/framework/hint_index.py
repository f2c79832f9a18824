"""Indexes that find the waiting pods that an event can help, without calling a hint for each pod.

A registration (``ClusterEventWithHint.index``) may name an index. The queue keeps an instance per
profile and registration. It adds every group of waiting pods that the plugin rejected, and calls
the plugin's hint only for the ``candidates`` of an event. An index may return too many candidates,
but never too few, because other pods are not woken. It is not used to replay events for a pod that
was in flight; that calls the hint itself.

Like a hint, an index may read the pod's class, the pod's group, and the names of pods with
ephemeral volumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsched.framework.events import HintIndex
from podsched.framework.pods import PodInfo

#: Up to this many members, a loop over them is faster than columns.
_FEW_MEMBERS = 8
_NO_MEMBERS: Mapping[Hashable, None] = {}


class KeyedIndex(HintIndex):
    """Finds the pods that wait for one of the keys that an event offers.

    ``pod_keys`` returns the keys that a pod waits for; None: any event may help it. ``event_keys``
    returns the keys that the event offers; None: it may help any pod. For example the claims that a
    pod mounts and the claim that was bound, or a label that a pod's node affinity requires and the
    labels of a node.
    """

    def __init__(
        self,
        pod_keys: Callable[[PodInfo], Iterable[Hashable] | None],
        event_keys: Callable[[Any, Any], Iterable[Hashable] | None],
    ) -> None:
        self._pod_keys = pod_keys
        self._event_keys = event_keys
        self._members: dict[Hashable, dict[Hashable, None]] = {}
        self._keys: dict[Hashable, tuple[Hashable, ...] | None] = {}
        #: The members that any event may help: those for which ``pod_keys`` returned None.
        self._always: dict[Hashable, None] = {}

    def add(self, member: Hashable, pod: PodInfo) -> None:
        keys = self._pod_keys(pod)
        self._keys[member] = entry = None if keys is None else tuple(dict.fromkeys(keys))
        if entry is None:
            self._always[member] = None
            return
        for key in entry:
            self._members.setdefault(key, {})[member] = None

    def remove(self, member: Hashable) -> None:
        keys = self._keys.pop(member)
        if keys is None:
            del self._always[member]
            return
        for key in keys:
            members = self._members[key]
            del members[member]
            if not members:
                del self._members[key]

    def candidates(self, old: Any, new: Any) -> Iterable[Hashable] | None:
        keys = self._event_keys(old, new)
        if keys is None:
            return None
        found = dict(self._always)
        for key in keys:
            found.update(self._members.get(key, _NO_MEMBERS))
        return found


class ThresholdIndex(HintIndex):
    """Finds the pods that demand at most the amounts that an event supplies.

    ``demand`` returns a pod's amounts by name (int64; absent: 0). ``supply`` returns what the event
    offers (absent: 0; None: it may help any pod). For example the requests of a pod and the
    allocatable of a new node, or what is free on the node that a deleted pod left. Demands are kept
    in columns, so an event takes some microseconds for 1,000 groups and some hundreds for 100,000.
    """

    def __init__(
        self,
        demand: Callable[[PodInfo], Mapping[str, int]],
        supply: Callable[[Any, Any], Mapping[str, int] | None],
    ) -> None:
        self._demand = demand
        self._supply = supply
        self._columns: dict[str, NDArray[np.int64]] = {}
        #: The number of members that demand a resource. Without any, its column is dropped: pods
        #: may request any name, and each event reads all columns.
        self._demanding: Counter[str] = Counter()
        self._capacity = 64
        self._members: list[Hashable] = []
        self._rows: dict[Hashable, int] = {}
        self._demands: dict[Hashable, Mapping[str, int]] = {}

    def add(self, member: Hashable, pod: PodInfo) -> None:
        row = len(self._members)
        if row == self._capacity:
            self._grow()
        self._members.append(member)
        self._rows[member] = row
        demands = {name: amount for name, amount in self._demand(pod).items() if amount > 0}
        self._demands[member] = demands
        for resource, amount in demands.items():
            column = self._columns.get(resource)
            if column is None:
                column = self._columns[resource] = np.zeros(self._capacity, dtype=np.int64)
            column[row] = amount
        self._demanding.update(demands.keys())

    def remove(self, member: Hashable) -> None:
        row = self._rows.pop(member)
        for resource in self._demands.pop(member):
            self._demanding[resource] -= 1
            if not self._demanding[resource]:
                del self._demanding[resource], self._columns[resource]
        # The last member moves into the gap, so that the columns stay dense.
        last = self._members.pop()
        if last != member:
            self._members[row] = last
            self._rows[last] = row
        end = len(self._members)
        for column in self._columns.values():
            column[row] = column[end]
            column[end] = 0

    def candidates(self, old: Any, new: Any) -> Iterable[Hashable] | None:
        supply = self._supply(old, new)
        if supply is None:
            return None
        if len(self._members) <= _FEW_MEMBERS:
            return [
                member
                for member in self._members
                if all(n <= supply.get(name, 0) for name, n in self._demands[member].items())
            ]
        size = len(self._members)
        rows: NDArray[np.intp] | None = None
        for resource, column in self._columns.items():
            # What is free may be negative. A member that demands nothing has 0 here and must be
            # found.
            offered = max(0, supply.get(resource, 0))
            if rows is None:
                rows = np.flatnonzero(column[:size] <= offered)
            else:
                rows = rows[column[rows] <= offered]
        if rows is None:
            return list(self._members)
        return [self._members[row] for row in rows.tolist()]

    def _grow(self) -> None:
        self._capacity *= 2
        for resource, column in self._columns.items():
            grown = np.zeros(self._capacity, dtype=np.int64)
            grown[: len(column)] = column
            self._columns[resource] = grown
