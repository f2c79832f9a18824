"""The columns that come from Node objects alone: allocatable, labels, taints, images.

Rows are handed out from a table that grows in steps, so the columns' size changes rarely. Rows not
used yet look like rows of removed nodes: not alive, everything zero, labels absent.

Sets of taints are interned like the values of labels (``label_columns``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from podsched.api.resources import PODS, allocatable_in_units
from podsched.cache.column import Column
from podsched.cache.label_columns import LabelColumns
from podsched.cache.versions import Version, Versions
from podsched.cache.zones import zone_key
from podsched.framework.classify import condition_statuses
from podsched.framework.nodes import PREFER_AVOID_PODS, Int64s, normalized_image_name
from podsched.framework.verdicts import Rows
from podsched.v1 import objects_pb2 as v1

#: Rows of an empty table, and the least number by which it grows.
FIRST_SIZE = 64

TaintKey = tuple[tuple[str, str, str], ...]
_NONE = (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64))


@dataclass(eq=False, slots=True)
class _Row:
    """A row's node, and its parts in a form in which updates are compared."""

    node: v1.Node
    taints: TaintKey = ()
    allocatable: dict[str, int] = field(default_factory=dict)
    images: dict[str, int] = field(default_factory=dict)
    version: int = 0

    def copy(self) -> _Row:
        return _Row(self.node, self.taints, self.allocatable, self.images, self.version)


