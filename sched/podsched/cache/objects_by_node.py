"""Index the objects of a kind by the node that each is about, and compute columns from them.

For example CSINodes, whose limits NodeVolumeLimits reads as a column. A change of an object counts
as a change of its node's row: it is noted in the journal, so that this row is evaluated again and
no other. Every change of an object (an event, a trial, its rollback) comes through ``replace``,
which updates one cell of each column. When nodes are added, removed or changed
(``Columns.topology_version``), rows may belong to other nodes, so the columns are computed again on
their next use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from podsched.cache.columns import Columns
from podsched.framework.nodes import Int64s, NodeOf, OfNode
from podsched.lib.groups import Groups


class ObjectsByNode:
    """``framework.nodes.ObjectsByNode`` of one kind."""

    def __init__(self, columns: Columns, node_of: NodeOf, objects: Iterable[Any]) -> None:
        self._columns, self._node_of = columns, node_of
        self._objects = Groups[str, tuple[str, str], Any]()
        #: The topology version and the size for which the arrays were computed; None: outdated.
        self._rows: tuple[int, int] | None = None
        self._arrays: dict[OfNode, Int64s] = {}
        for one in objects:
            self._add(one)

    def of(self, node_name: str) -> Collection[Any]:
        return self._objects.of(node_name).values()

    @property
    def nodes(self) -> Collection[str]:
        return self._objects

    def column(self, of_node: OfNode) -> Int64s:
        if not self._fits():
            self._rows = (self._columns.topology_version, self._columns.size)
            self._arrays = {}
        array = self._arrays.get(of_node)
        if array is None:
            array = np.full(self._columns.size, of_node(()), dtype=np.int64)
            for name in self._objects:
                row = self._columns.row_of(name)
                if row is not None:
                    array[row] = of_node(self.of(name))
            self._arrays[of_node] = array
        return array

    def _fits(self) -> bool:
        return self._rows == (self._columns.topology_version, self._columns.size)

    def replace(self, old: Any | None, new: Any | None) -> None:
        """Apply a change of an object: no ``old`` means added, no ``new`` means deleted."""
        touched = {self._node_of(one) for one in (old, new) if one is not None}
        if old is not None:
            self._remove(old)
        if new is not None:
            self._add(new)
        if not self._fits():
            self._rows = None
        for name in touched:
            self._changed(name)

    def _changed(self, name: str) -> None:
        row = self._columns.row_of(name)
        if row is None:
            return
        self._columns.journal.add(row)
        if self._rows is not None:
            for of_node, array in self._arrays.items():
                array[row] = of_node(self.of(name))

    def _add(self, one: Any) -> None:
        if name := self._node_of(one):
            self._objects.put(name, _key(one), one)

    def _remove(self, one: Any) -> None:
        if name := self._node_of(one):
            self._objects.drop(name, _key(one))


def _key(one: Any) -> tuple[str, str]:
    return one.metadata.namespace, one.metadata.name
