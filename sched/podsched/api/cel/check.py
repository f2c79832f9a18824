"""The check of types (cel-go v0.26 ``checker``), which also finds out which overloads are meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from podsched.api.cel import inference, types
from podsched.api.cel.declarations import FUNCTIONS, Function
from podsched.api.cel.errors import CompileError
from podsched.api.cel.tree import Call, Fold, Ident, Literal, MakeList, MakeMap, Node, Select
from podsched.api.cel.types import DYN, Substitutions, Type
from podsched.api.cel.validators import validate
from podsched.api.cel.values import Uint

_LITERALS: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): types.NULL,
}
#: The names of types, which are constants.
_TYPE_NAMES = {
    **{type_.name: type_ for type_ in _LITERALS.values()},
    "dyn": DYN,
    "list": types.list_of(DYN),
    "map": types.map_of(DYN, DYN),
    "type": Type("type"),
    "optional_type": types.optional_of(DYN),
    **{
        type_.name: type_
        for type_ in (types.TIMESTAMP, types.DURATION, types.IP, types.CIDR, types.DEVICE)
    },
}


class Checker:
    """Checks one expression; sets the types and overloads in its nodes."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        fields: Mapping[str, Mapping[str, Type]],
        without: frozenset[str],
    ) -> None:
        """``fields``: of each type that has fields; ``without``: functions that are off."""
        self._scopes: list[Mapping[str, Type]] = [variables]
        self._fields = fields
        self._without = without
        self._types = Substitutions()
        self._nodes: list[Node] = []
        self._checks: dict[type[Node], Callable[[Any], Type]] = {
            Literal: lambda node: _LITERALS[type(node.value)],
            Ident: self._ident,
            Select: self._select,
            Call: self._call,
            MakeList: self._list,
            MakeMap: self._map,
            Fold: self._fold,
        }

    def check(self, node: Node) -> Type:
        """Return the expression's type. Raises CompileError."""
        self._check(node)
        for part in self._nodes:
            part.type = self._types.apply(part.type, final=True)
        validate(self._nodes)
        result: Type = node.type
        return result

    def _check(self, node: Node) -> Type:
        # Macros use their operand twice: checked each time, it would take exponentially long.
        if node.type is None:
            node.type = self._checks[type(node)](node)
            self._nodes.append(node)
        found: Type = node.type
        return found

    def _ident(self, node: Ident) -> Type:
        scopes = (scope for scope in reversed(self._scopes) if node.name in scope)
        found = next(scopes, {}).get(node.name)
        if found is None and node.name in _TYPE_NAMES:
            node.constant = Type(node.name)
            return types.type_of(_TYPE_NAMES[node.name])
        if found is None:
            raise CompileError(
                f"undeclared reference to '{node.name}' (in container '')", node.position
            )
        return found

    def _select(self, node: Select) -> Type:
        name = None if node.test else _qualified(node)
        if name in _TYPE_NAMES:
            node.constant = Type(name)
            return types.type_of(_TYPE_NAMES[name])
        result = self._field(node, node.operand, node.name)
        return types.BOOL if node.test else self._types.apply(result)

    def _field(self, node: Node, operand: Node, name: str, *, optional: bool = False) -> Type:
        target = self._types.apply(self._check(operand))
        optional = optional or target.name == "optional_type"
        if target.name == "optional_type":
            target = target.parameters[0]
        result = DYN
        if target.name == "map":
            result = target.parameters[1]
        elif target.name in self._fields:
            if name not in self._fields[target.name]:
                raise CompileError(f"undefined field '{name}'", node.position)
            result = self._fields[target.name][name]
        elif target.is_variable:
            self._types.assignable([DYN], [target])
        elif not target.is_dynamic and target not in _OBJECTS:
            raise CompileError(f"type '{target}' does not support field selection", node.position)
        elif target in _OBJECTS:
            raise CompileError(f"undefined field '{name}'", node.position)
        return types.optional_of(result) if optional else result

    def _call(self, node: Call) -> Type:
        if node.function == "_?._":
            operand, name = node.arguments
            self._check(name)
            assert isinstance(name, Literal)
            node.overloads = ("select_optional_field",)
            found = self._field(node, operand, name.value, optional=True)
            return self._types.apply(found)
        for argument in node.arguments:
            self._check(argument)
        prefix = None if node.target is None else _qualified(node.target)
        if prefix is not None and (named := self._function(f"{prefix}.{node.function}")):
            # A function within a namespace, and no method.
            node.function, node.target = named.name, None
            return inference.resolve(self._types, node, named)
        if node.target is not None:
            self._check(node.target)
        function = self._function(node.function)
        if function is None:
            raise CompileError(
                f"undeclared reference to '{node.function}' (in container '')", node.position
            )
        return inference.resolve(self._types, node, function)

    def _function(self, name: str) -> Function | None:
        return None if name in self._without else FUNCTIONS.get(name)

    def _unwrapped(self, node: Node, optional: bool) -> Type:
        """Return the type of an element, for an optional one that of its value."""
        found = self._check(node)
        if not optional:
            return found
        if found.name == "optional_type":
            return found.parameters[0]
        if not found.is_dynamic:
            inference.mismatch(self._types, node, types.optional_of(found), found)
        return found

    def _list(self, node: MakeList) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            found = self._unwrapped(element, index in node.optional)
            joined = inference.join(self._types, joined, found)
        return types.list_of(joined or self._types.fresh())

    def _map(self, node: MakeMap) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for index, (key, value) in enumerate(node.entries):
            keys = inference.join(self._types, keys, self._check(key))
            values = inference.join(
                self._types, values, self._unwrapped(value, index in node.optional)
            )
        return types.map_of(keys or self._types.fresh(), values or self._types.fresh())

    def _fold(self, node: Fold) -> Type:
        self._check(node.range)
        start = self._check(node.start)
        self._scopes.append({node.accumulator: start})
        self._scopes.append(inference.variables_of(self._types, node))
        self._check(node.condition)
        inference.expect(self._types, node.condition, types.BOOL)
        self._check(node.step)
        inference.expect(self._types, node.step, start)
        self._scopes.pop()
        result = self._check(node.result)
        self._scopes.pop()
        return self._types.apply(result)


#: Types with no field that an expression could select.
_OBJECTS = frozenset((types.QUANTITY, types.SEMVER, types.URL, types.FORMAT))


def _qualified(node: Node) -> str | None:
    """Return a name with dots that the node spells; None if it is something else."""
    parts: list[str] = []
    while isinstance(node, Select) and not node.test:
        parts.append(node.name)
        node = node.operand
    return ".".join((node.name, *reversed(parts))) if isinstance(node, Ident) else None
