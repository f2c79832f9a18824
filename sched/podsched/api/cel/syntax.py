"""CEL's syntax: text to a tree, with macros unfolded (cel-go v0.26 ``parser``).

Depth and size are bounded before anything is unfolded: the parser recurses at most MAX_DEPTH
times, and a macro that uses its operand twice is refused when the tree would have more than
MAX_NODES nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NoReturn, TypeVar

from podsched.api.cel.errors import CompileError
from podsched.api.cel.macros import expand
from podsched.api.cel.tree import Call, Ident, Literal, MakeList, MakeMap, Node, Select
from podsched.api.cel.values import Uint

_T = TypeVar("_T")

#: In characters, as cel-go's parser has it; objects of the API have a lower limit.
MAX_LENGTH = 100_000
#: cel-go's limit on nesting.
MAX_DEPTH = 250
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


def conjuncts(text: str) -> list[str]:
    """Return the terms of an expression that are joined by ``&&``; itself if there are no others.

    Raises CompileError.
    """
    depth, start = 0, 0
    found = []
    for _, sign, position in _tokens(text):
        if sign in ("(", "[", "{"):
            depth += 1
        elif sign in (")", "]", "}"):
            depth -= 1
        elif not depth and sign in ("||", "?"):
            return [text.strip()]
        elif not depth and sign == "&&":
            found.append(text[start:position].strip())
            start = position + len(sign)
    return [*found, text[start:].strip()]


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
            # As in the grammar, the first branch is not a ternary, unless in parentheses.
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
        arguments = tuple(self.arguments())
        expanded = expand(self.fail, position, function, target, arguments)
        return expanded or Call(position, function, target, arguments)

    def arguments(self) -> Iterator[Node]:
        first = True
        while not self.accept(")"):
            if not first:
                self.expect(",")
            first = False
            yield self.expression()

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
            elements, optional = self.entries("]", self.expression)
            return MakeList(position, elements, optional)
        if text == "{":
            pairs, optional = self.entries("}", self.pair)
            return MakeMap(position, pairs, optional)
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

    def entries(self, end: str, read: Callable[[], _T]) -> tuple[tuple[_T, ...], frozenset[int]]:
        """Read a list or a map up to its end; return its entries, and which are optional."""
        found: list[_T] = []
        optional: set[int] = set()
        while not self.accept(end):
            if found:
                self.expect(",")
            if self.accept(end):
                break
            if not found and self.peek() == ",":
                self.take()
                self.expect(end)
                break
            if self.accept("?"):
                optional.add(len(found))
            found.append(read())
        return tuple(found), frozenset(optional)

    def pair(self) -> tuple[Node, Node]:
        key = self.expression()
        self.expect(":")
        return key, self.expression()

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
