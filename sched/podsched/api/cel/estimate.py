"""The most that an expression can cost (cel-go v0.26 ``checker/cost.go``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from podsched.api.cel.costs import (
    ONE,
    UNKNOWN,
    Argument,
    Size,
    capped,
    rule_of_overload,
)
from podsched.api.cel.tree import (
    ACCUMULATOR,
    Call,
    Fold,
    Ident,
    Literal,
    MakeList,
    MakeMap,
    Node,
    Select,
)
from podsched.api.cel.types import Type

_SCALARS = frozenset(
    ("bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp")
)


@dataclass(frozen=True, slots=True)
class Declared:
    """The sizes that values of a variable's type can have; what is below it, by path."""

    size: int
    fields: Mapping[str, Declared] | None = None
    keys: Declared | None = None
    elements: Declared | None = None
    #: Whether each name is a field of its elements' kind.
    open: bool = False


_Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The sizes of what a list or map contains."""

    is_map: bool
    keys: Size
    values: Size

    def union(self, other: _Entries | None) -> _Entries | None:
        if other is None:
            return None
        return _Entries(self.is_map, self.keys.union(other.keys), self.values.union(other.values))


@dataclass(frozen=True, slots=True)
class _Local:
    """What is known of a variable of a macro."""

    path: _Path
    size: Size | None
    entries: _Entries | None = None


class Estimator:
    """Estimates one expression."""

    def __init__(self, variables: Mapping[str, Declared]) -> None:
        self._variables = variables
        self._locals: dict[str, list[_Local]] = {}
        self._paths: dict[int, _Path] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, _Entries] = {}
        self._costs: dict[type[Node], Callable[[Any], int]] = {
            Literal: lambda _: 0,
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            MakeList: self._list,
            MakeMap: self._map,
            Fold: self._fold,
        }

    def cost(self, node: Node) -> int:
        """Return the most that the expression costs, an unsigned integer of 64 bits."""
        return self._costs[type(node)](node)

    def _ident(self, node: Ident) -> int:
        local = self._local(node)
        self._paths[id(node)] = (node.name,) if local is None else local.path
        return 1

    def _local(self, node: Node) -> _Local | None:
        stack = self._locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def _path(self, node: Node) -> _Path:
        local = self._local(node)
        return self._paths.get(id(node), ()) if local is None else local.path

    def _select(self, node: Select) -> int:
        if node.constant is not None:
            return 1
        cost = self.cost(node.operand)
        if node.test:
            return cost
        type_: Type = node.operand.type
        if type_.name in ("map", "type_param") or type_.name.startswith("kubernetes."):
            cost = capped(cost + 1)
        self._paths[id(node)] = (*self._path(node.operand), node.name)
        return cost

    def _call(self, node: Call) -> int:
        if node.function == "dyn":
            cost = capped(self.cost(node.arguments[0]) + 1)
            self._copy_sizes(node, node.arguments[0])
            return cost
        children = node.children()
        costs = [self.cost(child) for child in children]
        arguments = [self._argument(child) for child in children]
        most = 0
        size: Size | None = None
        for overload in node.overloads:
            cost, found = self._overload(node, overload, arguments, costs)
            most = max(most, cost)
            if found is not None:
                size = found if size is None else size.union(found)
            if overload in ("_[_](list('A), int)", "_[_](map('A, 'B), 'A)"):
                entries = self._entries_of(children[0])
                size = None if entries is None else entries.values
                step = "@items" if "list" in overload else "@values"
                self._paths[id(node)] = (*self._path(children[0]), step)
            if size is None:
                size = self._size(node)
        if size is not None:
            self._sizes[id(node)] = size
        return most

    def _overload(
        self, node: Call, overload: str, arguments: list[Argument], costs: list[int]
    ) -> tuple[int, Size | None]:
        if node.function == "_?_:_":
            branches = [self._entries_of(branch) for branch in node.arguments[1:]]
            self._set_entries(node, branches[0].union(branches[1]) if branches[0] else None)
            return capped(costs[0] + max(costs[1:])), arguments[1].size.union(arguments[2].size)
        total = capped(sum(costs))
        if node.function in ("_&&_", "_||_"):
            return total, None
        if (overload.startswith("_+_(") and "list" in overload) or overload in _ADDED_TEXTS:
            one, other = map(self._entries_of, node.arguments)
            self._set_entries(node, one.union(other) if one else None)
        cost, size = rule_of_overload(node.function, overload).estimate(arguments)
        return capped(total + cost), size

    def _argument(self, node: Node) -> Argument:
        literal = node.value if isinstance(node, Literal) else None
        path = self._path(node)
        elements = None
        if path and path[0] != ACCUMULATOR:
            elements = self._declared_size((*path, "@items"))
        return Argument(self._size(node) or UNKNOWN, node.type, literal, elements)

    def _list(self, node: MakeList) -> int:
        cost = 0
        size = None
        for element in node.elements:
            cost += self.cost(element)
            found = self._size(element) or UNKNOWN
            size = found if size is None else size.union(found)
        self._set_entries(node, _Entries(False, ONE, size or Size(0, 0)))
        return capped(cost + 10)

    def _map(self, node: MakeMap) -> int:
        cost = 0
        sizes: list[Size | None] = [None, None]
        for entry in node.entries:
            for index, part in enumerate(entry):
                cost += self.cost(part)
                found = self._size(part) or UNKNOWN
                before = sizes[index]
                sizes[index] = found if before is None else before.union(found)
        keys, values = (size or Size(0, 0) for size in sizes)
        self._set_entries(node, _Entries(True, keys, values))
        return capped(cost + 30)

    def _fold(self, node: Fold) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        self._push(
            node.accumulator,
            _Local(self._path(node.start), self._size(node.start), self._entries_of(node.start)),
        )
        if node.is_bind:
            cost += self.cost(node.result)
            self._locals[node.accumulator].pop()
            self._copy_sizes(node, node.result)
            return capped(cost)
        for name, local in zip(node.variables, self._iteration(node), strict=True):
            self._push(name, local)
        loop = self.cost(node.condition) + self.cost(node.step)
        for name in node.variables:
            self._locals[name].pop()
        cost += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self._size(node.range) or UNKNOWN
        self._set_fold_size(node, count)
        return capped(cost + capped(count.most * capped(loop)))

    def _set_fold_size(self, node: Fold, count: Size) -> None:
        if isinstance(node.start, Literal):
            size = self._size(node.start)
            if size is not None:
                self._sizes[id(node)] = size
        elif isinstance(node.start, (MakeList, MakeMap)):
            self._sizes[id(node)] = count
            self._set_entries(node, self._entries_of(node.step))

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _iteration(self, node: Fold) -> list[_Local]:
        """Return what is known of the variables of iteration."""
        entries = self._entries_of(node.range)
        path = self._path(node.range)
        is_list = (not entries.is_map) if entries else node.range.type.name == "list"
        keys = entries.keys if entries else None
        values = entries.values if entries else None
        if len(node.variables) == 2:
            return [
                _Local((*path, "@indices" if is_list else "@keys"), keys),
                _Local((*path, "@items" if is_list else "@values"), values),
            ]
        if is_list:
            return [_Local((*path, "@items"), values)]
        return [_Local((*path, "@keys"), keys)]

    def _set_entries(self, node: Node, entries: _Entries | None) -> None:
        if entries is not None:
            self._entries[id(node)] = entries

    def _entries_of(self, node: Node) -> _Entries | None:
        found = self._entries.get(id(node))
        if found is not None:
            return found
        local = self._local(node)
        return None if local is None else local.entries

    def _copy_sizes(self, node: Node, other: Node) -> None:
        size = self._size(other)
        if size is not None:
            self._sizes[id(node)] = size
        self._set_entries(node, self._entries_of(other))

    def _size(self, node: Node) -> Size | None:
        """Return the bounds of the size of the node's value; None if nothing is known."""
        found = self._sizes.get(id(node)) or _own_size(node)
        if found is not None:
            return found
        declared = self._declared_size(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return ONE
        local = self._local(node)
        return None if local is None else local.size

    def _declared_size(self, path: _Path) -> Size | None:
        declared = self._variables.get(path[0]) if path else None
        for step in path[1:]:
            if declared is None:
                return None
            if step in ("@items", "@values"):
                declared = declared.elements
            elif step == "@keys":
                declared = declared.keys
            elif declared.fields is not None and step in declared.fields:
                declared = declared.fields[step]
            else:
                declared = declared.elements if declared.open else None
        return None if declared is None else Size(0, declared.size)


_ADDED_TEXTS = ("_+_(string, string)", "_+_(bytes, bytes)")


def _own_size(node: Node) -> Size | None:
    if isinstance(node, Literal):
        size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
    elif isinstance(node, MakeList):
        size = len(node.elements)
    elif isinstance(node, MakeMap):
        size = len(node.entries)
    else:
        return None
    return Size(size, size)


def _is_scalar(type_: Type) -> bool:
    if type_.name == "optional_type":
        return _is_scalar(type_.parameters[0])
    return type_.name in _SCALARS
