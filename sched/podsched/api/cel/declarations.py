"""The functions of CEL: their overloads, and which one is called for which values.

A module of functions declares them with a decorator that takes the signature as text::

    @declare(".startsWith(string, string) -> bool")
    def starts_with(text: str, prefix: str) -> bool: ...

or, where an expression says it all, in a table (``declare_each``). A dot at the start makes it a
method of its first parameter. The text before the arrow is the overload's name; costs are looked up
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from podsched.api.cel.types import Type, parsed
from podsched.api.cel.values import CLASSES, Defaulting, Failure, keys, type_name

Implementation = Callable[..., Any]
_F = TypeVar("_F", bound=Implementation)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; the first parameter of a method is its target."""

    name: str
    is_method: bool
    parameters: tuple[Type, ...]
    result: Type
    implementation: Implementation
    #: Whether the implementation takes a Budget as its last argument.
    takes_budget: bool

    def accepts(self, arguments: tuple[Any, ...]) -> bool:
        return len(arguments) == len(self.parameters) and all(
            map(_accepts, self.parameters, arguments)
        )


@dataclass(slots=True)
class Function:
    """All overloads of a name.

    ``shared``: cel-go has one implementation for all of them, so that an overload chosen by the
    check of types does not bind during evaluation.
    """

    name: str
    shared: bool
    overloads: list[Overload] = field(default_factory=list)


FUNCTIONS: dict[str, Function] = {}


def declare(*signatures: str, shared: bool = False, budget: bool = False) -> Callable[[_F], _F]:
    """Declare overloads of the decorated implementation, see the module's docstring."""

    def declared(implementation: _F) -> _F:
        for signature in signatures:
            _declare(signature, implementation, shared, budget)
        return implementation

    return declared


def declare_each(
    functions: Mapping[str, Implementation], *, shared: bool = False, budget: bool = False
) -> None:
    """Declare implementations by their signatures."""
    for signature, implementation in functions.items():
        _declare(signature, implementation, shared, budget)


def _declare(signature: str, implementation: Implementation, shared: bool, budget: bool) -> None:
    name, _, result = signature.partition(" -> ")
    is_method = name.startswith(".")
    start = name.index("(")
    types = parsed("parameters" + name[start:]).parameters if not name.endswith("()") else ()
    function = name[:start].removeprefix(".")
    overload = Overload(name, is_method, types, parsed(result), implementation, budget)
    FUNCTIONS.setdefault(function, Function(function, shared)).overloads.append(overload)


def _accepts(type_: Type, value: Any) -> bool:
    """Return whether a value is of the type, as far as cel-go looks: at a container's first."""
    if type_.is_variable or type_.is_dynamic:
        return True
    class_ = type(value)
    if class_ is not CLASSES.get(type_.name) and not (class_ is Defaulting and type_.name == "map"):
        return False
    if not type_.parameters or not value:
        return True
    if class_ is list:
        return _accepts(type_.parameters[0], value[0])
    if type_.name == "map":
        first = next(iter(value))
        return _accepts(type_.parameters[0], keys({first: 0})[0]) and _accepts(
            type_.parameters[1], value[first]
        )
    return True


def no_overload(function: str, arguments: tuple[Any, ...]) -> Failure:
    """Return the error of a call that no overload takes."""
    names = ", ".join(map(type_name, arguments))
    return Failure(f"no such overload: {function}({names})")
