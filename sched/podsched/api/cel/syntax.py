"""CEL's syntax: text to a tree, with macros unfolded (cel-go v0.26 ``parser``).

Depth and size are bounded before anything is unfolded: the parser recurses at most MAX_DEPTH
times, and a macro that uses its operand twice is refused when the tree would have more than
MAX_NODES nodes.
Operands that a macro uses twice are shared, not copied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from podsched.api.cel.errors import CompileError
from podsched.api.cel.values import Uint

#: In characters, as cel-go's parser has it; objects of the API have a lower limit.
MAX_LENGTH = 100_000
#: cel-go's limit on nesting.
MAX_DEPTH = 250
#: Nodes of the tree with macros unfolded, and its depth. What 10 KiB of text need is far less.
MAX_NODES = 50_000
MAX_TREE_DEPTH = 350

#: The accumulator of macros; not a name that an expression can contain.
ACCUMULATOR = "@result"
_UNUSED = "#unused"

_TOKEN = re.compile(
    r"""(?P<space>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<string>[bB]?(?:
        [rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"[^"\n\r]*"|'[^'\n\r]*')
        |\"\"\"(?:\\[\s\S]|[^\\])*?\"\"\"|'''(?:\\[\s\S]|[^\\])*?'''
        |"(?:\\[^\n\r]|[^\\"\n\r])*"|'(?:\\[^\n\r]|[^\\'\n\r])*'))
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign>==|!=|<=|>=|&&|\|\||[<>\[\]{}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\"'\\?`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|([\s\S]))"
)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)
#: Operators by how tightly they bind, with cel-go's names of their functions.
_BINARY = {
    "||": (1, "_||_"),
    "&&": (2, "_&&_"),
    "<": (3, "_<_"),
    "<=": (3, "_<=_"),
    ">": (3, "_>_"),
    ">=": (3, "_>=_"),
    "==": (3, "_==_"),
    "!=": (3, "_!=_"),
    "in": (3, "@in"),
    "+": (4, "_+_"),
    "-": (4, "_-_"),
    "*": (5, "_*_"),
    "/": (5, "_/_"),
    "%": (5, "_%_"),
}


@dataclass(eq=False, slots=True)
class Node:
    """A node of the tree. ``position`` is the offset of its sign in the text, for messages."""

    position: int
    #: Nodes below, this one included, a shared one each time; and the height of the tree.
    size: int = field(init=False, default=1)
    depth: int = field(init=False, default=1)
    #: Set by the check of types.
    type: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        for child in self.children():
            self.size += child.size
            self.depth = max(self.depth, child.depth + 1)
        if self.size > MAX_NODES or self.depth > MAX_TREE_DEPTH:
            raise CompileError("expression is too large or too deep with its macros unfolded")

    def children(self) -> tuple[Node, ...]:
        return ()


@dataclass(eq=False, slots=True)
class Literal(Node):
    """A constant."""

    value: Any


@dataclass(eq=False, slots=True)
class Ident(Node):
    """A variable, or the name of a type."""

    name: str
    #: The type that the name stands for, if it is a type's.
    constant: Any = field(init=False, default=None)


@dataclass(eq=False, slots=True)
class Select(Node):
    """``operand.name``; a test of presence within ``has``."""

    operand: Node
    name: str
    test: bool = False
    constant: Any = field(init=False, default=None)

    def children(self) -> tuple[Node, ...]:
        return (self.operand,)


@dataclass(eq=False, slots=True)
class Call(Node):
    """A call of a function or an operator, of a method if there is a target."""

    function: str
    target: Node | None
    arguments: tuple[Node, ...]
    #: Names of the overloads that may be meant; set by the check of types.
    overloads: tuple[str, ...] = field(init=False, default=())

    def children(self) -> tuple[Node, ...]:
        return self.arguments if self.target is None else (self.target, *self.arguments)


@dataclass(eq=False, slots=True)
class MakeList(Node):
    """A list; ``optional`` has the indices of elements written with a question mark."""

    elements: tuple[Node, ...]
    optional: frozenset[int] = frozenset()

    def children(self) -> tuple[Node, ...]:
        return self.elements


