"""What types follow from the types of operands: of calls, elements and variables of iteration.

Source: cel-go v0.26 ``checker/checker.go``. Variables of types that become known are bound.
"""

from __future__ import annotations

from typing import NoReturn

from podsched.api.cel import types
from podsched.api.cel.declarations import Function
from podsched.api.cel.errors import CompileError
from podsched.api.cel.tree import Call, Fold, Node
from podsched.api.cel.types import DYN, Substitutions, Type


def resolve(known: Substitutions, node: Call, function: Function) -> Type:
    """Return the type of a call's result; note which overloads are meant. Raises CompileError."""
    given = [child.type for child in node.children()]
    if function.name in ("_&&_", "_||_"):
        for argument in node.arguments:
            expect(known, argument, types.BOOL)
        node.overloads = (function.overloads[0].name,)
        return types.BOOL
    result: Type | None = None
    names = []
    for overload in function.overloads:
        if overload.is_method is (node.target is None):
            continue
        own, *wanted = known.instance((overload.result, *overload.parameters))
        if not known.assignable(given, wanted):
            continue
        names.append(overload.name)
        found = known.apply(own)
        if result is None:
            result = found
        elif not result.is_dynamic and found != result:
            result = DYN
    if result is None:
        arguments = ", ".join(str(known.apply(t, final=True)) for t in given)
        reason = f"found no matching overload for '{function.name}' applied to '({arguments})'"
        raise CompileError(reason, node.position)
    node.overloads = tuple(names)
    return result


def join(known: Substitutions, before: Type | None, found: Type) -> Type:
    """Return the type of elements of which those before have a type, if there are any."""
    if before is None:
        return found
    # Outside of ``format``, elements that differ are found when the tree is validated.
    if not known.assignable([before], [found]):
        return DYN
    return types.most_general(before, found)


def variables_of(known: Substitutions, node: Fold) -> dict[str, Type]:
    """Return the types of a comprehension's variables. Raises CompileError."""
    range_type = known.apply(node.range.type)
    two = len(node.variables) == 2
    if range_type.name == "list":
        found = (types.INT, *range_type.parameters) if two else range_type.parameters
    elif range_type.name == "map":
        found = range_type.parameters if two else range_type.parameters[:1]
    elif range_type != types.ANY and (range_type.is_dynamic or range_type.is_variable):
        known.assignable([DYN], [range_type])
        found = (DYN,) * len(node.variables)
    else:
        raise CompileError(
            f"expression of type '{range_type}' cannot be range of a comprehension (must be"
            " list, map, or dynamic)",
            node.range.position,
        )
    return dict(zip(node.variables, found, strict=False))


def expect(known: Substitutions, node: Node, type_: Type) -> None:
    """Check that a node is of a type. Raises CompileError."""
    if not known.assignable([type_], [node.type]):
        mismatch(known, node, type_, node.type)


def mismatch(known: Substitutions, node: Node, expected: Type, found: Type) -> NoReturn:
    """Raise the error that a node has another type than expected."""
    expected, found = (known.apply(t, final=True) for t in (expected, found))
    raise CompileError(f"expected type '{expected}' but found '{found}'", node.position)
