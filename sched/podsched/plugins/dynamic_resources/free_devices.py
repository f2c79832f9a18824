"""Counts the free devices of each node for usual requests, in columns, without a search.

A *usual* request is for a number of devices, any that suit. A *simple* pool is reached by one node,
and each of its devices is used as a whole by one claim. If all pools of a node are simple, a claim
with one usual request fits there if enough suitable devices are free, and gets the first of them.
All other nodes are *unsure*, as are nodes with a device on which a selector fails: there the
allocator has to search.

A column belongs to one kind of request and has a cell per row. If slices of a node change, or a
device comes into use or is freed, the cell is computed again when the column is read next. Which
devices of a slice suit a request is found only once for all slices with equal devices.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from typing import Final

import numpy as np

from podsched.api.cel.errors import CompileError, EvaluationError
from podsched.framework.nodes import Bools, Int64s, JournaledColumns
from podsched.plugins.dynamic_resources.candidates import Alternative, Candidate, suits
from podsched.plugins.dynamic_resources.devices import Content, Devices, SeenDevices, StoredPool
from podsched.plugins.dynamic_resources.errors import AllocationAborted
from podsched.plugins.dynamic_resources.model import (
    EXACT_COUNT,
    MAX_RESULTS,
    DeviceClass,
    DeviceID,
    ExactDeviceRequest,
    Features,
    PoolKey,
    ResourceClaim,
)
from podsched.plugins.dynamic_resources.pools import Pool
from podsched.plugins.dynamic_resources.results import make_allocation
from podsched.plugins.dynamic_resources.selectors import RememberedSelectors
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
        if (
            not requests
            or any(request.first_available for request in claim.requests)
            or not all(map(_is_usual, requests))
            or sum(request.count for request in requests) > MAX_RESULTS
            or not all(one.match_attribute or one.distinct_attribute for one in claim.constraints)
        ):
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
class _Column:
    """The suitable devices of each row that are free, for one kind of request with number ``key``.

    ``free``: how many. ``unsure``: whether the allocator has to search. ``elsewhere``: whether
    pools of several nodes may have suitable devices. ``seen``: the devices for which it is current.
    ``is_complete``: no slow selector was left to evaluate.
    """

    key: int
    request: ExactDeviceRequest
    device_class: DeviceClass
    free: Int64s = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    unsure: Bools = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    elsewhere: bool = False
    seen: SeenDevices | None = None
    is_complete: bool = True


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
    """The columns of free devices."""

    def __init__(self, selectors: RememberedSelectors) -> None:
        self._selectors = selectors
        self._columns: dict[Hashable, _Column] = {}
        self._numbers = itertools.count()

    def prepare(
        self, claims: Sequence[ResourceClaim], devices: Devices, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        """Find the devices that suit claims, in steps; see ``framework.plugin.PreparesPlugin``."""
        for claim in claims:
            for request in claim.requests:
                for _, exactly in request.alternatives():
                    if exactly.device_class_name in devices.classes:
                        yield from self._prepare(exactly, devices, is_late)

    def _prepare(
        self, request: ExactDeviceRequest, devices: Devices, is_late: Callable[[], bool]
    ) -> Iterator[Callable[[], object] | None]:
        selectors, column = self._selectors, self._column(request, devices)
        expressions = [
            expression
            for expression in (*column.device_class.selectors, *request.selectors)
            if expression
        ]
        for expression in expressions:
            if not selectors.is_quick(expression):
                yield partial(selectors.compiled, expression)
        # Asked again: only a compiled selector is known to be quick.
        slow = [expression for expression in expressions if not selectors.is_quick(expression)]
        is_usual = _is_usual(request)
        seen = column.seen
        is_known = seen is not None and (
            seen.devices.in_use is devices.in_use and seen.position[1] == devices.changed.position
        )
        if not slow and (not is_usual or is_known):
            return
        contents = (content for pool in devices.pools.values() for content in pool.contents)
        for content in dict.fromkeys(one for one in contents if column.key not in one.suiting):
            views = [device.view for device in content.piece.devices]
            for expression, view in product(slow, views):
                if not selectors.has_evaluated(expression, view):
                    if is_late():
                        return
                    yield partial(selectors.evaluate, expression, view)
            if content.is_plain and is_usual:
                find = partial(self._suiting, column, content)
                if len(views) * len(expressions) > _MOST_AT_ONCE:
                    yield find
                # After the thread, this finds the result in the cache.
                find()
            yield None

    def fitting(
        self, claims: Sequence[ResourceClaim], devices: Devices, nodes: JournaledColumns
    ) -> Fitting | None:
        """Return the rows on which claims fit; None if the columns cannot tell for these claims."""
        requests = usual_requests(claims)
        if not requests:
            return None
        fits = np.ones(nodes.size, dtype=np.bool_)
        unsure = np.zeros(nodes.size, dtype=np.bool_)
        left = np.zeros(0, dtype=np.int64)
        wanted: dict[_Column, int] = {}
        for request in requests:
            column = self._column(request, devices)
            wanted[column] = wanted.get(column, 0) + request.count
        for column, number in wanted.items():
            self._update(column, devices, nodes)
            if column.elsewhere:
                return None
            left = column.free - number
            fits &= left >= 0
            unsure |= column.unsure
        # Columns count each request alone. Several requests may compete for devices, and
        # constraints compare devices: then rows with enough devices are unsure.
        alone = len(requests) == 1 and not claims[0].constraints
        if not alone:
            unsure |= fits
        return Fitting(fits | unsure, unsure, left if alone else None)

    def allocate(
        self, claims: Sequence[ResourceClaim], devices: Devices, nodes: JournaledColumns, row: int
    ) -> v1.AllocationResult | None:
        """Return the allocation of a claim with one usual request on a row, or None.

        None if the claim is not usual, or if it does not fit or the row is unsure.
        """
        requests = usual_requests(claims)
        if requests is None or len(requests) != 1 or claims[0].constraints:
            return None
        (claim,), (wanted,) = claims, requests
        column = self._column(wanted, devices)
        self._update(column, devices, nodes)
        if column.elsewhere or column.unsure[row] or column.free[row] < wanted.count:
            return None
        node, name = nodes.node(row).metadata, claim.requests[0].name
        # Not the column's class: its configuration may have changed.
        of_class = devices.classes[wanted.device_class_name]
        alternative = Alternative(claim, 0, name, name, wanted, of_class, (), wanted.count)
        taken = [
            Taken(alternative, candidate, None, False)
            for candidate in islice(self._first(column, devices, node.name), wanted.count)
        ]
        return make_allocation(claim, taken, [alternative], node, Features())

    def _first(self, column: _Column, devices: Devices, node_name: str) -> Iterator[Candidate]:
        """Yield the free suitable devices of a node in the order in which they are tried."""
        free = self._free(column, devices, node_name) or {}
        # As the allocator orders the pools, so that both take the same devices.
        for key in sorted(free, key=lambda key: devices.pools[key].comes_last):
            pool = Pool(*key)
            for piece in devices.pools[key].slices:
                for device in piece.devices:
                    if device.name in free[key]:
                        yield Candidate(0, DeviceID(*key, device.name), device, piece, pool)

    def _column(self, request: ExactDeviceRequest, devices: Devices) -> _Column:
        """Return the column of the request's kind, not up to date.

        The class's selectors are part of the kind, because they may change.
        """
        device_class = devices.classes[request.device_class_name]
        kind = (_kind_of(request), device_class.selectors)
        found = self._columns.get(kind)
        if found is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
                for pool in devices.pools.values():
                    for content in pool.contents:
                        content.suiting.clear()
            found = self._columns[kind] = _Column(next(self._numbers), request, device_class)
        return found

    def _update(self, column: _Column, devices: Devices, nodes: JournaledColumns) -> None:
        """Bring a column up to date."""
        seen = column.seen
        rows = None if seen is None else seen.changed(devices, nodes, reads_all=False)
        if seen is None or rows is None:
            seen = column.seen = None
            column.free = np.zeros(nodes.size, dtype=np.int64)
            column.unsure = np.zeros(nodes.size, dtype=np.bool_)
            rows = np.flatnonzero(nodes.alive).tolist()
        column.is_complete = True
        alive, names = nodes.alive, nodes.names
        for row in rows:
            free = self._free(column, devices, names[row]) if alive[row] else {}
            column.unsure[row] = free is None
            column.free[row] = sum(map(len, free.values())) if free else 0
        others = None if seen is None else devices.changed.since(seen.position[1])
        if others is None or "" in others:
            pools = [devices.pools[key] for key in devices.pools_of_node.get("", ())]
            column.elsewhere = any(
                not pool.is_simple or self._suiting_in(column, pool) != frozenset()
                for pool in pools
            )
        # A decision does not evaluate slow selectors. Such cells are filled by the next call, after
        # ``prepare``.
        if column.is_complete:
            column.seen = SeenDevices.of(devices, nodes)

    def _free(
        self, column: _Column, devices: Devices, node_name: str
    ) -> Mapping[PoolKey, Set[str]] | None:
        """Return the names of a node's free suitable devices by pool; None if it is unsure."""
        found = {}
        for key in devices.pools_of_node.get(node_name, ()):
            pool, used = devices.pools[key], devices.in_use.by_pool.get(key, {})
            names = self._suiting_in(column, pool) if pool.is_simple else None
            if names is None or any(use.shares for use in used.values()):
                return None
            found[key] = names.difference(used)
        return found

    def _suiting_in(self, column: _Column, pool: StoredPool) -> frozenset[str] | None:
        """Return the names of the pool's suitable devices; None as ``_suiting``."""
        found = frozenset[str]()
        for content in pool.contents:
            names = self._suiting(column, content)
            if names is None:
                return None
            found |= names
        return found

    def _suiting(self, column: _Column, content: Content) -> frozenset[str] | None:
        """Return the names of a slice's suitable devices.

        None: a selector fails, or is slow and was not evaluated.
        """
        if column.key not in content.suiting:
            try:
                content.suiting[column.key] = frozenset(
                    device.name
                    for device in content.piece.devices
                    if suits(column.request, column.device_class, device, self._selectors)
                )
            except AllocationAborted:
                column.is_complete = False
                return None
            except (CompileError, EvaluationError):
                content.suiting[column.key] = None
        return content.suiting[column.key]