@dataclass(eq=False, slots=True)
class MakeMap(Node):
    """A map, or a message if it has a name."""

    entries: tuple[tuple[Node, Node], ...]
    optional: frozenset[int] = frozenset()

    def children(self) -> tuple[Node, ...]:
        return tuple(node for entry in self.entries for node in entry)


@dataclass(eq=False, slots=True)
class Fold(Node):
    """A comprehension: what most macros unfold to.

    ``variables`` are one name (element, or key of a map) or two (index or key, and value). A fold
    with ``is_bind`` gives its accumulator a value and has no iteration.
    """

    range: Node
    variables: tuple[str, ...]
    accumulator: str
    start: Node
    condition: Node
    step: Node
    result: Node

    def children(self) -> tuple[Node, ...]:
        return (self.range, self.start, self.condition, self.step, self.result)

    @property
    def is_bind(self) -> bool:
        return self.variables == (_UNUSED,)


#: Binds less than all operators but the ternary.
_NO_TERNARY = 0.5


def parse(text: str) -> Node:
    """Return the tree. Raises CompileError."""
    if len(text) > MAX_LENGTH:
        raise CompileError(
            f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_LENGTH}"
        )
    parser = _Parser(text)
    node = parser.expression()
    parser.expect("<EOF>")
    return node


