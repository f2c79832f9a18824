"""The most that an expression can cost (cel-go v0.26 ``checker/cost.go``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from podsched.api.cel.costs import ONE, UNKNOWN, Argument, Size, capped, rule_of
from podsched.api.cel.sizes import Declared, Entries, Known, Sizes
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

_ADDED_TEXTS = ("_+_(string, string)", "_+_(bytes, bytes)")


class Estimator:
    """Estimates one expression."""

    def __init__(self, variables: Mapping[str, Declared]) -> None:
        self._sizes = Sizes(variables)
        #: By the node's ``id``: macros use their operand twice.
        self._known: dict[int, int] = {}
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
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._costs[type(node)](node)
        return known

    def _ident(self, node: Ident) -> int:
        local = self._sizes.local(node)
        self._sizes.note(node, path=(node.name,) if local is None else local.path)
        return 1

    def _select(self, node: Select) -> int:
        if node.constant is not None:
            return 1
        cost = self.cost(node.operand)
        if node.test:
            return cost
        type_: Type = node.operand.type
        if type_.name in ("map", "type_param") or type_.name.startswith("kubernetes."):
            cost = capped(cost + 1)
        self._sizes.note(node, path=(*self._sizes.path(node.operand), node.name))
        return cost

    def _call(self, node: Call) -> int:
        if node.function == "dyn":
            cost = capped(self.cost(node.arguments[0]) + 1)
            same = self._sizes.known(node.arguments[0])
            self._sizes.note(node, size=same.size, entries=same.entries)
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
                entries = self._sizes.entries(children[0])
                size = None if entries is None else entries.values
                step = "@items" if "list" in overload else "@values"
                self._sizes.note(node, path=(*self._sizes.path(children[0]), step))
            if size is None:
                size = self._sizes.size(node)
        self._sizes.note(node, size=size)
        return most

    def _overload(
        self, node: Call, overload: str, arguments: list[Argument], costs: list[int]
    ) -> tuple[int, Size | None]:
        if node.function == "_?_:_":
            branches = [self._sizes.entries(branch) for branch in node.arguments[1:]]
            self._sizes.note(node, entries=branches[0].union(branches[1]) if branches[0] else None)
            return capped(costs[0] + max(costs[1:])), arguments[1].size.union(arguments[2].size)
        total = capped(sum(costs))
        if node.function in ("_&&_", "_||_"):
            return total, None
        if (overload.startswith("_+_(") and "list" in overload) or overload in _ADDED_TEXTS:
            one, other = map(self._sizes.entries, node.arguments)
            self._sizes.note(node, entries=one.union(other) if one else None)
        cost, size = rule_of(node.function, overload).estimate(arguments)
        return capped(total + cost), size

    def _argument(self, node: Node) -> Argument:
        literal = node.value if isinstance(node, Literal) else None
        path = self._sizes.path(node)
        elements = None
        if path and path[0] != ACCUMULATOR:
            elements = self._sizes.declared((*path, "@items"))
        return Argument(self._sizes.size(node) or UNKNOWN, node.type, literal, elements)

    def _list(self, node: MakeList) -> int:
        cost, size = self._together(node.elements)
        self._sizes.note(node, entries=Entries(False, ONE, size))
        return capped(cost + 10)

    def _map(self, node: MakeMap) -> int:
        cost, keys = self._together([key for key, _ in node.entries])
        more, values = self._together([value for _, value in node.entries])
        self._sizes.note(node, entries=Entries(True, keys, values))
        return capped(cost + more + 30)

    def _together(self, nodes: Sequence[Node]) -> tuple[int, Size]:
        """Return what all nodes cost, and the bounds of the size of each."""
        cost = sum([self.cost(node) for node in nodes])
        sizes = [self._sizes.size(node) or UNKNOWN for node in nodes]
        return cost, functools.reduce(Size.union, sizes) if sizes else Size(0, 0)

    def _fold(self, node: Fold) -> int:
        cost = self.cost(node.range) + self.cost(node.start)
        self._sizes.bind(node.accumulator, self._sizes.known(node.start))
        if node.is_bind:
            cost += self.cost(node.result)
            self._sizes.unbind(node.accumulator)
            same = self._sizes.known(node.result)
            self._sizes.note(node, size=same.size, entries=same.entries)
            return capped(cost)
        for name, local in zip(node.variables, self._iteration(node), strict=True):
            self._sizes.bind(name, local)
        loop = self.cost(node.condition) + self.cost(node.step)
        for name in node.variables:
            self._sizes.unbind(name)
        cost += self.cost(node.result)
        self._sizes.unbind(node.accumulator)
        count = self._sizes.size(node.range) or UNKNOWN
        if isinstance(node.start, Literal):
            self._sizes.note(node, size=self._sizes.size(node.start))
        elif isinstance(node.start, (MakeList, MakeMap)):
            self._sizes.note(node, size=count, entries=self._sizes.entries(node.step))
        return capped(cost + capped(count.most * capped(loop)))

    def _iteration(self, node: Fold) -> list[Known]:
        """Return what is known of the variables of iteration."""
        entries = self._sizes.entries(node.range)
        path = self._sizes.path(node.range)
        is_list = (not entries.is_map) if entries else node.range.type.name == "list"
        sizes = (entries.keys, entries.values) if entries else (None, None)
        steps = ("@indices", "@items") if is_list else ("@keys", "@values")
        known = [Known((*path, step), size) for step, size in zip(steps, sizes, strict=True)]
        if len(node.variables) == 2:
            return known
        return known[1:] if is_list else known[:1]
