"""Finds devices for the claims of a pod on a node: the first solution, as Kubernetes v1.36 does.

It does not have the faults of v1.36.2 that docs/devices.md lists, unless ``faults`` names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence

from podsched.plugins.dynamic_resources.candidates import Alternative, Candidates
from podsched.plugins.dynamic_resources.equivalence import Equivalence
from podsched.plugins.dynamic_resources.errors import AllocationAborted, InvalidPools
from podsched.plugins.dynamic_resources.model import Fault, ResourceClaim
from podsched.plugins.dynamic_resources.requests import make_levels
from podsched.plugins.dynamic_resources.results import make_allocation
from podsched.plugins.dynamic_resources.search import Search
from podsched.plugins.dynamic_resources.taken import TakenDevices
from podsched.v1 import objects_pb2 as v1


class Allocator:
    """Allocates devices of a node; it changes nothing of the cluster.

    ``faults``: the faults of v1.36.2 to reproduce; with all of them, the results are those of
    v1.36.2. ``prune``: skip choices that equal failed ones. This changes no result, but with
    ``faults`` nothing is skipped, because their effects depend on every choice.
    """

    def __init__(
        self, candidates: Candidates, *, faults: Collection[Fault] = (), prune: bool = True
    ) -> None:
        self._candidates = candidates
        self._faults = faults
        self._prune = prune and not faults
        #: The number of choices of the last search.
        self.choices = 0

    def allocate(
        self, claims: Sequence[ResourceClaim], should_stop: Callable[[], bool] = lambda: False
    ) -> list[v1.AllocationResult] | None:
        """Return the allocations of the claims in order, or None if they do not fit.

        ``should_stop`` is called before the search and about every millisecond of it. Raises
        AllocationError; AllocationAborted if ``should_stop`` returned True.
        """
        steps = self.allocate_in_steps(claims)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                allocations: list[v1.AllocationResult] | None = end.value
                return allocations
            if should_stop():
                raise AllocationAborted

    def allocate_in_steps(
        self, claims: Sequence[ResourceClaim]
    ) -> Generator[None, None, list[v1.AllocationResult] | None]:
        """Like ``allocate``, with a pause before the search and about every millisecond of it."""
        candidates = self._candidates
        levels = make_levels(claims, candidates)
        taken = TakenDevices(claims, candidates, self._faults)
        equivalence = Equivalence(levels, taken, prunes=self._prune)
        search = Search(levels, taken, equivalence)
        yield
        found = yield from search.run()
        self.choices = search.choices
        if found:
            chosen: list[list[Alternative]] = [[] for _ in claims]
            for level, alternative in zip(levels, search.chosen, strict=True):
                chosen[level.claim_index].append(alternative)
            return [
                make_allocation(claim, of_claim, alternatives, candidates.node, candidates.features)
                for claim, of_claim, alternatives in zip(
                    claims, taken.by_claim, chosen, strict=True
                )
            ]
        if any(pool.invalid for pool in candidates.pools):
            raise InvalidPools
        return None
