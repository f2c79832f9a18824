"""Finds out whether the claims of a pod can be allocated on a node, once for equal nodes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from podsched.api.node_selectors import NodeTerms
from podsched.framework.nodes import Bools, Int64s, JournaledColumns, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.allocator import Allocator
from podsched.plugins.dynamic_resources.candidates import Candidates
from podsched.plugins.dynamic_resources.changed_pods import NOT_CHANGED, Changed
from podsched.plugins.dynamic_resources.devices import Devices, SeenDevices
from podsched.plugins.dynamic_resources.errors import (
    AllocationAborted,
    AllocationError,
    InvalidPools,
)
from podsched.plugins.dynamic_resources.extended_claims import Provided
from podsched.plugins.dynamic_resources.free_devices import Fitting, FreeDevices
from podsched.plugins.dynamic_resources.model import AllocatedState, Features, Node, ResourceClaim
from podsched.plugins.dynamic_resources.selectors import SelectorCompiler
from podsched.v1 import objects_pb2 as v1

#: Max outcomes that are remembered for specs of claims and situations of nodes.
_MOST_OUTCOMES: Final = 50_000
#: Max different specs of claims whose outcomes by row are kept.
_MOST_COLUMNS: Final = 64
#: Max alternatives of a request (FirstAvailableDeviceRequestMaxSize).
_MOST_ALTERNATIVES: Final = 8


@dataclass(frozen=True, slots=True)
class PodNeeds:
    """The claims of a pod.

    ``allocated``: the node selector of each allocated claim. ``claims``: the claims to allocate.
    ``specs``: their serialized specs. ``assumed``: the names of claims that an earlier attempt
    allocated for the pod, which is assumed. ``fitting``: the rows on which the claims fit
    by the columns of ``free_devices``. ``binding_failed``: the driver cannot prepare a device of an
    allocated claim.

    For a pod with extended resources, the needs differ by node. ``variants``: the needs on nodes
    that lack some of the resources (``lacking``), so that devices must be allocated there.
    ``variant``, of shape ``(size,)``: 0 for rows with these needs themselves, ``i + 1`` for rows
    with ``variants[i]``, -1 for nodes without a resource that no DeviceClass provides. None: all 0.
    """

    allocated: tuple[NodeTerms, ...]
    claims: tuple[ResourceClaim, ...]
    specs: tuple[bytes, ...]
    assumed: tuple[str, ...]
    devices: Devices
    fitting: Fitting | None = None
    binding_failed: bool = False
    lacking: tuple[Provided, ...] = ()
    variants: tuple[PodNeeds, ...] = ()
    variant: Int64s | None = None

    def by_variant(self, rows: Rows) -> Iterator[tuple[PodNeeds, Bools]]:
        """Yield the different needs, each with the mask of its rows; ``rows`` of the cluster."""
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

    def with_fitting(self, free: FreeDevices, nodes: JournaledColumns) -> PodNeeds:
        """Return the needs, and their variants, with the rows on which the claims fit."""
        variants = tuple([variant.with_fitting(free, nodes) for variant in self.variants])
        fitting = free.fitting(self.claims, self.devices, nodes)
        return replace(self, fitting=fitting, variants=variants)

    @property
    def count(self) -> int:
        """The number of devices of the only request; only for needs with one usual request."""
        return self.claims[0].requests[0].exactly.count

    @property
    def has_alternatives(self) -> bool:
        return any(request.first_available for claim in self.claims for request in claim.requests)


class Budget:
    """The time that several searches may take together, in pauses of about 1 ms each."""

    def __init__(self, pauses: int) -> None:
        self._left = pauses

    def limit(self) -> Callable[[], bool]:
        """Return a function for one search: called at each pause, it tells whether time is up.

        The pause before the search does not count, so that easy searches on many nodes are
        possible.
        """
        calls = itertools.count()

        def is_over() -> bool:
            self._left -= next(calls) > 0
            return self._left <= 0

        return is_over


class Outcome:
    """The outcomes of searches that are no score."""

    UNKNOWN: Final = -1
    #: The claims do not fit.
    NONE: Final = -2
    #: The claims do not fit, and a pool of the node is invalid.
    INVALID: Final = -3


class NodeSearch:
    """Allocates the claims of pods on nodes, and remembers outcomes; it changes no object."""

    def __init__(self, compile_selector: SelectorCompiler, most_pauses: int) -> None:
        self._compile_selector = compile_selector
        #: Max pauses of the searches of one call of the plugin.
        self.most_pauses = most_pauses
        #: Outcomes by ``_key``; and by specs of claims, those of all rows.
        self._outcomes: dict[Hashable, int] = {}
        self._columns: dict[tuple[bytes, ...], tuple[SeenDevices, Int64s]] = {}
        #: The number of searches that ran out of time.
        self.unfinished = 0

    def outcomes(self, needs: PodNeeds, nodes: NodeColumns) -> Int64s:
        """Return the outcomes by row of ``nodes.base``; the caller may write unknown ones."""
        base = cast(JournaledColumns, nodes.base)
        found = self._columns.get(needs.specs)
        changed = None if found is None else found[0].changed(needs.devices, base)
        if found is None or changed is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            by_row = np.full(base.size, Outcome.UNKNOWN, dtype=np.int64)
        else:
            by_row = found[1]
            by_row[changed] = Outcome.UNKNOWN
        self._columns[needs.specs] = SeenDevices.of(needs.devices, base), by_row
        return by_row

    def prepare(
        self, needs: PodNeeds, nodes: NodeColumns, rows: Rows, most_pauses: int
    ) -> Iterator[None]:
        """Search on rows in steps and keep the outcomes, for at most ``most_pauses`` pauses."""
        pauses = itertools.count()
        unknown = rows[self.outcomes(needs, nodes)[rows] == Outcome.UNKNOWN]
        for row in unknown.tolist():
            # Nodes may have been removed during a pause.
            if row >= nodes.size or not nodes.alive[row]:
                continue
            node = nodes.node(row).metadata
            key = self._key(node, needs)
            if key is None or key in self._outcomes:
                continue
            allocator = Allocator(candidates_on(node, needs, self._compile_selector))
            steps = allocator.allocate_in_steps(needs.claims)
            try:
                while True:
                    next(steps)
                    if next(pauses) > most_pauses:
                        return
                    yield
            except StopIteration as end:
                found = _outcome(needs, end.value)
            except InvalidPools:
                continue  # It rejects only this node.
            except AllocationError:
                return  # Filter meets the same error.
            # Devices may have been taken during the pauses.
            if key == self._key(node, needs):
                self._remember(key, found)

    def find(
        self, node: Node, needs: PodNeeds, budget: Budget, changes: Changed = NOT_CHANGED
    ) -> int:
        """Return the outcome on a node, after pods were removed or added.

        Raises AllocationError; AllocationAborted if the budget is spent.
        """
        key = None if changes else self._key(node, needs)
        if key is not None and key in self._outcomes:
            return self._outcomes[key]
        try:
            found = _outcome(needs, self.allocate(node, needs, budget, changes))
        except InvalidPools:
            return Outcome.INVALID
        if key is not None:
            self._remember(key, found)
        return found

    def _key(self, node: Node, needs: PodNeeds) -> Hashable | None:
        """Return a key; nodes and needs with the same key have the same outcome.

        Return None if comparing the devices of nodes would take long.
        """
        situation = needs.devices.situation(node)
        return (
            None if situation is None else (needs.specs, needs.devices.classes_version, situation)
        )

    def _remember(self, key: Hashable, outcome: int) -> None:
        if len(self._outcomes) >= _MOST_OUTCOMES:
            self._outcomes.clear()
        self._outcomes[key] = outcome

    def allocate(
        self, node: Node, needs: PodNeeds, budget: Budget, changes: Changed = NOT_CHANGED
    ) -> list[v1.AllocationResult] | None:
        """Return the allocations of the claims in order; None if they do not fit.

        Raises AllocationError; AllocationAborted if the budget is spent.
        """
        candidates = candidates_on(node, needs, self._compile_selector, changes)
        claims = (*changes.first, *needs.claims)
        found = Allocator(candidates).allocate(claims, budget.limit())
        return None if found is None else found[len(changes.first) :]

    def problem(self, why: AllocationError, node: Node) -> str:
        """Return why a search failed, and count it if it ran out of time."""
        if not isinstance(why, AllocationAborted):
            return str(why)
        self.unfinished += 1
        return f"node {node.name}: timed out trying to allocate devices"


def candidates_on(
    node: Node,
    needs: PodNeeds,
    compile_selector: SelectorCompiler,
    changes: Changed = NOT_CHANGED,
) -> Candidates:
    """Return the devices of a node, after pods were removed."""
    devices = needs.devices
    in_use: AllocatedState = devices.in_use.by_pool
    if changes.freed:
        in_use = devices.in_use.without(changes.freed, devices.pools_for(node))
    slices = devices.slices_for(node)
    return Candidates(node, devices.classes, slices, in_use, Features(), compile_selector)


def _outcome(needs: PodNeeds, allocations: list[v1.AllocationResult] | None) -> int:
    """Return the sum of 8 - index over the chosen alternatives: earlier ones score more.

    Without allocations, return ``Outcome.NONE``.
    """
    if allocations is None:
        return Outcome.NONE
    score = 0
    for claim, allocation in zip(needs.claims, allocations, strict=True):
        chosen = {result.request for result in allocation.devices.results}
        for request in claim.requests:
            if request.first_available:
                for index, (full_name, _) in enumerate(request.alternatives()):
                    score += (_MOST_ALTERNATIVES - index) * (full_name in chosen)
    return score
