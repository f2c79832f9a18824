"""Templates of objects: manifests in which ``{{...}}`` stands for a number computed from an index.

``web-{{index}}``, ``zone-{{index % 3}}`` and ``{{100 + 5 * index}}m`` are text; a value that is
nothing but ``{{int(index // 10)}}`` is an integer. The operators are ``+ - * // %``. The names of
parameters stand for their numbers.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from podsched.api.manifest import from_manifest
from podsched.api.objects import AnyObject
from podsched.config.model import join

Number = Callable[[int], int]

_EXPRESSION = re.compile(r"\{\{(.*?)\}\}")
_LONGEST = 100
_NO_PARAMS: Mapping[str, int] = MappingProxyType({})
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class TemplateError(ValueError):
    """An expression cannot be read; ``path`` is the field that it is in."""

    def __init__(self, path: str, value: object, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.value = value
        self.reason = reason


def compile_expression(text: str, params: Mapping[str, int] = _NO_PARAMS) -> Number:
    """Return the function of the index that an expression is. Raises ``ValueError``."""
    if len(text) > _LONGEST:
        raise ValueError(f"an expression may have at most {_LONGEST} characters")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise ValueError(f'"{text}" is not an expression such as "index % 3"') from None
    return _compiled(tree, params)


def _compiled(tree: ast.expr, params: Mapping[str, int]) -> Number:
    match tree:
        case ast.Name(id="index"):
            return lambda index: index
        case ast.Name(id=name) if name in params:
            return lambda index: params[name]
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return lambda index: value
        case ast.BinOp(op=ast.FloorDiv() | ast.Mod(), right=by) if not _is_positive(by, params):
            raise ValueError("the divisor must be a positive integer")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            apply = _OPERATORS[type(op)]
            first, second = _compiled(left, params), _compiled(right, params)
            return lambda index: apply(first(index), second(index))
    raise ValueError('only "index", parameters, integers, + - * // % and parentheses are allowed')


def _is_positive(tree: ast.expr, params: Mapping[str, int]) -> bool:
    value = tree.value if isinstance(tree, ast.Constant) else None
    if isinstance(tree, ast.Name):
        value = params.get(tree.id)
    return isinstance(value, int) and value > 0


class Template:
    """A manifest made anew for each index."""

    def __init__(
        self, document: Mapping[str, Any], path: str = "", params: Mapping[str, int] = _NO_PARAMS
    ) -> None:
        """Compile the expressions. Raises ``TemplateError`` with a path below ``path``."""
        self._fill = _filler(document, path, params)
        self._document = document

    def at(self, index: int) -> AnyObject:
        """Return the object of an index. Raises ``ManifestError``."""
        document = self._document if self._fill is None else self._fill(index)
        return from_manifest(document, strict=True).message


def _filler(value: object, path: str, params: Mapping[str, int]) -> Callable[[int], Any] | None:
    """Return a function that fills in an index; None if nothing is to be filled in."""
    if isinstance(value, str):
        return _text_filler(value, path, params)
    if isinstance(value, Mapping):
        made = {key: _filler(item, join(path, str(key)), params) for key, item in value.items()}
        dynamic = {key: fill for key, fill in made.items() if fill is not None}
        if not dynamic:
            return None
        return lambda index: {**value, **{key: fill(index) for key, fill in dynamic.items()}}
    if isinstance(value, list):
        fills = [_filler(item, join(path, at), params) for at, item in enumerate(value)]
        if not any(fills):
            return None
        pairs = list(zip(value, fills, strict=True))
        return lambda index: [item if fill is None else fill(index) for item, fill in pairs]
    return None


def _text_filler(
    text: str, path: str, params: Mapping[str, int]
) -> Callable[[int], str | int] | None:
    parts = _EXPRESSION.split(text)
    if len(parts) == 1:
        return None
    try:
        if parts[0] == parts[-1] == "" and len(parts) == 3:
            inside = parts[1].strip()
            if inside.startswith("int(") and inside.endswith(")"):
                return compile_expression(inside[4:-1], params)
        numbers = [compile_expression(part, params) for part in parts[1::2]]
    except ValueError as error:
        raise TemplateError(path, text, str(error)) from None
    form = "".join(
        part.replace("{", "{{").replace("}", "}}") if at % 2 == 0 else "{}"
        for at, part in enumerate(parts)
    )
    return lambda index: form.format(*(number(index) for number in numbers))
