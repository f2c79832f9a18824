"""Counts the free devices of each node for usual requests, in columns, without a search.

A *usual* request is for a number of devices, any that suit. A *simple* pool is reached by one node,
and each of its devices is used as a whole by one claim. If all pools of a node are simple, a claim
with one usual request fits there if enough suitable devices are free, and gets the first of them.
All other nodes are *unsure*, as are nodes with a device on which a selector fails: there the
allocator has to search.

A column belongs to one kind of request and has a cell per simple pool. If a device comes into use
or is freed, one cell of each column changes. If the slices of a pool change, its cell is computed
again when the column is read next. Which devices of a pool suit a request is found only once, until
the pool's slices change.
"""

from __future__ import annotations

import itertools
from bisect import insort
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.framework.changed_keys import ChangedKeys
from podsched.framework.nodes import Bools, Int64s, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.candidates import suits
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.in_use import DevicesInUse, PoolKey
from podsched.plugins.dynamic_resources.model import (
    EXACT_COUNT,
    MAX_RESULTS,
    Device,
    DeviceClass,
    DeviceID,
    ExactDeviceRequest,
    Features,
    Node,
    ResourceClaim,
    ResourceSlice,
)
from podsched.plugins.dynamic_resources.pools import Pool
from podsched.plugins.dynamic_resources.results import make_allocation
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors, SelectorCompiler
from podsched.plugins.dynamic_resources.taken import Taken
from podsched.v1 import objects_pb2 as v1

#: Max kinds of requests whose columns are kept.
_MOST_COLUMNS: Final = 64
#: More evaluations of selectors are made in a thread; one takes 3 to 20 µs.
_MOST_AT_ONCE: Final = 200


def usual_requests(claims: Sequence[ResourceClaim]) -> list[ExactDeviceRequest] | None:
    """Return the requests of claims if all are usual, else None.

    Return None also if the allocator might refuse a claim, whatever devices there are.
    """
    found: list[ExactDeviceRequest] = []
    for claim in claims:
        requests = [request.exactly for request in claim.requests]
        if any(request.first_available for request in claim.requests):
            return None
        if not all(map(_is_usual, requests)):
            return None
        if sum(request.count for request in requests) > MAX_RESULTS:
            return None
        constraints = claim.constraints
        if not all(one.match_attribute or one.distinct_attribute for one in constraints):
            return None
        found += requests
    return found


def _kind_of(request: ExactDeviceRequest) -> Hashable:
    """Return the parts of a request that decide which devices suit it, but for the class's own."""
    capacity = frozenset((request.capacity or {}).items())
    tolerations = tuple(one.SerializeToString() for one in request.tolerations)
    return request.device_class_name, request.selectors, tolerations, capacity


def _is_usual(request: ExactDeviceRequest) -> bool:
    return (
        request.allocation_mode == EXACT_COUNT
        and request.count > 0
        and not request.admin_access
        and None not in request.selectors
    )


@dataclass(slots=True, eq=False)
class _Pool:
    """A pool with its slices; ``node``: the only node that reaches it, "" if there are several.

    ``is_simple``: it is complete and valid, and its devices are used as a whole. ``comes_last``:
    its devices are tried after those of other pools. ``suiting``: by the number of a kind of
    request, the names of the suitable devices; None if a selector fails.
    """

    key: PoolKey
    slices: tuple[ResourceSlice, ...]
    node: str
    is_simple: bool
    comes_last: bool
    suiting: dict[int, frozenset[str] | None] = field(default_factory=dict)

    @classmethod
    def of(cls, key: PoolKey, slices: tuple[ResourceSlice, ...]) -> _Pool:
        """Return the pool of these slices."""
        nodes = {piece.nodes.node_name for piece in slices}
        devices = [device for piece in slices for device in piece.devices]
        first = slices[0]
        is_simple = (
            len(nodes) == 1
            and all(piece.generation == first.generation for piece in slices)
            and len(slices) == first.slice_count
            and all(piece.slice_count == first.slice_count for piece in slices)
            and not any(piece.shared_counters for piece in slices)
            and not any(piece.per_device_node_selection for piece in slices)
            and not any(one.counter_sets or one.allow_multiple_allocations for one in devices)
            and len({device.name for device in devices}) == len(devices)
        )
        comes_last = any(device.binding_conditions for device in devices)
        return cls(key, slices, nodes.pop() if len(nodes) == 1 else "", is_simple, comes_last)

    @property
    def unsure_nodes(self) -> set[str]:
        """The nodes that are unsure because of this pool."""
        return set() if self.is_simple else {piece.nodes.node_name for piece in self.slices}

    def devices(self) -> Iterator[tuple[ResourceSlice, Device]]:
        """Yield the devices in the order in which they are tried."""
        for piece in self.slices:
            for device in piece.devices:
                yield piece, device