class NodeTable:
    """The rows of the nodes and the columns computed from them.

    ``size`` is the number of all rows, with and without a node.
    """

    def __init__(self, size: int = FIRST_SIZE, versions: Versions | None = None) -> None:
        self.size = size
        self._versions = versions if versions is not None else Versions()
        self.alive = Column(np.bool_, size)
        self.unschedulable = Column(np.bool_, size)
        self.taint_set = Column(np.int32, size)
        self.allowed_pods = Column(np.int64, size)
        self.allocatable: dict[str, Column[np.int64]] = {}
        self.names: list[str] = [""] * size
        self.row_of: dict[str, int] = {}
        self.labels = LabelColumns(size)
        self.images = Images()
        #: Changes when a node is added or removed, or its labels, taints or unschedulable change.
        self.topology = Version()
        #: Changes on every change of a node that any plugin can see (not on heartbeats).
        self.nodes = Version()
        #: How often that has changed; a rolled back trial leaves it higher.
        self.changes = 0
        self._rows: list[_Row | None] = [None] * size
        #: Rows without a node, the lowest last: ``pop`` gives rows in ascending order.
        self.free_rows = list(range(size - 1, -1, -1))
        #: Rows of removed nodes that may return, until ``free_kept_rows``.
        self._kept_rows: set[int] = set()
        self.taint_sets = TaintSets()
        self._live_rows: Rows | None = None
        self._ordered_rows: Rows | None = None

    def copy(self, versions: Versions) -> NodeTable:
        """Return an independent copy with the same nodes in the same rows."""
        made = copy(self)
        made._versions = versions
        made.topology, made.nodes = copy(self.topology), copy(self.nodes)
        columns = ("alive", "unschedulable", "taint_set", "allowed_pods")
        for name in (*columns, "labels", "images", "taint_sets"):
            setattr(made, name, getattr(self, name).copy())
        made.allocatable = {name: column.copy() for name, column in self.allocatable.items()}
        made._rows = [None if row is None else row.copy() for row in self._rows]
        for name in ("names", "row_of", "free_rows", "_kept_rows"):
            setattr(made, name, copy(getattr(self, name)))
        return made

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.row_of)

    def grow(self, size: int) -> None:
        """Make room for ``size`` rows."""
        columns: list[Column[Any]] = [*self.allocatable.values(), self.allowed_pods]
        columns += [self.alive, self.unschedulable, self.taint_set]
        for column in columns:
            column.grow(size)
        self.labels.grow(size)
        more = size - self.size
        self.names.extend([""] * more)
        self._rows.extend([None] * more)
        self.free_rows.extend(range(size - 1, self.size - 1, -1))
        self.size = size

    def node(self, row: int) -> v1.Node:
        """Return the row's Node object. Raises LookupError for a row without a node."""
        known = self._rows[row]
        if known is None:
            raise LookupError(f"row {row} has no node")
        return known.node

    def row_version(self, row: int) -> int:
        """Return a number that changes with the row's node; 0 for a row without one."""
        known = self._rows[row]
        return 0 if known is None else known.version

    def add(self, node: v1.Node, row: int | None = None) -> int:
        """Give the node a row: a free one, or the given one.

        The table must not be full and must not have a node of this name. A given row must be empty
        and reserved: it was kept (``remove``), or the caller chooses the rows of all nodes.
        """
        # First, because it raises QuantityError for bad amounts; then nothing has changed.
        amounts = allocatable_in_units(node.status.allocatable)
        name = node.metadata.name
        if row is None:
            row = self.free_rows.pop()
        self._kept_rows.discard(row)
        self.row_of[name] = row
        self.names[row] = name
        # An empty node, so that ``_take`` finds everything changed that is not empty.
        self._rows[row] = _Row(v1.Node())
        self.alive.array[row] = True
        self._live_rows = self._ordered_rows = None
        self._versions.change(self.topology)
        self._take(row, node, amounts)
        return row

    def update(self, row: int, node: v1.Node) -> bool:
        """Store the new object; return whether anything changed that a plugin can see.

        Raises QuantityError, as ``add`` does, and then changes nothing.
        """
        return self._take(row, node, allocatable_in_units(node.status.allocatable))

    def _take(self, row: int, node: v1.Node, amounts: dict[str, int]) -> bool:
        """Store a node's new version in its row; return whether a plugin can see a change."""
        known = self._rows[row]
        assert known is not None
        changed = self._update_topology(row, known, node)
        changed |= self._update_allocatable(row, known, amounts)
        # A name listed twice has the size listed last.
        images = {name: image.size_bytes for image in node.status.images for name in image.names}
        changed |= self.images.change(row, known.images, images)
        known.images = images
        before = known.node
        changed |= before.status.declared_features != node.status.declared_features
        changed |= condition_statuses(before) != condition_statuses(node)
        changed |= _avoided(before) != _avoided(node)
        # Also after a mere heartbeat: ``node`` returns the latest object.
        known.node = node
        if changed:
            self.changes += 1
            self._versions.change(self.nodes)
            self._versions.change(known)
        return changed

    def _update_topology(self, row: int, known: _Row, node: v1.Node) -> bool:
        """Update labels, taints and cordon of a row; return whether any changed."""
        labels = dict(node.metadata.labels)
        taints = tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        unschedulable = node.spec.unschedulable
        # A new node without labels and taints equals the empty row, but it must get a version.
        fresh = not known.node.metadata.name
        changed = (
            fresh
            or labels != self.labels.rows[row]
            or taints != known.taints
            or unschedulable != bool(self.unschedulable.array[row])
        )
        if not changed:
            return False
        if zone_key(labels) != zone_key(self.labels.rows[row]):
            self._ordered_rows = None
        self.labels.put(row, labels)
        of_node = self.taint_sets.replace(known.taints, taints, node.spec.taints)
        self.taint_set.array[row] = of_node
        self.unschedulable.array[row] = unschedulable
        known.taints = taints
        self._versions.change(self.topology)
        return True

    def _update_allocatable(self, row: int, known: _Row, amounts: dict[str, int]) -> bool:
        """Update the allocatable columns of a row; return whether an amount changed."""
        if amounts == known.allocatable:
            return False
        for gone in known.allocatable.keys() - amounts.keys() - {PODS}:
            self.allocatable[gone].array[row] = 0
        for name, amount in amounts.items():
            if name != PODS:
                column = self.allocatable.get(name)
                if column is None:
                    column = self.allocatable[name] = Column(np.int64, self.size)
                column.array[row] = amount
        self.allowed_pods.array[row] = amounts.get(PODS, 0)
        known.allocatable = amounts
        return True

    def remove(self, row: int, *, keep_row: bool = False) -> None:
        """Empty the row and free it; ``keep_row``: later, because the node may return."""
        known = self._rows[row]
        assert known is not None
        # Everything is as in an unused row again: the next node must find nothing of this one.
        self._update_allocatable(row, known, {})
        self.labels.put(row, {})
        self.taint_set.array[row] = self.taint_sets.replace(known.taints, ())
        self.unschedulable.array[row] = False
        self.alive.array[row] = False
        self.images.change(row, known.images, {})
        del self.row_of[self.names[row]]
        self.names[row] = ""
        self._rows[row] = None
        if keep_row:
            self._kept_rows.add(row)
        else:
            self.free_rows.append(row)
        self._live_rows = self._ordered_rows = None
        self.changes += 1
        self._versions.change(self.topology)
        self._versions.change(self.nodes)

    def free_kept_rows(self) -> None:
        """Free the rows of removed nodes that cannot return any more."""
        self.free_rows.extend(self._kept_rows)
        self._kept_rows.clear()

    @property
    def live_rows(self) -> Rows:
        """The rows that have a node, ascending."""
        if self._live_rows is None:
            self._live_rows = np.flatnonzero(self.alive.array)
        return self._live_rows

    @property
    def ordered_rows(self) -> Rows:
        """The rows that have a node, the first of each zone, then the second of each, and so on.

        kube-scheduler visits nodes in such an order (``backend/cache/node_tree.go``, v1.36).
        """
        if self._ordered_rows is None:
            rows, numbers, sizes = self.live_rows, dict[str, int](), Counter[str]()
            turns: list[tuple[int, int]] = []
            for row in rows.tolist():
                zone = zone_key(self.labels.rows[row])
                turns.append((sizes[zone], numbers.setdefault(zone, len(numbers))))
                sizes[zone] += 1
            self._ordered_rows = rows[sorted(range(len(turns)), key=turns.__getitem__)]
        return self._ordered_rows


