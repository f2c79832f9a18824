"""What is known of the sizes of values when the cost of an expression is estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsched.api.cel.costs import ONE, Size
from podsched.api.cel.tree import Ident, Literal, MakeList, MakeMap, Node
from podsched.api.cel.types import Type

_SCALARS = frozenset(
    ("bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp")
)


@dataclass(frozen=True, slots=True)
class Declared:
    """The sizes that values of a variable's type can have; what is below it, by path."""

    size: int
    fields: Mapping[str, Declared] | None = None
    keys: Declared | None = None
    elements: Declared | None = None
    #: Whether each name is a field of its elements' kind.
    open: bool = False


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """The sizes of what a list or map contains."""

    is_map: bool
    keys: Size
    values: Size

    def union(self, other: Entries | None) -> Entries | None:
        """Return the sizes of what either of two contains; None if those of one are unknown."""
        if other is None:
            return None
        return Entries(self.is_map, self.keys.union(other.keys), self.values.union(other.values))


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a value: its path, its size and that of what it contains."""

    path: Path
    size: Size | None
    entries: Entries | None = None


class Sizes:
    """What is known of the values of an expression's nodes, and of its variables."""

    def __init__(self, variables: Mapping[str, Declared]) -> None:
        self._variables = variables
        self._locals: dict[str, list[Known]] = {}
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Size] = {}
        self._entries: dict[int, Entries] = {}

    def bind(self, name: str, value: Known) -> None:
        """Begin the scope of a macro's variable."""
        self._locals.setdefault(name, []).append(value)

    def unbind(self, name: str) -> None:
        """End the scope of a macro's variable."""
        self._locals[name].pop()

    def note(
        self, node: Node, path: Path = (), size: Size | None = None, entries: Entries | None = None
    ) -> None:
        """Remember what is found out about a node's value."""
        if path:
            self._paths[id(node)] = path
        if size is not None:
            self._sizes[id(node)] = size
        if entries is not None:
            self._entries[id(node)] = entries

    def local(self, node: Node) -> Known | None:
        """Return what is known of a macro's variable; None for another node."""
        stack = self._locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def known(self, node: Node) -> Known:
        """Return all that is known of a node's value."""
        return Known(self.path(node), self.size(node), self.entries(node))

    def path(self, node: Node) -> Path:
        """Return the path from a declared variable to the node's value; empty if unknown."""
        local = self.local(node)
        return self._paths.get(id(node), ()) if local is None else local.path

    def entries(self, node: Node) -> Entries | None:
        """Return the sizes of what the node's value contains; None if nothing is known."""
        found = self._entries.get(id(node))
        if found is not None:
            return found
        local = self.local(node)
        return None if local is None else local.entries

    def size(self, node: Node) -> Size | None:
        """Return the bounds of the size of the node's value; None if nothing is known."""
        found = self._sizes.get(id(node)) or _own_size(node)
        if found is not None:
            return found
        declared = self.declared(self.path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _is_scalar(node.type):
            return ONE
        local = self.local(node)
        return None if local is None else local.size

    def declared(self, path: Path) -> Size | None:
        """Return the declared bounds of the size of what is at a path."""
        declared = self._variables.get(path[0]) if path else None
        for step in path[1:]:
            if declared is None:
                return None
            if step in ("@items", "@values"):
                declared = declared.elements
            elif step == "@keys":
                declared = declared.keys
            elif declared.fields is not None and step in declared.fields:
                declared = declared.fields[step]
            else:
                declared = declared.elements if declared.open else None
        return None if declared is None else Size(0, declared.size)


def _own_size(node: Node) -> Size | None:
    if isinstance(node, Literal):
        size = len(node.value) if isinstance(node.value, (str, bytes)) else 1
    elif isinstance(node, MakeList):
        size = len(node.elements)
    elif isinstance(node, MakeMap):
        size = len(node.entries)
    else:
        return None
    return Size(size, size)


def _is_scalar(type_: Type) -> bool:
    if type_.name == "optional_type":
        return _is_scalar(type_.parameters[0])
    return type_.name in _SCALARS