def error_at(text: str, position: int, message: str) -> CompileError:
    """Return the error with its line and column."""
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return CompileError(f"ERROR: <input>:{line}:{column}: {message}")


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _tokens(text)
        self.next = 0
        self.depth = 0

    def peek(self) -> str:
        return self.tokens[self.next][1]

    def position(self) -> int:
        return self.tokens[self.next][2]

    def take(self) -> tuple[str, str, int]:
        token = self.tokens[self.next]
        self.next += 1
        return token

    def accept(self, sign: str) -> bool:
        # The text of a string never equals a sign, since it keeps its quotes.
        if self.peek() != sign:
            return False
        self.next += 1
        return True

    def expect(self, sign: str) -> int:
        position = self.position()
        if self.peek() != sign:
            self.fail(
                position, f"Syntax error: mismatched input '{self.peek()}' expecting '{sign}'"
            )
        self.next += 1
        return position

    def fail(self, position: int, message: str) -> NoReturn:
        raise error_at(self.text, position, message)

    def expression(self, binding: float = 0) -> Node:
        """Read an expression of operators that bind tighter than ``binding``; 0: a ternary too."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CompileError("max recursion depth exceeded")
        left = self.unary()
        while (operator := _BINARY.get(self.peek())) and operator[0] > binding:
            position = self.take()[2]
            right = self.expression(operator[0])
            if operator[1] in ("_||_", "_&&_"):
                left = self.logic(position, operator, left, right)
            else:
                left = Call(position, operator[1], None, (left, right))
        if not binding and self.peek() == "?":
            position = self.take()[2]
            # As in the grammar, the first branch is no ternary, unless in parentheses.
            chosen = self.expression(_NO_TERNARY)
            self.expect(":")
            left = Call(position, "_?_:_", None, (left, chosen, self.expression()))
        self.depth -= 1
        return left

    def logic(self, position: int, operator: tuple[int, str], left: Node, right: Node) -> Node:
        """Read the further terms of ``&&`` or ``||``, and join all of them into one call.

        cel-go makes a balanced tree of calls with two terms each; the terms are evaluated in the
        same order, with the same result and cost.
        """
        binding, function = operator
        terms = [left, right]
        if isinstance(left, Call) and left.function == function:
            terms[:1] = left.arguments
        while _BINARY.get(self.peek()) == operator:
            self.take()
            terms.append(self.expression(binding))
        return Call(position, function, None, tuple(terms))

    def unary(self) -> Node:
        sign, position = self.peek(), self.position()
        if sign not in ("!", "-"):
            return self.member(self.primary())
        count = 0
        while self.accept(sign):
            count += 1
        kind, number, _ = self.tokens[self.next]
        if count == 1 and sign == "-" and kind in ("int", "float"):
            self.next += 1
            return self.member(self.number(kind, "-" + number, position))
        node = self.member(self.primary())
        if count % 2 == 0:
            return node
        return Call(position, "!_" if sign == "!" else "-_", None, (node,))

    def member(self, node: Node) -> Node:
        """Read what follows an operand: fields, calls of methods, indices."""
        links = 0
        while self.peek() in (".", "["):
            links += 1
            if links > MAX_DEPTH:
                raise CompileError("max recursion depth exceeded")
            sign, position = self.take()[1:]
            optional = self.accept("?")
            if sign == "[":
                index = self.expression()
                self.expect("]")
                node = Call(position, "_[?_]" if optional else "_[_]", None, (node, index))
            elif optional:
                name = Literal(self.position(), self.name())
                node = Call(position, "_?._", None, (node, name))
            else:
                name_of_field = self.name()
                if self.peek() == "(":
                    node = self.call(name_of_field, node)
                else:
                    node = Select(position, node, name_of_field)
        return node

    def name(self) -> str:
        kind, text, position = self.take()
        if kind != "name" or text in ("in", "true", "false", "null"):
            self.fail(position, f"Syntax error: mismatched input '{text}' expecting IDENTIFIER")
        return text

    def call(self, function: str, target: Node | None) -> Node:
        position = self.expect("(")
        arguments = tuple(self.items(")", trailing=False))
        expanded = expand(self, position, function, target, arguments)
        return expanded or Call(position, function, target, arguments)

    def items(self, end: str, *, trailing: bool = True) -> list[Node]:
        found: list[Node] = []
        while not self.accept(end):
            if found:
                self.expect(",")
                if trailing and self.accept(end):
                    break
            found.append(self.expression())
        return found

    def primary(self) -> Node:
        kind, text, position = self.take()
        if kind in ("int", "uint", "float"):
            return self.number(kind, text, position)
        if kind == "string":
            return Literal(position, self.unquoted(text, position))
        if text in ("true", "false", "null"):
            return Literal(position, {"true": True, "false": False, "null": None}[text])
        if text == "(":
            node = self.expression()
            self.expect(")")
            return node
        if text == "[":
            return self.list(position)
        if text == "{":
            return self.map(position)
        leading = text == "."
        if leading:
            kind, text, position = self.take()
        if kind != "name":
            self.fail(position, f"Syntax error: mismatched input '{text}'")
        return self.identifier(text, position)

    def identifier(self, name: str, position: int) -> Node:
        if name in _RESERVED:
            self.fail(position, f"reserved identifier: {name}")
        if self.peek() == "(":
            return self.call(name, None)
        return Ident(position, name)

    def list(self, position: int) -> Node:
        elements: list[Node] = []
        optional: set[int] = set()
        while not self.accept("]"):
            if elements:
                self.expect(",")
            if self.accept("]"):
                break
            if not elements and self.peek() == ",":
                self.take()
                self.expect("]")
                break
            if self.accept("?"):
                optional.add(len(elements))
            elements.append(self.expression())
        return MakeList(position, tuple(elements), frozenset(optional))

    def map(self, position: int) -> Node:
        entries: list[tuple[Node, Node]] = []
        optional: set[int] = set()
        while not self.accept("}"):
            if entries:
                self.expect(",")
            if self.accept("}"):
                break
            if not entries and self.peek() == ",":
                self.take()
                self.expect("}")
                break
            if self.accept("?"):
                optional.add(len(entries))
            key = self.expression()
            self.expect(":")
            entries.append((key, self.expression()))
        return MakeMap(position, tuple(entries), frozenset(optional))

    def number(self, kind: str, text: str, position: int) -> Node:
        if kind == "float":
            value = float(text)
            if value in (float("inf"), float("-inf")):
                self.fail(position, "invalid double literal")
            return Literal(position, value)
        digits = text.rstrip("uU")
        base = 16 if "0x" in digits else 10
        # Digits cost more than linear time to convert.
        number = int(digits.replace("0x", ""), base) if len(digits) < 100 else 1 << 99
        low, high = (0, 2**64) if kind == "uint" else (-(2**63), 2**63)
        if not low <= number < high:
            self.fail(position, f"invalid {kind} literal")
        return Literal(position, Uint(number) if kind == "uint" else number)

    def unquoted(self, text: str, position: int) -> str | bytes:
        is_bytes = text[0] in "bB"
        body = text[1:] if is_bytes else text
        raw = body[0] in "rR"
        body = body[1:] if raw else body
        quotes = 3 if body[:3] in ('"""', "'''") and len(body) >= 6 else 1
        body = body[quotes:-quotes].replace("\r\n", "\n").replace("\r", "\n")
        if raw:
            return body.encode("utf-8", "surrogatepass") if is_bytes else body
        try:
            return _unescaped_bytes(body) if is_bytes else _ESCAPE.sub(_unescaped, body)
        except ValueError as exc:
            self.fail(position, f"Syntax error: token recognition error: {exc}")


