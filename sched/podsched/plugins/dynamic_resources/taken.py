"""The devices that a search has taken, with their counters, capacity and constraints.

Source: allocateDevice of Kubernetes v1.36 (allocator_incubating.go), with its order of checks.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, Candidates
from podsched.plugins.dynamic_resources.capacity import Amounts, fits
from podsched.plugins.dynamic_resources.constraints import Constraint, make_constraint
from podsched.plugins.dynamic_resources.errors import AllocationError
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    Amount,
    Device,
    Fault,
    InUse,
    ResourceClaim,
)
from podsched.plugins.dynamic_resources.pools import Pool

_Counter = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Taken:
    """A device that a request has taken; ``consumed`` is None unless the device is shared."""

    alternative: Alternative
    candidate: Candidate
    consumed: Amounts | None
    has_counters: bool


class TakenDevices:
    """Takes devices and gives them back, the last one first."""

    def __init__(
        self, claims: Sequence[ResourceClaim], candidates: Candidates, faults: Collection[Fault]
    ) -> None:
        self.candidates = candidates
        self._leaks = Fault.LEAK in faults
        self.counters = Counters(candidates.allocated, by_name=Fault.POOL_NAME in faults)
        self.constraints = ClaimConstraints(claims, candidates, faults)
        self._claims: dict[int, set[int]] = {}
        self._shares: dict[int, InUse] = {}
        #: By kind of request (``Candidates.kind``): no device before this index can be had. So the
        #: search does not look at each of them again for each of a thousand claims.
        self._first: dict[int | None, int] = {}
        #: By claim, in the order of taking.
        self.by_claim: list[list[Taken]] = [[] for _ in claims]

    def is_in_use(self, alternative: Alternative, candidate: Candidate) -> bool:
        """Return whether the device is taken or allocated, so that the request cannot get it.

        With admin access, a request can get all devices, but each only once for its claim.
        """
        if claims := self._claims.get(candidate.index):
            return not alternative.request.admin_access or alternative.claim_index in claims
        return not alternative.request.admin_access and candidate.is_allocated

    def fits(self, alternative: Alternative, candidate: Candidate) -> bool:
        """Return whether the device suits and has enough capacity left. Raises AllocationError."""
        needs = self.candidates.needs(alternative, candidate)
        shares = self._shares.get(candidate.index)
        if not needs or shares is None or not shares.capacity:
            return needs is not None
        offered, in_use = candidate.device.capacity, candidate.consumed or {}
        return fits(needs, offered, in_use, shares.capacity)

    def take(self, alternative: Alternative, candidate: Candidate, *, must: bool) -> Taken | None:
        """Take a device and return it; return None if it cannot be taken.

        ``must``: raise AllocationError if a constraint refuses the device.
        """
        if self.is_in_use(alternative, candidate):
            return None
        device = candidate.device
        if device.counter_sets and not self.candidates.features.partitionable_devices:
            return None
        has_counters = bool(device.counter_sets) and not self._is_shared(candidate)
        if has_counters and not self.counters.take(candidate.pool, device):
            return None
        taken = self._checked(alternative, candidate, has_counters, must=must)
        if taken is None:
            if has_counters and not self._leaks:
                self.counters.give_back(candidate.pool, device)
            return None
        if taken.consumed is not None:
            self._shares.setdefault(candidate.index, InUse()).add(taken.consumed)
        else:
            self._claims.setdefault(candidate.index, set()).add(alternative.claim_index)
        self.by_claim[alternative.claim_index].append(taken)
        return taken

    def give_back(self, taken: Taken) -> None:
        """Undo the last take."""
        alternative, candidate = taken.alternative, taken.candidate
        self.constraints.remove(alternative)
        if taken.consumed is None:
            self._claims[candidate.index].discard(alternative.claim_index)
        else:
            self._shares[candidate.index].remove(taken.consumed)
        for kind, first in self._first.items():
            self._first[kind] = min(first, candidate.index)
        leaks = self._leaks and taken.consumed is not None
        if taken.has_counters and not leaks:
            self.counters.give_back(candidate.pool, candidate.device)
        self.by_claim[alternative.claim_index].pop()

    def first(self, alternative: Alternative) -> int:
        """Return the index of the first device that the request may get."""
        return self._first.get(self.candidates.kind(alternative), 0)

    def note_busy(self, alternative: Alternative, candidate: Candidate) -> None:
        """Note that such requests cannot get a device until some device is given back."""
        kind = self.candidates.kind(alternative)
        if kind is not None and candidate.index == self._first.get(kind, 0):
            self._first[kind] = candidate.index + 1

    def is_untaken(self, candidate: Candidate) -> bool:
        """Return whether the search has not taken the device exclusively."""
        return not self._claims.get(candidate.index)

    def touched(self) -> list[int]:
        """Return the indexes of the devices that are taken."""
        claims = [index for index, claims in self._claims.items() if claims]
        return claims + [index for index, shares in self._shares.items() if shares.shares]

    def use(self, index: int, claim_index: int) -> Hashable:
        """Return a value for the use of a device as requests from the claim on see it.

        None if the search does not use it.
        """
        claims = self._claims.get(index)
        if claims:
            return (claim_index in claims, len(claims))
        shares = self._shares.get(index)
        capacity = shares.capacity if shares else None
        return None if capacity is None else frozenset(capacity.items())

    def _is_shared(self, candidate: Candidate) -> bool:
        """Return whether the device has shares already, the first of which took its counters."""
        if not self.candidates.is_shareable(candidate):
            return False
        shares = self._shares.get(candidate.index)
        return candidate.consumed is not None or (shares is not None and shares.shares > 0)

    def _checked(
        self, alternative: Alternative, candidate: Candidate, has_counters: bool, *, must: bool
    ) -> Taken | None:
        """Return the taken device if taints, constraints and capacity allow it, else None."""
        if not self.candidates.tolerates(alternative, candidate):
            return None
        if not self.constraints.add(alternative, candidate, must=must):
            return None
        if not self.fits(alternative, candidate):
            if not self._leaks:
                self.constraints.remove(alternative)
            return None
        consumed = None
        if self.candidates.is_shareable(candidate):
            consumed = self.candidates.needs(alternative, candidate)
        return Taken(alternative, candidate, consumed, has_counters)


class ClaimConstraints:
    """The constraints of all claims, with the values of the devices that were taken."""

    def __init__(
        self, claims: Sequence[ResourceClaim], candidates: Candidates, faults: Collection[Fault]
    ) -> None:
        self._candidates = candidates
        self._by_claim: list[list[Constraint]] = [
            [make_constraint(constraint, faults) for constraint in claim.constraints]
            for claim in claims
        ]

    def state(self, claim_index: int) -> Hashable:
        """Return a value; if it is equal, the claim's constraints refuse the same devices."""
        return tuple(constraint.state() for constraint in self._by_claim[claim_index])

    def add(self, alternative: Alternative, candidate: Candidate, *, must: bool) -> bool:
        """Add a device to the constraints of a request; return False if one refuses it.

        ``must``: raise AllocationError in this case.
        """
        constraints = self._by_claim[alternative.claim_index]
        for added, index in enumerate(alternative.constraints):
            values = self._candidates.values(alternative, index, candidate)
            if values is None or not constraints[index].add(alternative.base_name, values):
                if must:
                    raise AllocationError(
                        f"claim {alternative.claim}, request {alternative.request.name}: "
                        f"cannot add device {candidate.id} because a claim constraint "
                        "would not be satisfied"
                    )
                self.remove(alternative, added)
                return False
        return True

    def remove(self, alternative: Alternative, count: int | None = None) -> None:
        """Remove the last device from the first ``count`` constraints of a request, or from all."""
        constraints = self._by_claim[alternative.claim_index]
        for index in alternative.constraints[:count]:
            constraints[index].remove(alternative.base_name)


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

    def content(self, pool: Pool, counter_set: str) -> Hashable:
        """Return the amounts that the search may take of a counter set, in any order."""
        available = self.available(pool) or {}
        return frozenset(
            (counter, amount)
            for (name, counter), amount in available.items()
            if name == counter_set
        )

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
        in_use = self._allocated.get((pool.driver, pool.name), {})
        for device in pool.all_devices():
            if device.counter_sets and device.name in in_use:
                # Without DRAPartitionableDevices, the pool has no counters.
                for counter in device.counters.keys() & left.keys():
                    left[counter] -= device.counters[counter]
        # As in Kubernetes, no device of the pool can be taken if one counter is below zero.
        return None if any(amount < 0 for amount in left.values()) else left
