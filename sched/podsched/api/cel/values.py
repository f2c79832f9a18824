"""CEL's values in Python, their equality, order and arithmetic (cel-go v0.26 ``common/types``).

====================  ==========================================================================
CEL                   Python
====================  ==========================================================================
bool, int, string...  bool, int, str, bytes, float, None
uint                  Uint
list, map             list, dict; keys that are bool or double are wrapped, since 1 == True == 1.0
timestamp, duration   Timestamp, Duration: nanoseconds
optional              Optional
an error              Failure: a value, since ``||``, ``&&`` and ``all`` absorb errors
====================  ==========================================================================

Integers keep within their 64 bits: results beyond are failures.
"""

from __future__ import annotations

import enum
import ipaddress
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from podsched.api.cel import types
from podsched.api.cel.types import Type


class Uint(int):
    """An unsigned integer of 64 bits."""

    __slots__ = ()


class BoolKey(enum.Enum):
    """A key of a map that is a bool."""

    FALSE = False
    TRUE = True


@dataclass(frozen=True, slots=True)
class DoubleKey:
    """A key of a map that is a double: integers do not find it."""

    value: float


@dataclass(frozen=True, slots=True)
class Failure:
    """An error during evaluation."""

    message: str


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A time, in nanoseconds since 1970 in UTC."""

    ns: int


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time in nanoseconds."""

    ns: int


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be missing; ``value`` is ignored unless ``present``."""

    present: bool
    value: Any = None


NONE = Optional(False)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity of Kubernetes, in nanos.

    ``scale`` is the power of ten by which Go keeps it as an int64, or None if it keeps it as a big
    decimal. It decides whether Go converts the quantity to an integer.

    ``computed``: a sum or difference, to which v1.36 refuses to compare another quantity with
    ``==``; with it on the left it does.
    """

    nanos: int
    scale: int | None
    computed: bool = False


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; ``key`` orders it, without the build's metadata."""

    major: int
    minor: int
    patch: int
    key: Any


@dataclass(frozen=True, slots=True)
class Ip:
    """An address of IPv4 or IPv6."""

    address: ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network, with the address as it was written."""

    interface: ipaddress.IPv4Interface | ipaddress.IPv6Interface


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts, as Go's net/url has them; ``text`` as it writes it."""

    text: str
    scheme: str
    path: str
    query: str
    #: With the port; alone; and the port.
    host: str = ""
    name: str = ""
    port: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """A named format. ``errors`` returns what is wrong with a string."""

    name: str
    errors: Callable[[str], Sequence[str]]
    #: Length of its regular expression, for the cost.
    size: int


NO_OVERLOAD = Failure("no such overload")
_MIN, _MAX, _UMAX = -(2**63), 2**63 - 1, 2**64 - 1

#: Python's class of each type of CEL's values.
CLASSES: dict[str, type] = {
    "bool": bool,
    "int": int,
    "uint": Uint,
    "double": float,
    "string": str,
    "bytes": bytes,
    "null_type": type(None),
    "list": list,
    "map": dict,
    "type": Type,
    "optional_type": Optional,
    types.DURATION.name: Duration,
    types.TIMESTAMP.name: Timestamp,
    types.QUANTITY.name: Quantity,
    types.SEMVER.name: Semver,
    types.IP.name: Ip,
    types.CIDR.name: Cidr,
    types.URL.name: Url,
    types.FORMAT.name: Format,
}
_NAMES = {class_: name for name, class_ in CLASSES.items()}


class Defaulting(dict[str, dict[str, Any]]):
    """The attributes of a device by domain: an unknown domain has none."""

    __slots__ = ()

    def __missing__(self, key: str) -> dict[str, Any]:
        return {}


_NAMES[Defaulting] = "map"


class Budget:
    """Work that CEL's costs do not count, such as comparing lists within lists.

    Bounded so that no expression takes longer than its cost limit lets one expect.
    """

    __slots__ = ("left",)

    #: Values compared or written, and sixteen times as many copied: a quarter of a second.
    MOST = 300_000

    def __init__(self) -> None:
        self.left = self.MOST

    def spend(self, work: int) -> None:
        """Count work. Raises WorkExceeded."""
        self.left -= work
        if self.left < 0:
            raise WorkExceeded


class WorkExceeded(Exception):
    """The evaluation did more than it may."""


def type_name(value: Any) -> str:
    """Return the name of the value's type."""
    return _NAMES.get(type(value), "error")


