"""CEL's syntax: text to a tree, with macros unfolded (cel-go v0.26 ``parser``).

Depth and size are bounded before anything is unfolded: the parser recurses at most MAX_DEPTH
times, and a macro that uses its operand twice is refused when the tree would have more than
MAX_NODES nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from podsched.api.cel.errors import CompileError
from podsched.api.cel.macros import expand
from podsched.api.cel.tokens import Tokens, scan, unexpected, value_of
from podsched.api.cel.tree import Call, Ident, Literal, MakeList, MakeMap, Node, Select

_T = TypeVar("_T")

#: In characters, as cel-go's parser has it; objects of the API have a lower limit.
MAX_LENGTH = 100_000
#: cel-go's limit on nesting.
MAX_DEPTH = 250
_RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "false", "for", "function", "if", "import"),
        *("in", "let", "loop", "package", "namespace", "null", "return", "true", "var", "void"),
        "while",
    }
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
    parser.tokens.expect("<EOF>")
    return node


def conjuncts(text: str) -> list[str]:
    """Return the terms of an expression that are joined by ``&&``; itself if there are no others.

    Raises CompileError.
    """
    depth, start = 0, 0
    found = []
    for _, sign, position in scan(text):
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


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = Tokens(text)
        self.depth = 0

    def expression(self, binding: float = 0) -> Node:
        """Read an expression of operators that bind tighter than ``binding``; 0: a ternary too."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise CompileError("max recursion depth exceeded")
        left = self.unary()
        while (operator := _BINARY.get(self.tokens.peek())) and operator[0] > binding:
            position = self.tokens.take()[2]
            right = self.expression(operator[0])
            if operator[1] in ("_||_", "_&&_"):
                left = self.logic(position, operator, left, right)
            else:
                left = Call(position, operator[1], None, (left, right))
        if not binding and self.tokens.peek() == "?":
            position = self.tokens.take()[2]
            # As in the grammar, the first branch is not a ternary, unless in parentheses.
            chosen = self.expression(_NO_TERNARY)
            self.tokens.expect(":")
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
        while _BINARY.get(self.tokens.peek()) == operator:
            self.tokens.take()
            terms.append(self.expression(binding))
        return Call(position, function, None, tuple(terms))

    def unary(self) -> Node:
        _, sign, position = self.tokens.next
        if sign not in ("!", "-"):
            return self.member(self.primary())
        count = 0
        while self.tokens.accept(sign):
            count += 1
        if count == 1 and sign == "-" and self.tokens.next[0] in ("int", "float"):
            kind, number, _ = self.tokens.take()
            return self.member(self.literal(kind, "-" + number, position))
        node = self.member(self.primary())
        if count % 2 == 0:
            return node
        return Call(position, "!_" if sign == "!" else "-_", None, (node,))

    def member(self, node: Node) -> Node:
        """Read what follows an operand: fields, calls of methods, indices."""
        links = 0
        while self.tokens.peek() in (".", "["):
            links += 1
            if links > MAX_DEPTH:
                raise CompileError("max recursion depth exceeded")
            sign, position = self.tokens.take()[1:]
            optional = self.tokens.accept("?")
            if sign == "[":
                index = self.expression()
                self.tokens.expect("]")
                node = Call(position, "_[?_]" if optional else "_[_]", None, (node, index))
            elif optional:
                name = Literal(self.tokens.next[2], self.name())
                node = Call(position, "_?._", None, (node, name))
            else:
                name_of_field = self.name()
                if self.tokens.peek() == "(":
                    node = self.call(name_of_field, node)
                else:
                    node = Select(position, node, name_of_field)
        return node

    def name(self) -> str:
        kind, text, position = self.tokens.take()
        if kind != "name" or text in ("in", "true", "false", "null"):
            raise unexpected(text, position, " expecting IDENTIFIER")
        return text

    def call(self, function: str, target: Node | None) -> Node:
        position = self.tokens.expect("(")
        arguments = tuple(self.arguments())
        expanded = expand(position, function, target, arguments)
        return expanded or Call(position, function, target, arguments)

    def arguments(self) -> Iterator[Node]:
        first = True
        while not self.tokens.accept(")"):
            if not first:
                self.tokens.expect(",")
            first = False
            yield self.expression()

    def primary(self) -> Node:
        kind, text, position = self.tokens.take()
        if kind in ("int", "uint", "float", "string"):
            return self.literal(kind, text, position)
        if text in ("true", "false", "null"):
            return Literal(position, {"true": True, "false": False, "null": None}[text])
        if text == "(":
            node = self.expression()
            self.tokens.expect(")")
            return node
        if text == "[":
            elements, optional = self.entries("]", self.expression)
            return MakeList(position, elements, optional)
        if text == "{":
            pairs, optional = self.entries("}", self.pair)
            return MakeMap(position, pairs, optional)
        leading = text == "."
        if leading:
            kind, text, position = self.tokens.take()
        if kind != "name":
            raise unexpected(text, position)
        if text in _RESERVED:
            raise CompileError(f"reserved identifier: {text}", position)
        return self.call(text, None) if self.tokens.peek() == "(" else Ident(position, text)

    def literal(self, kind: str, text: str, position: int) -> Node:
        try:
            return Literal(position, value_of(kind, text))
        except ValueError as error:
            raise CompileError(str(error), position) from None

    def entries(self, end: str, read: Callable[[], _T]) -> tuple[tuple[_T, ...], frozenset[int]]:
        """Read a list or a map up to its end; return its entries, and which are optional."""
        found: list[_T] = []
        optional: set[int] = set()
        while not self.tokens.accept(end):
            if found:
                self.tokens.expect(",")
            if self.tokens.accept(end):
                break
            if not found and self.tokens.peek() == ",":
                self.tokens.take()
                self.tokens.expect(end)
                break
            if self.tokens.accept("?"):
                optional.add(len(found))
            found.append(read())
        return tuple(found), frozenset(optional)

    def pair(self) -> tuple[Node, Node]:
        key = self.expression()
        self.tokens.expect(":")
        return key, self.expression()
