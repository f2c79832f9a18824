"""CEL's macros: calls that unfold to a larger tree (cel-go v0.26 ``parser/macro.go``, ``ext``).

Operands that a macro uses twice are shared, not copied.
"""

from __future__ import annotations

from collections.abc import Callable

from podsched.api.cel.errors import CompileError
from podsched.api.cel.tree import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Fold,
    Ident,
    Literal,
    MakeList,
    MakeMap,
    Node,
    Select,
)


def expand(
    position: int, function: str, target: Node | None, arguments: tuple[Node, ...]
) -> Node | None:
    """Return what a macro unfolds to; None if the call is none of a macro. Raises CompileError."""
    if target is None:
        if function != "has" or len(arguments) != 1:
            return None
        (operand,) = arguments
        if not isinstance(operand, Select):
            raise CompileError("invalid argument to has() macro", position)
        return Select(position, operand.operand, operand.name, test=True)
    count = len(arguments)
    if function == "bind" and count == 3 and isinstance(target, Ident) and target.name == "cel":
        name = _variable(arguments[0], "cel.bind() variable names must be simple identifiers")
        return _bind(position, name, arguments[1], arguments[2])
    if function in ("optMap", "optFlatMap") and count == 2:
        return _optional_map(position, function, target, arguments)
    if function == "sortBy" and count == 2:
        return _sort_by(position, target, arguments)
    variables = _FOLDS.get((function, count))
    if variables is None:
        return None
    return _fold(position, function, target, arguments, variables)


#: The macros that fold, by name and number of arguments, with their number of variables.
_FOLDS = {
    (name, count + variables): variables
    for name, one, two in (
        ("all", (1,), (1,)),
        ("exists", (1,), (1,)),
        ("exists_one", (1,), (1,)),
        ("existsOne", (), (1,)),
        ("map", (1, 2), ()),
        ("filter", (1,), ()),
        ("transformList", (), (1, 2)),
        ("transformMap", (), (1, 2)),
        ("transformMapEntry", (), (1, 2)),
    )
    for variables, counts in ((1, one), (2, two))
    for count in counts
}


def _variable(node: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        raise CompileError(message, node.position)
    if node.name == "__result__":
        reason = "iteration variable overwrites accumulator variable"
        raise CompileError(reason, node.position)
    return node.name


def _fold(
    position: int, function: str, target: Node, arguments: tuple[Node, ...], count: int
) -> Node:
    names = tuple(_variable(argument) for argument in arguments[:count])
    if len(set(names)) != len(names):
        raise CompileError(f"duplicate variable name: {names[1]}", arguments[1].position)
    body = arguments[count:]
    start, condition, step, result = _UNFOLDED[function](position, arguments[:count], body)
    return Fold(position, target, names, ACCUMULATOR, start, condition, step, result)


_Parts = tuple[Node, Node, Node, Node]


def _call(position: int, function: str, *arguments: Node) -> Node:
    return Call(position, function, None, arguments)


def _result(position: int) -> Node:
    return Ident(position, ACCUMULATOR)


def _logic(position: int, body: tuple[Node, ...], *, every: bool) -> _Parts:
    """Return the parts of ``all`` (every) or ``exists``."""
    undecided = _result(position) if every else _call(position, "!_", _result(position))
    condition = _call(position, "@not_strictly_false", undecided)
    step = _call(position, "_&&_" if every else "_||_", _result(position), *body)
    return Literal(position, every), condition, step, _result(position)


def _exists_one(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    counted = _call(position, "_+_", _result(position), Literal(position, 1))
    step = _call(position, "_?_:_", *body, counted, _result(position))
    result = _call(position, "_==_", _result(position), Literal(position, 1))
    return Literal(position, 0), Literal(position, True), step, result


def _collected(position: int, start: Node, grown: Node, condition: tuple[Node, ...]) -> _Parts:
    """Return the parts of a macro that collects values, those with a condition if there is one."""
    step = _call(position, "_?_:_", *condition, grown, _result(position)) if condition else grown
    return start, Literal(position, True), step, _result(position)


def _to_list(position: int, items: tuple[Node, ...], condition: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "_+_", _result(position), MakeList(position, items))
    return _collected(position, MakeList(position, ()), grown, condition)


def _to_map(position: int, entry: tuple[Node, ...], condition: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "cel.@mapInsert", _result(position), *entry)
    return _collected(position, MakeMap(position, ()), grown, condition)


#: How the parts of a macro follow from its position, its variables and its body.
_UNFOLDED: dict[str, Callable[[int, tuple[Node, ...], tuple[Node, ...]], _Parts]] = {
    "all": lambda at, _, body: _logic(at, body, every=True),
    "exists": lambda at, _, body: _logic(at, body, every=False),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": lambda at, _, body: _to_list(at, body[-1:], body[:-1]),
    "filter": _to_list,
    "transformList": lambda at, _, body: _to_list(at, body[-1:], body[:-1]),
    "transformMap": lambda at, names, body: _to_map(at, (names[0], body[-1]), body[:-1]),
    "transformMapEntry": lambda at, _, body: _to_map(at, body[-1:], body[:-1]),
}


def _bind(position: int, name: str, value: Node, result: Node) -> Node:
    nothing, never = MakeList(position, ()), Literal(position, False)
    return Fold(position, nothing, (UNUSED,), name, value, never, Ident(position, name), result)


def _optional_map(position: int, function: str, target: Node, arguments: tuple[Node, ...]) -> Node:
    name = _variable(arguments[0], f"{function}() variable name must be a simple identifier")
    value = Call(position, "value", target, ())
    mapped = _bind(position, name, value, arguments[1])
    if function == "optMap":
        mapped = _call(position, "optional.of", mapped)
    none = _call(position, "optional.none")
    return _call(position, "_?_:_", Call(position, "hasValue", target, ()), mapped, none)


def _sort_by(position: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    if isinstance(target, (Literal, MakeMap)):
        raise CompileError(
            "sortBy can only be applied to a list, identifier, comprehension, call or select"
            " expression",
            target.position,
        )
    name = "@__sortBy_input__"
    keys = _fold(position, "map", Ident(position, name), arguments, 1)
    call = Call(position, "@sortByAssociatedKeys", Ident(position, name), (keys,))
    return _bind(position, name, target, call)