class TaintSets:
    """The sets of taints by id. 0 is the empty set, which rows without a node have as well.

    A set that no row has any more is dropped, and another set may get its id: autoscalers add
    taints whose value is the time, and each set keeps the Node that it came from.
    """

    def __init__(self) -> None:
        self.taints: list[tuple[v1.Taint, ...]] = [()]
        self._ids: dict[TaintKey, int] = {(): 0}
        self._free: list[int] = []
        #: How many rows have each set but the empty one.
        self._rows = Counter[TaintKey]()

    def copy(self) -> TaintSets:
        """Return an independent copy."""
        made = TaintSets()
        made.taints, made._ids = list(self.taints), dict(self._ids)
        made._free, made._rows = list(self._free), self._rows.copy()
        return made

    def replace(self, before: TaintKey, after: TaintKey, taints: Sequence[v1.Taint] = ()) -> int:
        """Note that a row has other taints, which have the key ``after``; return their id."""
        found = self._ids.get(after)
        if found is None:
            if not self._free:
                self._free.append(len(self.taints))
                self.taints.append(())
            found = self._ids[after] = self._free.pop()
            self.taints[found] = tuple(taints)
        if after:
            self._rows[after] += 1
        if before:
            self._leave(before)
        return found

    def _leave(self, key: TaintKey) -> None:
        self._rows[key] -= 1
        if not self._rows[key]:
            del self._rows[key]
            gone = self._ids.pop(key)
            self.taints[gone] = ()
            self._free.append(gone)


def _avoided(node: v1.Node) -> str:
    return node.metadata.annotations.get(PREFER_AVOID_PODS, "")


class Images:
    """For each image name, the rows that have it and its size on each; for ImageLocality."""

    def __init__(self) -> None:
        self._sizes: dict[str, dict[int, int]] = {}
        self._arrays: dict[str, tuple[Rows, Int64s]] = {}

    def copy(self) -> Images:
        """Return an independent copy."""
        made = Images()
        made._sizes = {name: dict(sizes) for name, sizes in self._sizes.items()}
        # The arrays may be shared: they are replaced and never written to.
        made._arrays = dict(self._arrays)
        return made

    @property
    def names(self) -> list[str]:
        return list(self._sizes)

    def change(self, row: int, old: dict[str, int], new: dict[str, int]) -> bool:
        """Replace a row's images; return whether anything changed."""
        if old == new:
            return False
        for name in old.keys() - new.keys():
            rows = self._sizes[name]
            del rows[row]
            if not rows:
                del self._sizes[name]
            self._arrays.pop(name, None)
        for name, size in new.items():
            if old.get(name) != size:
                self._sizes.setdefault(name, {})[row] = size
                self._arrays.pop(name, None)
        return True

    def rows(self, image: str) -> tuple[Rows, Int64s]:
        """Return the rows that have the image, ascending, and its size on each.

        The name is normalised here. The arrays are cached until a node gets or loses the image.
        """
        name = normalized_image_name(image)
        found = self._arrays.get(name)
        if found is None:
            sizes = self._sizes.get(name)
            if not sizes:
                return _NONE
            ordered = sorted(sizes.items())
            found = (
                np.array([row for row, _ in ordered], dtype=np.intp),
                np.array([size for _, size in ordered], dtype=np.int64),
            )
            self._arrays[name] = found
        return found
