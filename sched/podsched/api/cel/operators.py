"""CEL's operators and conversions (cel-go v0.26 ``common/stdlib``)."""

from __future__ import annotations

import math
import re
from typing import Any

from podsched.api.cel.declarations import declare, declare_each
from podsched.api.cel.times import duration_text, parse_duration, parse_timestamp, timestamp_text
from podsched.api.cel.types import Type
from podsched.api.cel.values import (
    CLASSES,
    MISSING,
    Budget,
    Cidr,
    Defaulting,
    Duration,
    Failure,
    Ip,
    Timestamp,
    Uint,
    checked,
    checked_duration,
    checked_timestamp,
    checked_uint,
    compare,
    divide_double,
    equal,
    find,
    truncated,
    type_name,
)
from podsched.lib.go_bools import GO_BOOLS


def _unreachable(*_: Any) -> Any:
    """Stand for what the compiler of programs evaluates itself."""
    raise AssertionError


for _signature in (
    "_?_:_(bool, 'A, 'A) -> 'A",
    "_&&_(bool, bool) -> bool",
    "_||_(bool, bool) -> bool",
    "@not_strictly_false(dyn) -> bool",
    "_[_](list('A), int) -> 'A",
    "_[_](map('A, 'B), 'A) -> 'B",
    "_[_](optional(list('V)), int) -> optional('V)",
    "_[_](optional(map('K, 'V)), 'K) -> optional('V)",
    "_[?_](list('V), int) -> optional('V)",
    "_[?_](optional(list('V)), int) -> optional('V)",
    "_[?_](map('K, 'V), 'K) -> optional('V)",
    "_[?_](optional(map('K, 'V)), 'K) -> optional('V)",
    ".or(optional('V), optional('V)) -> optional('V)",
    ".orValue(optional('V), 'V) -> 'V",
):
    declare(_signature, shared=True)(_unreachable)


def _divide(one: int, other: int) -> int | Failure:
    return checked(truncated(one, other)) if other else Failure("division by zero")