def size_of(value: Any) -> int:
    """Return the size that costs count: characters, bytes, elements; 1 for everything else."""
    class_ = type(value)
    if class_ in _SIZED:
        return len(value)
    if class_ is Optional:
        return size_of(value.value) if value.present else 1
    if class_ is Ip:
        return int(value.address.max_prefixlen) // 8
    if class_ is Cidr:
        return -(-int(value.interface.network.prefixlen) // 8)
    return 1


_SIZED = frozenset((str, bytes, list, dict, Defaulting))
_NUMBERS = frozenset((int, Uint, float))


def equal(one: Any, other: Any, budget: Budget) -> bool | Failure:
    """Return whether the values are equal; a failure where Kubernetes' types refuse to compare."""
    class_ = type(one)
    if class_ is str:
        return type(other) is str and one == other
    if one is None or other is None:
        return one is other
    if class_ in _NUMBERS:
        if type(other) not in _NUMBERS:
            return False
        one, other = _numbers(one, other)
        return bool(one == other)
    if class_ in _CONTAINERS:
        return _equal_containers(one, other, budget)
    if class_ in _STRICT:
        return NO_OVERLOAD if type(other) is not class_ else _STRICT[class_](one, other)
    if class_ is Optional:
        if type(other) is not Optional or one.present != other.present:
            return False
        return not one.present or equal(one.value, other.value, budget)
    return type(other) is class_ and bool(one == other)


def _numbers(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two numbers as Go compares them: an integer with a double as doubles, rounded."""
    if (one.__class__ is float) is (other.__class__ is float):
        return one, other
    return float(one), float(other)


def _equal_containers(one: Any, other: Any, budget: Budget) -> bool:
    # ``is not False``: as in cel-go, elements that refuse to be compared do not differ.
    if isinstance(one, list):
        if not isinstance(other, list) or len(one) != len(other):
            return False
        budget.spend(len(one))
        return all(equal(a, b, budget) is not False for a, b in zip(one, other, strict=True))
    if not isinstance(other, dict) or len(one) != len(other):
        return False
    budget.spend(len(one))
    return all(
        key in other and equal(value, other[key], budget) is not False for key, value in one.items()
    )


_CONTAINERS = frozenset((list, dict, Defaulting))
_STRICT: dict[type, Callable[[Any, Any], bool | Failure]] = {
    Quantity: lambda a, b: NO_OVERLOAD if b.computed else a.nanos == b.nanos,
    Semver: lambda a, b: a.key == b.key,
    Ip: lambda a, b: a.address == b.address,
    Cidr: lambda a, b: a.interface == b.interface,
    Url: lambda a, b: a.text == b.text,
    Format: lambda a, b: a.name == b.name,
}


def find(container: Any, key: Any) -> Any:
    """Return the value of a map's key, or MISSING."""
    class_ = type(key)
    if class_ is bool:
        key = BoolKey(key)
    elif class_ is float and DoubleKey(key) in container:
        key = DoubleKey(key)
    try:
        return container[key]
    except (KeyError, TypeError):
        return MISSING


MISSING: Any = Failure("no such key")


def key_of(value: Any) -> Any:
    """Return the value as a key of a dict; a failure if it can be none."""
    class_ = type(value)
    if class_ is bool:
        return BoolKey(value)
    if class_ is float:
        return DoubleKey(value)
    if value is None or class_ in (str, int, Uint, Timestamp, Duration):
        return value
    return Failure(f"unsupported key type: {type_name(value)}")


def keys(container: dict[Any, Any]) -> list[Any]:
    """Return the keys of a map as values."""
    return [key.value if type(key) in (BoolKey, DoubleKey) else key for key in container]


def compare(one: Any, other: Any) -> int | Failure:
    """Return -1, 0 or 1; a failure if the values have no order."""
    class_, other_class = type(one), type(other)
    if class_ in _NUMBERS and other_class in _NUMBERS:
        one, other = _numbers(one, other)
        if one != one or other != other:
            return Failure("NaN values cannot be ordered")
    elif class_ is not other_class or class_ not in _ORDERED:
        return NO_OVERLOAD
    elif class_ in (Timestamp, Duration):
        one, other = one.ns, other.ns
    return int(one > other) - int(one < other)


_ORDERED = frozenset((str, bool, bytes, Timestamp, Duration))


def checked(number: int) -> int | Failure:
    """Return the integer if it has 64 bits."""
    return number if _MIN <= number <= _MAX else Failure("integer overflow")


def checked_uint(number: int) -> Uint | Failure:
    """Return the unsigned integer if it has 64 bits."""
    return Uint(number) if 0 <= number <= _UMAX else Failure("unsigned integer overflow")


def checked_duration(ns: int) -> Duration | Failure:
    """Return the duration if its nanoseconds have 64 bits."""
    return Duration(ns) if _MIN <= ns <= _MAX else Failure("integer overflow")


#: Years 1 to 9999.
_FIRST_NS, _LAST_NS = -62135596800 * 10**9, 253402300799 * 10**9 + 999_999_999


def checked_timestamp(ns: int) -> Timestamp | Failure:
    """Return the time if it is within the years 1 to 9999."""
    return Timestamp(ns) if _FIRST_NS <= ns <= _LAST_NS else Failure("timestamp overflow")


def truncated(one: int, other: int) -> int:
    """Divide as Go does, toward zero."""
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def divide_double(one: float, other: float) -> float:
    """Divide as IEEE 754 says, by zero too."""
    if other:
        return one / other
    if one != one or one == 0:
        return math.nan
    return math.copysign(math.inf, one) * math.copysign(1, other)
