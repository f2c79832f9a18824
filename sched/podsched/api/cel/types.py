"""CEL's types, and when one can stand for another (cel-go v0.26 ``checker/types.go``)."""

from __future__ import annotations

from collections.abc import Sequence

from podsched.api.cel.errors import CompileError

#: Parts of a type.
MAX_TYPE = 1000
#: Parts of types that are looked at to find out what variables stand for.
MAX_STEPS = 500_000


class Type:
    """A type by name, with its parameters. A name that begins with a quote is a type's variable.

    Not a dataclass: types nest deeply, so hash and variables are found out once. Raises
    CompileError for a type with more than MAX_TYPE parts: types double with ``{v: v}``.
    """

    __slots__ = (
        "_hash",
        "has_variables",
        "is_dynamic",
        "is_variable",
        "name",
        "parameters",
        "size",
    )

    def __init__(self, name: str, parameters: tuple[Type, ...] = ()) -> None:
        self.size: int = 1 + sum([p.size for p in parameters])
        if self.size > MAX_TYPE:
            raise CompileError("type is too large")
        self.name = name
        self.parameters = parameters
        self.is_variable = name.startswith("'")
        #: Whether values of every type may be meant, known only during evaluation.
        self.is_dynamic = name in ("dyn", "google.protobuf.Any")
        self.has_variables: bool = self.is_variable or any(p.has_variables for p in parameters)
        self._hash = hash((name, parameters))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Type)
            and self._hash == other._hash
            and self.name == other.name
            and self.parameters == other.parameters
        )

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


BOOL = Type("bool")
BYTES = Type("bytes")
DOUBLE = Type("double")
DURATION = Type("google.protobuf.Duration")
DYN = Type("dyn")
ANY = Type("google.protobuf.Any")
INT = Type("int")
NULL = Type("null_type")
STRING = Type("string")
TIMESTAMP = Type("google.protobuf.Timestamp")
UINT = Type("uint")
QUANTITY = Type("kubernetes.Quantity")
SEMVER = Type("kubernetes.Semver")
URL = Type("kubernetes.URL")
FORMAT = Type("kubernetes.NamedFormat")
IP = Type("net.IP")
CIDR = Type("net.CIDR")
DEVICE = Type("kubernetes.DRADevice")

#: Types that ``null`` may stand for.
_NULLABLE = frozenset((QUANTITY, SEMVER, URL, FORMAT, IP, CIDR, DURATION, TIMESTAMP, DEVICE))


