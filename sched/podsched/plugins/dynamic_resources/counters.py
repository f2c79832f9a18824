"""Shared counters: the amounts that the devices of a pool consume of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from podsched.plugins.dynamic_resources.model import AllocatedState, Amount, Device
from podsched.plugins.dynamic_resources.pools import Pool

_Counter = tuple[str, str]


class Counters:
    """The amounts of counters that a search has taken.

    ``by_name``: pools of equal name share their counters (Fault.POOL_NAME).
    """

    def __init__(self, allocated: AllocatedState, *, by_name: bool) -> None:
        self._allocated = allocated
        self._by_name = by_name
        # By pool: the amounts that are not allocated; None if one is below zero.
        self._available: dict[Hashable, dict[_Counter, Amount] | None] = {}
        self._taken: dict[Hashable, dict[_Counter, Amount]] = {}

    def take(self, pool: Pool, device: Device) -> bool:
        """Take what a device consumes; return False, and take nothing, if too little is left."""
        available = self.available(pool)
        if available is None:
            return False
        taken = self._taken.setdefault(self._key(pool), {})
        for counter, amount in device.counters.items():
            if counter in available and taken.get(counter, 0) + amount > available[counter]:
                return False
        for counter, amount in device.counters.items():
            taken[counter] = taken.get(counter, 0) + amount
        return True

    def available(self, pool: Pool) -> Mapping[tuple[str, str], Amount] | None:
        """Return the amounts that the search may take, by (set, counter).

        Return None if the pool's allocated devices consume more of a counter than there is.
        """
        key = self._key(pool)
        if key not in self._available:
            self._available[key] = self._left(pool)
        return self._available[key]

    def room(self, pool: Pool, counter: tuple[str, str]) -> Amount | None:
        """Return the amount of a counter that is left; None if the pool has no such counter.

        Return -1 if no device of the pool can be taken at all.
        """
        available = self.available(pool)
        if available is None:
            return -1
        if counter not in available:
            return None
        return available[counter] - self._taken.get(self._key(pool), {}).get(counter, 0)

    def give_back(self, pool: Pool, device: Device) -> None:
        taken = self._taken[self._key(pool)]
        for counter, amount in device.counters.items():
            taken[counter] -= amount

    def state(self) -> Hashable:
        """Return a value that is equal if the taken amounts are."""
        return frozenset(
            (key, counter, amount)
            for key, taken in self._taken.items()
            for counter, amount in taken.items()
            if amount
        )

    def _key(self, pool: Pool) -> Hashable:
        return pool.name if self._by_name else (pool.driver, pool.name)

    def _left(self, pool: Pool) -> dict[_Counter, Amount] | None:
        left = {
            (name, counter): amount
            for name, counters in pool.counter_sets.items()
            for counter, amount in counters.items()
        }
        allocated = self._allocated
        for identity, device in pool.all_devices():
            if not device.counter_sets:
                continue
            if (
                identity in allocated.devices
                or identity in allocated.shared
                or identity in allocated.capacity
            ):
                # Without DRAPartitionableDevices, the pool has no counters.
                for counter in device.counters.keys() & left.keys():
                    left[counter] -= device.counters[counter]
        # As in Kubernetes, no device of the pool can be taken if one counter is below zero.
        return None if any(amount < 0 for amount in left.values()) else left
