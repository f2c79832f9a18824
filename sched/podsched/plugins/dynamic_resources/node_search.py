"""Whether the claims of a pod can be allocated on a node; found out once for equal nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from podsched.api.node_selectors import NodeTerms
from podsched.framework.nodes import Bools, Int64s, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler
from podsched.plugins.dynamic_resources.changed_pods import Changed
from podsched.plugins.dynamic_resources.devices import Devices
from podsched.plugins.dynamic_resources.errors import AllocationError, InvalidPools
from podsched.plugins.dynamic_resources.extended_claims import Provided
from podsched.plugins.dynamic_resources.free_devices import Fitting
from podsched.plugins.dynamic_resources.model import (
    AllocatedState,
    AllocationResult,
    Features,
    Node,
    ResourceClaim,
)

#: Max outcomes that are remembered.
_MOST_OUTCOMES: Final = 50_000
#: Max kinds of claims of which outcomes by row are kept.
_MOST_COLUMNS: Final = 64
#: The most alternatives of a request.
_MOST_ALTERNATIVES: Final = 8


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """The claims of a pod; plain data.

    ``allocated``: the nodes of each claim that is allocated. ``names`` and ``claims``: those that
    have to be allocated; ``kind`` is equal for pods that ask for the same. ``assumed``: the names
    of claims that are assumed to be allocated for the pod since an earlier attempt. ``fitting``:
    where they fit as far as columns tell.
    ``binding_failed``: a device of a claim that is allocated cannot be used on any node.

    ``variants``: the needs on nodes that are ``lacking`` extended resources, for which devices have
    to be allocated there. ``variant`` has the number of each row's, shape ``(size,)``: 0 for these
    needs themselves, -1 for nodes without a resource that no device provides. None: all are 0.
    """

    allocated: tuple[NodeTerms, ...]
    names: tuple[str, ...]
    claims: tuple[ResourceClaim, ...]
    kind: tuple[bytes, ...]
    assumed: tuple[str, ...]
    devices: Devices
    fitting: Fitting | None = None
    binding_failed: bool = False
    lacking: tuple[Provided, ...] = ()
    variants: tuple[PodNeeds, ...] = ()
    variant: Int64s | None = None

    def by_variant(self, rows: Rows) -> Iterator[tuple[PodNeeds, Bools]]:
        """Yield the needs that differ, each with the mask of its rows; rows of the cluster."""
        if self.variant is None:
            yield self, np.ones(len(rows), dtype=np.bool_)
            return
        numbers = self.variant[rows]
        for number, needs in enumerate((self, *self.variants)):
            mine = numbers == number
            if mine.any():
                yield needs, mine

    def on(self, row: int) -> PodNeeds:
        """Return the needs on the node of a row."""
        number = 0 if self.variant is None else int(self.variant[row])
        return self.variants[number - 1] if number > 0 else self

    @property
    def count(self) -> int:
        """The number of devices of the only request."""
        return self.claims[0].requests[0].exactly.count

    @property
    def has_alternatives(self) -> bool:
        return any(request.first_available for of in self.claims for request in of.requests)


class Budget:
    """How long several searches may take together: so many pauses, of about 1 ms each."""

    def __init__(self, pauses: int) -> None:
        self._left = pauses

    def limit(self) -> Callable[[], bool]:
        """Return a function for one search that tells at each pause whether the time is over.

        The pause before the search is free, so that easy searches on many nodes are possible.
        """
        calls = itertools.count()

        def is_over() -> bool:
            self._left -= next(calls) > 0
            return self._left <= 0

        return is_over


@dataclass(slots=True)
class Outcomes:
    """The outcomes of the searches for one kind of claims, by row: a score, or one of the below.

    They are valid for these ``devices`` and nodes, and up to a position in their journals.
    """

    devices: Devices
    nodes: tuple[int, int]
    position: tuple[int, int]
    by_row: Int64s

    #: Not known, the claims do not fit, and a pool is invalid and they do not fit.
    UNKNOWN: ClassVar[int] = -1
    NONE: ClassVar[int] = -2
    INVALID: ClassVar[int] = -3


class NodeSearch:
    """Allocates the claims of pods on nodes; the cluster stays as it is."""

    def __init__(self, compile_selector: SelectorCompiler) -> None:
        self._compile_selector = compile_selector
        #: The score of an allocation, None if there is none, by what is asked and what is there.
        self._outcomes: dict[Hashable, int | None] = {}
        self._columns: dict[tuple[bytes, ...], Outcomes] = {}

    def outcomes(self, needs: PodNeeds, nodes: NodeColumns) -> Int64s:
        """Return the outcomes that are known, by row of ``nodes.base``; the caller may add some."""
        devices, base = needs.devices, nodes.base
        version = (base.topology_version, base.size)
        found = self._columns.get(needs.kind)
        if found is not None and found.devices is devices and found.nodes == version:
            touched = devices.touched_since(found.position)
            if touched is not None:
                rows = (base.row_of(name) for name in touched)
                found.by_row[[row for row in rows if row is not None]] = Outcomes.UNKNOWN
                found.position = devices.position
                return found.by_row
        if len(self._columns) >= _MOST_COLUMNS:
            self._columns.clear()
        by_row = np.full(base.size, Outcomes.UNKNOWN, dtype=np.int64)
        made = Outcomes(devices, version, devices.position, by_row)
        self._columns[needs.kind] = made
        return made.by_row

    def prepare(
        self, needs: PodNeeds, nodes: NodeColumns, rows: Rows, most_pauses: int
    ) -> Iterator[None]:
        """Search on rows in steps, and keep the outcomes, until so many pauses were made."""
        pauses = itertools.count()
        unknown = rows[self.outcomes(needs, nodes)[rows] == Outcomes.UNKNOWN]
        for row in unknown.tolist():
            if row >= nodes.size or not nodes.alive[row]:
                continue
            node = node_of(nodes, row)
            key = self._key(node, needs)
            if key is None or key in self._outcomes:
                continue
            found: int | None = None
            steps = self._allocator(node, needs).allocate_in_steps(node, needs.claims)
            try:
                while True:
                    next(steps)
                    if next(pauses) > most_pauses:
                        return
                    yield
            except StopIteration as end:
                found = _score(needs, end.value)
            except AllocationError:
                return  # Filter meets the same error.
            # Devices may have been taken during the pauses.
            if key == self._key(node, needs):
                self._remember(key, found)

    def find(self, node: Node, needs: PodNeeds, budget: Budget) -> int:
        """Return the outcome on a node.

        Raises AllocationError, AllocationAborted when the budget is spent.
        """
        try:
            score = self.score(node, needs, budget)
        except InvalidPools:
            return Outcomes.INVALID
        return Outcomes.NONE if score is None else score

    def find_after(self, node: Node, needs: PodNeeds, changes: Changed, budget: Budget) -> int:
        """Return the outcome on a node if some pods were gone and others had come.

        Raises as ``find``.
        """
        devices = needs.devices
        allocated = devices.in_use.without(changes.freed, devices.pools_for(node))
        allocator = self._allocator(node, needs, allocated)
        claims = [*changes.first, *needs.claims]
        try:
            found = allocator.allocate(node, claims, budget.limit())
        except InvalidPools:
            return Outcomes.INVALID
        return Outcomes.NONE if found is None else 0

    def score(self, node: Node, needs: PodNeeds, budget: Budget) -> int | None:
        """Return the score of the allocation on a node, None if the claims do not fit there.

        Raises AllocationError, AllocationAborted when the budget is spent.
        """
        key = self._key(node, needs)
        if key is None:
            return _score(needs, self.allocate(node, needs, budget))
        if key not in self._outcomes:
            self._remember(key, _score(needs, self.allocate(node, needs, budget)))
        return self._outcomes[key]

    def _key(self, node: Node, needs: PodNeeds) -> Hashable | None:
        """Return what decides about the outcome on a node; None if that takes long to compare."""
        situation = needs.devices.situation(node)
        return None if situation is None else (needs.kind, needs.devices.classes_version, situation)

    def _remember(self, key: Hashable, outcome: int | None) -> None:
        if len(self._outcomes) >= _MOST_OUTCOMES:
            self._outcomes.clear()
        self._outcomes[key] = outcome

    def allocate(
        self, node: Node, needs: PodNeeds, budget: Budget
    ) -> list[AllocationResult] | None:
        """Return the allocations of the claims in order, None if they do not fit.

        Raises AllocationError, AllocationAborted when the budget is spent.
        """
        return self._allocator(node, needs).allocate(node, needs.claims, budget.limit())

    def _allocator(
        self, node: Node, needs: PodNeeds, allocated: AllocatedState | None = None
    ) -> Allocator:
        devices = needs.devices
        return Allocator(
            devices.classes.values(),
            devices.slices_for(node),
            devices.allocated if allocated is None else allocated,
            self._compile_selector,
            Features(),
        )


def node_of(nodes: NodeColumns, row: int) -> Node:
    """Return the node of a row."""
    metadata = nodes.node(row).metadata
    return Node(metadata.name, dict(metadata.labels))


def _score(needs: PodNeeds, allocations: list[AllocationResult] | None) -> int | None:
    """Return what the chosen alternatives of requests are worth, earlier ones more."""
    if allocations is None:
        return None
    score = 0
    for claim, allocation in zip(needs.claims, allocations, strict=True):
        chosen = {result.request for result in allocation.results}
        for request in claim.requests:
            for index, of in enumerate(request.first_available):
                if f"{request.name}/{of.name}" in chosen:
                    score += _MOST_ALTERNATIVES - index
    return score
