"""The tree of a CEL expression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from podsched.api.cel.errors import CompileError

#: Nodes of the tree with macros unfolded, and its depth. What 10 KiB of text need is far less.
MAX_NODES = 50_000
MAX_TREE_DEPTH = 350

#: The accumulator of macros; not a name that an expression can contain.
ACCUMULATOR = "@result"
UNUSED = "#unused"


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
    """A map; ``optional`` has the indices of entries written with a question mark."""

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
        return self.variables == (UNUSED,)
