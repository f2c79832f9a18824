"""How many free devices nodes have for the usual requests, as columns over the nodes.

A usual request wants a number of devices, of which it does not matter which ones. A simple node has
pools of its own only, of devices that are used as a whole by one claim. There a usual claim fits if
enough devices are free that suit it, and gets the first of them. All other nodes, and nodes with a
device on which a selector fails, are *unsure*: there the allocator has to search.

A column has a number per pool. Devices that come into use or are free again change one cell of each
column. What suits a request is found out once for each slice, until the slice changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.framework.nodes import Bools, Int64s, NodeColumns
from podsched.framework.verdicts import Rows
from podsched.plugins.dynamic_resources.candidates import SelectorCompiler, suits
from podsched.plugins.dynamic_resources.choices import Alternative, Candidate
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.in_use import DevicesInUse, PoolKey
from podsched.plugins.dynamic_resources.model import (
    EXACT_COUNT,
    MAX_RESULTS,
    AllocationResult,
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
from podsched.plugins.dynamic_resources.remembered import RememberedSelectors
from podsched.plugins.dynamic_resources.results import make_allocation
from podsched.plugins.dynamic_resources.taken import Taken

#: Max requests, different in what suits them, whose columns are kept.
_MOST_COLUMNS: Final = 64


def usual_requests(claims: Sequence[ResourceClaim]) -> list[ExactDeviceRequest] | None:
    """Return the requests of claims if each wants a number of devices; None for other claims.

    Also None if the allocator might refuse a claim, whatever devices there are.
    """
    found: list[ExactDeviceRequest] = []
    for claim in claims:
        requests = [request.exactly for request in claim.requests]
        if any(of.first_available for of in claim.requests) or not all(map(_is_usual, requests)):
            return None
        if sum(request.count for request in requests) > MAX_RESULTS:
            return None
        if not all(of.match_attribute or of.distinct_attribute for of in claim.constraints):
            return None
        found += requests
    return found


def _kind_of(request: ExactDeviceRequest) -> Hashable:
    """Return what decides which devices suit a request."""
    capacity = frozenset((request.capacity or {}).items())
    return request.device_class_name, request.selectors, request.tolerations, capacity


def _is_usual(request: ExactDeviceRequest) -> bool:
    return (
        request.allocation_mode == EXACT_COUNT
        and request.count > 0
        and not request.admin_access
        and None not in request.selectors
    )


@dataclass(slots=True, eq=False)
class _Pool:
    """A pool with its slices; ``node``: the only node that reaches it, "" for others.

    ``is_simple``: its devices are there, are valid and are used as a whole. ``comes_last``: its
    devices are tried after those of other pools. ``suiting``: by what is asked the names of the
    devices that suit it, None if a selector fails.
    """

    key: PoolKey
    slices: tuple[ResourceSlice, ...]
    node: str
    is_simple: bool
    comes_last: bool
    suiting: dict[Hashable, frozenset[str] | None] = field(default_factory=dict)

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
            and not any(of.counter_sets or of.allow_multiple_allocations for of in devices)
            and len({device.name for device in devices}) == len(devices)
        )
        comes_last = any(device.binding_conditions for device in devices)
        return cls(key, slices, nodes.pop() if len(nodes) == 1 else "", is_simple, comes_last)

    def devices(self) -> Iterator[tuple[ResourceSlice, Device]]:
        """Yield the devices in the order in which they are tried."""
        for piece in self.slices:
            for device in piece.devices:
                yield piece, device


@dataclass(slots=True, eq=False)
class _Column:
    """For one kind of request, by number of pool: the free devices that suit, and their names.

    ``unsure``: a selector fails on a device. ``elsewhere``: pools of several nodes may have such
    devices.
    """

    suiting: list[frozenset[str]]
    free: Int64s
    unsure: Bools
    elsewhere: bool


@dataclass(slots=True, frozen=True)
class Fitting:
    """On which rows some claims fit: ``fits``, except where ``unsure``; shapes ``(size,)``.

    ``left``: how many further devices are free for the only request; None if there are several.
    """

    fits: Bools
    unsure: Bools
    left: Int64s | None


class DevicesAhead:
    """Counts the devices that pods of one kind get, row by row: ``framework.lookahead.Lookahead``.

    ``count``: of each pod.
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