def _divide_uint(one: int, other: int) -> Uint | Failure:
    return Uint(int(one) // int(other)) if other else Failure("division by zero")


def _modulo(one: int, other: int) -> int | Failure:
    if other == -1 and one == -(2**63):
        return Failure("integer overflow")
    return one - other * truncated(one, other) if other else Failure("modulus by zero")


def _modulo_uint(one: int, other: int) -> Uint | Failure:
    return Uint(int(one) % int(other)) if other else Failure("modulus by zero")


@declare(
    *("_+_(bytes, bytes) -> bytes", "_+_(string, string) -> string"),
    "_+_(list('A), list('A)) -> list('A)",
    shared=True,
    budget=True,
)
def _concatenated(one: Any, other: Any, budget: Budget) -> Any:
    # Lists, and texts whose types are not known, cost nothing by their lengths.
    budget.spend((len(one) + len(other)) // 16)
    return one + other


declare_each(
    {
        "!_(bool) -> bool": lambda value: not value,
        "_+_(double, double) -> double": lambda one, other: one + other,
        "_+_(int, int) -> int": lambda one, other: checked(one + other),
        "_+_(uint, uint) -> uint": lambda one, other: checked_uint(int(one) + int(other)),
    },
    shared=True,
)


declare_each(
    {
        "_==_('A, 'A) -> bool": equal,
        # As in cel-go, true also if the comparison fails.
        "_!=_('A, 'A) -> bool": lambda one, other, budget: equal(one, other, budget) is not True,
    },
    budget=True,
    shared=True,
)
declare_each(
    {
        "_+_(duration, duration) -> duration": lambda a, b: checked_duration(a.ns + b.ns),
        "_+_(timestamp, duration) -> timestamp": lambda a, b: checked_timestamp(a.ns + b.ns),
        "_+_(duration, timestamp) -> timestamp": lambda a, b: checked_timestamp(a.ns + b.ns),
        "_-_(double, double) -> double": lambda one, other: one - other,
        "_-_(int, int) -> int": lambda one, other: checked(one - other),
        "_-_(uint, uint) -> uint": lambda one, other: checked_uint(int(one) - int(other)),
        "_-_(duration, duration) -> duration": lambda a, b: checked_duration(a.ns - b.ns),
        "_-_(timestamp, timestamp) -> duration": lambda a, b: checked_duration(a.ns - b.ns),
        "_-_(timestamp, duration) -> timestamp": lambda a, b: checked_timestamp(a.ns - b.ns),
        "_*_(double, double) -> double": lambda one, other: one * other,
        "_*_(int, int) -> int": lambda one, other: checked(one * other),
        "_*_(uint, uint) -> uint": lambda one, other: checked_uint(int(one) * int(other)),
        "_/_(double, double) -> double": divide_double,
        "_/_(int, int) -> int": _divide,
        "_/_(uint, uint) -> uint": _divide_uint,
        "_%_(int, int) -> int": _modulo,
        "_%_(uint, uint) -> uint": _modulo_uint,
        "-_(double) -> double": lambda value: -value,
        "-_(int) -> int": lambda value: checked(-value),
    },
    shared=True,
)

_COMPARED = (
    *((name, name) for name in ("bool", "int", "uint", "double", "string", "bytes")),
    *(("int", name) for name in ("double", "uint")),
    *(("uint", name) for name in ("double", "int")),
    *(("double", name) for name in ("int", "uint")),
    ("timestamp", "timestamp"),
    ("duration", "duration"),
)


def _declare_order(operator: str, accepted: frozenset[int]) -> None:
    def ordered(one: Any, other: Any) -> bool | Failure:
        order = compare(one, other)
        return order if isinstance(order, Failure) else order in accepted

    for one, other in _COMPARED:
        declare(f"{operator}({one}, {other}) -> bool", shared=True)(ordered)


_declare_order("_<_", frozenset((-1,)))
_declare_order("_<=_", frozenset((-1, 0)))
_declare_order("_>_", frozenset((1,)))
_declare_order("_>=_", frozenset((0, 1)))


@declare("@in('A, list('A)) -> bool", "@in('A, map('A, 'B)) -> bool", shared=True, budget=True)
def contained(value: Any, container: Any, budget: Budget) -> bool:
    """Return whether a list has an element, or a map a key."""
    if isinstance(container, Defaulting):
        # As cel-go's mapper for devices: every domain is there for an index, but not for ``in``.
        return isinstance(value, str) and value in container
    if isinstance(container, dict):
        return find(container, value) is not MISSING
    budget.spend(len(container) // 16)
    return any(equal(value, element, budget) is True for element in container)


@declare(
    *(f"size({name}) -> int" for name in ("bytes", "list('A)", "map('A, 'B)", "string")),
    shared=True,
)
@declare(
    *(f".size({name}) -> int" for name in ("bytes", "list('A)", "map('A, 'B)", "string")),
    shared=True,
)
def _size(value: Any) -> int:
    return len(value)


@declare("type('A) -> type('A)", shared=True)
def _type_value(value: Any) -> Type:
    return Type(type_name(value)) if type(value) is not Type else Type("type")


@declare("dyn('A) -> dyn", shared=True)
@declare("bool(bool) -> bool", "bytes(bytes) -> bytes", "double(double) -> double")
@declare("duration(duration) -> duration", "int(int) -> int", "string(string) -> string")
@declare("timestamp(timestamp) -> timestamp", "uint(uint) -> uint")
def _same(value: Any) -> Any:
    return value


def _unconverted(value: Any, name: str) -> Failure:
    return Failure(f"type conversion error from '{type_name(value)}' to '{name}'")


declare_each(
    {
        "bytes(string) -> bytes": lambda text: text.encode("utf-8", "surrogatepass"),
        "double(int) -> double": float,
        "double(uint) -> double": float,
        # cel-go declares it, but has no conversion.
        "duration(int) -> duration": lambda value: _unconverted(value, "google.protobuf.Duration"),
        "timestamp(int) -> timestamp": lambda value: checked_timestamp(value * 10**9),
        "int(duration) -> int": lambda value: value.ns,
        "int(timestamp) -> int": lambda value: value.ns // 10**9,
        "int(uint) -> int": lambda value: checked(int(value)),
        "int(string) -> int": lambda text: _string_to_integer(text, "int"),
        "uint(int) -> uint": checked_uint,
        "uint(string) -> uint": lambda text: _string_to_integer(text, "uint"),
        "uint(double) -> uint": lambda value: (
            Uint(int(value)) if 0 <= value < 2.0**64 else Failure("unsigned integer overflow")
        ),
    }
)


@declare("bool(string) -> bool")
def _string_to_bool(text: str) -> bool | Failure:
    found = GO_BOOLS.get(text)
    return _unconverted(text, "bool") if found is None else found


#: Longest text that is read as a number or a time, which costs nothing by its length.
_LONGEST = 400
_DIGITS = "[0-9]+(?:_[0-9]+)*"
#: As ``strconv.ParseFloat`` takes them, but for hexadecimal numbers.
_DOUBLE = re.compile(
    rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?"
    "|[+-]?inf(?:inity)?|nan",
    re.ASCII | re.IGNORECASE,
)


@declare("double(string) -> double")
def _string_to_double(text: str) -> float | Failure:
    if len(text) > _LONGEST or _DOUBLE.fullmatch(text) is None:
        return _unconverted(text, "double")
    value = float(text)
    if math.isinf(value) and text[-1].isdigit():
        return _unconverted(text, "double")
    return value


@declare("duration(string) -> duration")
def _string_to_duration(text: str) -> Duration | Failure:
    ns = parse_duration(text) if len(text) <= _LONGEST else None
    return _unconverted(text, "google.protobuf.Duration") if ns is None else Duration(ns)


@declare("timestamp(string) -> timestamp")
def _string_to_timestamp(text: str) -> Timestamp | Failure:
    ns = parse_timestamp(text) if len(text) <= _LONGEST else None
    if ns is None:
        return _unconverted(text, "google.protobuf.Timestamp")
    return checked_timestamp(ns)


@declare("int(double) -> int")
def _double_to_int(value: float) -> int | Failure:
    # As in cel-go, the bounds themselves are refused: they are not exact as doubles.
    if not -(2.0**63) < value < 2.0**63:
        return Failure("integer overflow")
    return int(value)


def _string_to_integer(text: str, name: str) -> int | Failure:
    digits = text[1:] if name == "int" and text[:1] in ("+", "-") else text
    if len(text) > _LONGEST or not (digits.isascii() and digits.isdecimal()):
        return _unconverted(text, name)
    check = checked if name == "int" else checked_uint
    number = check(-int(digits) if text[0] == "-" else int(digits))
    return _unconverted(text, name) if isinstance(number, Failure) else number


@declare(
    *(f"string({name}) -> string" for name in CLASSES if name in ("bool", "int", "uint", "double")),
    "string(bytes) -> string",
    "string(duration) -> string",
    "string(timestamp) -> string",
    "string(IP) -> string",
    "string(CIDR) -> string",
)
def _to_string(value: Any) -> str | Failure:
    text = text_of(value)
    return _unconverted(value, "string") if text is None else text


def text_of(value: Any) -> str | None:
    """Return the value as ``string()`` writes it; None if it has no text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, (str, int)):
        return value if isinstance(value, str) else str(int(value))
    return _other_text(value)


def _other_text(value: Any) -> str | None:
    if isinstance(value, Timestamp):
        return timestamp_text(value.ns)
    if isinstance(value, Duration):
        return duration_text(value.ns)
    if isinstance(value, Ip):
        return str(value.address)
    if isinstance(value, Cidr):
        return f"{value.interface.ip}/{value.interface.network.prefixlen}"
    return None


def double_text(value: float) -> str:
    """Return a double as Go's %g does."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    # The shortest digits that are read back as the same number; both write them.
    mantissa, exponent = _shortest(value)
    if -4 <= exponent < 6:
        return f"{value:.{max(len(mantissa.lstrip('-')) - 1 - exponent, 0)}f}"
    sign, digits = ("-", mantissa[1:]) if value < 0 else ("", mantissa)
    whole = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{whole}e{exponent:+03d}"


def _shortest(value: float) -> tuple[str, int]:
    """Return the fewest digits that stand for the number, with its sign, and its power of ten."""
    digits, exponent = "0", "0"
    for precision in range(17):
        digits, exponent = f"{value:.{precision}e}".split("e")
        if float(f"{digits}e{exponent}") == value:
            break
    return digits.replace(".", ""), int(exponent)