def list_of(element: Type) -> Type:
    """Return the type of lists of an element."""
    return Type("list", (element,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps."""
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    """Return the type of values that may be missing."""
    return Type("optional_type", (value,))


def type_of(value: Type) -> Type:
    """Return the type of a type's name."""
    return Type("type", (value,))


class Substitutions:
    """What the variables of types stand for, as found out so far.

    Bindings that were made on the way to a mismatch are undone, for which they are journalled.
    """

    def __init__(self) -> None:
        self._bound: dict[Type, Type] = {}
        self._journal: list[tuple[Type, Type | None]] = []
        self._final: dict[Type, Type] = {}
        self._fresh = 0
        self._steps = 0

    def fresh(self) -> Type:
        self._fresh += 1
        return Type(f"'{self._fresh}")

    def assignable(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Return whether each given type can stand for the wanted one; bind variables if so."""
        mark = len(self._journal)
        if len(given) == len(wanted) and all(map(self._assignable, given, wanted)):
            return True
        while len(self._journal) > mark:
            variable, before = self._journal.pop()
            if before is None:
                del self._bound[variable]
            else:
                self._bound[variable] = before
        return False

    def apply(self, type_: Type, *, final: bool = False) -> Type:
        """Return the type with its variables replaced.

        ``final``: the unknown ones by dyn; no variable is bound afterwards.
        """
        if not type_.has_variables:
            return type_
        if final and type_ in self._final:
            return self._final[type_]
        self._step()
        found = self._bound.get(type_)
        if found is not None:
            found = self.apply(found, final=final)
        elif type_.is_variable:
            found = DYN if final else type_
        else:
            parts = [self.apply(p, final=final) for p in type_.parameters]
            found = Type(type_.name, tuple(parts))
        if final:
            self._final[type_] = found
        return found

    def instance(self, types: Sequence[Type]) -> list[Type]:
        """Return the types of an overload with variables of its own."""
        names: dict[Type, Type] = {}

        def renamed(type_: Type) -> Type:
            if type_.is_variable:
                if type_ not in names:
                    names[type_] = self.fresh()
                return names[type_]
            if not type_.has_variables:
                return type_
            return Type(type_.name, tuple(map(renamed, type_.parameters)))

        return list(map(renamed, types))

    def _bind(self, variable: Type, type_: Type) -> None:
        self._journal.append((variable, self._bound.get(variable)))
        self._bound[variable] = type_

    def _step(self, parts: int = 1) -> None:
        self._steps += parts
        if self._steps > MAX_STEPS:
            raise CompileError("types are too complex")

    def _assignable(self, given: Type, wanted: Type) -> bool:
        # That two types are equal, or one more general, is seen in all their parts.
        self._step(max(given.size, wanted.size))
        if wanted.is_variable:
            valid, bound = self._substitutes(given, wanted)
            if valid or bound:
                return valid
        if given.is_variable:
            return self._substitutes(wanted, given)[0]
        if given == wanted or given.is_dynamic or wanted.is_dynamic:
            return True
        if NULL in (given, wanted):
            other = wanted if given == NULL else given
            return other in _NULLABLE or other in (NULL, ANY) or other.name == "optional_type"
        if given.name != wanted.name:
            return False
        if given.name == "type":
            return True
        return len(given.parameters) == len(wanted.parameters) and all(
            map(self._assignable, given.parameters, wanted.parameters)
        )

    def _substitutes(self, type_: Type, variable: Type) -> tuple[bool, bool]:
        """Return whether the variable can stand for the type, and whether it was bound before."""
        if type_ == variable:
            return True, True
        bound = self._bound.get(variable)
        if bound is not None:
            if type_ == bound:
                return True, True
            if not self._assignable(type_, bound):
                return False, True
            general = most_general(type_, bound)
            if not self._occurs(variable, general):
                self._bind(variable, general)
            return True, True
        if self._occurs(variable, type_):
            return False, False
        self._bind(variable, type_)
        return True, False

    def _occurs(self, variable: Type, within: Type) -> bool:
        self._step()
        if variable == within:
            return True
        if within.is_variable:
            bound = self._bound.get(within)
            return bound is not None and self._occurs(variable, bound)
        return within.has_variables and any(self._occurs(variable, p) for p in within.parameters)


def most_general(one: Type, other: Type) -> Type:
    """Return the more general of two types of which one can stand for the other."""
    return one if _less_specific(one, other) else other


def _less_specific(one: Type, other: Type) -> bool:
    if one.is_dynamic or one.is_variable:
        return True
    if other.is_dynamic or other.is_variable or one.name != other.name:
        return False
    return one.name == "type" or all(map(_less_specific, one.parameters, other.parameters))


def parsed(text: str) -> Type:
    """Return the type that a declaration writes, such as ``list('T)``."""
    name, _, rest = text.partition("(")
    if not rest:
        return _WRITTEN.get(name) or Type(name)
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if (letter == "," and not depth) or depth < 0:
            parts.append(rest[start:index].strip())
            start = index + 1
    return Type({"optional": "optional_type"}.get(name, name), tuple(map(parsed, parts)))


_WRITTEN = {
    "duration": DURATION,
    "timestamp": TIMESTAMP,
    "any": ANY,
    "Quantity": QUANTITY,
    "Semver": SEMVER,
    "URL": URL,
    "Format": FORMAT,
    "IP": IP,
    "CIDR": CIDR,
}