class KnownPools:
    """What was found out about pools, as long as their slices do not change."""

    def __init__(self) -> None:
        self._pools: Mapping[PoolKey, _Pool] = {}
        self._new: dict[PoolKey, _Pool] = {}

    def knows(self, key: PoolKey, slices: Sequence[ResourceSlice]) -> bool:
        """Whether ``pool`` has nothing to find out."""
        found = self._new.get(key) or self._pools.get(key)
        return found is not None and found.slices == tuple(slices)

    def pool(self, key: PoolKey, slices: Sequence[ResourceSlice]) -> _Pool:
        """Return a pool with these slices."""
        found = self._new.get(key) or self._pools.get(key)
        if found is None or found.slices != tuple(slices):
            found = self._new[key] = _Pool.of(key, tuple(slices))
        return found

    def keep(self, pools: Mapping[PoolKey, _Pool]) -> None:
        """Forget all pools but these."""
        self._pools, self._new = pools, {}


class FreeDevices:
    """The columns of one cluster's slices."""

    def __init__(
        self,
        pools: Mapping[PoolKey, Sequence[ResourceSlice]],
        classes: Mapping[str, DeviceClass],
        in_use: DevicesInUse,
        compile_selector: SelectorCompiler,
        known: KnownPools,
    ) -> None:
        """``pools``: all slices, in the order in which they are tried.

        ``known``: what was found out about slices that are still the same.
        """
        self._classes = classes
        self._in_use = in_use
        self._compile = compile_selector
        self._pools = {key: known.pool(key, slices) for key, slices in pools.items()}
        known.keep(self._pools)
        self._simple = [of for of in self._pools.values() if of.node and of.is_simple]
        self._numbers = {of.key: number for number, of in enumerate(self._simple)}
        self._of_node: dict[str, list[_Pool]] = {}
        for of in sorted(self._simple, key=lambda of: (of.comes_last, of.key)):
            self._of_node.setdefault(of.node, []).append(of)
        self._others = [
            of
            for of in self._pools.values()
            if any(not piece.nodes.node_name for piece in of.slices)
        ]
        self._unsure_nodes = {
            piece.nodes.node_name
            for of in self._pools.values()
            if not of.is_simple
            for piece in of.slices
        }
        #: Of simple pools: devices of which shares are in use, and those that are exclusively.
        self._shared: set[DeviceID] = set()
        self._used: set[DeviceID] = set()
        self._columns: dict[Hashable, _Column] = {}
        self._rows: tuple[tuple[int, int], Rows, Bools] | None = None
        in_use.changed = self._changed
        for device in (*in_use.allocated.shared, *in_use.allocated.devices):
            self._changed(device)

    def prepare(
        self, claims: Sequence[ResourceClaim], selectors: RememberedSelectors
    ) -> Iterator[Callable[[], object] | None]:
        """Find out in steps which devices suit claims; see ``framework.plugin.PreparesPlugin``."""
        requests = [
            exactly
            for claim in claims
            for request in claim.requests
            for exactly in (request.first_available or (request.exactly,))
            if exactly.device_class_name in self._classes
        ]
        for request in requests:
            device_class = self._classes[request.device_class_name]
            expressions = [of for of in (*device_class.selectors, *request.selectors) if of]
            for expression in expressions:
                if not selectors.is_quick(expression):
                    yield partial(selectors.compiled, expression)
            slow = [of for of in expressions if not selectors.is_quick(of)]
            kind = _kind_of(request)
            if not slow and (kind in self._columns or not _is_usual(request)):
                continue
            key = (kind, device_class.selectors)
            for pool in self._pools.values():
                if key in pool.suiting:
                    continue
                views = [device.view for _, device in pool.devices()]
                for expression in slow:
                    if not selectors.has_evaluated(expression, views):
                        yield partial(selectors.evaluate, expression, views)
                if pool.is_simple and _is_usual(request):
                    self._suiting(pool, key, request, device_class)
                yield None

    def fitting(self, claims: Sequence[ResourceClaim], nodes: NodeColumns) -> Fitting | None:
        """Return where claims fit as far as it can be told by columns; None if it cannot.

        ``nodes``: those of the cluster, no fork.
        """
        requests = usual_requests(claims)
        if not requests:
            return None
        rows, unsure = self._places(nodes)
        unsure = unsure.copy()
        there = rows >= 0
        fits = np.ones(nodes.size, dtype=np.bool_)
        count = np.zeros(0, dtype=np.int64)
        for request in requests:
            column = self._column(request)
            if column.elsewhere:
                return None
            free = np.bincount(rows[there], column.free[there], minlength=nodes.size)
            count = free.astype(np.int64) - request.count
            fits &= count >= 0
            unsure[rows[there & column.unsure]] = True
        alone = len(requests) == 1 and not claims[0].constraints
        if not alone:
            unsure |= fits
        return Fitting(fits | unsure, unsure, count if alone else None)

    def allocate(
        self, claims: Sequence[ResourceClaim], node: Node, features: Features
    ) -> AllocationResult | None:
        """Return the allocation of one usual claim on a node where it surely fits, else None."""
        requests = usual_requests(claims)
        if requests is None or len(requests) != 1 or claims[0].constraints:
            return None
        (claim,), (wanted,) = claims, requests
        column = self._column(wanted)
        if column.elsewhere or self._is_unsure(column, node):
            return None
        device_class, name = self._classes[wanted.device_class_name], claim.requests[0].name
        alternative = Alternative(claim, 0, name, name, wanted, device_class, (), wanted.count)
        candidates = islice(self._first(column, node), wanted.count)
        taken = [Taken(alternative, candidate, None, False) for candidate in candidates]
        if len(taken) < wanted.count:
            return None
        return make_allocation(claim, taken, [alternative], node, features)

    def _is_unsure(self, column: _Column, node: Node) -> bool:
        if node.name in self._unsure_nodes:
            return True
        mine = {of.key for of in self._of_node.get(node.name, ())}
        if any(column.unsure[self._numbers[key]] for key in mine):
            return True
        return bool(self._shared) and any(device[:2] in mine for device in self._shared)

    def _first(self, column: _Column, node: Node) -> Iterator[Candidate]:
        """Yield the free devices that suit, in the order in which they are tried."""
        for of in self._of_node.get(node.name, ()):
            names = column.suiting[self._numbers[of.key]]
            driver, name = of.key
            pool = Pool(driver, name)
            for piece, device in of.devices():
                identity = DeviceID(driver, name, device.name)
                if device.name in names and identity not in self._in_use:
                    yield Candidate(0, identity, device, piece, pool)

    def _changed(self, device: DeviceID) -> None:
        """Count a device that has come into use, or is free again, in all columns."""
        number = self._numbers.get(device[:2])
        if number is None:
            return
        if self._in_use.is_shared(device) is not (device in self._shared):
            self._shared ^= {device}
            self._rows = None
        is_used = device in self._in_use
        if is_used is (device in self._used):
            return
        self._used ^= {device}
        for column in self._columns.values():
            if device.device in column.suiting[number]:
                column.free[number] += -1 if is_used else 1

    def _count(self, number: int, names: frozenset[str]) -> int:
        driver, pool = self._simple[number].key
        return sum((driver, pool, name) not in self._used for name in names)

    def _column(self, request: ExactDeviceRequest) -> _Column:
        kind = _kind_of(request)
        found = self._columns.get(kind)
        if found is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
                for of in self._pools.values():
                    of.suiting.clear()
            found, is_complete = self._make(kind, request)
            if is_complete:
                self._columns[kind] = found
        return found

    def _make(self, kind: Hashable, request: ExactDeviceRequest) -> tuple[_Column, bool]:
        """Return a column, and whether everything was found out for it."""
        device_class = self._classes[request.device_class_name]
        # Kinds name classes, which may change.
        key = (kind, device_class.selectors)
        same: dict[frozenset[str], frozenset[str]] = {}
        suiting, unsure = [], []
        for of in self._simple:
            names = self._suiting(of, key, request, device_class)
            unsure.append(names is None)
            names = names or frozenset()
            suiting.append(same.setdefault(names, names))
        free = [self._count(number, names) for number, names in enumerate(suiting)]
        elsewhere = any(
            not of.is_simple or self._suiting(of, key, request, device_class) != frozenset()
            for of in self._others
        )
        column = _Column(
            suiting, np.array(free, dtype=np.int64), np.array(unsure, dtype=np.bool_), elsewhere
        )
        return column, all(key in of.suiting for of in self._simple)

    def _suiting(
        self, pool: _Pool, key: Hashable, request: ExactDeviceRequest, device_class: DeviceClass
    ) -> frozenset[str] | None:
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
        """Return the row of each simple pool, -1 for none, and which rows are unsure."""
        version = (nodes.topology_version, nodes.size)
        if self._rows is None or self._rows[0] != version:
            found = (nodes.row_of(of.node) for of in self._simple)
            rows = np.array([-1 if row is None else row for row in found], dtype=np.intp)
            unsure = np.zeros(nodes.size, dtype=np.bool_)
            names = self._unsure_nodes | {
                self._simple[self._numbers[device[:2]]].node for device in self._shared
            }
            for name in names:
                if (row := nodes.row_of(name)) is not None:
                    unsure[row] = True
            self._rows = (version, rows, unsure)
        return self._rows[1], self._rows[2]
