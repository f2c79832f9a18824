"""Kubernetes' quantities ("100m", "1.5Gi", "2E3"), read exactly.

Values are exact fractions; nothing passes through floating point. As in Kubernetes
(k8s.io/apimachinery/pkg/api/resource) what is finer than a nano is rounded up (away from zero),
``value`` and ``milli_value`` round up likewise, and integers saturate at the bounds of int64.

Non-goal: keeping the suffix; messages keep the string as it was written.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

MAX_INT64 = 2**63 - 1
_MIN_INT64 = -(2**63)
_NANO = 10**9
#: Longest text that is read. Digits cost more than linear time to convert, and every text is
#: remembered; the longest quantity of any use has some 30 characters.
MAX_LENGTH = 128
# Each digit can be matched in one way only: with "[0-9]+[.]?[0-9]*" a text that fails at its end
# would be tried at every split of its digits.
_SYNTAX = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([A-Za-z]{0,2}|[eE][+-]?[0-9]{1,3})")
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_NANOS_OF_UNITS = {suffix: 10 ** (exponent + 9) for suffix, exponent in DECIMAL.items()}
_BINARY_UNITS = {"": 1} | {suffix: 1 << bits for suffix, bits in BINARY.items()}
#: Suffixes that need no rounding: (factor, divisor).
_EXACT: dict[str, tuple[int, int]] = (
    {suffix: (10**exponent, 1) for suffix, exponent in DECIMAL.items() if exponent >= 0}
    | {suffix: (2**bits, 1) for suffix, bits in BINARY.items()}
    | {"m": (1, 1000)}
)
_EXACT_LETTERS = "".join({letter for suffix in _EXACT for letter in suffix})
_DECIMAL_LETTERS = "".join(DECIMAL)
_CACHE = 1 << 16


class QuantityError(ValueError):
    """The text is not a quantity: a fault of its author."""

    def __init__(self, text: str) -> None:
        self.text = text
        super().__init__(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )


@lru_cache(_CACHE)
def parse(text: str) -> Fraction:
    """Return the exact value. Raises QuantityError."""
    if exact := _plain(text):
        return Fraction(*exact)
    match = _SYNTAX.fullmatch(text) if len(text) <= MAX_LENGTH else None
    if match is None:
        raise QuantityError(text)
    sign, digits, suffix = match.groups()
    whole, _, decimals = digits.partition(".")
    number = int((whole + decimals) or "0")
    scale = -len(decimals)
    if suffix in BINARY:
        scaled = Fraction(number * 2 ** BINARY[suffix], 10 ** len(decimals))
    else:
        scaled = _scaled(number, scale + _decimal_exponent(text, suffix))
    magnitude = Fraction(_ceil(scaled * _NANO), _NANO)
    return -magnitude if sign == "-" else magnitude


@lru_cache(_CACHE)
def canonical(text: str) -> str:
    """Return the quantity as Kubernetes writes it: the largest suffix without decimals.

    The family of the suffix stays, binary or decimal; but below 1024 or with a fraction, a binary
    amount gets a decimal suffix: 1.2Gi is 1288490188800m. Raises QuantityError.
    """
    value = parse(text)
    suffix = text.lstrip("+-0123456789.")
    if suffix in BINARY and abs(value) >= 1024 and value.denominator == 1:
        return _in_largest_unit(int64_away_from_zero(value), _BINARY_UNITS)
    found = format_decimal(value)
    if len(suffix) > 1 and suffix[0] in "eE" and suffix[-1].isdigit():
        number = found.rstrip(_DECIMAL_LETTERS)
        exponent = DECIMAL[found[len(number) :]]
        return f"{number}e{exponent}" if exponent else number
    return found


def _in_largest_unit(number: int, units: dict[str, int]) -> str:
    """Return a number with the suffix of the largest of the units that divide it."""
    found = (
        f"{number // units[name]}{name}" for name in reversed(units) if not number % units[name]
    )
    return next(found)


def _plain(text: str) -> tuple[int, int] | None:
    """Return the value as a number of parts, and the parts in one; None of what needs rounding.

    Most quantities have no sign, no decimals, and nothing finer than a milli: read without the
    regular expression, they take half the time. A pod's own amounts are read once each.
    """
    digits = text.rstrip(_EXACT_LETTERS)
    exact = _EXACT.get(text[len(digits) :])
    if exact is None or len(text) > MAX_LENGTH or not (digits.isascii() and digits.isdecimal()):
        return None
    return int(digits) * exact[0], exact[1]


def _rounded(text: str, factor: int) -> int:
    """Return the value times a factor, rounded up. Raises QuantityError."""
    if exact := _plain(text):
        return min(-(-exact[0] * factor // exact[1]), MAX_INT64)
    return int64_away_from_zero(parse(text) * factor)


def _decimal_exponent(text: str, suffix: str) -> int:
    if suffix in DECIMAL:
        return DECIMAL[suffix]
    if len(suffix) > 1 and suffix[0] in "eE" and suffix[-1].isdigit():
        return int(suffix[1:])
    raise QuantityError(text)


def _scaled(number: int, exponent: int) -> Fraction:
    return Fraction(number * 10**exponent) if exponent >= 0 else Fraction(number, 10**-exponent)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)


def int64_away_from_zero(value: Fraction) -> int:
    """Return the amount rounded up, away from zero, within the bounds of int64."""
    if value < 0:
        return max(-_ceil(-value), -MAX_INT64)
    return min(_ceil(value), MAX_INT64)


@lru_cache(_CACHE)
def value(text: str) -> int:
    """Return the value rounded up to an integer (bytes, pods, devices). Raises QuantityError."""
    return _rounded(text, 1)


@lru_cache(_CACHE)
def milli_value(text: str) -> int:
    """Return the value in thousandths, rounded up (millicores). Raises QuantityError."""
    return _rounded(text, 1000)


def format_decimal(amount: Fraction | int) -> str:
    """Return the shortest decimal form without a fraction: 500m, 2, 3k; rounded up to nanos."""
    nanos = _ceil(abs(Fraction(amount)) * _NANO)
    sign = "-" if amount < 0 else ""
    if nanos == 0:
        return "0"
    return sign + _in_largest_unit(nanos, _NANOS_OF_UNITS)


def format_quantity(amount: Fraction | int) -> str:
    """Return the shorter of the decimal and the binary form: 128M, 3Gi, 1500m."""
    decimal = format_decimal(amount)
    if not amount or Fraction(amount).denominator != 1:
        return decimal
    return min(decimal, _in_largest_unit(int(amount), _BINARY_UNITS), key=len)


def as_int64(value: int) -> int:
    """Return a sum as Go's int64 holds it after an overflow."""
    if _MIN_INT64 <= value <= MAX_INT64:
        return value
    return (value - _MIN_INT64) % (1 << 64) + _MIN_INT64
