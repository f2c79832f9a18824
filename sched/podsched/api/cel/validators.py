"""The checks of literals once all types are known (cel-go v0.26 ``cel/validator.go``).

Kubernetes' settings: elements of a list, and keys and values of a map, are of one type each;
regular expressions and formats that are constants must be right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from podsched.api.cel.errors import CompileError
from podsched.api.cel.formatting import TEXTS, wrong_arguments
from podsched.api.cel.strings import Patterns
from podsched.api.cel.tree import Call, Literal, MakeList, MakeMap, Node
from podsched.api.cel.types import DYN, Type
from podsched.api.cel.values import Failure


def validate(nodes: Sequence[Node]) -> None:
    """Raise CompileError if one of an expression's nodes breaks a rule."""
    exempt = _within_formats(nodes)
    patterns = Patterns()
    for node in nodes:
        if id(node) in exempt:
            continue
        if isinstance(node, MakeList):
            _validate_alike(_elements(node.elements, node.optional))
        elif isinstance(node, MakeMap):
            _validate_alike([(key, key.type) for key, _ in node.entries])
            values = [value for _, value in node.entries]
            _validate_alike(_elements(values, node.optional))
        elif isinstance(node, Call):
            _validate_call(node, patterns)


def _within_formats(nodes: Iterable[Node]) -> set[int]:
    """Return the lists and maps within arguments of ``format``, whose elements may differ."""
    found: set[int] = set()
    left: list[Node] = [
        node for node in nodes if isinstance(node, Call) and node.function == "format"
    ]
    seen = set(map(id, left))
    while left:
        for child in left.pop().children():
            if id(child) not in seen:
                seen.add(id(child))
                left.append(child)
                if isinstance(child, (MakeList, MakeMap)):
                    found.add(id(child))
    return found


def _elements(nodes: Sequence[Node], optional: frozenset[int]) -> list[tuple[Node, Type]]:
    """Return elements with their types, for optional ones those of their values."""
    elements = []
    for index, node in enumerate(nodes):
        found: Type = node.type
        unwrapped = index in optional and found.parameters
        elements.append((node, found.parameters[0] if unwrapped else found))
    return elements


def _validate_alike(elements: list[tuple[Node, Type]]) -> None:
    for node, found in elements[1:]:
        if found != elements[0][1]:
            reason = f"expected type '{elements[0][1]}' but found '{found}'"
            raise CompileError(reason, node.position)


def _validate_call(node: Call, patterns: Patterns) -> None:
    # The first argument: of the function ``matches`` without a target, that is the text.
    first = node.arguments[0] if node.arguments else None
    pattern = first.value if isinstance(first, Literal) else None
    expression = (
        patterns.compiled(pattern)
        if node.function == "matches" and isinstance(pattern, str)
        else None
    )
    if isinstance(expression, Failure):
        raise CompileError("invalid matches argument", node.arguments[0].position)
    target = node.target
    if node.function == "format" and isinstance(target, Literal) and isinstance(first, MakeList):
        wrong = wrong_arguments(target.value, [_written_type(part) for part in first.elements])
        if wrong is not None:
            raise CompileError(wrong, node.position)


def _written_type(node: Node) -> Type:
    """Return the type of what ``format`` writes: of what a list or map contains, if that is odd."""
    if isinstance(node, (MakeList, MakeMap)):
        for child in node.children():
            found = _written_type(child)
            if found.name not in TEXTS and found != DYN:
                return found
    result: Type = node.type
    return result