@dataclass(slots=True, eq=False)
class _Column:
    """The suitable devices of each simple pool for one kind of request, whose number is ``key``.

    By the pool's number: ``suiting`` are the names, ``free`` is how many of them are not in use,
    and ``unsure`` is True if a selector fails on a device. ``elsewhere``: whether pools of several
    nodes may have suitable devices. ``position``: the column is current up to here in the journal
    of pools.
    """

    key: int
    request: ExactDeviceRequest
    device_class: DeviceClass
    position: int
    suiting: list[frozenset[str]] = field(default_factory=list)
    free: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unsure: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    elsewhere: bool = False

    def grow(self, size: int) -> None:
        """Add cells, so that there are ``size``."""
        more = size - len(self.suiting)
        if not more:
            return
        self.suiting += [frozenset()] * more
        self.free = np.append(self.free, np.zeros(more, dtype=np.int64))
        self.unsure = np.append(self.unsure, np.zeros(more, dtype=np.bool_))


@dataclass(slots=True, frozen=True)
class Fitting:
    """The rows on which claims fit; arrays have shape ``(size,)``.

    ``fits``: whether they fit, for rows that are not ``unsure``. ``left``: the number of devices
    that would be left for the only request; None if there are several requests or constraints.
    """

    fits: Bools
    unsure: Bools
    left: Int64s | None


class DevicesAhead:
    """A ``framework.lookahead.Lookahead`` that counts the devices that placed pods take.

    ``count``: the number of devices of each pod.
    """

    covers_own_row = True

    def __init__(self, fitting: Fitting, count: int) -> None:
        assert fitting.left is not None
        self._left, self._unsure, self._count = fitting.left, fitting.unsure, count
        self._taken: dict[int, int] = {}

    def place(self, row: int) -> bool:
        if self._unsure[row]:
            return False
        taken = self._taken[row] = self._taken.get(row, 0) + self._count
        return bool(self._left[row] >= taken)