def _tokens(text: str) -> list[tuple[str, str, int]]:
    found = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise error_at(
                text, position, f"Syntax error: token recognition error at: '{text[position]}'"
            )
        kind = match.lastgroup or ""
        if kind != "space":
            found.append((kind, match[0], position))
        position = match.end()
    return [*found, ("end", "<EOF>", len(text))]


def _unescaped(match: re.Match[str]) -> str:
    letter, byte, short, long, octal, other = match.groups()
    if other is not None:
        raise ValueError(f"unable to unescape string: \\{other}")
    if letter is not None:
        return _ESCAPED.get(letter, letter)
    code = int(octal, 8) if octal else int(byte or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError("invalid unicode code point")
    return chr(code)


def _unescaped_bytes(body: str) -> bytes:
    found = bytearray()
    end = 0
    for match in _ESCAPE.finditer(body):
        found += body[end : match.start()].encode("utf-8", "surrogatepass")
        if match[3] or match[4]:
            raise ValueError("unable to unescape string")
        found += _unescaped(match).encode("latin-1")
        end = match.end()
    return bytes(found + body[end:].encode("utf-8", "surrogatepass"))


def expand(
    parser: _Parser,
    position: int,
    function: str,
    target: Node | None,
    arguments: tuple[Node, ...],
) -> Node | None:
    """Return what a macro unfolds to; None if the call is none of a macro. Raises CompileError."""
    if target is None:
        if function != "has" or len(arguments) != 1:
            return None
        (operand,) = arguments
        if not isinstance(operand, Select):
            parser.fail(position, "invalid argument to has() macro")
        return Select(position, operand.operand, operand.name, test=True)
    count = len(arguments)
    if function == "bind" and count == 3 and isinstance(target, Ident) and target.name == "cel":
        name = _variable(
            parser, arguments[0], "cel.bind() variable names must be simple identifiers"
        )
        return _bind(position, name, arguments[1], arguments[2])
    if function in ("optMap", "optFlatMap") and count == 2:
        return _optional_map(parser, position, function, target, arguments)
    if function == "sortBy" and count == 2:
        return _sort_by(parser, position, target, arguments)
    variables = _FOLDS.get((function, count))
    if variables is None:
        return None
    return _fold(parser, position, function, target, arguments, variables)


#: The macros that fold, by name and number of arguments, with their number of variables.
_FOLDS = {
    (name, count + variables): variables
    for name, one, two in (
        ("all", (1,), (1,)),
        ("exists", (1,), (1,)),
        ("exists_one", (1,), (1,)),
        ("existsOne", (1,), (1,)),
        ("map", (1, 2), ()),
        ("filter", (1,), ()),
        ("transformList", (), (1, 2)),
        ("transformMap", (), (1, 2)),
        ("transformMapEntry", (), (1, 2)),
    )
    for variables, counts in ((1, one), (2, two))
    for count in counts
}


def _variable(parser: _Parser, node: Node, message: str = "argument must be a simple name") -> str:
    if not isinstance(node, Ident):
        parser.fail(node.position, message)
    if node.name == "__result__":
        parser.fail(node.position, "iteration variable overwrites accumulator variable")
    return node.name


def _fold(
    parser: _Parser,
    position: int,
    function: str,
    target: Node,
    arguments: tuple[Node, ...],
    count: int,
) -> Node:
    names = tuple(_variable(parser, argument) for argument in arguments[:count])
    if len(set(names)) != len(names):
        parser.fail(arguments[1].position, f"duplicate variable name: {names[1]}")
    body = arguments[count:]
    start, condition, step, result = _UNFOLDED[function](position, arguments[:count], body)
    return Fold(position, target, names, ACCUMULATOR, start, condition, step, result)


_Parts = tuple[Node, Node, Node, Node]


def _call(position: int, function: str, *arguments: Node) -> Node:
    return Call(position, function, None, arguments)


def _result(position: int) -> Node:
    return Ident(position, ACCUMULATOR)


def _all(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    condition = _call(position, "@not_strictly_false", _result(position))
    step = _call(position, "_&&_", _result(position), *body)
    return Literal(position, True), condition, step, _result(position)


def _exists(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    negated = _call(position, "!_", _result(position))
    condition = _call(position, "@not_strictly_false", negated)
    step = _call(position, "_||_", _result(position), *body)
    return Literal(position, False), condition, step, _result(position)


def _exists_one(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    counted = _call(position, "_+_", _result(position), Literal(position, 1))
    step = _call(position, "_?_:_", *body, counted, _result(position))
    result = _call(position, "_==_", _result(position), Literal(position, 1))
    return Literal(position, 0), Literal(position, True), step, result


def _collected(position: int, start: Node, grown: Node, condition: tuple[Node, ...]) -> _Parts:
    """Return the parts of a macro that collects values, those with a condition if there is one."""
    step = _call(position, "_?_:_", *condition, grown, _result(position)) if condition else grown
    return start, Literal(position, True), step, _result(position)


def _map(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "_+_", _result(position), MakeList(position, body[-1:]))
    return _collected(position, MakeList(position, ()), grown, body[:-1])


def _filter(position: int, names: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "_+_", _result(position), MakeList(position, names))
    return _collected(position, MakeList(position, ()), grown, body)


def _transform_map(position: int, names: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "cel.@mapInsert", _result(position), names[0], body[-1])
    return _collected(position, MakeMap(position, ()), grown, body[:-1])


def _transform_map_entry(position: int, _: tuple[Node, ...], body: tuple[Node, ...]) -> _Parts:
    grown = _call(position, "cel.@mapInsert", _result(position), body[-1])
    return _collected(position, MakeMap(position, ()), grown, body[:-1])


_UNFOLDED = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "map": _map,
    "filter": _filter,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
}


def _bind(position: int, name: str, value: Node, result: Node) -> Node:
    nothing, never = MakeList(position, ()), Literal(position, False)
    return Fold(position, nothing, (_UNUSED,), name, value, never, Ident(position, name), result)


def _optional_map(
    parser: _Parser, position: int, function: str, target: Node, arguments: tuple[Node, ...]
) -> Node:
    name = _variable(
        parser, arguments[0], f"{function}() variable name must be a simple identifier"
    )
    value = Call(position, "value", target, ())
    mapped = _bind(position, name, value, arguments[1])
    if function == "optMap":
        mapped = _call(position, "optional.of", mapped)
    none = _call(position, "optional.none")
    return _call(position, "_?_:_", Call(position, "hasValue", target, ()), mapped, none)


def _sort_by(parser: _Parser, position: int, target: Node, arguments: tuple[Node, ...]) -> Node:
    if isinstance(target, (Literal, MakeMap)):
        parser.fail(
            target.position,
            "sortBy can only be applied to a list, identifier, comprehension, call or select"
            " expression",
        )
    name = "@__sortBy_input__"
    keys = _fold(parser, position, "map", Ident(position, name), arguments, 1)
    call = Call(position, "@sortByAssociatedKeys", Ident(position, name), (keys,))
    return _bind(position, name, target, call)
