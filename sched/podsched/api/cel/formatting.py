"""CEL's ``format`` (cel-go v0.26 ``ext/formatting.go``, en_US)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from podsched.api.cel import types
from podsched.api.cel.operators import text_of
from podsched.api.cel.types import Type
from podsched.api.cel.values import BoolKey, Budget, Duration, Failure, Timestamp, type_name

_CLAUSE = re.compile(r"%(?:(%)|(?:\.([0-9]{1,9}))?([sdfebxXo]))", re.ASCII)
_DEFAULT_PRECISION = 6
#: Most decimals that are written.
_MAX_PRECISION = 1000
#: Types that ``%s`` writes.
TEXTS = frozenset(
    (
        *("string", "bool", "bytes", "int", "uint", "double", "list", "map", "type", "null_type"),
        *(types.DURATION.name, types.TIMESTAMP.name),
    )
)
#: Types that each clause takes.
_TAKES = {
    "s": TEXTS,
    "d": frozenset(("int", "uint")),
    "f": frozenset(("double", "string")),
    "e": frozenset(("double", "string")),
    "b": frozenset(("int", "uint", "bool")),
    "x": frozenset(("int", "uint", "string", "bytes")),
    "X": frozenset(("int", "uint", "string", "bytes")),
    "o": frozenset(("int", "uint")),
}


class FormatError(Exception):
    """The format is wrong, or a value does not fit its clause."""


def formatted(text: str, arguments: Sequence[Any], budget: Budget) -> str | Failure:
    """Return the text with its clauses replaced by the arguments."""
    parts: list[str] = []
    try:
        for literal, clause, precision, index in _clauses(text):
            parts.append(literal)
            if clause:
                if index >= len(arguments):
                    raise FormatError(f"index {index} out of range")
                parts.append(_written(arguments[index], clause, precision, budget))
                budget.spend(len(parts[-1]) // 16)
    except FormatError as exc:
        return Failure(f"error during formatting: {exc}")
    return "".join(parts)


def wrong_arguments(text: str, arguments: Sequence[Type]) -> str | None:
    """Return what is wrong with the types of the arguments; None if nothing."""
    used = 0
    try:
        for _, clause, _, index in _clauses(text):
            if clause:
                if index >= len(arguments):
                    raise FormatError(f"index {index} out of range")
                if arguments[index].name not in (*_TAKES[clause], "dyn"):
                    raise FormatError(f"{clause} clause cannot be used on {arguments[index]}")
                used = index + 1
    except FormatError as exc:
        return f"error during formatting: {exc}"
    if len(arguments) > used:
        return (
            f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )
    return None


def _clauses(text: str) -> Iterator[tuple[str, str, int, int]]:
    """Yield literal text, the clause after it ("" at the end), its precision and its index."""
    end, index = 0, 0
    while (start := text.find("%", end)) >= 0:
        match = _CLAUSE.match(text, start)
        if match is None:
            raise FormatError(f'could not parse formatting clause: "{text[start : start + 8]}"')
        if match[1]:
            yield text[end:start] + "%", "", 0, index
        else:
            precision = _DEFAULT_PRECISION if match[2] is None else int(match[2])
            if precision > _MAX_PRECISION:
                raise FormatError("precision is too large")
            yield text[end:start], match[3], precision, index
            index += 1
        end = match.end()
    yield text[end:], "", 0, index


def _written(value: Any, clause: str, precision: int, budget: Budget) -> str:
    if type_name(value) not in _TAKES[clause]:
        raise FormatError(f"{clause} clause cannot be used on {type_name(value)}")
    if clause == "s":
        return _text(value, budget)
    if clause in "fe":
        return _decimal(value, clause, precision)
    if clause in "xX":
        return _hexadecimal(value, clause)
    return format(int(value), clause)


def _decimal(value: Any, clause: str, precision: int) -> str:
    if isinstance(value, str):
        if value not in ("NaN", "Infinity", "-Infinity"):
            raise FormatError(f"{clause} clause cannot be used on string")
        value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if clause == "f":
        return f"{value:,.{precision}f}"
    mantissa, exponent = f"{value:.{precision}e}".split("e")
    power = str(abs(int(exponent))).zfill(2).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}\u202f×\u202f10{'⁻' if int(exponent) < 0 else ''}{power}"


def _hexadecimal(value: Any, clause: str) -> str:
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    text = data.hex() if isinstance(data, bytes) else format(int(data), "x")
    return text.upper() if clause == "X" else text


def _text(value: Any, budget: Budget) -> str:
    if value is None:
        return "null"
    if isinstance(value, Type):
        return str(value)
    if isinstance(value, list):
        budget.spend(len(value))
        return f"[{', '.join(_within(element, budget) for element in value)}]"
    if isinstance(value, dict):
        budget.spend(len(value))
        entries = {_key(key, budget): _within(element, budget) for key, element in value.items()}
        return "{" + ", ".join(f"{key}:{entries[key]}" for key in sorted(entries)) + "}"
    text = text_of(value)
    if text is None:
        raise FormatError(f"could not convert argument of type {type_name(value)} to string")
    return text


def _key(stored: Any, budget: Budget) -> str:
    key = stored.value if isinstance(stored, BoolKey) else stored
    if type_name(key) not in ("string", "bool", "int", "uint"):
        raise FormatError("no formatting function for a map's key of this type")
    return _within(key, budget)


def _within(value: Any, budget: Budget) -> str:
    """Return a value as it is written within a list or a map."""
    wrapped: dict[type, Callable[[str], str]] = {
        str: _quoted,
        bytes: lambda text: f"b{_quoted(text)}",
        float: _quoted,
        Timestamp: lambda text: f'timestamp("{text}")',
        Duration: lambda text: f'duration("{text}")',
    }
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.{_DEFAULT_PRECISION}f}"
    if type_name(value) not in TEXTS:
        raise FormatError(f"no formatting function for {type_name(value)}")
    text = _text(value, budget)
    return wrapped[type(value)](text) if type(value) in wrapped else text


#: What is written as a letter after a backslash.
ESCAPES = str.maketrans(
    {
        "\a": "\\a",
        "\b": "\\b",
        "\f": "\\f",
        "\n": "\\n",
        "\r": "\\r",
        "\t": "\\t",
        "\v": "\\v",
        "\\": "\\\\",
        '"': '\\"',
    }
)


def _quoted(text: str) -> str:
    """Return a text as Go's ``%q`` writes it."""
    escaped = text.translate(ESCAPES)
    if not escaped.isprintable():
        escaped = "".join(c if c.isprintable() else _code(ord(c)) for c in escaped)
    return f'"{escaped}"'


def _code(letter: int) -> str:
    if letter < 0x80:
        return f"\\x{letter:02x}"
    return f"\\u{letter:04x}" if letter < 0x10000 else f"\\U{letter:08x}"