class FreeDevices:
    """The columns for a cluster's slices; ``put`` must be called for each pool that changes."""

    def __init__(
        self,
        classes: Mapping[str, DeviceClass],
        in_use: DevicesInUse,
        compile_selector: SelectorCompiler,
    ) -> None:
        #: The DeviceClasses by name; the owner replaces the dict when classes change.
        self.classes = classes
        self._in_use = in_use
        self._compile = compile_selector
        self._pools: dict[PoolKey, _Pool] = {}
        #: The simple pools by number (None: the number is unused), and their numbers by key.
        self._simple: list[_Pool | None] = []
        self._numbers: dict[PoolKey, int] = {}
        self._unused: list[int] = []
        self._of_node: dict[str, list[_Pool]] = {}
        #: Pools with a slice for several nodes; and by node, the pools that make it unsure.
        self._others: dict[PoolKey, _Pool] = {}
        self._unsure_nodes: dict[str, set[PoolKey]] = {}
        #: The journal of changed pools: numbers of simple pools, -1 for pools of several nodes.
        self._changes: ChangedKeys[int] = ChangedKeys()
        #: By pool: the names of devices that are in use exclusively, and by shares.
        self._used: dict[PoolKey, set[str]] = {}
        self._shared: dict[PoolKey, set[str]] = {}
        #: The numbers of kinds of requests, and the columns by these numbers.
        self._kinds: dict[Hashable, int] = {}
        self._kind_numbers = itertools.count()
        self._columns: dict[int, _Column] = {}
        self._rows: tuple[tuple[int, int], Rows, Bools] | None = None
        in_use.changed = self._changed
        for device in (*in_use.allocated.shared, *in_use.allocated.devices):
            self._changed(device)

    def put(self, key: PoolKey, slices: Sequence[ResourceSlice]) -> None:
        """Set the slices of a pool in the order in which they are tried; none remove the pool."""
        before = self._pools.pop(key, None)
        if before is not None:
            self._remove(before)
        if slices:
            made = self._pools[key] = _Pool.of(key, tuple(slices))
            self._add(made)
        self._rows = None

    def _remove(self, pool: _Pool) -> None:
        for name in pool.unsure_nodes:
            self._unsure_nodes[name].discard(pool.key)
            if not self._unsure_nodes[name]:
                del self._unsure_nodes[name]
        if self._others.pop(pool.key, None) is not None:
            self._changes.add(-1)
        number = self._numbers.pop(pool.key, None)
        if number is not None:
            self._simple[number] = None
            self._unused.append(number)
            self._changes.add(number)
            self._of_node[pool.node].remove(pool)
            if not self._of_node[pool.node]:
                del self._of_node[pool.node]

    def _add(self, pool: _Pool) -> None:
        for name in pool.unsure_nodes:
            self._unsure_nodes.setdefault(name, set()).add(pool.key)
        if any(not piece.nodes.node_name for piece in pool.slices):
            self._others[pool.key] = pool
            self._changes.add(-1)
        if pool.node and pool.is_simple:
            if not self._unused:
                self._unused.append(len(self._simple))
                self._simple.append(None)
            number = self._numbers[pool.key] = self._unused.pop()
            self._simple[number] = pool
            self._changes.add(number)
            # In the order in which the allocator tries a node's pools, so that both take the same.
            mine = self._of_node.setdefault(pool.node, [])
            insort(mine, pool, key=lambda one: (one.comes_last, one.key))

    def prepare(
        self,
        claims: Sequence[ResourceClaim],
        selectors: RememberedSelectors,
        is_late: Callable[[], bool],
    ) -> Iterator[Callable[[], object] | None]:
        """Find the devices that suit claims, in steps; see ``framework.plugin.PreparesPlugin``."""
        requests = [
            exactly
            for claim in claims
            for request in claim.requests
            for _, exactly in request.alternatives()
            if exactly.device_class_name in self.classes
        ]
        for request in requests:
            yield from self._prepare(request, selectors, is_late)

    def _prepare(
        self,
        request: ExactDeviceRequest,
        selectors: RememberedSelectors,
        is_late: Callable[[], bool],
    ) -> Iterator[Callable[[], object] | None]:
        device_class = self.classes[request.device_class_name]
        expressions = [
            expression for expression in (*device_class.selectors, *request.selectors) if expression
        ]
        for expression in expressions:
            if not selectors.is_quick(expression):
                yield partial(selectors.compiled, expression)
        # Asked again: only a compiled selector is known to be quick.
        slow = [expression for expression in expressions if not selectors.is_quick(expression)]
        is_usual = _is_usual(request)
        key = self._key(request, device_class)
        if not slow and (not is_usual or self._is_current(key)):
            return
        for pool in [pool for pool in self._pools.values() if key not in pool.suiting]:
            views = [device.view for _, device in pool.devices()]
            for expression, view in product(slow, views):
                if not selectors.has_evaluated(expression, view):
                    if is_late():
                        return
                    yield partial(selectors.evaluate, expression, view)
            if pool.is_simple and is_usual:
                find = partial(self._suiting, pool, key, request, device_class)
                if len(views) * len(expressions) > _MOST_AT_ONCE:
                    yield find
                # After the thread, this finds the result in the pool's cache.
                find()
            yield None

    def fitting(self, claims: Sequence[ResourceClaim], nodes: NodeColumns) -> Fitting | None:
        """Return the rows on which claims fit; None if the columns cannot tell for these claims.

        ``nodes``: those of the cluster, not a fork.
        """
        requests = usual_requests(claims)
        if not requests:
            return None
        rows, unsure = self._places(nodes)
        unsure = unsure.copy()
        there = rows >= 0
        fits = np.ones(nodes.size, dtype=np.bool_)
        count = np.zeros(0, dtype=np.int64)
        wanted: dict[int, int] = {}
        of_kind: dict[int, ExactDeviceRequest] = {}
        for request in requests:
            key = self._key(request, self.classes[request.device_class_name])
            wanted[key] = wanted.get(key, 0) + request.count
            of_kind[key] = request
        for key, number in wanted.items():
            column = self._column(of_kind[key])
            if column.elsewhere:
                return None
            # With weights, bincount adds floats: exact for numbers of devices.
            free = np.bincount(rows[there], column.free[there], minlength=nodes.size)
            count = free.astype(np.int64) - number
            fits &= count >= 0
            unsure[rows[there & column.unsure]] = True
        # Columns count each request alone. Several requests may compete for devices, and
        # constraints compare devices: then rows with enough devices are unsure.
        alone = len(requests) == 1 and not claims[0].constraints
        if not alone:
            unsure |= fits
        return Fitting(fits | unsure, unsure, count if alone else None)

    def allocate(
        self, claims: Sequence[ResourceClaim], node: Node, features: Features
    ) -> v1.AllocationResult | None:
        """Return the allocation of a claim with one usual request, or None.

        None if the claim is not usual, or if it does not fit or the node is unsure.
        """
        requests = usual_requests(claims)
        if requests is None or len(requests) != 1 or claims[0].constraints:
            return None
        (claim,), (wanted,) = claims, requests
        column = self._column(wanted)
        if column.elsewhere or self._is_unsure(column, node):
            return None
        device_class, name = self.classes[wanted.device_class_name], claim.requests[0].name
        alternative = Alternative(claim, 0, name, name, wanted, device_class, (), wanted.count)
        candidates = islice(self._first(column, node), wanted.count)
        taken = [Taken(alternative, candidate, None, False) for candidate in candidates]
        if len(taken) < wanted.count:
            return None
        return make_allocation(claim, taken, [alternative], node, features)

    def _is_unsure(self, column: _Column, node: Node) -> bool:
        if node.name in self._unsure_nodes:
            return True
        mine = [pool.key for pool in self._of_node.get(node.name, ())]
        return any(column.unsure[self._numbers[key]] or key in self._shared for key in mine)

    def _first(self, column: _Column, node: Node) -> Iterator[Candidate]:
        """Yield the free suitable devices of a node in the order in which they are tried."""
        for own in self._of_node.get(node.name, ()):
            names = column.suiting[self._numbers[own.key]]
            driver, name = own.key
            pool = Pool(driver, name)
            for piece, device in own.devices():
                identity = DeviceID(driver, name, device.name)
                if device.name in names and identity not in self._in_use:
                    yield Candidate(0, identity, device, piece, pool)

    def _changed(self, device: DeviceID) -> None:
        """Update all columns after a device came into use or was freed."""
        pool, name = device[:2], device.device
        if _set(self._shared, pool, name, self._in_use.is_shared(device)):
            self._rows = None
        is_used = device in self._in_use
        if not _set(self._used, pool, name, is_used):
            return
        number = self._numbers.get(pool)
        if number is None:
            return
        # Also columns that are not up to date: where their pools have not changed, the cells stay.
        for column in self._columns.values():
            if number < len(column.suiting) and name in column.suiting[number]:
                column.free[number] += -1 if is_used else 1

    def _key(self, request: ExactDeviceRequest, device_class: DeviceClass) -> int:
        """Return the number of the request's kind.

        The class's selectors are part of the kind, because they may change.
        """
        kind = (_kind_of(request), device_class.selectors)
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= _MOST_COLUMNS:
                self._kinds.clear()
                self._columns.clear()
                for pool in self._pools.values():
                    pool.suiting.clear()
            found = self._kinds[kind] = next(self._kind_numbers)
        return found

    def _is_current(self, key: int) -> bool:
        """Return whether there is a column, and it is up to date."""
        found = self._columns.get(key)
        return found is not None and found.position == self._changes.position

    def _column(self, request: ExactDeviceRequest) -> _Column:
        """Return the column of a request, up to date."""
        device_class = self.classes[request.device_class_name]
        key = self._key(request, device_class)
        found = self._columns.get(key)
        changed = None if found is None else self._changes.since(found.position)
        if found is None or changed is None:
            found = _Column(key, request, device_class, self._changes.position)
            changed = [-1, *range(len(self._simple))]
        found.grow(len(self._simple))
        is_complete = True
        for number in changed:
            is_complete &= self._fill(found, number)
        # A decision does not evaluate slow selectors. Such cells are filled by the next call, after
        # ``prepare``.
        if is_complete:
            found.position = self._changes.position
            self._columns[key] = found
        return found

    def _fill(self, column: _Column, number: int) -> bool:
        """Compute the cell of a pool, or ``elsewhere`` for -1; return whether that was possible."""
        if number < 0:
            return self._look_elsewhere(column)
        pool = self._simple[number]
        names = frozenset[str]() if pool is None else self._suiting_column(pool, column)
        column.unsure[number] = names is None
        names = column.suiting[number] = names or frozenset()
        used = self._used.get(pool.key) if pool is not None else None
        column.free[number] = len(names - used) if used else len(names)
        return pool is None or column.key in pool.suiting

    def _look_elsewhere(self, column: _Column) -> bool:
        """Set ``elsewhere``; return False if it is a guess: some selector was not evaluated."""
        column.elsewhere = True
        for pool in self._others.values():
            if not pool.is_simple:
                return True
            if self._suiting_column(pool, column) != frozenset():
                return column.key in pool.suiting
        column.elsewhere = False
        return True

    def _suiting_column(self, pool: _Pool, column: _Column) -> frozenset[str] | None:
        return self._suiting(pool, column.key, column.request, column.device_class)

    def _suiting(
        self, pool: _Pool, key: int, request: ExactDeviceRequest, device_class: DeviceClass
    ) -> frozenset[str] | None:
        """Return the names of the pool's devices that suit the request, cached by the pool.

        None: a selector fails, or is slow and was not evaluated (then nothing is cached).
        """
        if key not in pool.suiting:
            try:
                pool.suiting[key] = frozenset(
                    device.name
                    for _, device in pool.devices()
                    if suits(request, device_class, device, self._compile)
                )
            except AllocationAborted:
                return None
            except (CompileError, EvaluationError):
                pool.suiting[key] = None
        return pool.suiting[key]

    def _places(self, nodes: NodeColumns) -> tuple[Rows, Bools]:
        """Return the row of each simple pool (-1: none), and for each row whether it is unsure."""
        version = (nodes.topology_version, nodes.size)
        if self._rows is None or self._rows[0] != version:
            found = (None if pool is None else nodes.row_of(pool.node) for pool in self._simple)
            rows = np.array([-1 if row is None else row for row in found], dtype=np.intp)
            unsure = np.zeros(nodes.size, dtype=np.bool_)
            shared = (self._pools[key].node for key in self._shared if key in self._numbers)
            for name in {*self._unsure_nodes, *shared}:
                if (row := nodes.row_of(name)) is not None:
                    unsure[row] = True
            self._rows = (version, rows, unsure)
        return self._rows[1], self._rows[2]


def _set(names: dict[PoolKey, set[str]], pool: PoolKey, name: str, there: bool) -> bool:
    """Add a name to the set of a pool, or remove it; return whether that changed the set."""
    known = names.get(pool)
    if there is (known is not None and name in known):
        return False
    if there:
        names.setdefault(pool, set()).add(name)
    elif known is not None:
        known.discard(name)
        if not known:
            del names[pool]
    return True
